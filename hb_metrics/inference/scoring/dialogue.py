"""Computes the perplexity of people's replies in real dialogue, which shows whether tuning impaired a model.

The model reads each prompt in the run's context format, and with the run's control tag. The token that ends a reply is
not scored.
"""

from collections.abc import Callable, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from hb_dataset.dialogue_pairs import Dialogue
from hb_metrics.inference.devices import input_device
from hb_metrics.inference.models.architecture import check_token_ids, decoder_start_id, max_positions_of
from hb_metrics.inference.models.contexts import encode_rendered, encode_replies
from hb_metrics.inference.models.layout import Layout, render_prompts
from hb_metrics.inference.models.loading import LoadedModel
from hb_metrics.inference.scoring.perplexity import MAX_POSITIONS, ONE_AT_A_TIME
from hb_metrics.inference.scoring.scoring_paths import padding_changes
from hb_metrics.inference.scoring.scoring_shards import score_into_shards
from hb_metrics.inference.units import ScoringPlan, Unit, length_sorted_batches, right_padded


class DialoguePlan(NamedTuple):
    ids: list[str]
    prompts: list[str]
    replies: list[str]
    scoring: ScoringPlan


def plan_dialogue(
    dialogue: Dialogue, loaded: LoadedModel, layout: Layout, *, max_positions: int = MAX_POSITIONS
) -> DialoguePlan:
    """Encodes prompt–reply pairs, and divides them into units of work.

    The encoded replies follow the prompts directly, without thoughts. Pairs that are too long for the model are left
    out.
    """
    if loaded.kind == "masked":
        raise ValueError(
            f"model '{loaded.name}' is a masked language model, which cannot compute the likelihood of a reply to a "
            "prompt; remove dialogue from --measurements, or pass a causal or encoder-decoder model"
        )
    model = loaded.model
    with_encoder = model.config.is_encoder_decoder
    contexts, replies = encode_dialogue(dialogue.prompts, dialogue.replies, loaded, layout)
    for identifier, context_ids, reply in zip(dialogue.ids, contexts, replies, strict=True):
        if not (context_ids and reply):
            raise ValueError(f"the prompt or the reply of pair {identifier} has no tokens; omit the pair")
    check_token_ids(model, [*contexts, *replies])

    limit = max_positions_of(model)
    taken = [
        max(len(context_ids), len(reply)) if with_encoder else len(context_ids) + len(reply)
        for context_ids, reply in zip(contexts, replies, strict=True)
    ]
    fitting = [row for row, length in enumerate(taken) if limit is None or length <= limit]
    if not fitting:
        raise ValueError(
            f"all {len(taken)} prompt–reply pairs are longer than the model's limit of {limit} tokens; pass shorter "
            "pairs, or a model that accepts more tokens"
        )
    encoded = [(contexts[row], replies[row]) for row in fitting]
    # The model predicts the last token of a reply but does not read it. A decoder also reads its start token.
    lengths = [len(context_ids) + len(reply) - 1 + with_encoder for context_ids, reply in encoded]
    return DialoguePlan(
        ids=[dialogue.ids[row] for row in fitting],
        prompts=[dialogue.prompts[row] for row in fitting],
        replies=[dialogue.replies[row] for row in fitting],
        scoring=reply_scoring(encoded, encoded, lengths, reply_nlls, loaded, max_positions),
    )


def reply_scoring(
    rows: Sequence[Any],
    pairs: Sequence[tuple[list[int], list[int]]],
    lengths: Sequence[int],
    score: Callable[..., np.ndarray],
    loaded: LoadedModel,
    max_positions: int = MAX_POSITIONS,
) -> ScoringPlan:
    """Divides rows into padded batches for `score`. `pairs` contains the context and the reply of each row.

    If padding changes the likelihoods of the replies, each batch is a single row.
    """
    model = loaded.model
    with_encoder = model.config.is_encoder_decoder
    start_id = decoder_start_id(model) if with_encoder else None
    likelihoods = partial(reply_nlls, model, start_id=start_id)
    reason = "the decoder writes the reply" if with_encoder else "the reply continues the prompt"
    if padding_changes(likelihoods, pairs, model, length=lambda pair: len(pair[0]) + len(pair[1])):
        max_positions, reason = 1, f"{reason}; {ONE_AT_A_TIME}"
    batches = length_sorted_batches(lengths, max_positions)
    return ScoringPlan(
        scoring="encoder-decoder" if with_encoder else "padded",
        scoring_reason=reason,
        start_token=None if start_id is None else loaded.tokenizer.convert_ids_to_tokens(start_id),
        sequence_of_text=np.arange(len(rows)),
        num_tokens=np.array([len(reply) for _, reply in pairs], dtype=np.int64),
        positions=sum(len(batch) * lengths[batch[-1]] for batch in batches),
        units=[Unit(batch, [rows[row] for row in batch]) for batch in batches],
        score=partial(score, model, start_id=start_id),
    )


def encode_dialogue(
    prompts: Sequence[str], replies: Sequence[str], loaded: LoadedModel, layout: Layout
) -> tuple[list[list[int]], list[list[int]]]:
    """Returns the token ids of each prompt's context and of each reply."""
    tokenizer, context, with_encoder = loaded.tokenizer, layout.context, loaded.config.is_encoder_decoder
    rendered = render_prompts(prompts, loaded, layout)
    contexts = encode_rendered(rendered, tokenizer, context, is_encoder_decoder=with_encoder)
    return contexts, encode_replies(rendered, replies, tokenizer, context, is_encoder_decoder=with_encoder)


def dialogue_into_shards(plan: DialoguePlan, loaded: LoadedModel, folder: Path) -> pa.Table | None:
    return score_into_shards(
        plan.scoring,
        {"id": plan.ids, "prompt": plan.prompts, "reply": plan.replies},
        folder,
        loaded.model,
        scores=["log_likelihood"],
        inputs=list(zip(plan.prompts, plan.replies, strict=True)),
        label="dialogue",
        unit="reply",
    )


def reply_nlls(
    model: PreTrainedModel, pairs: Sequence[tuple[list[int], list[int]]], start_id: int | None
) -> np.ndarray:
    """Returns the negative log-likelihood of each reply, summed over tokens (see `reply_logits`): [pairs] float64."""
    losses = [
        cross_entropy(logits.float(), torch.tensor(reply, device=logits.device), reduction="none")
        for logits, (_, reply) in zip(reply_logits(model, pairs, start_id), pairs, strict=True)
    ]
    rows = np.repeat(np.arange(len(pairs)), [len(reply) for _, reply in pairs])
    return np.bincount(rows, weights=torch.cat(losses).double().cpu().numpy())


def reply_logits(
    model: PreTrainedModel, pairs: Sequence[tuple[list[int], list[int]]], start_id: int | None
) -> list[torch.Tensor]:
    """Returns the logits that predict the tokens of each reply: [tokens, vocabulary] per reply.

    `pairs` contains a context and a reply as token ids. All pairs are padded at their ends and form one batch. If
    `start_id` is not `None`, the model's encoder reads the context, and its decoder predicts the reply.
    """
    device = input_device(model)
    if start_id is None:
        tokens, mask = right_padded([[*context, *reply[:-1]] for context, reply in pairs], device)
        first = min(len(context) for context, _ in pairs) - 1  # the first position whose logits are needed
        kept = tokens.shape[1] - first
        only = {"logits_to_keep": kept} if "logits_to_keep" in signature(model.forward).parameters else {}
        logits = model(input_ids=tokens, attention_mask=mask, use_cache=False, **only).logits[:, -kept:]
        starts = [len(context) - 1 - first for context, _ in pairs]
    else:
        tokens, mask = right_padded([context for context, _ in pairs], device)
        fed, fed_mask = right_padded([[start_id, *reply[:-1]] for _, reply in pairs], device)
        logits = model(
            input_ids=tokens,
            attention_mask=mask,
            decoder_input_ids=fed,
            decoder_attention_mask=fed_mask,
            use_cache=False,
        ).logits
        starts = [0] * len(pairs)
    return [
        logits[row, start : start + len(reply)]
        for row, (start, (_, reply)) in enumerate(zip(starts, pairs, strict=True))
    ]
