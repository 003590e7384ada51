"""Computes win rates and agreement from the ratings of a human evaluation, and writes them to JSON and a page.

holistic-bias human-eval analyse ratings/*.jsonl --study runs/raters/study.json
"""

import math
import statistics
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hb_dataset.command_line import CommandParser
from hb_dataset.whole_files import write_text
from hb_metrics.human_eval.ratings import Rating, Ratings, read_ratings
from hb_metrics.human_eval.study import REASONS, STUDY_FILE, Design, Question, Study, beside_answers, read_study
from hb_metrics.layout.numbers import share
from hb_metrics.layout.parts import Section
from hb_metrics.layout.rendering import render, section
from hb_metrics.run.run_folder import read_json, write_json
from hb_metrics.run.typed_json import from_json, to_json
from hb_metrics.stats.calibration import krippendorff_alpha
from hb_metrics.stats.clusters import Bounds, Estimate, crossed, jeffreys_bounds, quantile, uncertainty

RESULTS_FILE, PAGE_FILE = "human_evaluation.json", "human_evaluation.html"
LAYOUT = 4
FEW_RATERS = 6  # with fewer raters, the page recommends more raters
# The minimum effective numbers of raters and pairs. With fewer, intervals are uselessly wide.
MIN_RATERS, MIN_PAIRS = 2.5, 6
_LEVEL = 0.95


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
    """The results of a study in which raters compare pairs of replies, one from each of two runs.

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


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument(
        "ratings",
        type=Path,
        nargs="+",
        metavar="RATINGS",
        help="The files that the raters saved, or a crowdsourcing platform's JSON Lines file with the fields study, "
        "task, rater and choice.",
    )
    parser.add_argument(
        "--study",
        type=Path,
        help=f"The {STUDY_FILE} that `human-eval export` wrote. Default: the {STUDY_FILE} in the folder of the ratings "
        "or in its parent folder.",
    )
    parser.add_argument(
        "--output_dir",
        type=Path,
        help=f"The folder for {RESULTS_FILE} and {PAGE_FILE}. Default: the folder of the study.",
    )
    parser.add_argument(
        "--max_failed_checks",
        type=int,
        default=1,
        help="The number of attention checks that a rater may fail. Raters who failed more checks are excluded. "
        "Default: %(default)s.",
    )
    arguments = parser.parse_args(argv)
    path = arguments.study or beside_answers(arguments.ratings[0], STUDY_FILE)
    if not path.is_file():
        parser.error(f"'{path}' does not exist; set --study to the {STUDY_FILE} to which these ratings belong")
    output = arguments.output_dir or path.parent
    study = read_study(path)
    ratings = read_ratings(arguments.ratings, study)
    results = analyse(study, ratings, max_failed_checks=arguments.max_failed_checks)
    output.mkdir(parents=True, exist_ok=True)
    write_json(output / RESULTS_FILE, to_json(results))
    names = {"before": results.runs[0].name, "after": results.runs[1].name}
    context = {"section": human_evaluation_section(results), "terms": "null"}
    write_text(output / PAGE_FILE, render("human_eval/results.html.jinja", {**context, **names}))
    print("\n".join(summary_lines(results)))
    print(f"results: {(output / RESULTS_FILE).resolve()}")
    print(f"page: {(output / PAGE_FILE).resolve()}")


def summary_lines(results: HumanEvaluation) -> list[str]:
    number = results.num_raters
    line = f"{results.num_ratings:,} ratings of {number} rater{'' if number == 1 else 's'}"
    if left_out := [repr(rater.rater) for rater in results.raters if not rater.included]:
        line += f"; excluded for failed attention checks: {', '.join(left_out)}"
    return [line, *answers(results)]


def analyse(study: Study, read: Ratings, *, max_failed_checks: int = 1) -> HumanEvaluation:
    """Computes the results of a study. A win rate is the share of ratings that prefer the second run.

    Raters who failed more than `max_failed_checks` attention checks are excluded, along with all their ratings.
    """
    raters = rater_rows(study, read, max_failed_checks)
    included = {rater.rater for rater in raters if rater.included}
    ratings = [rating for rating in read.ratings if rating.rater in included]
    if not ratings:
        excluded = f"raters who failed more than {max_failed_checks} attention checks are excluded"
        advice = "add other raters' files, or set a higher --max_failed_checks"
        raise ValueError(f"no rating is left of {len(read.ratings):,} ({excluded}); {advice}")
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


def win_rate(wins: np.ndarray, raters: np.ndarray, pairs: np.ndarray) -> Estimate:
    """Computes the share of ratings that are wins, with a 95% interval clustered by rater and by pair.

    Ratings by the same rater are correlated, and so are ratings of the same pair. The interval is Jeffreys's, with the
    number of independent ratings that would be as uncertain. There is none if there are too few raters or pairs, or if
    a few of them account for most of the ratings.

    If nearly all ratings prefer one run, raters hardly seem to differ, although further raters may always prefer the
    other run. One more rating for that run is therefore imagined, as if a rater always preferred it, or as if a pair
    always did. The more actual ratings prefer that run, the less the imagined rating matters.
    """
    number, value = len(wins), float(np.mean(wins))
    for name, groups, least in (("rater", raters, MIN_RATERS), ("pair", pairs, MIN_PAIRS)):
        sizes = np.unique(groups, return_counts=True)[1]
        effective = uncertainty(sizes.astype(float), weights=sizes).by_weight + 1
        if round(effective, 6) < least:
            counted, needed = f"{len(sizes)} {name}{'' if len(sizes) == 1 else 's'}", f"{math.ceil(least)}"
            if len(sizes) >= least:
                counted, needed = f"{counted} with unequal numbers of ratings count as only {effective:.1f}", f"{least}"
            return Estimate(value, None, f"{counted}; an interval needs {needed} or more")
    of_rate, independent = crossed((wins - value) / number, raters, pairs), number - 1.0
    if of_rate.variance > 0:
        # Jeffreys's interval allows for rare losses, so only weights of raters and pairs reduce the degrees of freedom.
        ratio = quantile(_LEVEL) / quantile(_LEVEL, of_rate.welch)
        independent = value * (1 - value) * ratio**2 / of_rate.variance
    rare = number * min(value, 1 - value)
    independent = (rare + 1) / (rare / independent + 1 / (of_rate.by_weight + 1))
    return Estimate(value, jeffreys_bounds(value, independent, _LEVEL), None)


def read_results(path: Path, digests: Collection[str]) -> HumanEvaluation:
    content = read_json(path)
    if content.get("layout") != LAYOUT or "raters" not in content:
        raise ValueError(f"'{path}' contains no human evaluation; pass the file that `human-eval analyse` wrote")
    results = from_json(HumanEvaluation, content, f"'{path}': results")
    if not {run.run for run in results.runs} <= set(digests):
        names = " and ".join(run.name for run in results.runs)
        raise ValueError(
            f"'{path}' compares {names}, but at least one of them is missing from these runs; pass both of them"
        )
    return results


def human_evaluation_section(results: HumanEvaluation) -> Section:
    context = {
        "results": results,
        "before": results.runs[0].name,
        "after": results.runs[1].name,
        "sentences": answers(results),
        "left_out": [(REASONS[name], number) for name, number in results.left_out.items() if number],
        "few": results.num_raters < FEW_RATERS,
    }
    return section("human", "Human evaluation", "human_eval/section.html.jinja", context)


def answers(results: HumanEvaluation) -> list[str]:
    before, after = (run.name for run in results.runs)
    sentences = []
    for question in results.questions:
        if question.win_rate is None:
            sentences.append(f"{question.title}: there are no ratings.")
            continue
        chosen = f"{question.title}: {after} was chosen over {before} in {share(question.win_rate)} of ratings"
        if question.interval is None:
            sentences.append(f"{chosen}; there is no interval ({question.interval_reason}).")
            continue
        low, high = question.interval
        verdict = "beyond chance" if low > 0.5 or high < 0.5 else "not beyond chance"
        sentences.append(f"{chosen} ({share(low)} to {share(high)}). The difference from 50% is {verdict}.")
    return sentences
