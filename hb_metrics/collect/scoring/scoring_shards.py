"""Computes the scores of a scoring plan, in memory or in shards."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from accelerate.utils import gather_object
from transformers import PreTrainedModel

from hb_metrics.collect.shards import Shard, fill_shards, shard_path
from hb_metrics.collect.units import ScoringPlan, run_units
from hb_metrics.models.processes import process_state

# On two cores, the embedded model needs about half a minute for this many units. Little work is lost if the run is
# killed.
UNITS_PER_SHARD = 8


class PerplexityScores(NamedTuple):
    """The scores of texts.

    Attributes:
        perplexities: [texts] exp(mean negative log-likelihood per predicted token).
        log_likelihoods: [texts] The sum of the natural log-probabilities of the predicted tokens.
    """

    perplexities: np.ndarray
    log_likelihoods: np.ndarray
    num_tokens: np.ndarray
    plan: ScoringPlan


def run_plan(plan: ScoringPlan, model: PreTrainedModel) -> np.ndarray:
    """Returns, on all processes, the negative log-likelihood of each of a plan's sequences: [sequences] float64."""
    state = process_state()
    mine = plan.units[state.process_index :: state.num_processes]
    scored = [(unit.sequences, nlls) for unit, nlls in run_units(plan, mine, model)]
    nll = np.empty(len(plan.num_tokens))
    for sequences, nlls in gather_object(scored):
        nll[sequences] = nlls
    return nll


def perplexity_scores(
    plan: ScoringPlan, nll: np.ndarray, rows: np.ndarray | None = None, ids: Sequence[str] | None = None
) -> PerplexityScores:
    """Returns the scores of a plan's texts.

    `nll` contains the negative log-likelihood of each of the plan's sequences. `rows` selects some of the texts. Error
    messages state a text's row or, if `ids` is set, its id.
    """
    rows = np.arange(len(plan.sequence_of_text)) if rows is None else rows
    sequences = plan.sequence_of_text[rows]
    bad = np.flatnonzero(~np.isfinite(nll[sequences]))
    if len(bad):
        row = rows[bad[0]]
        raise ValueError(
            f"the model returns {nll[sequences[bad[0]]]} as the negative log-likelihood of text "
            f"{row if ids is None else ids[row]}; set --dtype float32, or check the model's weights"
        )
    return PerplexityScores(
        perplexities=np.exp(nll[sequences] / plan.num_tokens[sequences]),
        log_likelihoods=-nll[sequences],
        num_tokens=plan.num_tokens[sequences],
        plan=plan,
    )


def score_into_shards(
    plan: ScoringPlan,
    columns: Mapping[str, Sequence[str]],
    folder: Path,
    model: PreTrainedModel,
    *,
    scores: Sequence[str] = ("perplexity", "log_likelihood"),
    inputs: Sequence[Any] | None = None,
    label: str | None = None,
    unit: str = "text",
) -> None:
    """Scores the texts that are not on disk yet.

    `columns` contains the strings to store beside each text's scores. The values in the column `id` are distinct.
    `scores` lists the scores to store in addition to `num_tokens`. A shard is computed again if its `inputs` (by
    default the column `text`) have changed.
    """
    ids = columns["id"]
    types = {**dict.fromkeys(columns, pa.string()), **dict.fromkeys(scores, pa.float64()), "num_tokens": pa.int64()}
    schema = pa.schema(types)
    shards = plan_shards(plan, folder)
    num_texts = np.bincount(plan.sequence_of_text, minlength=len(plan.num_tokens))

    def compute(mine: Sequence[int], advance: Callable[..., object]) -> Iterator[Mapping[str, object]]:
        units = {index: plan.units[index * UNITS_PER_SHARD :][:UNITS_PER_SHARD] for index in mine}
        nll = np.full(len(plan.num_tokens), np.nan)
        with closing(run_units(plan, [unit for index in mine for unit in units[index]], model)) as running:
            for index in mine:
                for scored, scored_nll in islice(running, len(units[index])):
                    nll[scored.sequences] = scored_nll
                    advance(int(num_texts[scored.sequences].sum()))
                rows = shards[index].rows
                computed = perplexity_scores(plan, nll, rows, ids)
                yield {
                    **{name: [strings[row] for row in rows] for name, strings in columns.items()},
                    "perplexity": computed.perplexities,
                    "log_likelihood": computed.log_likelihoods,
                    "divergence": -computed.log_likelihoods,  # for a plan whose scores are divergences
                    "num_tokens": computed.num_tokens,
                }

    fill_shards(
        shards,
        ids,
        schema,
        compute,
        label=label or plan.scoring,
        unit=unit,
        inputs=columns["text"] if inputs is None else inputs,
    )


def plan_shards(plan: ScoringPlan, folder: Path) -> list[Shard]:
    number = -(-len(plan.units) // UNITS_PER_SHARD)
    shard_of_sequence = np.empty(len(plan.num_tokens), dtype=np.int64)
    for place, unit in enumerate(plan.units):
        shard_of_sequence[unit.sequences] = place // UNITS_PER_SHARD
    shard_of_row = shard_of_sequence[plan.sequence_of_text]
    return [Shard(np.flatnonzero(shard_of_row == index), shard_path(folder, index, number)) for index in range(number)]
