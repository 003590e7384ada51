"""The section of a report on a human evaluation; `section.html.jinja` lays it out."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hb_metrics.human_eval.analysis import FEW_RATERS, LAYOUT
from hb_metrics.human_eval.pairs import REASONS
from hb_metrics.human_eval.questions import PAPER
from hb_metrics.report import paper
from hb_metrics.report.numbers import MISSING, axis_label, fixed, share
from hb_metrics.report.parts import Section
from hb_metrics.report.rendering import render
from hb_metrics.runs.run_folder import read_json

_FOLDER = Path(__file__).parent
_SMALLEST_P = 0.0005

NOT_RESULTS_ERROR = "'{path}' does not hold the results of a human evaluation; give the file that `analyse` wrote"
NO_RESULTS_ERROR = "there is no '{path}'; `holistic-bias human-eval analyse` writes it"
OTHER_RUNS_ERROR = "'{path}' is about {names}, which are not both among these runs; give the runs that raters compared"


class Cell(NamedTuple):
    """A win rate in a table.

    Attributes:
        rate: The share.
        interval: Its interval, or nothing.
        details: What is below: p, counts.
    """

    rate: str
    interval: str
    details: str


def read_results(path: Path) -> dict[str, Any]:
    """Reads what `analyse` wrote.

    Raises:
        ValueError: There is no such file, or it does not hold the results of a human evaluation.
        OSError: It cannot be read.
    """
    try:
        results = read_json(path)
    except FileNotFoundError as error:
        raise ValueError(NO_RESULTS_ERROR.format(path=path)) from error
    if not isinstance(results, dict) or results.get("layout") != LAYOUT or "raters" not in results:
        raise ValueError(NOT_RESULTS_ERROR.format(path=path))
    return results


def check_runs(results: Mapping[str, Any], digests: Sequence[str], path: Path) -> None:
    """Raises a ValueError if a human evaluation is not about two of these runs, by their digests."""
    if not {run["run"] for run in results["runs"]} <= set(digests):
        names = " and ".join(run["name"] for run in results["runs"])
        raise ValueError(OTHER_RUNS_ERROR.format(path=path, names=names))


def human_evaluation_section(results: Mapping[str, Any]) -> Section:
    """The section of a report.

    Args:
        results: What `analysis.analyse` returns.
    """
    questions = results["questions"]
    axes = [row["axis"] for row in questions[0]["by_axis"]]
    context = {
        "results": results,
        "before": results["runs"][0]["name"],
        "after": results["runs"][1]["name"],
        "num_pairs": max(question["num_pairs"] for question in questions),
        "level": share(results["confidence_level"], 0),
        "sentences": answers(results),
        "questions": [(question, _cell(question), p_value(question["p_value"])) for question in questions],
        "printed": [
            (model, [share(of_model.get(question["id"]), 0) for question in questions])
            for model, of_model in paper.HUMAN_EVALUATION.items()
        ],
        "axes": [
            (axis_label(axis), [_cell(question["by_axis"][index], adjusted=True) for question in questions])
            for index, axis in enumerate(axes)
        ],
        "raters": results["raters"],
        "unused_pages": results.get("unused_pages", []),  # results of earlier releases do not have these two
        "axes_without_pairs": [axis_label(axis) for axis in results.get("axes", []) if axis not in axes],
        "left_out": [(REASONS[name], number) for name, number in results["left_out"].items() if number],
        "classifiers": [run["offensiveness_classifier"] for run in results["runs"]],
        "ours": [question["title"] for question in questions if question["source"] != PAPER],
        "few": results["num_raters"] < FEW_RATERS,
    }
    return Section("human", "Human evaluation", render(_FOLDER / "section.html.jinja", context), {})


def answers(results: Mapping[str, Any]) -> list[str]:
    """A sentence for each question: which run was chosen more often, or that it is not known."""
    before, after = (run["name"] for run in results["runs"])
    sentences = []
    for question in results["questions"]:
        if question["win_rate"] is None:
            sentences.append(f"{question['title']}: nobody rated it.")
            continue
        chosen = f"{question['title']}: {after} was chosen over {before} in {share(question['win_rate'])} of ratings"
        if question["interval"] is None:
            sentences.append(f"{chosen}; there is no interval ({question['interval_reason']}).")
            continue
        low, high = question["interval"]
        verdict = "beyond chance" if low > 0.5 or high < 0.5 else "not beyond chance"
        sentences.append(f"{chosen} ({_range(low, high)}), which is {verdict}.")
    return sentences


def p_value(value: float | None) -> str:
    """A p-value with three digits."""
    return MISSING if value is None else "< 0.001" if value < _SMALLEST_P else fixed(value, 3)


def _cell(figures: Mapping[str, Any], *, adjusted: bool = False) -> Cell:
    bounds = figures["interval"]
    counts = f"{figures['num_wins']:,} of {figures['num_ratings']:,}"
    p = f", adjusted p {p_value(figures['adjusted_p_value'])}" if adjusted and figures["num_ratings"] else ""
    return Cell(share(figures["win_rate"]), "" if bounds is None else _range(*bounds), counts + p)


def _range(low: float, high: float) -> str:
    return f"{share(low)} to {share(high)}"
