"""Computes the likelihoods of replies, or of sentences that a decoder writes, in batches without padding."""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hb_metrics.collect.units import ScoringPlan, alike_units
from hb_metrics.models.processes import input_device

# The maximum number of tokens that the model reads at once. On two CPU cores, the embedded model was as fast with 256
# tokens as with 512. It was about a fifth slower with 128 tokens, and also with 1,024. A larger maximum uses a GPU
# better, but needs more memory for the logits. With a vocabulary of 49,152 tokens in float32, 512 tokens need 100 MB
# per core.
MAX_POSITIONS = 512

Pair = tuple[list[int], list[int]]  # the tokens of a context and of its reply


def reply_scoring(
    rows: Sequence[Any],
    prefix: list[int],
    shapes: Sequence[tuple[int, ...]],
    score: Callable[..., np.ndarray],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    max_positions: int = MAX_POSITIONS,
) -> ScoringPlan:
    """Divides rows into batches for `score`. The last item of a row is the reply.

    `prefix` contains the tokens that a decoder reads before a reply (see `decoder_prefix`). `shapes` contains the
    numbers of tokens that the model reads at once for each row.
    """
    return ScoringPlan(
        scoring="encoder-decoder" if prefix else "batches",
        scoring_reason="the decoder writes the reply" if prefix else "the reply continues the prompt",
        start_token=" ".join(tokenizer.convert_ids_to_tokens(prefix)) or None,
        sequence_of_text=np.arange(len(rows)),
        num_tokens=np.array([len(row[-1]) for row in rows], dtype=np.int64),
        positions=sum(map(sum, shapes)),
        units=alike_units(rows, shapes, max_positions),
        score=partial(score, model, prefix=prefix),
    )


def reply_nlls(model: PreTrainedModel, pairs: Sequence[Pair], prefix: list[int]) -> np.ndarray:
    """Returns the negative log-likelihood of each reply, summed over tokens (see `reply_logits`): [pairs] float64."""
    losses = [
        cross_entropy(logits.float(), torch.tensor(reply, device=logits.device), reduction="none")
        for logits, (_, reply) in zip(reply_logits(model, pairs, prefix), pairs, strict=True)
    ]
    rows = np.repeat(np.arange(len(pairs)), [len(reply) for _, reply in pairs])
    return np.bincount(rows, weights=torch.cat(losses).double().cpu().numpy())


def reply_logits(model: PreTrainedModel, pairs: Sequence[Pair], prefix: list[int]) -> list[torch.Tensor]:
    """Returns the logits that predict the tokens of each reply: [tokens, vocabulary] per reply.

    All pairs form one batch, so the model must read the same number of tokens for each pair. If the model has a
    decoder, `prefix` contains the tokens that the decoder reads before the reply, and the encoder reads the context.
    Otherwise, `prefix` is empty.
    """
    device = input_device(model)
    if not prefix:
        tokens = torch.tensor([[*context, *reply[:-1]] for context, reply in pairs], device=device)
        first = min(len(context) for context, _ in pairs) - 1  # the first position whose logits are needed
        kept = tokens.shape[1] - first
        only = {"logits_to_keep": kept} if "logits_to_keep" in signature(model.forward).parameters else {}
        logits = model(input_ids=tokens, use_cache=False, **only).logits[:, -kept:]
        starts = [len(context) - 1 - first for context, _ in pairs]
    else:
        tokens = torch.tensor([context for context, _ in pairs], device=device)
        written = torch.tensor([[*prefix, *reply[:-1]] for _, reply in pairs], device=device)
        logits = model(input_ids=tokens, decoder_input_ids=written, use_cache=False).logits
        starts = [len(prefix) - 1] * len(pairs)
    return [
        logits[row, start : start + len(reply)]
        for row, (start, (_, reply)) in enumerate(zip(starts, pairs, strict=True))
    ]
