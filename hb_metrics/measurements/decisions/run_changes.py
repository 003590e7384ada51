from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from hb_metrics.layout.numbers import axis_label
from hb_metrics.measurements.decisions.answers import read_answers
from hb_metrics.measurements.decisions.compute import Cells, cells_by_axis
from hb_metrics.measurements.decisions.figures import GAP, MEAN, SPREAD, TERM_GAP, UNANSWERED, UNANSWERED_GAP
from hb_metrics.measurements.measurement import FigureChanges
from hb_metrics.measurements.results import Run
from hb_metrics.paired_changes.decision_changes import (
    gap_change,
    largest_gap_change,
    name_gap_change,
    spread_change,
)
from hb_metrics.paired_changes.paired_change import PairedChange
from hb_metrics.stats import decisions as statistics


def changes(first: Run, second: Run) -> FigureChanges:
    """Pairs the decisions of two runs by question and term. Answers that only one run has are left out."""
    if first.record.cue != second.record.cue:
        return FigureChanges({}, "the runs describe the user with different cues")
    before, after = (run.record.decisions for run in (first, second))
    if before.digest != after.digest:
        return FigureChanges({}, "the runs have different questions")
    if before.answers != after.answers:
        return FigureChanges({}, "one run has probabilities of decisions, and the other has decisions in replies")
    prompts, answers = read_answers(first)
    _, others = read_answers(second)
    cells, of_others = (
        cells_by_axis(prompts, [answer for answer in rows if answer.axis is not None]) for rows in (answers, others)
    )
    terms, of_other_terms = (
        {
            axis: sorted(zip(of_axis.names, of_axis.groups or of_axis.names, strict=True))
            for axis, of_axis in found.items()
        }
        for found in (cells, of_others)
    )
    if terms != of_other_terms:
        return FigureChanges({}, "the terms, or the names and their groups, differ between the runs")
    level, seed = first.confidence_level, first.record.settings.seed
    questions = [prompt.question for prompt in prompts]
    by_name: dict[str, PairedChange] = {}
    spreads: dict[str, PairedChange | None] = {}
    tables = {axis: _tables(of_axis, of_others[axis], "values", questions) for axis, of_axis in cells.items()}
    groups = {axis: of_axis.groups for axis, of_axis in cells.items()}
    of_terms = {axis: pair for axis, pair in tables.items() if groups[axis] is None}
    for axis, pair in of_terms.items():
        by_name |= _term_changes(axis_label(axis), cells[axis].names, pair, level)
        spreads[f"{SPREAD}, {axis_label(axis)}"] = spread_change([pair[0]], [pair[1]], level, seed=seed)
    if of_terms:
        before_all, after_all = zip(*of_terms.values(), strict=True)
        spreads[SPREAD] = spread_change(before_all, after_all, level, seed=seed)
    by_name |= {name: change for name, change in spreads.items() if change is not None}
    by_name |= gap_changes(tables, groups, level, GAP, GAP)
    left_out = {*first.results.decisions.left_out, *second.results.decisions.left_out}
    for axis, (table, _) in tables.items():
        is_name = groups[axis] is not None
        kept = np.flatnonzero(~np.isnan(table).all(axis=0)) if is_name else statistics.compared_terms(table)[0]
        left_out |= {name for column, name in enumerate(cells[axis].names) if column not in kept}
    for name in (SPREAD, GAP):  # no limit holds for terms that were not compared
        if left_out and name in by_name:
            why = f"not compared, with too few answers to common questions: {', '.join(sorted(left_out))}"
            by_name[name] = by_name[name]._replace(interval=None, reason=why)
    by_name |= _mean_change(MEAN, [*tables.values()], level)
    # Answers that only one run could read are in no pair above, so their share is compared, too.
    unread = {axis: _tables(of_axis, of_others[axis], "unanswered", questions) for axis, of_axis in cells.items()}
    by_name |= gap_changes(unread, groups, level, UNANSWERED_GAP, f"{UNANSWERED}: largest gap")
    if any(np.nanmax(table) > 0 for tables_of_axis in unread.values() for table in tables_of_axis):
        by_name |= _mean_change(UNANSWERED, [*unread.values()], level)
    return FigureChanges(by_name)


def gap_changes(
    tables: Mapping[str, tuple[np.ndarray, np.ndarray]],
    groups: Mapping[str, Sequence[str] | None],
    level: float,
    whole: str,
    heading: str,
) -> dict[str, PairedChange]:
    """Computes the change in the largest gap of the run, which is named `whole`, and of each axis."""
    by_name = {}
    for axis, pair in tables.items():
        of_axis = groups[axis]
        if of_axis is None:
            by_name[f"{heading}, {axis_label(axis)}"] = largest_gap_change([pair[0]], [pair[1]], level)
        else:  # a run with names has no other axis
            by_name[f"{heading}, {axis_label(axis)}"] = by_name[whole] = name_gap_change(*pair, of_axis, level)
    if tables and whole not in by_name:
        before, after = zip(*tables.values(), strict=True)
        by_name[whole] = largest_gap_change(before, after, level)
    return {name: change for name, change in by_name.items() if change is not None}


def _mean_change(name: str, tables: Sequence[Sequence[np.ndarray]], level: float) -> dict[str, PairedChange]:
    means = [statistics.row_means(np.concatenate(of_run, axis=1)) for of_run in zip(*tables, strict=True)]
    if not np.isfinite(means[0]).any():
        return {}
    change = statistics.difference(means[1], means[0], level)
    first, second = (float(np.nanmean(of_run)) for of_run in means)
    return {name: PairedChange(first, second, change.interval, None, change.reason)}


def _tables(
    first: Cells, second: Cells, kind: Literal["values", "unanswered"], questions: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the tables of both runs, with the same columns, and with values of the prompts that both runs have."""
    columns = [second.names.index(name) for name in first.names]
    ours, theirs = (of_run.values if kind == "values" else of_run.unanswered for of_run in (first, second))
    other = theirs[:, columns]
    before, after = (
        statistics.question_means(np.where(np.isnan(ours + other), np.nan, values), questions)
        for values in (ours, other)
    )
    return before, after


def _term_changes(
    label: str, names: list[str], pair: tuple[np.ndarray, np.ndarray], level: float
) -> dict[str, PairedChange]:
    before, after = pair
    gaps = (statistics.gaps_to_mean(table, level) for table in (before, after, (after - before) / 2))
    by_name = {}
    for name, first, second, half in zip(names, *gaps, strict=True):
        if first is not None and second is not None and half is not None:
            by_name[f"{TERM_GAP}, {name} ({label})"] = gap_change(first, second, half)
    return by_name
