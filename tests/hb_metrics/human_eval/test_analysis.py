from itertools import combinations, permutations

import numpy as np
import pytest
from scipy import stats

from hb_metrics.display.figures import axis_label
from hb_metrics.human_eval.analyse import summary_lines
from hb_metrics.human_eval.analysis import ALL_ALIKE, NONE_RATED_TWICE, analyse, krippendorff_alpha
from hb_metrics.human_eval.questions import QUESTIONS
from hb_metrics.human_eval.ratings import Check, Rating, Ratings, read_ratings
from hb_metrics.human_eval.section import human_evaluation_section
from hb_metrics.human_eval.study import Design
from tests.hb_metrics.human_eval.made_study import AXES, answers, attentive, made_study, write_lines


def ratings_of(choices, question="preference"):
    """Ratings of the first question by (rater, pair, won)."""
    return [Rating(rater, question, pair, 2 if won else 1, 0, None) for rater, pair, won in choices]


def alpha_by_hand(choices):
    """Krippendorff (2011): observed over expected disagreement, by all pairs of values."""
    values = {}
    for _, pair, won in choices:
        values.setdefault(pair, []).append(won)
    units = [of_pair for of_pair in values.values() if len(of_pair) > 1]
    pooled = [won for of_pair in units for won in of_pair]
    observed = sum(
        sum(one != other for one, other in permutations(of_pair, 2)) / (len(of_pair) - 1) for of_pair in units
    )
    expected = sum(one != other for one, other in permutations(pooled, 2)) / (len(pooled) - 1)
    return 1 - observed / expected


def test_alpha_is_that_of_the_formula_with_ratings_missing():
    rng = np.random.default_rng(0)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        leans = rng.random(15)
        choices = [
            (f"r{rater}", pair, bool(rng.random() < leans[pair]))
            for rater in range(4)
            for pair in range(15)
            if rng.random() < 0.6
        ]
        alpha, reason = krippendorff_alpha(ratings_of(choices))
        assert (alpha, reason) == (pytest.approx(alpha_by_hand(choices)), None)


def test_without_disagreement_there_is_no_alpha_and_the_reason():
    assert krippendorff_alpha(ratings_of([("a", 0, True), ("b", 1, False)])) == (None, NONE_RATED_TWICE)
    assert krippendorff_alpha([]) == (None, NONE_RATED_TWICE)
    alike = [("a", 0, True), ("b", 0, True), ("a", 1, False)]
    assert krippendorff_alpha(ratings_of(alike)) == (None, ALL_ALIKE)
    agreed = [(rater, pair, pair == 0) for rater in "ab" for pair in range(2)]
    assert krippendorff_alpha(ratings_of(agreed)) == (1.0, None)


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
    failed = sum(not check.passed for check in read.checks if check.rater == "rater-04")
    assert failed in (1, 2)  # of three checks, balanced over sides
    results = analyse(study, read, max_failed_checks=failed - 1)

    assert [(row["rater"], row["included"]) for row in results["raters"]] == [
        (f"rater-0{number}", number < 4) for number in range(1, 5)
    ]
    row = results["raters"][3]
    assert (row["num_checks"], row["num_failed_checks"], row["speaker_1_share"]) == (3, failed, 1.0)
    assert (row["num_ratings"], row["num_expected"], results["num_left_out"]) == (72, 72, 72)
    assert (results["raters"][2]["num_ratings"], results["raters"][2]["num_expected"]) == (48, 72)
    assert results["num_raters"] == 3
    assert analyse(study, read, max_failed_checks=failed)["num_raters"] == 4


def test_figures_are_those_of_counting(study, read):
    results = analyse(study, read, max_failed_checks=0)
    included = [rating for rating in read.ratings if rating.rater != "rater-04"]

    for question in results["questions"]:
        wins = [rating.wins for rating in included if rating.question == question["id"]]
        everybody = [rating.wins for rating in read.ratings if rating.question == question["id"]]
        assert (question["num_wins"], question["num_ratings"]) == (sum(wins), len(wins))
        assert question["win_rate"] == pytest.approx(sum(wins) / len(wins))
        assert question["win_rate_of_all_raters"] == pytest.approx(sum(everybody) / len(everybody))
        assert question["p_value"] == stats.binomtest(sum(wins), len(wins)).pvalue
        choices = [(rating.rater, rating.pair, rating.wins) for rating in included if rating.question == question["id"]]
        if question["id"] == "interestingness":  # by two raters, who share no pair
            assert (question["alpha"], question["alpha_reason"]) == (None, NONE_RATED_TWICE)
        else:
            assert question["alpha"] == pytest.approx(alpha_by_hand(choices))
        rated = [pair for _, pair, _ in choices]
        assert question["num_pairs"] == len(set(rated))
        assert question["num_pairs_rated_twice"] == sum(rated.count(pair) > 1 for pair in set(rated))
        assert sum(row["num_ratings"] for row in question["by_axis"]) == len(wins)
        p_values = [row["p_value"] for row in question["by_axis"]]
        assert [row["adjusted_p_value"] for row in question["by_axis"]] == pytest.approx(adjusted_by_hand(p_values))
    first, _, third = results["questions"]
    assert first["interval"] is not None
    assert third["interval"] is None
    assert third["interval_reason"].startswith("2 raters;")
    assert results["raters"][0]["win_rates"]["preference"] == pytest.approx(
        np.mean([rating.wins for rating in included if (rating.rater, rating.question) == ("rater-01", "preference")])
    )


def adjusted_by_hand(p_values):
    """Benjamini & Hochberg (1995): the lowest level at which each would be rejected."""
    number, ordered = len(p_values), sorted(p_values)
    return [
        min(ordered[rank] * number / (rank + 1) for rank in range(number) if ordered[rank] >= p_value)
        for p_value in p_values
    ]


def test_a_random_rater_stays_in_as_often_as_results_say(study, read):
    results = analyse(study, read, max_failed_checks=1)
    passes = 0.5**3
    expected = sum(
        passes ** (3 - len(failed)) * (1 - passes) ** len(failed)
        for size in (0, 1)
        for failed in combinations(range(3), size)
    )
    assert results["random_rater_included"] == pytest.approx(expected)


def test_an_axis_or_a_question_that_nobody_rated_has_no_figures(study):
    ratings = ratings_of([("a", pair, True) for pair in range(2)])
    results = analyse(study, Ratings(ratings, [], 0, 0))
    first, second, _ = results["questions"]
    assert [question["id"] for question in results["questions"]] == [question.id for question in QUESTIONS]
    assert (second["win_rate"], second["interval"], second["p_value"], second["alpha"]) == (None, None, None, None)
    assert second["win_rate_of_all_raters"] is None
    unrated = [row for row in first["by_axis"] if not row["num_ratings"]]
    assert unrated
    assert all(row["win_rate"] is None and row["adjusted_p_value"] is None for row in unrated)
    assert results["raters"][0]["num_expected"] is None
    assert results["raters"][0]["num_checks"] == 0


def test_pages_that_nobody_rated_and_axes_without_a_pair_are_named(study, read):
    some = read._replace(ratings=[rating for rating in read.ratings if rating.rater != "rater-02"], checks=[])
    results = {**analyse(study, some), "axes": [*AXES, "cultural", "gender_and_sex"]}
    page = " ".join(human_evaluation_section(results).html.split())

    assert results["unused_pages"] == ["rater-02"]
    assert "Without ratings: rater-02.</p>" in page
    without = f"{axis_label('cultural')}, {axis_label('gender_and_sex')}"
    assert f"No pair was drawn of {without}, so that these figures say nothing about them." in page
    assert summary_lines(results)[0].endswith("ratings of 3 raters; without ratings: rater-02")
    workers = [rating._replace(rater=f"worker {rating.rater}") for rating in some.ratings]  # of a crowd platform
    results = analyse(study, Ratings(workers, [], 0, 0))
    assert results["unused_pages"] == []
    page = human_evaluation_section(results).html
    assert "Without ratings" not in page
    assert "No pair was drawn" not in page


def test_ratings_of_which_nothing_is_left_are_refused(study, read):
    checks = [Check("a", False), Check("a", False)]
    for ratings, options, message in (
        (Ratings([], checks, 0, 0), {}, "there are answers to attention checks, and none about pairs"),
        (Ratings(ratings_of([("a", 0, True)]), checks, 0, 0), {}, "each of the 1 raters failed more than 1 attention"),
        (read, {"max_failed_checks": -1}, "max_failed_checks is -1; give at least 0"),
        (read, {"confidence_level": 95}, "confidence_level is 95; give a number above 0 and below 1"),
    ):
        with pytest.raises(ValueError, match=message):
            analyse(study, ratings, **options)
