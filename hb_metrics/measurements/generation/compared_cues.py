"""Compares runs that differ only in the cue, to show whether cues affect replies in the same way.

Runs are compared by term and template. Questions are not compared, because prompts without a cue have no question.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_metrics.measurements.generation.cue_agreement import Agreements, CueReplies, Estimate, cue_agreements
from hb_metrics.report.layout.figure import Figure, Unit, missing_intervals
from hb_metrics.report.layout.numbers import axis_label
from hb_metrics.report.layout.parts import Section
from hb_metrics.report.layout.rendering import render
from hb_metrics.runs.finished_run import Run, StyleShards, read_reply_table
from hb_metrics.runs.replies import nonempty_replies
from hb_metrics.runs.run_folder import STYLES
from hb_metrics.runs.run_record import cue_of

# These parts of run.json depend on the cue, so they may differ.
_MAY_DIFFER = {
    "settings": {"cue", "cue_questions"},
    "generation": {
        *("cue", "questions", "left_out_templates", "num_prompts", "prompts_digest", "personas_digest"),
        *("context_reason", "num_copied_replies"),
    },
}
_PARTS = {"term": "term", "both": "term and cue", "cue": "cue"}
_REVERSED = 0.05  # the adjusted p-value below which an axis counts as reversed


class Matched(NamedTuple):
    """The replies to those terms and templates that all runs share.

    `axes` [terms] contains the axis of each term. `num_left_out` is the number of terms that are left out, because they
    have fewer than two replies to a template and question in some run.
    """

    cues: list[CueReplies]
    axes: list[str]
    num_left_out: int
    num_templates: int


def cues_section(runs: Sequence[Run]) -> Section | None:
    """Returns a section that compares cues, or `None` if runs differ in other settings or lack files."""
    if not differ_in_cue_alone([run.results["run"] for run in runs]):
        return None
    matched = matched_replies(runs)
    if matched is None:
        return None
    level = runs[0].results["generation"]["gen_bias"]["confidence_level"]
    names = [cue_of(run.results) for run in runs]
    context: dict[str, Any] = {"matched": matched, "names": names, "level": level, "figures": []}
    if len(matched.axes) > 2:
        codes, axes = np.unique(matched.axes, return_inverse=True)
        found = cue_agreements(matched.cues, axes, level)
        figures = cue_figures(found, names, level)
        context |= {
            "figures": [figures[: len(found.pairs)], figures[len(found.pairs) :]],
            "missing": missing_intervals(figures),
            "reversed": reversed_axes(found, codes.tolist(), names),
            "num_tests": sum(map(len, found.reversals.values())),
        }
    return Section("overview-cues", "Cues", render(Path(__file__).parent / "cues.html.jinja", context), {})


def differ_in_cue_alone(records: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether runs differ in the cue and in nothing else. `records` contains `run` of each results.json."""
    cues = {record["generation"].get("cue", "prompt"): record["generation"].get("questions") for record in records}
    asked = [questions for questions in cues.values() if questions is not None]
    rest = []
    for record in records:
        of_run = {name: content for name, content in record.items() if name not in ("versions", "left_out")}
        for name, may_differ in _MAY_DIFFER.items():
            of_run[name] = {key: value for key, value in record[name].items() if key not in may_differ}
        rest.append(of_run)
    return len(records) == len(cues) > 1 and rest.count(rest[0]) == len(rest) and asked.count(asked[0]) == len(asked)


def matched_replies(runs: Sequence[Run]) -> Matched | None:
    """Reads the replies to the terms and templates that all runs share. Returns `None` if a run lacks files."""
    tables = [table for table in (read_reply_table(run.folder) for run in runs) if table is not None]
    if len(tables) < len(runs) or not all(any((run.folder / STYLES).glob("*.parquet")) for run in runs):
        return None
    templates = set.intersection(*(set(table["template"].to_pylist()) for table in tables))
    of_runs = [_cells(table.filter(pc.is_in(table["template"], pa.array(sorted(templates))))) for table in tables]
    names = [sorted({cell for cells in of_run.values() for cell in cells}) for of_run in of_runs]
    every = sorted({term for of_run in of_runs for term in of_run})
    terms = []
    for term in every:
        found = [of_run.get(term, {}) for of_run in of_runs]
        sizes = [len(ids) for cells in found for ids in cells.values()]
        if len(sizes) == sum(map(len, names)) and min(sizes) > 1:
            terms.append(term)
    cues = [_cue_replies(run, of_run, terms, named) for run, of_run, named in zip(runs, of_runs, names, strict=True)]
    return Matched(cues, [axis for axis, _ in terms], len(every) - len(terms), len(templates))


def cue_figures(found: Agreements, names: Sequence[str], confidence_level: float) -> list[Figure]:
    listed: list[tuple[str, str, Unit, str, Estimate]] = []
    for (one, other), agreement in found.pairs.items():
        listed.append(
            ("Agreement of directions", "pair of cues", "effect", f"{names[one]} and {names[other]}", agreement)
        )
    for part, share in found.shares.items():
        listed.append(("Share of the variance", "part", "share", _PARTS[part], share))
    return [
        Figure(
            f"{heading}, {name}",
            estimate.value,
            unit,
            interval=estimate.interval,
            no_interval=estimate.reason,
            confidence_level=confidence_level,
            part_of=f"{heading} by {of}",
        )
        for heading, of, unit, name, estimate in listed
    ]


def reversed_axes(found: Agreements, axes: Sequence[str], names: Sequence[str]) -> list[str]:
    """Lists the axes on which two cues have opposite directions by more than chance, with the two cues."""
    return [
        f"{axis_label(axes[reversal.axis])} ({names[one]} and {names[other]})"
        for (one, other), of_pair in found.reversals.items()
        for reversal in of_pair
        if reversal.p < _REVERSED
    ]


def _cells(table: pa.Table) -> dict[tuple[str, str], dict[str, list[str]]]:
    """Returns the ids of the replies, by term and then by template (with its question)."""
    replies = nonempty_replies(table, table)
    cells: dict[tuple[str, str], dict[str, list[str]]] = {}
    for identifier, axis, descriptor, cell in zip(*replies[:4], strict=True):
        cells.setdefault((axis, descriptor), {}).setdefault(cell, []).append(identifier)
    return cells


def _cue_replies(
    run: Run,
    cells: Mapping[tuple[str, str], Mapping[str, Sequence[str]]],
    terms: Sequence[tuple[str, str]],
    names: Sequence[str],
) -> CueReplies:
    shards = StyleShards(run.folder / STYLES)
    row_of = {identifier: row for row, identifier in enumerate(shards.ids)}
    ids: list[str] = []
    codes: list[tuple[int, int]] = []
    for code, term in enumerate(terms):
        for cell, name in enumerate(names):
            ids += cells[term][name]
            codes += [(code, cell)] * len(cells[term][name])
    values = shards[:][[row_of[identifier] for identifier in ids]].astype(float)
    of_terms, of_cells = np.array(codes, np.int64).reshape(-1, 2).T
    return CueReplies(np.array(ids), values, of_terms, of_cells)
