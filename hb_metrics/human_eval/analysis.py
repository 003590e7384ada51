import math
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hb_metrics.human_eval.pairs import Question
from hb_metrics.human_eval.ratings import Rating, Ratings
from hb_metrics.human_eval.study import Design, Study
from hb_metrics.stats.calibration import krippendorff_alpha
from hb_metrics.stats.clusters import Bounds, Estimate, quantile

# The minimum effective numbers of raters and pairs. With fewer, intervals are uselessly wide.
MIN_RATERS, MIN_PAIRS = 2.5, 6
# V_rater / V_0 (see `win_rate`). Up to the first ratio, raters are treated as alike. From the second ratio on, they are
# treated as different. docs/coverage.md shows the coverage.
_ALIKE, _UNLIKE = 0.8, 1.0
_LEVEL = 0.95


def win_rate(wins: np.ndarray, raters: np.ndarray, pairs: np.ndarray) -> Estimate:
    """Computes the share of ratings that are wins, with a 95% interval clustered by rater and by pair.

    Ratings by the same rater are correlated, and so are ratings of the same pair. The variance is V_rater + V_pair −
    V_0, where V_0 is the variance of independent ratings (two-way clustering; Cameron, Gelbach & Miller, 2011). V_rater
    and V_pair each have their own t quantile.

    If V_rater is at most 0.8 V_0, there is no sign that raters differ, so V_0 and the normal quantile are used instead.
    If V_rater is at least V_0, it is used unchanged. Between these limits, V_rater and V_0 are mixed. The interval is
    Wilson's interval for the number of independent ratings that would have the resulting variance. It is never narrower
    than the interval for independent ratings.

    There is no interval if there are too few raters or pairs, or if a few of them account for most of the ratings.
    """
    number, value = len(wins), float(np.mean(wins))
    spread = value * (1 - value)
    residuals = np.asarray(wins, dtype=np.float64) - value
    squared_t, ratios = [], []
    for name, groups, least in (("rater", raters, MIN_RATERS), ("pair", pairs, MIN_PAIRS)):
        _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        freedom = degrees_of_freedom(sizes)
        if round(freedom + 1, 6) < least:
            counted = f"{len(sizes)} {name}{'' if len(sizes) == 1 else 's'}"
            if len(sizes) >= least:
                counted += f" with unequal numbers of ratings count as only {freedom + 1:.1f}"
                return Estimate(value, None, f"{counted}; an interval needs {least:g} or more")
            return Estimate(value, None, f"{counted}; an interval needs {math.ceil(least)} or more")
        squared_t.append(quantile(_LEVEL, freedom) ** 2)
        sums = np.bincount(codes, residuals)
        variance = float((sums**2 / (1 - sizes / number)).sum()) / number**2
        ratios.append(variance * (number - 1) / spread if spread > 0 else 1.0)
    squared_z = quantile(_LEVEL) ** 2
    unlike = min(max((ratios[0] - _ALIKE) / (_UNLIKE - _ALIKE), 0), 1)
    of_raters = (1 - unlike) * squared_z + unlike * squared_t[0] * ratios[0]
    of_pairs = squared_t[1] * (ratios[1] - 1)
    ratio = max(of_raters + of_pairs, squared_z) / (number - 1)  # z²/n, as in Wilson's interval
    middle = (value + ratio / 2) / (1 + ratio)
    half = math.sqrt(ratio * spread + ratio**2 / 4) / (1 + ratio)
    return Estimate(value, (max(middle - half, 0.0), min(middle + half, 1.0)), None)


def degrees_of_freedom(sizes: np.ndarray) -> float:
    """Computes Satterthwaite's degrees of freedom for a variance that is clustered by groups of these sizes.

    The result is G − 1 for G groups of equal size, and close to 1 if two of many groups have nearly all ratings. For a
    group of n ratings, the variance of the sum is assumed to be proportional to n^1.5. This assumption is a compromise
    between n (the groups do not differ) and n² (the groups differ).
    """
    shares = sizes / sizes.sum()
    if len(sizes) == 1:
        return 0.0
    weights = 1 / (1 - shares)
    cross = weights * shares
    # The matrix of the quadratic form Σ weights · (group's sum − share · total)², for sums with a variance of 1.
    form = np.outer(sizes**0.75, sizes**0.75) * (np.diag(weights) - cross[:, None] - cross + cross @ shares)
    return float(np.trace(form) ** 2 / (form**2).sum())


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
    rate = win_rate(wins, rater, pair)
    return QuestionResults(
        *question,
        num_wins=int(wins.sum()),
        num_ratings=len(wins),
        win_rate=rate.value,
        interval=rate.interval,
        interval_reason=rate.reason,
        num_pairs=len(shown),
        num_pairs_rated_twice=int((counts > 1).sum()),
        alpha=alpha.alpha,
        alpha_reason=alpha.reason if alpha.alpha is None else None,
    )
