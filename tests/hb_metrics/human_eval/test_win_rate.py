import math
from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from hb_metrics.human_eval.study import Design
from hb_metrics.human_eval.win_rate import MIN_PAIRS, MIN_RATERS, exact_binomial_test, win_rate
from tests.hb_metrics.human_eval.made_study import AXES, made_study, rated_sides

NUM_SIMULATIONS = 500
LARGE = 200_000

# What raters are like: the preference for the second run (a logit), how far raters and pairs differ in it (standard
# deviations), the lean to speaker 1 (mean and standard deviation), and the share of ratings that are mere noise.
ALIKE = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
PREFERENCE = (0.4, 0.0, 0.0, 0.5, 0.5, 0.1)
UNLIKE_RATERS = (0.4, 1.0, 0.0, 0.5, 0.5, 0.1)
UNLIKE_PAIRS = (0.4, 0.0, 1.5, 0.5, 0.5, 0.1)
UNLIKE_BOTH = (0.4, 0.5, 1.0, 0.5, 0.5, 0.1)
LEANING = (0.0, 1.0, 2.0, 1.5, 1.0, 0.1)
CLEAR = (2.0, 0.5, 1.0, 0.5, 0.5, 0.05)
KINDS = (ALIKE, PREFERENCE, UNLIKE_RATERS, UNLIKE_PAIRS, UNLIKE_BOTH, LEANING, CLEAR)


def choices(kind, raters, pairs, first, rng):
    """[ratings] whether the second run is chosen."""
    preference, rater_spread, pair_spread, lean, lean_spread, noise = kind
    of_raters, of_pairs = (
        spread * rng.standard_normal(codes.max() + 1)
        for spread, codes in ((rater_spread, raters), (pair_spread, pairs))
    )
    leans = lean + lean_spread * rng.standard_normal(raters.max() + 1)
    logits = preference + of_raters[raters] + of_pairs[pairs] + leans[raters] * np.where(first == 1, 1, -1)
    return rng.random(len(raters)) < (1 - noise) / (1 + np.exp(-logits)) + noise / 2


def true_rate(kind):
    """The share of ratings that the second run wins with any number of raters and pairs, each run first as often."""
    each = np.arange(LARGE)
    rng = np.random.default_rng(1)
    return np.mean([choices(kind, each, each, np.full(LARGE, first), rng).mean() for first in (0, 1)])


def coverage(kind, design, answered=1.0, seed=0):
    """How often intervals hold the true share, and how wide they are in standard deviations of the estimate / 3.92."""
    rng = np.random.default_rng(seed)
    raters, pairs, first = rated_sides(made_study(dict.fromkeys(AXES, design.num_pairs), design, pairs=None))
    truth, held, widths, values = true_rate(kind), [], [], []
    for _ in range(NUM_SIMULATIONS):
        wins = choices(kind, raters, pairs, first, rng)
        kept = rng.random(len(wins)) < rng.uniform(answered, 1, design.num_raters)[raters]
        rate = win_rate(wins[kept], raters[kept], pairs[kept])
        held.append(rate.interval[0] <= truth <= rate.interval[1])
        widths.append(rate.interval[1] - rate.interval[0])
        values.append(rate.value)
    return np.mean(held), np.mean(widths) / (3.92 * np.std(values))


def test_intervals_cover_what_simulated_raters_prefer():
    covered, width = coverage(UNLIKE_BOTH, Design(6, 52, 2, 0, 0))
    assert 0.93 <= covered <= 0.97
    assert width < 1.4


@pytest.mark.long
@pytest.mark.parametrize(
    ("numbers", "answered"),
    [
        *(((raters, per_rater, per_pair), 1.0) for raters, per_rater, per_pair in
          ((3, 100, 3), (3, 100, 1), (4, 50, 2), (5, 40, 5), (6, 52, 2), (6, 50, 6), (12, 30, 3), (20, 20, 20))),
        ((6, 52, 2), 0.5),
    ],
    ids=str,
)  # fmt: skip
def test_intervals_cover_in_all_designs(numbers, answered):
    covered = {kind: coverage(kind, Design(*numbers, 0, 0), answered) for kind in KINDS}
    print(numbers, answered, *(f"{share:.3f} ({width:.2f})" for share, width in covered.values()))
    assert min(share for share, _ in covered.values()) >= 0.925
    assert max(share for share, _ in covered.values()) <= 0.985
    assert 0.93 <= np.mean([share for share, _ in covered.values()]) <= 0.97


def test_the_interval_is_that_of_loops_over_pairs_of_ratings():
    rng = np.random.default_rng(3)
    raters, pairs = rng.integers(5, size=60), rng.integers(12, size=60)
    wins = rng.random(60) < 0.6
    rate = win_rate(wins, raters, pairs)

    mean = sum(wins) / 60
    rests = [win - mean for win in wins]
    together = {"rater": 0.0, "pair": 0.0, "self": sum(rest**2 for rest in rests)}
    for one, other in combinations(range(60), 2):
        product = 2 * rests[one] * rests[other]
        together["rater"] += product * (raters[one] == raters[other])
        together["pair"] += product * (pairs[one] == pairs[other])
    of_raters = (together["self"] + together["rater"]) / 60**2 * 5 / 4
    of_pairs = (together["self"] + together["pair"]) / 60**2 * 12 / 11
    of_pairs -= together["self"] / 60**2 * 60 / 59
    half = math.sqrt(stats.t.ppf(0.975, 4) ** 2 * of_raters + stats.t.ppf(0.975, 11) ** 2 * max(of_pairs, 0))
    # Wilson's bounds: those of which the mean is z standard errors away, with the errors that they would have.
    for bound in rate.interval:
        assert abs(mean - bound) / math.sqrt(bound * (1 - bound)) == pytest.approx(half / math.sqrt(mean * (1 - mean)))
    assert rate.value == mean


def test_of_independent_ratings_it_is_the_interval_of_wilson():
    each = np.arange(20_000)
    wins = each < 13_000
    expected = stats.binomtest(13_000, 20_000).proportion_ci(method="wilson")

    assert win_rate(wins, each, each).interval == pytest.approx((expected.low, expected.high), abs=1e-5)


def test_the_order_and_the_names_of_raters_and_pairs_do_not_matter():
    rng = np.random.default_rng(0)
    raters, pairs, wins = rng.integers(4, size=50), rng.integers(10, size=50), rng.random(50) < 0.5
    order = rng.permutation(50)

    expected = win_rate(wins, raters, pairs)
    assert win_rate(wins[order], 7 - 2 * raters[order], pairs[order] + 100).interval == pytest.approx(expected.interval)
    flipped = win_rate(~wins, raters, pairs).interval
    assert flipped == pytest.approx((1 - expected.interval[1], 1 - expected.interval[0]))


def test_bounds_stay_between_0_and_1_also_where_all_agree():
    raters, pairs = np.repeat(np.arange(4), 10), np.tile(np.arange(10), 4)
    for wins in (np.ones(40, bool), np.zeros(40, bool), np.arange(40) > 0):
        low, high = win_rate(wins, raters, pairs).interval
        assert 0 <= low < high <= 1
    assert win_rate(np.ones(40, bool), raters, pairs).interval[0] < 0.95


@pytest.mark.parametrize("per_rater", [5, 6])
def test_where_the_ratings_of_all_raters_and_pairs_cancel_each_counts_as_independent(per_rater):
    """Such as of raters who always choose speaker 1: no variance shows, which is not that there is none."""
    raters, pairs = np.repeat(np.arange(5), 10), np.tile(np.arange(10), 5)
    wins = (2 * raters + pairs) % 10 < per_rater  # as many of each rater and of each pair
    rate = win_rate(wins, raters, pairs)

    assert rate.value == per_rater / 10
    for bound in rate.interval:
        distance = abs(rate.value - bound) / math.sqrt(bound * (1 - bound))
        assert distance == pytest.approx(stats.t.ppf(0.975, 4) / math.sqrt(50))


def test_with_few_raters_or_pairs_there_is_no_interval_and_the_reason():
    raters, pairs = np.repeat(np.arange(MIN_RATERS - 1), 20), np.tile(np.arange(20), MIN_RATERS - 1)
    wins = pairs < 13
    assert win_rate(wins, raters, pairs) == (0.65, None, "2 raters; an interval over raters needs 3 or more")
    assert win_rate(wins[:20], raters[:20], pairs[:20]).reason.startswith("1 rater;")
    few = pairs % (MIN_PAIRS - 1)
    assert win_rate(wins, pairs, few).reason == "7 pairs; an interval over pairs needs 8 or more"


def test_the_exact_test_adds_up_what_is_as_unlikely():
    for wins, number in ((7, 20), (0, 5), (150, 300), (10, 20), (171, 300)):
        chances = [math.comb(number, k) / 2**number for k in range(number + 1)]
        expected = sum(chance for chance in chances if chance <= chances[wins] * (1 + 1e-9))
        assert exact_binomial_test(wins, number) == pytest.approx(min(expected, 1.0))
