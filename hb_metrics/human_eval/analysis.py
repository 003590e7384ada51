"""From ratings to figures: win rates, agreement, attention checks; plain values for `human_evaluation.json`."""

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from hb_metrics.human_eval.questions import Question
from hb_metrics.human_eval.ratings import Rating, Ratings
from hb_metrics.human_eval.study import Study
from hb_metrics.human_eval.win_rate import exact_binomial_test, win_rate

LAYOUT = 1
FEW_RATERS = 6  # below, the report says that more of them are needed, not more pairs

ALL_FAILED_ERROR = (
    "each of the {number} raters failed more than {max_failed} attention checks; look at their files, or give a higher "
    "--max_failed_checks"
)
NO_PAIRS_ERROR = "there are answers to attention checks, and none about pairs; give files with ratings"
LEAST_ERROR = "max_failed_checks is {number}; give at least 0"
LEVEL_ERROR = "confidence_level is {level}; give a number above 0 and below 1, such as 0.95"
NONE_RATED_TWICE = "no pair was rated by two raters"
ALL_ALIKE = "every rating of a pair that two raters rated is the same, so that chance alone agrees as well"


class RaterRow(NamedTuple):
    """A rater.

    Attributes:
        rater: The name.
        num_ratings: The number of ratings of pairs.
        num_expected: The number of ratings of pairs that the rater's page asks for; `None`: not a rater of a page.
        num_checks: The attention checks that the rater met.
        num_failed_checks: Those that the rater failed.
        included: Whether the ratings are part of the figures.
        speaker_1_share: The share of ratings for speaker 1, whoever that was; `None`: the rater rated no pair.
        median_seconds: Of a rating; `None`: not recorded.
        win_rates: Id of a question → the share of the rater's ratings that the second run won.
    """

    rater: str
    num_ratings: int
    num_expected: int | None
    num_checks: int
    num_failed_checks: int
    included: bool
    speaker_1_share: float | None
    median_seconds: float | None
    win_rates: dict[str, float]


def analyse(
    study: Study, read: Ratings, *, max_failed_checks: int = 1, confidence_level: float = 0.95
) -> dict[str, Any]:
    """The figures of a study.

    Args:
        study: The study.
        read: Its ratings.
        max_failed_checks: A rater who failed more attention checks is left out, with all ratings.
        confidence_level: Of intervals.

    Returns:
        Plain values. Win rates are those of the second run.

    Raises:
        ValueError: An option is out of range, no rater is left, or no pair was rated.
    """
    if max_failed_checks < 0:
        raise ValueError(LEAST_ERROR.format(number=max_failed_checks))
    if not 0 < confidence_level < 1:
        raise ValueError(LEVEL_ERROR.format(level=confidence_level))
    if not read.ratings:
        raise ValueError(NO_PAIRS_ERROR)
    raters = rater_rows(study, read, max_failed_checks)
    included = {row.rater for row in raters if row.included}
    ratings = [rating for rating in read.ratings if rating.rater in included]
    if not ratings:
        raise ValueError(ALL_FAILED_ERROR.format(number=len(raters), max_failed=max_failed_checks))
    axes = [pair.axis for pair in study.pairs]
    # Names of pages mean that pages were used, and not a crowd platform, whose raters have names of their own.
    by_page = any(row.rater in study.sheets for row in raters)
    rated = {row.rater for row in raters}
    num_questions = len(study.questions)
    num_checks = study.design.checks_per_rater
    return {
        "layout": LAYOUT,
        "study": study.id,
        **study.about,
        "design": study.design._asdict(),
        "confidence_level": confidence_level,
        "max_failed_checks": max_failed_checks,
        "random_rater_included": float(stats.binom.cdf(max_failed_checks, num_checks, 1 - 0.5**num_questions)),
        "num_ratings": len(ratings),
        "num_left_out": len(read.ratings) - len(ratings),
        "num_duplicates": read.num_duplicates,
        "num_repeated": read.num_repeated,
        "num_raters": len({rating.rater for rating in ratings}),
        "raters": [row._asdict() for row in raters],
        "unused_pages": [name for name in study.sheets if name not in rated] if by_page else [],
        "questions": [
            question_results(question, ratings, read.ratings, axes, confidence_level) for question in study.questions
        ],
    }


def rater_rows(study: Study, read: Ratings, max_failed_checks: int) -> list[RaterRow]:
    """What is known of each rater."""
    met = Counter(check.rater for check in read.checks)
    failed = Counter(check.rater for check in read.checks if not check.passed)
    rows = []
    for rater in sorted({*met, *(rating.rater for rating in read.ratings)}):
        ratings = [rating for rating in read.ratings if rating.rater == rater]
        seconds = [rating.seconds for rating in ratings if rating.seconds is not None]
        wins = {
            question.id: [rating.wins for rating in ratings if rating.question == question.id]
            for question in study.questions
        }
        expected = [screen for screen in study.sheets.get(rater, []) if screen.asked is None]
        rows.append(
            RaterRow(
                rater=rater,
                num_ratings=len(ratings),
                num_expected=len(study.questions) * len(expected) if rater in study.sheets else None,
                num_checks=met[rater],
                num_failed_checks=failed[rater],
                included=failed[rater] <= max_failed_checks,
                speaker_1_share=statistics.fmean(rating.speaker == 1 for rating in ratings) if ratings else None,
                median_seconds=statistics.median(seconds) if seconds else None,
                win_rates={name: statistics.fmean(of) for name, of in wins.items() if of},
            )
        )
    return rows


def question_results(
    question: Question,
    ratings: Sequence[Rating],
    all_ratings: Sequence[Rating],
    axes: Sequence[str],
    confidence_level: float,
) -> dict[str, Any]:
    """The figures of a question.

    Args:
        question: The question.
        ratings: Ratings to any question, of the raters that are included.
        all_ratings: Ratings of all raters.
        axes: [pairs] the axis of each pair.
        confidence_level: Of intervals.
    """
    of_question = [rating for rating in ratings if rating.question == question.id]
    of_all = [rating.wins for rating in all_ratings if rating.question == question.id]
    by_axis = [
        {"axis": axis, **_figures([rating for rating in of_question if axes[rating.pair] == axis], confidence_level)}
        for axis in sorted(set(axes))
    ]
    tested = [row for row in by_axis if row["p_value"] is not None]
    adjusted = stats.false_discovery_control([row["p_value"] for row in tested]) if tested else []
    for row in by_axis:
        row["adjusted_p_value"] = None
    for row, value in zip(tested, adjusted, strict=True):
        row["adjusted_p_value"] = float(value)
    alpha, alpha_reason = krippendorff_alpha(of_question)
    return {
        **question._asdict(),
        **_figures(of_question, confidence_level),
        "win_rate_of_all_raters": statistics.fmean(of_all) if of_all else None,
        "speaker_1_share": statistics.fmean(rating.speaker == 1 for rating in of_question) if of_question else None,
        "num_pairs": len({rating.pair for rating in of_question}),
        "num_pairs_rated_twice": sum(count > 1 for count in Counter(rating.pair for rating in of_question).values()),
        "alpha": alpha,
        "alpha_reason": alpha_reason,
        "by_axis": by_axis,
    }


def krippendorff_alpha(ratings: Sequence[Rating]) -> tuple[float | None, str | None]:
    """Krippendorff's alpha of which run was chosen (nominal), over pairs that two raters or more rated.

    Returns:
        Alpha; or `None` and why there is none.
    """
    from nltk.metrics.agreement import AnnotationTask  # its import takes a second or more

    counts = Counter(rating.pair for rating in ratings)
    shared = [rating for rating in ratings if counts[rating.pair] > 1]
    if not shared:
        return None, NONE_RATED_TWICE
    if len({rating.wins for rating in shared}) == 1:
        return None, ALL_ALIKE
    return float(AnnotationTask([(rating.rater, rating.pair, int(rating.wins)) for rating in shared]).alpha()), None


def _figures(ratings: Sequence[Rating], confidence_level: float) -> dict[str, Any]:
    """The win rate of ratings, its interval and test."""
    num_wins = sum(rating.wins for rating in ratings)
    counts = {"num_wins": num_wins, "num_ratings": len(ratings)}
    if not ratings:
        return {**counts, "win_rate": None, "interval": None, "interval_reason": "no ratings", "p_value": None}
    names = sorted({rating.rater for rating in ratings})
    raters = np.array([names.index(rating.rater) for rating in ratings])
    pairs = np.array([rating.pair for rating in ratings])
    rate = win_rate(np.array([rating.wins for rating in ratings]), raters, pairs, confidence_level)
    return {
        **counts,
        "win_rate": rate.value,
        "interval": None if rate.interval is None else list(rate.interval),
        "interval_reason": rate.reason,
        "p_value": exact_binomial_test(num_wins, len(ratings)),
    }
