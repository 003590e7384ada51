"""Scores given replies to prompts, in batches without padding.

The likelihoods of people's replies in real dialogue show whether tuning impaired a model. The model reads each prompt
in the run's context format, and with the run's control tag. The token that ends a reply is not scored.

A divergence shows how much a model's predictions of a reply change if the prompt or the model changes. It is the
Kullback–Leibler divergence between two distributions of the next token, in nats. For a prompt x with the reply y and
another prompt x′, the change is the mean of KL(p(· | x, y<t) ‖ p(· | x′, y<t)) over the tokens t of the reply.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hb_dataset.dialogue_pairs import DialoguePairs
from hb_metrics.collect.scoring.scoring_shards import score_into_shards
from hb_metrics.collect.units import ScoringPlan, alike_units
from hb_metrics.models.architecture import check_token_ids, decoder_prefix, max_positions_of
from hb_metrics.models.chats import chat_messages
from hb_metrics.models.contexts import encode_rendered, encode_replies, render_messages, with_tag
from hb_metrics.models.layout import Layout
from hb_metrics.models.loading import LoadedModel
from hb_metrics.models.processes import input_device

Pair = tuple[list[int], list[int]]  # the tokens of a context and of its reply


def reply_scoring(
    rows: Sequence[Any],
    prefix: list[int],
    shapes: Sequence[tuple[int, ...]],
    score: Callable[..., np.ndarray],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
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
        units=alike_units(rows, shapes),
        score=partial(score, model, prefix=prefix),
    )


def shapes_of(pairs: Sequence[Pair], prefix: list[int]) -> list[tuple[int, ...]]:
    """Returns the numbers of tokens that the model reads at once for each pair. An encoder reads the context.

    The model predicts the last token of a reply but does not read it.
    """
    read: list[tuple[int, ...]] = [(len(context), len(prefix) + len(reply) - 1) for context, reply in pairs]
    return read if prefix else [(sum(lengths),) for lengths in read]


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


class DialoguePlan(NamedTuple):
    """The pairs that are short enough for the model, and the plan for scoring their replies."""

    dialogue: DialoguePairs
    scoring: ScoringPlan


def plan_dialogue(dialogue: DialoguePairs, loaded: LoadedModel, layout: Layout) -> DialoguePlan:
    """Encodes prompt–reply pairs, and divides them into units of work.

    The encoded replies follow the prompts directly, without thoughts. Pairs that are too long for the model are left
    out.
    """
    if loaded.kind == "masked":
        raise ValueError(f"dialogue needs a model that replies, but '{loaded.name}' is a masked model; remove dialogue")
    model = loaded.model
    prefix = decoder_prefix(model, loaded.tokenizer)
    contexts, replies = encode_dialogue(dialogue.prompts, dialogue.replies, loaded, layout)
    for identifier, context_ids, reply in zip(dialogue.ids, contexts, replies, strict=True):
        if not (context_ids and reply):
            raise ValueError(f"the prompt or the reply of pair {identifier} has no tokens; omit the pair")
    check_token_ids(model, [*contexts, *replies])

    limit = max_positions_of(model)
    shapes = shapes_of(list(zip(contexts, replies, strict=True)), prefix)
    fitting = [row for row, shape in enumerate(shapes) if limit is None or max(shape) + (not prefix) <= limit]
    if not fitting:
        raise ValueError(f"all {len(shapes)} prompt–reply pairs have more than {limit} tokens; pass shorter pairs")
    encoded, shapes = [(contexts[row], replies[row]) for row in fitting], [shapes[row] for row in fitting]
    ids, prompts, texts = ([column[row] for row in fitting] for column in dialogue[:3])
    return DialoguePlan(
        dialogue._replace(ids=ids, prompts=prompts, replies=texts),
        reply_scoring(encoded, prefix, shapes, reply_nlls, model, loaded.tokenizer),
    )


def encode_dialogue(
    prompts: Sequence[str], replies: Sequence[str], loaded: LoadedModel, layout: Layout
) -> tuple[list[list[int]], list[list[int]]]:
    """Returns the token ids of each prompt's context and of each reply. The model does not think first."""
    how: Any = {"context": layout.context, "is_encoder_decoder": loaded.config.is_encoder_decoder}
    conversations = [chat_messages(with_tag(text, layout.tag), [], layout.chat) for text in prompts]
    rendered = render_messages(conversations, loaded.tokenizer, chat=layout.chat, thought=False, **how)
    contexts = encode_rendered(rendered, loaded.tokenizer, **how)
    return contexts, encode_replies(rendered, replies, loaded.tokenizer, **how)


def dialogue_into_shards(plan: DialoguePlan, loaded: LoadedModel, folder: Path) -> None:
    ids, prompts, replies, *_ = plan.dialogue
    score_into_shards(
        plan.scoring,
        {"id": ids, "prompt": prompts, "reply": replies},
        folder,
        loaded.model,
        scores=["log_likelihood"],
        inputs=list(zip(prompts, replies, strict=True)),
        label="dialogue",
        unit="reply",
    )


def divergences_into_shards(
    ids: Sequence[str],
    prompts: Sequence[str],
    others: Sequence[str],
    replies: Sequence[str],
    loaded: LoadedModel,
    layout: Layout,
    folder: Path,
) -> None:
    """Computes the divergences that are not on disk yet.

    `others` are the same prompts without the part whose effect is measured. `replies` are non-empty replies to
    `prompts`. The shards have the columns `id`, `reply`, `divergence` (summed over the reply's tokens) and
    `num_tokens`.
    """
    with_term, encoded = encode_dialogue(prompts, replies, loaded, layout)
    without, _ = encode_dialogue(others, replies, loaded, layout)
    rows = list(zip(with_term, without, encoded, strict=True))
    model, tokenizer = loaded.model, loaded.tokenizer
    prefix = decoder_prefix(model, tokenizer)
    shapes = [(len(prompt), len(other), len(reply)) for prompt, other, reply in rows]
    plan = reply_scoring(rows, prefix, shapes, _divergences, model, tokenizer)
    score_into_shards(
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
def reply_predictions(
    prompts: Sequence[str], replies: Sequence[str], loaded: LoadedModel, layout: Layout
) -> Iterator[tuple[list[int], torch.Tensor]]:
    """Yields the tokens of each non-empty reply, and the logits that predict them, in CPU memory."""
    prefix = decoder_prefix(loaded.model, loaded.tokenizer)
    for pair in zip(*encode_dialogue(prompts, replies, loaded, layout), strict=True):
        yield pair[1], reply_logits(loaded.model, [pair], prefix)[0].cpu()


def drift_per_token(
    before: Iterable[tuple[list[int], torch.Tensor]], after: Iterable[tuple[list[int], torch.Tensor]]
) -> np.ndarray:
    """Computes how much tuning changes a model's predictions of the replies that it gave before tuning.

    `before` and `after` are the `reply_predictions` of both models.

    Returns:
        The mean of KL(p_before ‖ p_after) over the tokens of each reply, in nats: [replies] float64.
    """
    values = []
    for (tokens, first), (other_tokens, second) in zip(before, after, strict=True):
        if tokens != other_tokens:
            raise ValueError("the models before and after tuning have different tokens; pass related models")
        values.append(_summed(first, second) / len(tokens))
    return np.array(values)


def _divergences(model: PreTrainedModel, rows: Sequence[tuple[list[int], ...]], prefix: list[int]) -> np.ndarray:
    with_term = reply_logits(model, [(prompt, reply) for prompt, _, reply in rows], prefix)
    without = reply_logits(model, [(other, reply) for _, other, reply in rows], prefix)
    return np.array([_summed(*pair) for pair in zip(with_term, without, strict=True)])


def _summed(first: torch.Tensor, second: torch.Tensor) -> float:
    """Returns the sum of KL(p ‖ q) over tokens. `first` contains the logits of p, and `second` those of q."""
    p, q = (torch.log_softmax(logits.double(), dim=-1) for logits in (first, second))
    return float((p.exp() * (p - q)).sum())
