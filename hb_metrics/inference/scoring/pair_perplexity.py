"""Computes perplexities of reference texts and of counterfactual pairs (Barikeri et al., 2021, 3.1 and 3.2).

The paper's published figures score tokens 2 … n of a text. The first token is only context. The texts are hateful, so
they are neither shown nor stored. Ids identify them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_metrics.inference.models.loading import LoadedModel
from hb_metrics.inference.scoring.perplexity import MAX_POSITIONS, most_tokens, plan_perplexity
from hb_metrics.inference.scoring.scoring_shards import score_into_shards
from hb_metrics.inference.units import ScoringPlan

TEXT_SCORE_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("perplexity", pa.float64()),
        ("log_likelihood", pa.float64()),
        ("num_tokens", pa.int64()),
    ]
)
SIDES = ("t1", "t2")


class TextPlan(NamedTuple):
    """The texts that fit into the model, and the plan by which they are scored.

    Attributes:
        ids: [texts] The ids of the texts. For pairs, these are the ids of all t1 ("<id>:t1") and then of all t2, in the
            same order.
        kept: [pairs or texts] The rows of the pairs or texts that are scored.
        num_skipped: Reason (`one_token` if there is nothing to predict, or `too_long`) → number of pairs or texts that
            are left out.
    """

    ids: list[str]
    texts: list[str]
    kept: np.ndarray
    num_skipped: dict[str, int]
    scoring: ScoringPlan


def plan_texts(
    columns: Sequence[Sequence[str]],
    loaded: LoadedModel,
    *,
    ids: Sequence[str],
    max_positions: int = MAX_POSITIONS,
) -> TextPlan:
    """Tokenizes texts, or both sides of pairs, and divides them into units. Unfit texts are counted, never cut.

    The two sides of a pair begin in the same way. With the embedded model's tokenizer, models read 28 to 32 % fewer
    tokens of the published test pairs in prefix trees than in padded batches.
    """
    if loaded.kind != "causal":
        raise ValueError(
            f"RedditBias needs the likelihood of the tokens after a text's first token, which a {loaded.kind} language "
            "model does not compute; leave reddit out of --measurements, or pass a causal model"
        )
    sequences = []
    for column in columns:
        encoded = loaded.tokenizer(list(column), add_special_tokens=False)["input_ids"] if len(column) else []
        sequences.append([tuple(tokens) for tokens in encoded])
    lengths = np.array([[len(tokens) for tokens in column] for column in sequences], dtype=np.int64)
    short = (lengths < 2).any(axis=0)
    long = (lengths > most_tokens(loaded.model, loaded.tokenizer)).any(axis=0) & ~short
    num_skipped = {"one_token": int(short.sum()), "too_long": int(long.sum())}
    kept = np.flatnonzero(~short & ~long)
    rows: list[int] = kept.tolist()
    if not rows:
        raise ValueError(
            f"none of the {len(ids)} texts or pairs can be scored: {num_skipped['one_token']} have at most one "
            f"token, and {num_skipped['too_long']} are too long for the model; pass other texts"
        )
    texts = [column[row] for column in columns for row in rows]
    plan = plan_perplexity(texts, loaded.model, loaded.tokenizer, max_positions=max_positions, add_start_token=False)
    marks = [f":{side}" for side in SIDES] if len(columns) == len(SIDES) else [""]
    return TextPlan(
        ids=[f"{ids[row]}{mark}" for mark in marks for row in rows],
        texts=texts,
        kept=kept,
        num_skipped=num_skipped,
        scoring=plan,
    )


def language_model_perplexity(
    log_likelihoods: Sequence[float] | np.ndarray, num_tokens: Sequence[int] | np.ndarray
) -> float:
    """Computes LMP (paper, 3.2).

    For each sentence, the negative log-likelihood is averaged over the predicted tokens. LMP is the exponential of the
    mean of these averages, in which all sentences have the same weight. `log_likelihoods` are natural logarithms,
    summed over the `num_tokens` predicted tokens.
    """
    return float(np.exp(np.mean(-np.asarray(log_likelihoods, dtype=float) / np.asarray(num_tokens))))


def texts_into_shards(
    plan: TextPlan, loaded: LoadedModel, folder: Path, *, label: str, progress: bool = True
) -> pa.Table | None:
    return score_into_shards(
        plan.scoring,
        {"id": plan.ids},
        folder,
        loaded.model,
        schema=TEXT_SCORE_SCHEMA,
        inputs=plan.texts,
        label=label,
        progress=progress,
    )
