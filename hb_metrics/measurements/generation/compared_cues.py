"""Compares runs that differ only in the cue, to show whether cues affect replies in the same way.

Runs are compared by term and template. Questions are ignored, because prompts without a cue have no question. If one
run uses names and the other uses terms, each group of names is compared with the term for that group.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.names import NAME_CUES, NAMES_AXIS
from hb_metrics.measurements.generation.cue_agreement import (
    Agreements,
    CueReplies,
    Estimate,
    cue_agreements,
    group_agreement,
)
from hb_metrics.report.layout.figure import Figure, Unit, missing_intervals
from hb_metrics.report.layout.numbers import axis_label
from hb_metrics.report.layout.parts import Section
from hb_metrics.report.layout.rendering import render
from hb_metrics.runs.finished_run import Run, read_reply_table, read_vectors
from hb_metrics.runs.replies import nonempty_replies
from hb_metrics.runs.run_folder import STYLES
from hb_metrics.runs.run_record import cue_of

# These parts of run.json depend on the cue, so they may differ.
_MAY_DIFFER = {
    "settings": {"cue", "cue_questions"},
    "generation": {
        *(
            "cue",
            "questions",
            "left_out_templates",
            "num_left_out_prompts",
            "num_prompts",
            "prompts_digest",
            "personas_digest",
        ),
        *("context_reason", "num_copied_replies"),
    },
}
# Settings that may also differ between a run with names and a run with terms. A run with names has no other
# measurements.
_PEOPLE = {
    "axes",
    "dataset_config",
    "measurements",
    "names_file",
    "replies_per_cell",
    "sample",
    "terms",
    "vocabulary_dir",
}
_AGREEMENT: tuple[str, str, Unit] = ("Agreement of directions", "pair of cues", "effect")
_PARTS = {"term": "term", "both": "term and cue", "cue": "cue"}
_REVERSED = 0.05  # the adjusted p-value below which an axis counts as reversed


class Matched(NamedTuple):
    """The replies to those terms and templates that all runs share.

    `axes` [terms] contains the axis of each term. `num_left_out` counts the omitted terms. A term is omitted if it has
    fewer than two replies to a template and question in at least one run.
    """

    cues: list[CueReplies]
    axes: list[str]
    num_left_out: int
    num_templates: int


def cue_sections(runs: Sequence[Run]) -> list[Section]:
    named = [run for run in runs if cue_of(run.results) in NAME_CUES]
    told = [run for run in runs if cue_of(run.results) not in NAME_CUES]
    sections = cues_section(told), cues_section(named), names_section(named, told)
    return [section for section in sections if section is not None]


def names_section(named: Sequence[Run], told: Sequence[Run]) -> Section | None:
    """Compares each run that uses names with the runs that use terms.

    Two runs are compared if they differ only in the cue and in the people described.
    """
    figures, num_left_out = [], 0
    for run, other in product(named, told):
        found = matched_groups(run, other) if differ_in_cue_alone([run.results["run"], other.results["run"]]) else None
        if found is not None:
            level = run.confidence_level
            names, groups, statements, number = found
            agreement = group_agreement(names, groups, statements, level)
            sizes = ", ".join(f"{group} {groups.count(group)}" for group in sorted(set(groups)))
            figure = _figure(f"{cue_of(run.results)} and {cue_of(other.results)}", *_AGREEMENT, agreement, level)
            figures.append(figure._replace(detail=sizes))
            num_left_out += number
    if not figures:
        return None
    context = {"figures": figures, "num_left_out": num_left_out, "missing": missing_intervals(figures)}
    return Section("overview-names", "Names", render("generation/names.html.jinja", context), {})


def cues_section(runs: Sequence[Run]) -> Section | None:
    if not differ_in_cue_alone([run.results["run"] for run in runs]):
        return None
    matched = matched_replies(runs)
    if matched is None:
        return None
    level = runs[0].confidence_level
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
    return Section(f"overview-{names[0]}", "Cues", render("generation/cues.html.jinja", context), {})


def differ_in_cue_alone(records: Sequence[Mapping[str, Any]]) -> bool:
    """Returns whether runs differ only in the cue. `records` are the sections `run` of their results.json.

    A run with names and a run with terms may also differ in the people in their prompts.
    """
    cues = {record["generation"].get("cue", "prompt"): record["generation"].get("questions") for record in records}
    if not len(records) == len(cues) > 1:
        return False
    asked = [questions for questions in cues.values() if questions is not None]
    is_mixed = len({cue in NAME_CUES for cue in cues}) > 1
    compared = set.intersection(*map(set, records)) - {"layout", "versions", "left_out", *["data"] * is_mixed}
    people = _PEOPLE if is_mixed else set()
    rest = []
    for record in records:
        of_run = {name: record[name] for name in compared}
        for name, may_differ in _MAY_DIFFER.items():
            of_run[name] = {key: value for key, value in record[name].items() if key not in may_differ | people}
        rest.append(of_run)
    return rest.count(rest[0]) == len(rest) and asked.count(asked[0]) == len(asked)


def matched_replies(runs: Sequence[Run]) -> Matched | None:
    tables = _reply_tables(runs)
    if tables is None:
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


def matched_groups(run: Run, other: Run) -> tuple[CueReplies, list[str], CueReplies, int] | None:
    """Reads the replies to names, and the replies to statements of the names' groups.

    Returns:
        The replies to names, the group of each name in lower case, the replies to statements, and the number of omitted
        cells. Only groups that are also terms are included (case is ignored). A cell is omitted if a name has no reply
        in it, or if a group has fewer than two replies. The result is `None` if a run lacks files.
    """
    tables = _reply_tables([run, other])
    if tables is None:
        return None
    named, told = tables
    told = told.set_column(told.column_names.index("descriptor"), "descriptor", pc.utf8_lower(told["descriptor"]))
    told = told.set_column(told.column_names.index("axis"), "axis", pa.repeat(NAMES_AXIS, told.num_rows))
    shared = named.filter(pc.is_in(pc.utf8_lower(named["bucket"]), told["descriptor"].unique()))
    group_of = dict(zip(shared["descriptor"].to_pylist(), pc.utf8_lower(shared["bucket"]).to_pylist(), strict=True))
    cues, groups, num_left_out = [], [], 0
    for each, table, terms, least in ((run, named, set(group_of), 1), (other, told, set(group_of.values()), 2)):
        cells_of = {term: cells for term, cells in sorted(_cells(table).items()) if term[1] in terms}
        every = sorted({cell for cells in cells_of.values() for cell in cells})
        kept = [cell for cell in every if min(len(cells.get(cell, ())) for cells in cells_of.values()) >= least]
        cues.append(_cue_replies(each, cells_of, list(cells_of), kept))
        groups.append([group_of.get(term, term) for _, term in cells_of])
        num_left_out += len(every) - len(kept)
    return cues[0], groups[0], cues[1], num_left_out


def cue_figures(found: Agreements, names: Sequence[str], confidence_level: float) -> list[Figure]:
    figures = []
    for (one, other), agreement in found.pairs.items():
        figures.append(_figure(f"{names[one]} and {names[other]}", *_AGREEMENT, agreement, confidence_level))
    for part, share in found.shares.items():
        figures.append(_figure(_PARTS[part], "Share of the variance", "part", "share", share, confidence_level))
    return figures


def _figure(name: str, heading: str, of: str, unit: Unit, estimate: Estimate, confidence_level: float) -> Figure:
    return Figure(
        f"{heading}, {name}",
        estimate.value,
        unit,
        interval=estimate.interval,
        no_interval=estimate.reason,
        confidence_level=confidence_level,
        part_of=f"{heading} by {of}",
    )


def reversed_axes(found: Agreements, axes: Sequence[str], names: Sequence[str]) -> list[str]:
    return [
        f"{axis_label(axes[reversal.axis])} ({names[one]} and {names[other]})"
        for (one, other), of_pair in found.reversals.items()
        for reversal in of_pair
        if reversal.p < _REVERSED
    ]


def _reply_tables(runs: Sequence[Run]) -> list[pa.Table] | None:
    tables = [table for table in (read_reply_table(run.folder) for run in runs) if table is not None]
    has_styles = [any((run.folder / STYLES).glob("*.parquet")) for run in runs]
    return tables if len(tables) == len(runs) and all(has_styles) else None


def _cells(table: pa.Table) -> dict[tuple[str, str], dict[str, list[str]]]:
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
    vectors = read_vectors(run.folder / STYLES)
    row_of = {identifier: row for row, identifier in enumerate(vectors.ids)}
    ids: list[str] = []
    codes: list[tuple[int, int]] = []
    for code, term in enumerate(terms):
        for cell, name in enumerate(names):
            ids += cells[term][name]
            codes += [(code, cell)] * len(cells[term][name])
    values = vectors.values[[row_of[identifier] for identifier in ids]].astype(float)
    of_terms, of_cells = np.array(codes, np.int64).reshape(-1, 2).T
    return CueReplies(np.array(ids), values, of_terms, of_cells)
