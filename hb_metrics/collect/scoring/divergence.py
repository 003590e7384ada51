"""Computes how much a model's predictions of a reply change if the prompt or the model changes.

The change is the Kullback–Leibler divergence between two distributions of the next token, in nats. For a prompt x with
the reply y and another prompt x′, the change is the mean of KL(p(· | x, y<t) ‖ p(· | x′, y<t)) over the tokens t of the
reply.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import torch
from transformers import PreTrainedModel

from hb_metrics.collect.scoring.dialogue import encode_dialogue
from hb_metrics.collect.scoring.reply_scoring import reply_logits, reply_scoring
from hb_metrics.collect.scoring.scoring_shards import score_into_shards
from hb_metrics.models.architecture import decoder_prefix
from hb_metrics.models.layout import Layout
from hb_metrics.models.loading import LoadedModel


def divergences_into_shards(
    ids: Sequence[str],
    prompts: Sequence[str],
    others: Sequence[str],
    replies: Sequence[str],
    loaded: LoadedModel,
    layout: Layout,
    folder: Path,
) -> pa.Table | None:
    """Computes the divergences that are not on disk yet, and then reads all of them.

    `others` are the same prompts without the part whose effect is measured. `replies` are non-empty replies to
    `prompts`.

    Returns:
        On the main process, a table with the columns `id`, `reply`, `divergence` (summed over the reply's tokens) and
        `num_tokens`. On all other processes, `None`.
    """
    with_term, encoded = encode_dialogue(prompts, replies, loaded, layout)
    without, _ = encode_dialogue(others, replies, loaded, layout)
    rows = list(zip(with_term, without, encoded, strict=True))
    model, tokenizer = loaded.model, loaded.tokenizer
    prefix = decoder_prefix(model, tokenizer)
    shapes = [(len(prompt), len(other), len(reply)) for prompt, other, reply in rows]
    plan = reply_scoring(rows, prefix, shapes, _divergences, model, tokenizer)
    return score_into_shards(
        plan,
        {"id": ids, "reply": replies},
        folder,
        model,
        scores=["divergence"],
        inputs=list(zip(prompts, others, replies, strict=True)),
        label="divergences",
        unit="reply",
    )


@torch.inference_mode()
def drift_per_token(
    prompts: Sequence[str],
    replies: Sequence[str],
    before: tuple[LoadedModel, Layout],
    after: tuple[LoadedModel, Layout],
) -> np.ndarray:
    """Computes how much tuning changes a model's predictions of the non-empty replies that it gave before tuning.

    Returns:
        The mean of KL(p_before ‖ p_after) over the tokens of each reply, in nats: [prompts] float64.
    """
    sides = [list(zip(*encode_dialogue(prompts, replies, *side), strict=True)) for side in (before, after)]
    models = before[0].model, after[0].model
    prefixes = [decoder_prefix(loaded.model, loaded.tokenizer) for loaded, _ in (before, after)]
    values = []
    for pairs in zip(*sides, strict=True):
        if pairs[0][1] != pairs[1][1]:
            raise ValueError(
                f"'{before[0].name}' and '{after[0].name}' split the same reply into different tokens, so their "
                "predictions are not comparable; pass a model and the model from which it was tuned"
            )
        first, second = (
            reply_logits(model, [pair], prefix)[0] for model, pair, prefix in zip(models, pairs, prefixes, strict=True)
        )
        values.append(_summed(first, second) / len(pairs[0][1]))
    return np.array(values)


def _divergences(model: PreTrainedModel, rows: Sequence[tuple[list[int], ...]], prefix: list[int]) -> np.ndarray:
    with_term = reply_logits(model, [(prompt, reply) for prompt, _, reply in rows], prefix)
    without = reply_logits(model, [(other, reply) for _, other, reply in rows], prefix)
    return np.array([_summed(*pair) for pair in zip(with_term, without, strict=True)])


def _summed(first: torch.Tensor, second: torch.Tensor) -> float:
    """Returns the sum of KL(p ‖ q) over tokens. `first` contains the logits of p, and `second` those of q."""
    p, q = (torch.log_softmax(logits.double(), dim=-1) for logits in (first, second))
    return float((p.exp() * (p - q)).sum())
