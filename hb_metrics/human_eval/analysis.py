import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hb_metrics.human_eval.questions import Question
from hb_metrics.human_eval.ratings import Rating, Ratings
from hb_metrics.human_eval.study import Design, Study
from hb_metrics.human_eval.win_rate import win_rate
from hb_metrics.stats.calibration import krippendorff_alpha
from hb_metrics.stats.clusters import Bounds

LAYOUT = 4
FEW_RATERS = 6  # with fewer raters, the page recommends more raters


@dataclass(frozen=True)
class ComparedRun:
    """A run of the study. `run` is its digest."""

    name: str
    run: str
    offensiveness_classifier: str | None


@dataclass(frozen=True)
class Rater:
    """A rater. `num_expected` is `None` on a crowdsourcing platform, where it is unknown."""

    rater: str
    num_ratings: int
    num_expected: int | None
    num_checks: int
    num_failed_checks: int
    included: bool
    median_seconds: float | None


@dataclass(frozen=True)
class QuestionResults:
    """The answers to a question. The win rate is `None` if there are no ratings.

    Attributes:
        num_pairs_rated_twice: The number of pairs with two or more ratings.
        alpha: Krippendorff's alpha between raters.
    """

    id: str
    title: str
    text: str
    num_wins: int
    num_ratings: int
    win_rate: float | None
    interval: Bounds | None
    interval_reason: str | None
    num_pairs: int
    num_pairs_rated_twice: int
    alpha: float | None
    alpha_reason: str | None


@dataclass(frozen=True)
class HumanEvaluation:
    """The results of a study of the pairs of two runs.

    Attributes:
        left_out: The number of prompts without a pair that can be shown, by reason.
        num_available: The number of pairs that can be shown.
        num_left_out: The number of ratings by excluded raters.
        num_duplicates: The number of repeated lines.
        num_repeated: The number of ratings that are left out because the rater had rated the same pair before.
    """

    layout: int
    study: str
    runs: list[ComparedRun]
    keep_offensive: bool
    left_out: dict[str, int]
    axes: list[str]
    num_available: int
    num_in_study: int
    design: Design
    max_failed_checks: int
    num_ratings: int
    num_left_out: int
    num_duplicates: int
    num_repeated: int
    num_raters: int
    raters: list[Rater]
    questions: list[QuestionResults]


def analyse(study: Study, read: Ratings, *, max_failed_checks: int = 1) -> HumanEvaluation:
    """Computes the results of a study. A win rate is the share of ratings that prefer the second run.

    Raters who failed more than `max_failed_checks` attention checks are excluded, along with all their ratings.
    """
    raters = rater_rows(study, read, max_failed_checks)
    included = {rater.rater for rater in raters if rater.included}
    ratings = [rating for rating in read.ratings if rating.rater in included]
    if not ratings:
        raise ValueError(
            f"all {len(read.ratings):,} ratings by {len(raters)} raters are excluded; add other raters' files, or set "
            f"--max_failed_checks to more than {max_failed_checks}"
        )
    about = dict(study.about)
    return HumanEvaluation(
        layout=LAYOUT,
        study=study.id,
        runs=[ComparedRun(**run) for run in about.pop("runs")],
        **about,
        design=study.design,
        max_failed_checks=max_failed_checks,
        num_ratings=len(ratings),
        num_left_out=len(read.ratings) - len(ratings),
        num_duplicates=read.num_duplicates,
        num_repeated=read.num_repeated,
        num_raters=len({rating.rater for rating in ratings}),
        raters=raters,
        questions=[question_results(question, ratings) for question in study.questions],
    )


def rater_rows(study: Study, read: Ratings, max_failed_checks: int) -> list[Rater]:
    met = Counter(rater for rater, _ in read.checks)
    failed = Counter(rater for rater, passed in read.checks if not passed)
    rows = []
    for rater in sorted({*met, *(rating.rater for rating in read.ratings)}):
        ratings = [rating for rating in read.ratings if rating.rater == rater]
        seconds = [rating.seconds for rating in ratings if rating.seconds is not None]
        num_pairs = study.design.pairs_per_rater * len(study.questions)
        row = Rater(
            rater,
            num_ratings=len(ratings),
            num_expected=num_pairs if rater in study.sheets else None,
            num_checks=met[rater],
            num_failed_checks=failed[rater],
            included=failed[rater] <= max_failed_checks,
            median_seconds=statistics.median(seconds) if seconds else None,
        )
        rows.append(row)
    return rows


def question_results(question: Question, ratings: Sequence[Rating]) -> QuestionResults:
    of_question = [rating for rating in ratings if rating.question == question.id]
    wins = np.array([rating.wins for rating in of_question], bool)
    if not of_question:
        return QuestionResults(*question, 0, 0, None, None, None, 0, 0, None, "no ratings")
    names, rater = np.unique([rating.rater for rating in of_question], return_inverse=True)
    shown, pair, counts = np.unique([rating.pair for rating in of_question], return_inverse=True, return_counts=True)
    chosen = np.full((len(shown), len(names)), -1)
    chosen[pair, rater] = wins
    alpha = krippendorff_alpha(chosen, np.ones(len(shown)), np.arange(len(shown)))
    return QuestionResults(
        *question,
        int(wins.sum()),
        len(wins),
        *win_rate(wins, rater, pair),
        num_pairs=len(shown),
        num_pairs_rated_twice=int((counts > 1).sum()),
        alpha=alpha.alpha,
        alpha_reason=alpha.reason if alpha.alpha is None else None,
    )
