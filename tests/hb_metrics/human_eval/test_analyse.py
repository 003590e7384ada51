"""Win rates: intervals against closed forms written plainly, and against raters whose preference is known."""

import numpy as np
import pytest
from nltk.metrics.agreement import AnnotationTask
from scipy import stats

from hb_metrics.human_eval.analyse import analyse, main, question_results, win_rate
from hb_metrics.human_eval.export import QUESTIONS
from hb_metrics.human_eval.ratings import Rating, Ratings, read_ratings
from hb_metrics.human_eval.study import Design
from tests.hb_metrics.human_eval.made_study import answers, attentive, made_study, write_lines
from tests.hb_metrics.stats.coverage import coverage


def test_without_ratings_there_is_no_rate():
    found = question_results(QUESTIONS[0], [])
    assert (found.win_rate, found.num_pairs, found.alpha) == (None, 0, None)


@pytest.fixture(scope="module")
def study():
    return made_study(design=Design(4, 24, 2, 3, 0))


@pytest.fixture(scope="module")
def read(study, tmp_path_factory):
    """Raters who like the second run in three of four; the last one always chooses speaker 1."""

    def choose(rater, screen, question):
        if rater == "rater-04":
            return 1
        if rater == "rater-03" and question == "interestingness":
            return None
        wins = (7 * screen.pair + 5 * int(rater[-1]) + screen.pair // 4 + (question == "humanness")) % 4 > 0
        return attentive(screen, 1 if wins == (screen.first == 1) else 2)

    path = write_lines(tmp_path_factory.mktemp("ratings") / "a.jsonl", answers(study, choose))
    return read_ratings([path], study)


def test_who_failed_checks_is_left_out_with_all_ratings(study, read):
    failed = sum(not passed for rater, passed in read.checks if rater == "rater-04")
    assert failed in (1, 2)  # of three checks, balanced over sides
    results = analyse(study, read, max_failed_checks=failed - 1)

    assert [row.included for row in results.raters] == [True, True, True, False]
    row = results.raters[3]
    assert (row.rater, row.num_checks, row.num_failed_checks) == ("rater-04", 3, failed)
    assert (row.num_ratings, row.num_expected) == (72, 72)
    assert (results.num_left_out, results.num_raters) == (72, 3)
    assert (results.raters[2].num_ratings, results.raters[2].num_expected) == (48, 72)
    assert analyse(study, read, max_failed_checks=failed).num_raters == 4


def test_figures_are_those_of_counting(study, read):
    results = analyse(study, read, max_failed_checks=0)
    for question in results.questions:
        of_all = [rating for rating in read.ratings if rating.question == question.id]
        included = [rating for rating in of_all if rating.rater != "rater-04"]
        wins = [rating.wins for rating in included]
        assert (question.num_wins, question.num_ratings) == (sum(wins), len(wins))
        assert question.win_rate == pytest.approx(np.mean(wins))
        if question.id == "interestingness":  # by two raters, who share no pair
            assert question.alpha is None
            assert question.interval_reason.startswith("2 raters;")
        else:
            triples = [(rating.rater, rating.pair, rating.wins) for rating in included]
            shared = [triple for triple in triples if sum(triple[1] == other[1] for other in triples) > 1]
            assert question.alpha == pytest.approx(AnnotationTask(shared).alpha())
            assert question.interval is not None
        rated = [rating.pair for rating in included]
        assert question.num_pairs == len(set(rated))
        assert question.num_pairs_rated_twice == sum(rated.count(pair) > 1 for pair in set(rated))


def test_without_a_rating_there_is_no_analysis(study):
    for ratings in ([], [Rating("a", "preference", 0, True, None)]):
        with pytest.raises(ValueError, match=r"no rating is left of .* set a higher --max_failed_checks"):
            analyse(study, Ratings(ratings, [("a", False), ("a", False)], 0, 0))


def test_ratings_that_do_not_exist_are_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"ratings\.jsonl' does not exist; pass a file that a rater saved"):
        main([str(tmp_path / "ratings.jsonl")])


LARGE = 200_000

# What raters are like: the preference for the second run (a logit), how far raters and pairs differ in it (standard
# deviations), the lean to speaker 1 (mean and standard deviation), and the share of ratings that are mere noise.
KINDS = {
    "unlike raters": (0.4, 1.0, 0.0, 0.5, 0.5, 0.1),
    "unlike pairs": (0.4, 0.0, 1.5, 0.5, 0.5, 0.1),
    "unlike both": (0.4, 0.5, 1.0, 0.5, 0.5, 0.1),
    "leaning": (0.0, 1.0, 2.0, 1.5, 1.0, 0.1),
    "clear": (2.0, 0.5, 1.0, 0.5, 0.5, 0.05),
    "nearly all": (3.5, 0.3, 0.3, 0.0, 0.0, 0.0),
    "nearly all raters": (5.0, 3.0, 0.0, 0.0, 0.0, 0.0),
}
# The number of ratings of each rater, and of pairs; raters take the pairs in turn, round and round.
DESIGNS = {
    "3 equal": ([100] * 3, 100),
    "default": ([52] * 6, 156),
    "3 unequal": ([100, 80, 60], 100),
    "6 falling": ([50, 42, 34, 26, 18, 10], 90),
    "12 heavy-tailed": ([80, 50, 40, 30, 20, 15, 10, 8, 6, 5, 4, 3], 90),
    "3 busy, 30 with two": ([60] * 3 + [2] * 30, 120),
    "300 with one": ([1] * 300, 150),
    "8 on 6 pairs": ([6] * 8, 6),
    "an axis": ([4] * 6, 12),
}
FAULTS = {"100/5/5": [100, 5, 5], "90 %": [180, 4, 4, 4, 4, 4]}


def drawn(design, rng):
    """[ratings] rater, pair and which run speaks first, in turn for each rater."""
    work, num_pairs = design
    raters = np.repeat(np.arange(len(work)), work)
    sides = np.concatenate([rng.permutation((np.arange(number) + rng.integers(2)) % 2) for number in work])
    return raters, np.arange(len(raters)) % num_pairs, sides


def choices(kind, raters, pairs, first, rng):
    """[ratings] whether the second run is chosen."""
    preference, rater_spread, pair_spread, lean, lean_spread, noise = kind
    of_raters = rater_spread * rng.standard_normal(raters.max() + 1)
    of_pairs = pair_spread * rng.standard_normal(pairs.max() + 1)
    leans = lean + lean_spread * rng.standard_normal(raters.max() + 1)
    logits = preference + of_raters[raters] + of_pairs[pairs] + leans[raters] * np.where(first == 1, 1, -1)
    return rng.random(len(raters)) < (1 - noise) / (1 + np.exp(-logits)) + noise / 2


def true_rate(kind):
    """The share that the second run wins with any number of raters and pairs, each run first as often."""
    each = np.arange(LARGE)
    rng = np.random.default_rng(1)
    return np.mean([choices(kind, each, each, np.full(LARGE, first), rng).mean() for first in (0, 1)])


def outcome(kind, design, number):
    rng = np.random.default_rng(0)
    raters, pairs, first = drawn(design, rng)
    rates = [win_rate(choices(kind, raters, pairs, first, rng), raters, pairs) for _ in range(number)]
    return coverage([rate.value for rate in rates], [rate.interval for rate in rates], true_rate(kind))


@pytest.mark.parametrize(
    ("design", "kinds", "sets"),
    [("12 heavy-tailed", ["unlike both"], 500), ("3 equal", ["nearly all raters"], 300)]
    + [pytest.param(name, KINDS, 1000, marks=pytest.mark.long) for name in DESIGNS],
)
def test_intervals_cover_what_unequal_raters_prefer(design, kinds, sets):
    found = {kind: outcome(KINDS[kind], DESIGNS[design], sets) for kind in kinds}
    assert min(of_kind.held for of_kind in found.values()) >= 0.93
    # If nearly all ratings are wins, those of independent raters look like those of raters who repeat themselves.
    assert all(of_kind.width <= (4.6 if kind == "nearly all" else 2.1) for kind, of_kind in found.items())


def test_if_all_ratings_are_wins_raters_or_pairs_are_the_units():
    raters, pairs = np.repeat(np.arange(10), 20), np.tile(np.arange(20), 10)
    for who, which in ((raters, pairs), (pairs, raters)):
        low, high = win_rate(np.ones(200, bool), who, which).interval
        assert (low, high) == (pytest.approx(stats.beta.ppf(0.025, 10.5, 0.5)), 1)
        assert win_rate(np.arange(200) > 0, who, which).interval[0] > low


@pytest.mark.parametrize("name", FAULTS)
def test_few_raters_with_most_ratings_have_no_interval(name):
    raters, pairs, first = drawn((FAULTS[name], 90), np.random.default_rng(0))
    rate = win_rate(first == 1, raters, pairs)
    assert rate.interval is None
    assert f"{len(FAULTS[name])} raters" in rate.reason
    assert "count as only 1." in rate.reason


def test_of_independent_ratings_it_is_the_interval_of_jeffreys():
    each = np.arange(2_000)
    wins = each < 1_300
    expected = stats.beta.ppf((0.025, 0.975), 1_300.5, 700.5)
    assert win_rate(wins, each, each).interval == pytest.approx(tuple(expected), abs=1e-4)


def test_ratings_that_repeat_each_other_count_as_one():
    wins, each = np.arange(300) < 195, np.arange(300)
    once, often = win_rate(wins, each, each), win_rate(np.repeat(wins, 4), np.repeat(each, 4), np.arange(1200))
    assert often.interval == pytest.approx(once.interval, abs=2e-3)


def test_few_raters_or_pairs_have_no_interval():
    raters, pairs = np.repeat(np.arange(2), 20), np.tile(np.arange(20), 2)
    wins = pairs < 13
    for who, which, named in ((raters, pairs, "2 raters"), (pairs, pairs % 5, "5 pairs")):
        rate = win_rate(wins, who, which)
        assert (rate.value, rate.interval) == (0.65, None)
        assert rate.reason.startswith(named)
    assert win_rate(wins[:20], raters[:20], pairs[:20]).reason == "1 rater; an interval needs 3 or more"
