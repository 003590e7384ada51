"""Scores of texts as resumable shards: the units of work of a scoring plan, cut into shards."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from transformers import PreTrainedModel

from hb_metrics.inference.scoring.perplexity import perplexity_scores
from hb_metrics.inference.shards import Shard, fill_shards, shard_path
from hb_metrics.inference.units import ScoringPlan, run_units

# About half a minute of work for the embedded model on two cores: little is lost to a kill, few files for a long run.
UNITS_PER_SHARD = 8

PERPLEXITY_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.string()),
        ("perplexity", pa.float64()),
        ("log_likelihood", pa.float64()),
        ("num_tokens", pa.int64()),
    ]
)


def score_into_shards(
    plan: ScoringPlan,
    ids: Sequence[str],
    texts: Sequence[str],
    folder: Path,
    model: PreTrainedModel,
    *,
    progress: bool = True,
) -> pa.Table | None:
    """Scores the perplexities that are not on disk yet, and reads all of them.

    Args:
        plan: How `texts` are to be scored.
        ids: [texts] what each row is keyed by; each id once.
        texts: The texts the plan was made of.
        folder: Where the shards are; made if it is not there.
        model: The model that the plan runs.
        progress: Whether the main process shows a progress bar.

    Returns:
        A table with the columns of `PERPLEXITY_SCHEMA` in the order of `texts`, on the main process; `None` on all
        others.

    Raises:
        ValueError: The model gives NaN or infinity for a text.
    """
    return score_units_into_shards(
        plan,
        ids,
        PERPLEXITY_SCHEMA,
        lambda nll, rows: _perplexity_table(plan, ids, texts, nll, rows),
        folder,
        model,
        label=plan.scoring,
        unit="text",
        inputs=texts,
        progress=progress,
    )


def score_units_into_shards(
    plan: ScoringPlan,
    ids: Sequence[str],
    schema: pa.Schema,
    make_table: Callable[[np.ndarray, np.ndarray], pa.Table],
    folder: Path,
    model: PreTrainedModel,
    *,
    label: str,
    unit: str,
    inputs: Sequence[Any],
    progress: bool = True,
) -> pa.Table | None:
    """Runs the units of a plan that are not on disk yet, and reads all of their rows.

    Args:
        plan: The plan.
        ids: [texts] what each row is keyed by; each id once.
        schema: The columns of a shard; the first is `id`.
        make_table: Makes a shard's table of [sequences] summed negative log-likelihoods, known for its own sequences,
            and of its rows.
        folder: Where the shards are; made if it is not there.
        model: The model that the plan runs.
        label: What the progress bar shows.
        unit: What a row is: "text", "reply".
        inputs: [texts] what each row is made from.
        progress: Whether the main process shows a progress bar.

    Returns:
        As `fill_shards`.
    """
    shards = plan_shards(plan, folder)
    num_texts = np.bincount(plan.sequence_of_text, minlength=len(plan.num_tokens))

    def compute(mine: Sequence[int], advance: Callable[[int], object]) -> Iterator[pa.Table]:
        units = {index: plan.units[index * UNITS_PER_SHARD :][:UNITS_PER_SHARD] for index in mine}
        nll = np.full(len(plan.num_tokens), np.nan)
        with closing(run_units(plan, [unit for index in mine for unit in units[index]], model)) as running:
            for index in mine:
                for scored, scored_nll in islice(running, len(units[index])):
                    nll[scored.sequences] = scored_nll
                    advance(int(num_texts[scored.sequences].sum()))
                yield make_table(nll, shards[index].rows)

    return fill_shards(shards, ids, schema, compute, label=label, unit=unit, inputs=inputs, progress=progress)


def plan_shards(plan: ScoringPlan, folder: Path) -> list[Shard]:
    """Cuts a plan into shards of consecutive units; a pure function of the plan."""
    firsts = range(0, len(plan.units), UNITS_PER_SHARD)
    shard_of_sequence = np.empty(len(plan.num_tokens), dtype=np.int64)
    for index, first in enumerate(firsts):
        for unit in plan.units[first : first + UNITS_PER_SHARD]:
            shard_of_sequence[unit.sequences] = index
    shard_of_row = shard_of_sequence[plan.sequence_of_text]
    order = np.argsort(shard_of_row, kind="stable")
    bounds = np.searchsorted(shard_of_row[order], np.arange(len(firsts) + 1))
    return [
        Shard(order[bounds[index] : bounds[index + 1]], shard_path(folder, index, len(firsts)))
        for index in range(len(firsts))
    ]


def _perplexity_table(
    plan: ScoringPlan, ids: Sequence[str], texts: Sequence[str], nll: np.ndarray, rows: np.ndarray
) -> pa.Table:
    scores = perplexity_scores(plan, texts, nll, rows)
    return pa.table(
        {
            "id": [ids[row] for row in rows],
            "text": [texts[row] for row in rows],
            "perplexity": scores.perplexities,
            "log_likelihood": scores.log_likelihoods,
            "num_tokens": scores.num_tokens,
        },
        schema=PERPLEXITY_SCHEMA,
    )
