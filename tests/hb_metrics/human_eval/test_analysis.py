from itertools import permutations

import numpy as np
import pytest

from hb_metrics.human_eval.analysis import analyse, question_results
from hb_metrics.human_eval.pairs import QUESTIONS
from hb_metrics.human_eval.ratings import Rating, Ratings, read_ratings
from hb_metrics.human_eval.study import Design
from tests.hb_metrics.human_eval.made_study import answers, attentive, made_study, write_lines


def ratings_of(choices):
    """Ratings of the first question by (rater, pair, won)."""
    return [Rating(rater, "preference", pair, won, None) for rater, pair, won in choices]


def alpha_by_hand(choices):
    """Krippendorff (2011): observed over expected disagreement, by all pairs of values."""
    values = {}
    for _, pair, won in choices:
        values.setdefault(pair, []).append(won)
    pooled, observed = [], 0.0
    for of_pair in values.values():
        if len(of_pair) > 1:
            pooled += of_pair
            observed += sum(one != other for one, other in permutations(of_pair, 2)) / (len(of_pair) - 1)
    expected = sum(one != other for one, other in permutations(pooled, 2)) / (len(pooled) - 1)
    return 1 - observed / expected


def test_without_disagreement_there_is_no_alpha():
    alike = [("a", 0, True), ("b", 0, True), ("a", 1, False)]
    for choices in ([], [("a", 0, True), ("b", 1, False)], alike):
        found = question_results(QUESTIONS[0], ratings_of(choices))
        assert found.alpha is None
        assert found.alpha_reason


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
            choices = [(rating.rater, rating.pair, rating.wins) for rating in included]
            assert question.alpha == pytest.approx(alpha_by_hand(choices))
            assert question.interval is not None
        rated = [rating.pair for rating in included]
        assert question.num_pairs == len(set(rated))
        assert question.num_pairs_rated_twice == sum(rated.count(pair) > 1 for pair in set(rated))


def test_without_a_rating_there_is_no_analysis(study):
    for ratings in ([], ratings_of([("a", 0, True)])):
        with pytest.raises(ValueError, match="set --max_failed_checks to more than 1"):
            analyse(study, Ratings(ratings, [("a", False), ("a", False)], 0, 0))
