"""Compares tuned models with the ceiling: the Full Gen Bias of a model that has learnt its labels perfectly."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hb_dataset.markdown_table import escape_markdown, markdown_table
from hb_metrics.measurements.generation.figures import UPTAKE, figures
from hb_metrics.obedience.values import (
    Mean,
    ObedienceRow,
    has_directions,
    mean_value,
    obedience,
    over_terms,
    read_directions,
)
from hb_metrics.report.layout.figure import Bounds, Figure, pair
from hb_metrics.report.layout.numbers import MISSING, bias, interval, share, signed_bias, signed_share
from hb_metrics.report.layout.parts import Section
from hb_metrics.report.layout.rendering import render
from hb_metrics.runs.finished_run import Run
from hb_metrics.runs.run_folder import read_json
from hb_metrics.runs.run_record import tag_of

HEADER: tuple[str, ...] = ("", "Full Gen Bias", "interval", "names the term", "interval")
HEADER += ("mean bias value", "interval", "its change", "interval", "in percent")
LABELS_FILE = "labels.json"


class TunedRow(NamedTuple):
    """A table row for a run or for the ceiling. The ceiling's row has only `full` and `interval`.

    Attributes:
        obeys: The mean bias value along directions that were estimated from other replies, and its change since the
            first run.
        relative: The change in the mean bias value, divided by the first run's value. Both are computed over the same
            terms. `None` if the first run's value is not clearly above 0.
    """

    name: str
    full: float | None
    interval: Bounds | None
    uptake: Figure | None = None
    obeys: ObedienceRow | None = None
    relative: float | None = None

    def cells(self) -> list[str]:
        mean = None if self.obeys is None else self.obeys.mean
        change = None if self.obeys is None else self.obeys.change
        return [
            bias(self.full),
            interval(self.interval),
            *((MISSING, MISSING) if self.uptake is None else (self.uptake.shown, self.uptake.shown_interval)),
            *_cells(mean, bias),
            *_cells(change, signed_bias),
            MISSING if self.relative is None else f"{signed_share(self.relative, 0)} %",
        ]


def tuned_section(runs: Sequence[Run], names: Sequence[str], labels: Path | None) -> Section | None:
    """Returns a section that compares runs before and after tuning with each other and with the ceiling.

    The run before tuning comes first. `labels` is the folder of the labels. Without labels, there is no ceiling, and
    the directions of bias come from the first run. Returns `None` if there are fewer than two runs, or if no run is
    tuned.
    """
    if len(runs) < 2:
        return None
    if labels is None:
        tuned = any(tag_of(run.results) or run.results["run"]["generation"].get("tuned_with") for run in runs)
        if not tuned or not has_directions(runs[0].folder):
            return None
    ceiling = None if labels is None else read_labels(labels).get("ceiling")
    rows = tuned_rows(runs, names, labels or runs[0].folder, ceiling)
    notes = [*tuned_notes(rows), *([] if labels is None else other_model_notes(labels, runs))]
    context = {"rows": rows, "header": HEADER, "notes": notes, "labels": labels}
    return Section("overview-tuned", "Obedience", render("generation/tuned.html.jinja", context), {})


def other_model_notes(folder: Path, runs: Sequence[Run]) -> list[str]:
    model = read_labels(folder).get("model") or {}
    if model.get("digest") in (None, *(run.results["run"]["model"].get("digest") for run in runs)):
        return []
    return [f"The labels are for replies by {model.get('name')}, but none of these runs measured this model."]


def tuned_rows(
    runs: Sequence[Run], names: Sequence[str], directions: Path, ceiling: Mapping[str, Any] | None
) -> list[TunedRow]:
    """Lists the runs after the ceiling (the best result that the labels allow, as recorded by `bias_labels.py`).

    The ceiling consists of all labelled replies, and of the replies that were tagged "no_bias" by the directions of
    other replies.
    """
    rows = []
    if ceiling is not None:
        tagged = f'ceiling: the {share(ceiling["no_bias"]["share"], 0)} tagged "no_bias"'
        for name, part in (("replies that were labelled", ceiling["all"]), (tagged, ceiling["no_bias"])):
            rows.append(TunedRow(name, part["full_gen_bias"], pair(part["interval"])))
    level = runs[0].confidence_level
    obeyed = obedience(runs, read_directions(directions), level)
    for run, name, row in zip(runs, names, obeyed, strict=True):
        found = {figure.name: figure for figure in figures(run.results)} if "generation" in run.results else {}
        full = found.get("Full Gen Bias, debiased")
        value, bounds = (None, None) if full is None else (full.value, full.interval)
        rows.append(TunedRow(name, value, bounds, found.get(UPTAKE), row, _in_parts_of_first(obeyed[0], row, level)))
    return rows


def tuned_notes(rows: Sequence[TunedRow]) -> list[str]:
    measured = [row for row in rows if row.obeys is not None]
    notes = [
        "Full Gen Bias is debiased and multiplied by 1000.",
        "The mean bias value (×1000) shows how far replies lie along bias directions that were estimated from other "
        "replies. A value of 0 means that replies do not lie along these directions. Changes are relative to "
        f"{measured[0].name} and paired by term. If the value of {measured[0].name} is clearly above 0, changes are "
        "also stated in percent. The intervals cover the variation between replies to the same terms and templates.",
    ]
    if len(measured) < len(rows):
        notes[0] += (
            " The ceiling is the value of a model that has learnt its labels perfectly. To compute the ceiling, "
            "replies are tagged by directions estimated from other replies, and only those tagged “no_bias” are kept."
        )
    if any(row.obeys.along is not None and row.obeys.along.is_own for row in measured if row.obeys is not None):
        notes.append(
            "Replies and directions come from the same prompts, so they agree to some extent by chance. This chance "
            "agreement is subtracted."
        )
    without = []
    for row in measured:
        if row.obeys is not None and row.obeys.reason is not None:
            notes.append(f"{row.name} has no mean bias value, because {row.obeys.reason}.")
        along = None if row.obeys is None else row.obeys.along
        if along is not None and along.num_without:
            without.append(f"{row.name}: {along.num_without:,} terms have no direction and were left out.")
    return notes + without


def read_labels(folder: Path) -> dict[str, Any]:
    path = folder / LABELS_FILE
    if not path.is_file():
        raise ValueError(f"'{folder}' has no {LABELS_FILE}; pass a folder that hb_train/bias_labels.py has written")
    return read_json(path)


def tuned_markdown(rows: Sequence[TunedRow]) -> str:
    table = markdown_table(
        HEADER, [[escape_markdown(row.name), *row.cells()] for row in rows], numbers=range(1, len(HEADER))
    )
    return f"{table}\n\n{' '.join(map(escape_markdown, tuned_notes(rows)))}\n"


def _in_parts_of_first(first: ObedienceRow, row: ObedienceRow, confidence_level: float) -> float | None:
    if first.along is None or row.along is None or row.change is None:
        return None
    mean = mean_value(over_terms(first.along, row.along.values), confidence_level)
    return row.change.value / mean.value if mean.interval is not None and mean.interval[0] > 0 else None


def _cells(mean: Mean | None, written: Any) -> tuple[str, str]:
    return (MISSING, MISSING) if mean is None else (written(mean.value), interval(mean.interval))
