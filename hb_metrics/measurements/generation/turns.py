"""Measures later turns of conversations. Only conversations that have a reply at every turn are compared."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hb_dataset.names import group_of_names, has_names
from hb_metrics.collect.classifiers.censoring import Forms, term_mentioned
from hb_metrics.layout.figure import pair
from hb_metrics.measurements.generation.name_groups import name_groups
from hb_metrics.measurements.generation.results import match_refusals, served_counts
from hb_metrics.measurements.generation.typed_results import AxisTurns, NameGroups, Turns, TurnValue
from hb_metrics.measurements.results import Run
from hb_metrics.measurements.turn_shares import TurnChange, turn_shares
from hb_metrics.paired_changes.gen_bias_covariance import turn_changes
from hb_metrics.paired_changes.paired_change import PairedChange
from hb_metrics.reply_checks.refusal_rules import RefusalRules
from hb_metrics.run.replies import FlaggedReplies, Replies, chosen_replies, later_replies
from hb_metrics.run.run_folder import STYLES
from hb_metrics.stats.cell_sums import CellSums
from hb_metrics.stats.gen_bias import ByMetric, GenBias, plain_and_debiased
from hb_metrics.stats.intervals import rounded


def turn_results(
    run: Run, prompts: pa.Table, tables: Sequence[pa.Table], first: Replies, rules: RefusalRules, forms: Forms
) -> Turns:
    """Computes the values by turn.

    `tables` contains all replies of each turn, and `first` contains the non-empty replies of the first turn.
    """
    level = run.confidence_level
    turns = [first, *(later_replies(first, table) for table in tables[1:])]
    replies, vectors = [], []
    for turn, of_turn in enumerate(turns, start=1):
        kept = np.isin(of_turn.ids, turns[-1].ids)
        replies.append(chosen_replies(of_turn, kept))
        vectors.append(run.tables.turn(turn).vectors(STYLES).values[kept])
    named = [FlaggedReplies(each, term_mentioned(each, *forms)) for each in replies]
    refused = [
        FlaggedReplies(of_turn, match_refusals(table, of_turn, rules).refusals >= 0)
        for table, of_turn in zip(tables, replies, strict=True)
    ]
    is_of_names = has_names(prompts)
    of_names = [
        groups_of_names(prompts, *of_turn, level) for of_turn in zip(replies, vectors, strict=True) if is_of_names
    ]
    return Turns(
        name_groups=of_names if is_of_names else None,
        num_conversations=len(turns[-1].ids),
        num_ended=len(turns[0].ids) - len(turns[-1].ids),
        num_unclosed_reasoning=sum(sum(table["reasoning_unclosed"].to_pylist()) for table in tables[1:]),
        served=served_counts(tables),
        **bias_by_turn(vectors, replies[0], level)._asdict(),
        confidence_level=level,
        uptake=turn_shares(named, level),
        refusals=turn_shares(refused, level),
    )


def groups_of_names(prompts: pa.Table, replies: Replies, vectors: np.ndarray, level: float) -> NameGroups:
    return name_groups(vectors, replies.descriptors, replies.templates, group_of_names(prompts), level)


class TurnBias(NamedTuple):
    """Full Gen Bias ×1000 by turn, its change from the first turn to the last, and its slope per turn."""

    by_turn: list[TurnValue]
    by_axis: dict[str, AxisTurns]
    change: TurnChange | None
    slope: TurnChange | None


def bias_by_turn(vectors: Sequence[np.ndarray], replies: Replies, confidence_level: float) -> TurnBias:
    """Computes Full Gen Bias by turn.

    `vectors` contains an array [conversations, styles] for each turn, and `replies` contains the replies of the first
    turn. If there is a template in which no term has two replies, the debiased values, the change and the slope are
    `None`.
    """
    found: list[dict[str | None, TurnValue]] = []
    for of_turn in vectors:
        cells = CellSums(keep_replies=True)
        cells.add(of_turn, replies.descriptors, replies.templates, replies.axes)
        plain, debiased = plain_and_debiased(cells, confidence_level)
        found.append({axis: _value(plain, debiased, axis) for axis in (None, *(plain.by_axis or {}))})
    change: dict[str | None, PairedChange] = {}
    slope: dict[str | None, PairedChange] = {}
    if found[0][None].value is not None:
        values: dict[str | None, Any] = {axis: [of_turn[axis].value for of_turn in found] for axis in found[0]}
        cells_of = list(zip(replies.templates, replies.axes, replies.descriptors, strict=True))
        change, slope = turn_changes(vectors, cells_of, values, confidence_level)
    by_axis = {}
    for axis, first in found[0].items():
        if axis is not None and first.plain is not None:
            by_axis[axis] = AxisTurns(first, found[-1][axis], _plain(change.get(axis)))
    by_turn = [of_turn[None] for of_turn in found]
    return TurnBias(by_turn, by_axis, _plain(change.get(None)), _plain(slope.get(None)))


def _value(plain: GenBias, debiased: GenBias | None, axis: str | None) -> TurnValue:
    def of_axis(values: GenBias | ByMetric[Any] | None) -> Any:
        return None if values is None else values.full_gen_bias if axis is None else (values.by_axis or {})[axis]

    return TurnValue(
        value=of_axis(debiased),
        plain=of_axis(plain),
        interval=of_axis(plain.intervals),
        no_interval=of_axis(plain.no_intervals),
    )


def _plain(change: PairedChange | None) -> TurnChange | None:
    """Removes the last digits of a change's bounds, which depend on the number of threads."""
    if change is None:
        return None
    interval, relative = (
        None if bounds is None else pair(rounded(*bounds)) for bounds in (change.interval, change.relative_interval)
    )
    return TurnChange(change.first, change.second, interval, relative, change.reason)
