from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from hb_metrics.layout.numbers import axis_label, count
from hb_metrics.measurements.decisions.answers import DecisionAnswer, labelled_by, read_answers
from hb_metrics.measurements.decisions.cells import cells_by_axis
from hb_metrics.measurements.decisions.figures import GAP, MEAN, SPREAD, TERM_GAP, UNANSWERED, UNANSWERED_GAP
from hb_metrics.measurements.decisions.results import left_out_reason
from hb_metrics.measurements.results import Run
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.stats import decisions as statistics
from hb_metrics.stats.changes import FigureChanges, PairedChange
from hb_metrics.stats.decision_changes import largest_gap_change, name_gap_change, spread_change
from hb_metrics.stats.question_tables import compared_terms, question_means


def changes(first: Run, second: Run) -> FigureChanges:
    """Pairs the decisions of two runs by question, term and noun. Answers that only one run has are left out."""
    if first.record.cue != second.record.cue:
        return FigureChanges({}, "the runs describe the user with different cues")
    before, after = (run.record.decisions for run in (first, second))
    if before.digest != after.digest:
        return FigureChanges({}, "the runs have different questions")
    if before.answers != after.answers:
        return FigureChanges({}, "one run has probabilities of decisions, and the other has decisions in replies")
    prompts, answers = read_answers(first)
    if labelled_by(first, prompts) != labelled_by(second, prompts):
        return FigureChanges({}, "different judges or classifiers labelled the replies")
    _, others = read_answers(second)
    runs = [
        sorted([row for row in rows if row.axis is not None], key=lambda row: (row.axis, row.term))
        for rows in (answers, others)
    ]
    *known, scope = read_in_both(*runs)
    cells, of_others, all_cells, all_others = (cells_by_axis(prompts, rows) for rows in (*known, *runs))
    about = [[(axis, of.names, of.groups) for axis, of in of_run.items()] for of_run in (cells, of_others)]
    if about[0] != about[1]:
        return FigureChanges({}, "the terms, or the names and their groups, differ between the runs")
    seed = first.record.settings.seed
    by_name: dict[str, PairedChange] = {}
    spreads: dict[str, PairedChange | None] = {}
    tables = {axis: paired(of.values, of_others[axis].values, of.questions) for axis, of in cells.items()}
    unread = {axis: paired(of.unanswered, all_others[axis].unanswered, of.questions) for axis, of in all_cells.items()}
    groups = {axis: of.groups for axis, of in cells.items()}
    of_terms = {axis: pair for axis, pair in tables.items() if groups[axis] is None}
    for axis, pair in of_terms.items():
        by_name |= _term_changes(axis_label(axis), cells[axis].names, pair)
        spreads[f"{SPREAD}, {axis_label(axis)}"] = spread_change([pair[0]], [pair[1]], CONFIDENCE_LEVEL, seed=seed)
    if of_terms:
        before_all, after_all = zip(*of_terms.values(), strict=True)
        spreads[SPREAD] = spread_change(before_all, after_all, CONFIDENCE_LEVEL, seed=seed)
    by_name |= {name: change for name, change in spreads.items() if change is not None}
    by_name |= gap_changes(GAP, tables, groups)
    left_out = {*first.results.decisions.left_out, *second.results.decisions.left_out}
    for axis, (table, _) in tables.items():
        kept, reason = compared_terms(table)
        if groups[axis]:
            kept = np.flatnonzero(~np.isnan(table).all(axis=0))
        elif reason is not None and table.shape[1] > 1:
            left_out.add(axis_label(axis))
        left_out |= {name for column, name in enumerate(cells[axis].names) if column not in kept}
    for name in by_name.keys() & {SPREAD, GAP} if left_out else ():  # no limit holds for them
        by_name[name] = by_name[name]._replace(interval=None, reason=left_out_reason(sorted(left_out)))
    by_name |= _mean_change(MEAN, [*tables.values()])
    by_name = {name: change._replace(scope=scope) for name, change in by_name.items()}
    # Answers that only one run could read are in no pair above, so their share is compared, too.
    by_name |= gap_changes(UNANSWERED_GAP, unread, groups)
    by_name |= _mean_change(UNANSWERED, [*unread.values()])
    return FigureChanges(by_name)


def read_in_both(
    answers: Sequence[DecisionAnswer], others: Sequence[DecisionAnswer]
) -> tuple[list[DecisionAnswer], list[DecisionAnswer], str]:
    """Pairs the answers of two runs, and removes the decisions whose counterpart has no decision.

    Answers about a term differ between nouns, so a term's mean would change if one run lacks the answers about some
    nouns. If only one run has a noun, its answer is paired with an answer about another noun.

    Returns:
        The answers of both runs, and a description of those that are compared, if it is not all.
    """
    asked = {_about(row) for row in answers} & {_about(row) for row in others}
    first, second = _numbered(answers, asked), _numbered(others, asked)
    pairs = first.keys() & second.keys()
    both = {key for key in pairs if None not in (first[key].value, second[key].value)}
    kept, others_kept = (
        [row if key in both else row._replace(value=None) for key, row in rows.items()] for rows in (first, second)
    )
    scope = f"the {count(len(both))} of {count(len(pairs))} answers that have a decision in both runs"
    return kept, others_kept, scope if len(both) < len(pairs) else ""


def _about(row: DecisionAnswer) -> tuple[object, ...]:
    return row.own_id, row.axis, row.term, row.order, row.noun


def _numbered(rows: Sequence[DecisionAnswer], asked: set[tuple[object, ...]]) -> dict[object, DecisionAnswer]:
    numbers: Counter[tuple[object, ...]] = Counter()
    by_key: dict[object, DecisionAnswer] = {}
    for row in rows:
        about = _about(row) if _about(row) in asked else _about(row)[:-1]
        numbers[about] += 1
        by_key[about, numbers[about]] = row
    return by_key


def gap_changes(
    name: str, tables: Mapping[str, Sequence[np.ndarray]], groups: Mapping[str, list[str] | None]
) -> dict[str, PairedChange]:
    """Computes the change in the largest gap over axes. If there is only one, it is also its change."""
    axis, *others = tables
    of_names, (before, after) = groups[axis], zip(*tables.values(), strict=True)
    if of_names is None:
        change = largest_gap_change(before, after, CONFIDENCE_LEVEL)
    else:  # a run with names has no other axis
        change = name_gap_change(before[0], after[0], of_names, CONFIDENCE_LEVEL)
    names = [name] if others else [name, f"{name}, {axis_label(axis)}"]
    return {} if change is None else dict.fromkeys(names, change)


def _mean_change(name: str, tables: Sequence[Sequence[np.ndarray]]) -> dict[str, PairedChange]:
    before, after = (np.concatenate(of_run, axis=1) for of_run in zip(*tables, strict=True))
    change = statistics.mean_difference(after - before, CONFIDENCE_LEVEL)
    if np.isnan(change.value):
        return {}
    first, second = (statistics.mean_over_questions(of_run).value for of_run in (before, after))
    return {name: PairedChange(first, second, change.interval, None, change.reason, len(before) - 1)}


def paired(ours: np.ndarray, theirs: np.ndarray, questions: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Averages the orders and wordings of each question, with the rows that both runs have answered."""
    known = np.isfinite(ours + theirs)
    before, after = (question_means(np.where(known, values, np.nan), questions) for values in (ours, theirs))
    return before, after


def _term_changes(label: str, names: list[str], pair: tuple[np.ndarray, np.ndarray]) -> dict[str, PairedChange]:
    before, after = pair
    gaps = (statistics.gaps_to_mean(table, CONFIDENCE_LEVEL) for table in (before, after, (after - before) / 2))
    by_name = {}
    for name, first, second, half in zip(names, *gaps, strict=True):
        if first is not None and second is not None and half is not None:
            bounds = half.interval and (2 * half.interval[0], 2 * half.interval[1])
            change = PairedChange(first.value, second.value, bounds, None, half.reason, len(before) - 1)
            by_name[f"{TERM_GAP}, {name} ({label})"] = change
    return by_name
