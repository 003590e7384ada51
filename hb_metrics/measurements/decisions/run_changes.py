from collections.abc import Sequence

import numpy as np

from hb_metrics.layout.numbers import axis_label
from hb_metrics.measurements.decisions.answers import read_answers
from hb_metrics.measurements.decisions.compute import Cells, cells_by_axis
from hb_metrics.measurements.decisions.figures import GAP, MEAN, SPREAD, TERM_GAP, UNANSWERED
from hb_metrics.measurements.measurement import FigureChanges
from hb_metrics.measurements.results import Run
from hb_metrics.paired_changes.decision_changes import gap_change, spread_change
from hb_metrics.paired_changes.paired_change import PairedChange
from hb_metrics.stats import decisions as statistics
from hb_metrics.stats.name_gaps import name_gaps


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
    tables = {axis: _paired(of_axis, of_others[axis], questions) for axis, of_axis in cells.items()}
    for axis, pair in tables.items():
        groups = cells[axis].groups
        if groups is None:
            by_name |= _term_changes(axis_label(axis), cells[axis].names, pair, level)
            by_name[f"{SPREAD}, {axis_label(axis)}"] = spread_change([pair[0]], [pair[1]], level, seed=seed)
        elif len(set(groups)) == 2:
            by_name |= _group_change(axis_label(axis), groups, pair, level, is_whole=len(tables) == 1)
    of_terms = [pair for axis, pair in tables.items() if cells[axis].groups is None]
    if of_terms:
        before_all, after_all = ([pair[run] for pair in of_terms] for run in (0, 1))
        by_name[SPREAD] = spread_change(before_all, after_all, level, seed=seed)
    by_name |= _mean_change(MEAN, [*tables.values()], level)
    # Answers that only one run could read are in no pair above, so their share is compared, too.
    unread = [
        [statistics.question_means(of_run[axis].unanswered, questions) for of_run in (cells, of_others)]
        for axis in cells
    ]
    if any(np.nanmax(table) > 0 for tables_of_axis in unread for table in tables_of_axis):
        by_name |= _mean_change(UNANSWERED, unread, level)
    return FigureChanges(by_name)


def _mean_change(name: str, tables: Sequence[Sequence[np.ndarray]], level: float) -> dict[str, PairedChange]:
    means = [statistics.row_means(np.concatenate(of_run, axis=1)) for of_run in zip(*tables, strict=True)]
    if not np.isfinite(means[0]).any():
        return {}
    change = statistics.difference(means[1], means[0], level)
    first, second = (float(np.nanmean(of_run)) for of_run in means)
    return {name: PairedChange(first, second, change.interval, None, change.reason)}


def _paired(first: Cells, second: Cells, questions: list[str]) -> tuple[np.ndarray, np.ndarray]:
    other = second.values[:, [second.names.index(name) for name in first.names]]
    before, after = (
        statistics.question_means(np.where(np.isnan(first.values + other), np.nan, values), questions)
        for values in (first.values, other)
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


def _group_change(
    label: str, groups: list[str], pair: tuple[np.ndarray, np.ndarray], level: float, *, is_whole: bool
) -> dict[str, PairedChange]:
    """Computes the change in the size of the gap between two groups of names. Among more, the largest was chosen.

    If the run has no other axis, `is_whole`, this is also the largest gap of the whole run. The other group may have
    the advantage after the change, so the size changes by the larger of b − a and −b − a, where a > 0 and b are the
    gaps in favour of the same group.
    """
    before, after = pair
    first, second = (name_gaps(table, groups, level).largest for table in pair)
    halves = [name_gaps(table, groups, level).largest for table in ((after - before) / 2, (-after - before) / 2)]
    if first is None or second is None:
        return {}
    known = [half.gap if half.high == first.high else _reversed(half.gap) for half in halves if half is not None]
    intervals = [gap.interval for gap in known if gap.interval is not None]
    interval = None
    if len(intervals) == 2:
        interval = 2 * max(low for low, _ in intervals), 2 * max(high for _, high in intervals)
    change = PairedChange(first.gap.value, second.gap.value, interval, None, known[0].reason)
    return {f"{GAP}, {label}": change, **({GAP: change} if is_whole else {})}


def _reversed(gap: statistics.Estimate) -> statistics.Estimate:
    return gap._replace(value=-gap.value, interval=gap.interval and (-gap.interval[1], -gap.interval[0]))
