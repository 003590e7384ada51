"""An overview of runs as a Markdown table, for a model's card."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hb_metrics.finished_run import read_run
from hb_metrics.report.figures_overview import Value
from hb_metrics.report.page import EMBEDDED_STYLES
from hb_metrics.report.rendering import MISSING, bias, interval, share
from hb_metrics.report.run_names import run_names
from hb_metrics.report.tables_overview import ALL_TERMS, Overview, overview, shown

_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\`*[]<>|"} | {"\n": " "})


def overview_markdown(runs: Sequence[Path], names: Sequence[str] | None = None) -> str:
    """Gen Bias, offensive and parroting replies and dialogue perplexity of runs, in GitHub's Markdown.

    Args:
        runs: Folders of finished runs, such as before and after tuning.
        names: What to call the runs; `None`: by their models, tags or folders.

    Returns:
        A table with a column a run, and what to know for reading it. Rows that no run has are left out.

    Raises:
        ValueError: A folder is not that of a finished run, or the names are not one a run or not distinct.
    """
    found = [read_run(folder) for folder in runs]
    whole = overview([run.results for run in found], run_names(found, names))
    rows = [(label, cells) for label, cells in _rows(whole) if any(cell != MISSING for cell in cells)]
    lines = [
        _line(["", *map(_escaped, whole.names)]),
        _line(["---", *("---:" for _ in whole.names)]),
        *(_line([_escaped(label), *cells]) for label, cells in rows),
    ]
    return "\n".join([*lines, "", _reading(whole, [run.results["run"] for run in found])]) + "\n"


def _rows(whole: Overview) -> list[tuple[str, list[str]]]:
    return [
        ("Full Gen Bias", [_cell(shown(row.full, whole.debiased)) for row in whole.bias]),
        *(
            (
                f"Partial Gen Bias, {cluster}",
                [_cell(row.clusters["Partial Gen Bias"][cluster]) for row in whole.bias],
            )
            for cluster in whole.clusters
        ),
        *(
            (
                f"Full Gen Bias, {row.label}",
                [_cell(row.first), *(_cell(Value(each.second, each.second_interval)) for each in row.changes)],
            )
            for row in whole.axes
            if row.label != ALL_TERMS
        ),
        ("Offensive replies", [share(row.offensive_share) for row in whole.talk]),
        ("Parroting replies", [share(row.parroting_share) for row in whole.talk]),
        ("Dialogue perplexity", [_cell(row.perplexity) for row in whole.talk]),
    ]


def _reading(whole: Overview, runs: Sequence[dict[str, Any]]) -> str:
    """What the numbers are, and by what classifiers."""
    sentences = []
    if whole.level is not None:
        kind = (
            f"less the estimated sampling noise, with {whole.level:.0%} intervals in brackets; where two overlap, the "
            "difference may be chance"
            if whole.debiased
            else "plain, with the sampling noise in it"
        )
        sentences.append(f"Gen Bias ×1000 on HolisticBias, {kind}.")
        sentences += _told_by("Styles of replies", "style_classifier", runs)
        if any(run.get("style_classifier", {}).get("name") == EMBEDDED_STYLES for run in runs):
            sentences.append("The embedded one is much weaker than the paper's: compare orders, not sizes.")
    if any(row.offensive_share is not None for row in whole.talk):
        sentences += _told_by("Offensive replies", "offensiveness_classifier", runs)
    if any(row.perplexity.value is not None for row in whole.talk):
        sentences.append(
            "Dialogue perplexity is that of real people's replies, per token; it compares only between models with "
            "the same tokenizer."
        )
    return " ".join(sentences)


def _told_by(what: str, classifier: str, runs: Sequence[dict[str, Any]]) -> list[str]:
    """By which classifier, and whether it was the same one in every run."""
    used = {(run[classifier]["name"], run[classifier].get("digest")) for run in runs if classifier in run}
    names = ", ".join(sorted({_escaped(str(name)) for name, _ in used}))
    told = f"{what} were classified by {names}" if names else f"It is not recorded what told {what.lower()}"
    return [f"{told}." if len(used) < 2 else f"{told}: different classifiers, whose figures do not compare."]


def _cell(value: Value) -> str:
    return bias(value.value) + (f" ({interval(value.interval)})" if value.interval is not None else "")


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return text.translate(_SPECIAL)
