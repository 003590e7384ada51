import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from hb_metrics.human_eval.questions import Question
from hb_metrics.human_eval.ratings import Rating, Ratings
from hb_metrics.human_eval.study import Study
from hb_metrics.human_eval.win_rate import win_rate
from hb_metrics.stats.calibration import krippendorff_alpha

LAYOUT = 4
FEW_RATERS = 6  # with fewer raters, the page recommends more raters


def analyse(study: Study, read: Ratings, *, max_failed_checks: int = 1) -> dict[str, Any]:
    """Computes the results of a study. A win rate is the share of ratings that prefer the second run.

    Raters who failed more than `max_failed_checks` attention checks are excluded, along with all their ratings.
    """
    raters = rater_rows(study, read, max_failed_checks)
    included = {row["rater"] for row in raters if row["included"]}
    ratings = [rating for rating in read.ratings if rating.rater in included]
    if not ratings:
        raise ValueError(
            f"all {len(read.ratings):,} ratings by {len(raters)} raters are excluded; add other raters' files, or set "
            f"--max_failed_checks to more than {max_failed_checks}"
        )
    return {
        "layout": LAYOUT,
        "study": study.id,
        **study.about,
        "design": study.design._asdict(),
        "max_failed_checks": max_failed_checks,
        "num_ratings": len(ratings),
        "num_left_out": len(read.ratings) - len(ratings),
        "num_duplicates": read.num_duplicates,
        "num_repeated": read.num_repeated,
        "num_raters": len({rating.rater for rating in ratings}),
        "raters": raters,
        "questions": [question_results(question, ratings) for question in study.questions],
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
        row["median_seconds"] = statistics.median(seconds) if seconds else None
        rows.append(row)
    return rows


def question_results(question: Question, ratings: Sequence[Rating]) -> dict[str, Any]:
    of_question = [rating for rating in ratings if rating.question == question.id]
    wins = np.array([rating.wins for rating in of_question], bool)
    found: dict[str, Any] = {**question._asdict(), "num_wins": int(wins.sum()), "num_ratings": len(wins)}
    if not of_question:
        missing = dict.fromkeys(("win_rate", "interval", "alpha"))
        return found | missing | {"num_pairs": 0, "num_pairs_rated_twice": 0, "alpha_reason": "no ratings"}
    names, rater = np.unique([rating.rater for rating in of_question], return_inverse=True)
    shown, pair, counts = np.unique([rating.pair for rating in of_question], return_inverse=True, return_counts=True)
    found["win_rate"], found["interval"], found["interval_reason"] = win_rate(wins, rater, pair)
    chosen = np.full((len(shown), len(names)), -1)
    chosen[pair, rater] = wins
    alpha = krippendorff_alpha(chosen, np.ones(len(shown)), np.arange(len(shown)))
    return found | {
        "num_pairs": len(shown),
        "num_pairs_rated_twice": int((counts > 1).sum()),
        "alpha": alpha.alpha,
        "alpha_reason": alpha.reason if alpha.alpha is None else None,
    }
