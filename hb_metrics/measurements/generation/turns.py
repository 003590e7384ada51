"""Measures later turns of conversations. Only conversations that have a reply at every turn are compared."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hb_dataset.prompt_columns import group_of_names, has_names
from hb_metrics.collect.classifiers.censoring import Terms, term_mentioned
from hb_metrics.layout.figure import pair
from hb_metrics.measurements.generation.name_groups import NameGroups, name_groups
from hb_metrics.measurements.generation.results import Turns, match_refusals, served_counts
from hb_metrics.measurements.generation.styles import Biases, gen_biases
from hb_metrics.measurements.results import Run
from hb_metrics.measurements.shares import turn_shares
from hb_metrics.reply_checks.refusal_rules import RefusalRules
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.run.replies import RatedReplies, Replies, chosen_replies, later_replies
from hb_metrics.run.run_folder import STYLES
from hb_metrics.stats.changes import PairedChange
from hb_metrics.stats.gen_bias_intervals import rounded, turn_changes


def turn_results(
    run: Run, prompts: pa.Table, tables: Sequence[pa.Table], first: Replies, rules: RefusalRules, terms: Terms
) -> Turns:
    """Computes the values by turn.

    `tables` contains all replies of each turn, and `first` contains the non-empty replies of the first turn.
    """
    turns = [first, *(later_replies(first, table) for table in tables[1:])]
    replies, vectors = [], []
    for turn, of_turn in enumerate(turns, start=1):
        kept = np.isin(of_turn.ids, turns[-1].ids)
        replies.append(chosen_replies(of_turn, kept))
        vectors.append(run.tables.turn(turn).vectors_of(STYLES, of_turn.ids)[kept])
    named = [RatedReplies(of_turn, term_mentioned(of_turn, terms)) for of_turn in replies]
    refused = [
        RatedReplies(of_turn, match_refusals(table, of_turn, rules).refusals >= 0)
        for table, of_turn in zip(tables, replies, strict=True)
    ]
    of_names = None
    if has_names(prompts):
        of_names = [groups_of_names(prompts, *of_turn) for of_turn in zip(replies, vectors, strict=True)]
    by_turn = [gen_biases(of_turn, replies[0]) for of_turn in vectors]
    change, change_by_axis = _changes(vectors, replies[0], by_turn)
    return Turns(
        name_groups=of_names,
        num_conversations=len(turns[-1].ids),
        num_ended=len(turns[0].ids) - len(turns[-1].ids),
        num_unclosed_reasoning=sum(sum(table["reasoning_unclosed"].to_pylist()) for table in tables[1:]),
        served=served_counts(tables),
        by_turn=by_turn,
        change=change,
        change_by_axis=change_by_axis,
        uptake=turn_shares(named),
        refusals=turn_shares(refused, prompts),
    )


def groups_of_names(prompts: pa.Table, replies: Replies, vectors: np.ndarray) -> NameGroups:
    return name_groups(vectors, replies.descriptors, replies.templates, group_of_names(prompts))


def _changes(
    vectors: Sequence[np.ndarray], replies: Replies, by_turn: Sequence[Biases]
) -> tuple[PairedChange | None, dict[str, PairedChange]]:
    """Computes the change in Full Gen Bias from the first turn to the last, for all terms and by axis.

    `vectors` contains an array [conversations, styles] for each turn, and `replies` contains the replies of the first
    turn. If there is a template in which no term has two replies, the change is unknown.
    """
    first, last = by_turn[0].debiased, by_turn[-1].debiased
    if first is None or last is None:
        return None, {}
    values: dict[str | None, Any] = {None: (first.full_gen_bias, last.full_gen_bias)}
    values |= {axis: (value, (last.by_axis or {})[axis]) for axis, value in (first.by_axis or {}).items()}
    cells = list(zip(replies.templates, replies.axes, replies.descriptors, strict=True))
    changes = turn_changes(vectors[0], vectors[-1], cells, values, CONFIDENCE_LEVEL)
    return _rounded(changes[None]), {axis: _rounded(change) for axis, change in changes.items() if axis is not None}


def _rounded(change: PairedChange) -> PairedChange:
    """Removes the last digits of a change's bounds, which depend on the number of threads."""
    interval, relative = (
        None if bounds is None else pair(rounded(*bounds)) for bounds in (change.interval, change.relative_interval)
    )
    return change._replace(interval=interval, relative_interval=relative, freedom=None)
