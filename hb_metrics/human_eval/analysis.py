import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from hb_metrics.human_eval.questions import Question
from hb_metrics.human_eval.ratings import Rating, Ratings
from hb_metrics.human_eval.study import Study
from hb_metrics.human_eval.win_rate import win_rate

LAYOUT = 3
FEW_RATERS = 6  # with fewer raters, the page recommends more raters


def analyse(study: Study, read: Ratings, *, max_failed_checks: int = 1) -> dict[str, Any]:
    """Computes the results of a study. Win rates are the second run's.

    Raters who failed more than `max_failed_checks` attention checks are excluded with all their ratings.
    """
    raters = rater_rows(study, read, max_failed_checks)
    included = {row["rater"] for row in raters if row["included"]}
    ratings = [rating for rating in read.ratings if rating.rater in included]
    if not ratings:
        raise ValueError(
            f"none of the {len(read.ratings):,} ratings of pairs by {len(raters)} raters remains; add files of other "
            f"raters, or set --max_failed_checks to more than {max_failed_checks}"
        )
    chance = 0.5 ** len(study.questions)  # the probability of passing a check at random
    random_rater = stats.binom.cdf(max_failed_checks, study.design.checks_per_rater, 1 - chance)
    return {
        "layout": LAYOUT,
        "study": study.id,
        **study.about,
        "design": study.design._asdict(),
        "max_failed_checks": max_failed_checks,
        "random_rater_included": float(random_rater),
        "num_ratings": len(ratings),
        "num_left_out": len(read.ratings) - len(ratings),
        "num_duplicates": read.num_duplicates,
        "num_repeated": read.num_repeated,
        "num_raters": len({rating.rater for rating in ratings}),
        "raters": raters,
        "questions": [question_results(question, ratings, read.ratings) for question in study.questions],
    }


def rater_rows(study: Study, read: Ratings, max_failed_checks: int) -> list[dict[str, Any]]:
    met = Counter(rater for rater, _ in read.checks)
    failed = Counter(rater for rater, passed in read.checks if not passed)
    rows = []
    for rater in sorted({*met, *(rating.rater for rating in read.ratings)}):
        ratings = [rating for rating in read.ratings if rating.rater == rater]
        seconds = [rating.seconds for rating in ratings if rating.seconds is not None]
        num_pairs = study.design.pairs_per_rater * len(study.questions)
        row: dict[str, Any] = {"rater": rater, "num_ratings": len(ratings)}
        row["num_expected"] = num_pairs if rater in study.sheets else None  # unknown on a crowdsourcing platform
        row |= {"num_checks": met[rater], "num_failed_checks": failed[rater]}
        row["included"] = failed[rater] <= max_failed_checks
        row["speaker_1_share"] = _speaker_1_share(ratings)
        row["median_seconds"] = statistics.median(seconds) if seconds else None
        rows.append(row)
    return rows


def question_results(question: Question, ratings: Sequence[Rating], all_ratings: Sequence[Rating]) -> dict[str, Any]:
    of_question = [rating for rating in ratings if rating.question == question.id]
    of_all = [rating.wins for rating in all_ratings if rating.question == question.id]
    rated = Counter(rating.pair for rating in of_question)
    alpha, alpha_reason = krippendorff_alpha(of_question)
    return {
        **question._asdict(),
        **_figures(of_question),
        "win_rate_of_all_raters": statistics.fmean(of_all) if of_all else None,
        "speaker_1_share": _speaker_1_share(of_question),
        "num_pairs": len(rated),
        "num_pairs_rated_twice": sum(count > 1 for count in rated.values()),
        "alpha": alpha,
        "alpha_reason": alpha_reason,
    }


def krippendorff_alpha(ratings: Sequence[Rating]) -> tuple[float | None, str | None]:
    """Computes Krippendorff's alpha (nominal) of the chosen run, or returns the reason why it is undefined.

    Only pairs with two or more raters count.
    """
    from nltk.metrics.agreement import AnnotationTask  # this import takes a second or more

    counts = Counter(rating.pair for rating in ratings)
    shared = [rating for rating in ratings if counts[rating.pair] > 1]
    if not shared:
        return None, "no pair was rated by two raters"
    if len({rating.wins for rating in shared}) == 1:
        return None, "all raters of shared pairs chose the same run, so chance alone agrees as well"
    return float(AnnotationTask([(rating.rater, rating.pair, int(rating.wins)) for rating in shared]).alpha()), None


def _speaker_1_share(ratings: Sequence[Rating]) -> float | None:
    return statistics.fmean(rating.speaker == 1 for rating in ratings) if ratings else None


def _figures(ratings: Sequence[Rating]) -> dict[str, Any]:
    wins = np.array([rating.wins for rating in ratings], bool)
    figures: dict[str, Any] = {"num_wins": int(wins.sum()), "num_ratings": len(ratings)}
    if not ratings:
        return {**figures, "win_rate": None, "interval": None, "interval_reason": "no ratings"}
    raters, pairs = np.array([rating.rater for rating in ratings]), np.array([rating.pair for rating in ratings])
    figures["win_rate"], figures["interval"], figures["interval_reason"] = win_rate(wins, raters, pairs)
    return figures
