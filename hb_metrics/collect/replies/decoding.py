"""Decodes replies to contexts. A reply does not depend on the batch in which it is decoded.

The other contexts in a batch change the last bits of a context's logits. If two tokens are almost equally likely, these
small changes may reverse the choice between them. A context with such a close decision is therefore decoded again by
itself, and the second reply is used.

If the model supports padding (see `forward.decoding_paths`), contexts of different lengths are decoded together. In
large batches on CPU, joint decoding halves the time per token.
"""

from collections.abc import Callable, Sequence
from copy import copy
from typing import Protocol

import numpy as np
import torch
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    NoRepeatNGramLogitsProcessor,
    PreTrainedModel,
    StoppingCriteriaList,
)

from hb_metrics.collect.replies.decoding_settings import CLOSE, Decoded, Decoding
from hb_metrics.collect.replies.forward import Forward
from hb_metrics.collect.replies.sampling import draw, index_of_highest, not_finite, table_of
from hb_metrics.models.architecture import decoder_start, first_position
from hb_metrics.models.contexts import EndTokens
from hb_metrics.models.float32 import is_exact
from hb_metrics.models.processes import input_device

# When this share of a batch's replies is finished, they are removed from the batch. Removal copies the remaining rows,
# which takes about a fifth of the time of a step.
_SHARE_OVER = 1 / 8


class NextLogits(Protocol):
    """Computes the logits from which the next tokens of a batch's replies are chosen, as `forward.Forward` does."""

    def first(self) -> torch.Tensor: ...
    def next(self, tokens: torch.Tensor) -> torch.Tensor: ...
    def select(self, rows: torch.Tensor) -> None: ...


def decode(
    model: PreTrainedModel,
    contexts: Sequence[Sequence[int]],
    decoding: Decoding,
    ends: EndTokens,
    keys: np.ndarray | None = None,
    limits: Sequence[int] | None = None,
    cached: bool = True,
    start: Callable[..., NextLogits] = Forward,
) -> list[Decoded]:
    """Decodes a reply to each context. In float32 and float64, a reply does not depend on the other contexts.

    Args:
        model: A causal model, or a model with an encoder and a decoder.
        contexts: [contexts] The token ids of the model's inputs.
        decoding: The decoding settings.
        ends: The tokens that end a reply.
        keys: [contexts, max_reasoning_tokens + max_new_tokens] Random int64 numbers, needed only for sampling.
        limits: [contexts] The maximum length of each reply. Beam search does not support these limits.
        cached: Whether the model caches keys and values from token to token (see `forward.decoding_paths`).
        start: Makes the object that computes a batch's logits. Beam search does not use it.
    """
    if not contexts:
        return []
    if decoding.num_beams > 1:
        return [_beam_search(model, context, decoding, ends, cached=cached) for context in contexts]
    limits = [decoding.max_new_tokens] * len(contexts) if limits is None else limits
    drawn = torch.as_tensor(keys, dtype=torch.int64, device=input_device(model)) if decoding.sample else None

    def replies(rows: slice, most: int | None = None) -> list[Reply]:
        forward = start(model, contexts[rows], cached=cached)
        started = [Reply(decoding, ends, limit, most) for limit in limits[rows]]
        _write(started, forward, decoding, ends, None if drawn is None else drawn[rows])
        return started

    decoded = replies(slice(None))
    if len(contexts) > 1 and is_exact(model):
        for row, reply in enumerate(decoded):
            if reply.close:
                (alone,) = replies(slice(row, row + 1), reply.close)
                if alone.tokens != reply.tokens[: reply.close]:  # else no later decision was close
                    (decoded[row],) = replies(slice(row, row + 1), reply.most)
    return [Decoded(reply.tokens, reply.truncated) for reply in decoded]


class Reply:
    """A reply, with its thought, while it is being decoded.

    Attributes:
        begun: Whether the reply contains a word.
        close: The number of tokens up to the last close decision (see `CLOSE`).
        most: The maximum number of tokens in the thought and the reply together.
    """

    def __init__(self, decoding: Decoding, ends: EndTokens, limit: int, most: int | None = None) -> None:
        self.decoding, self.ends, self.limit = decoding, ends, limit
        self.reader = ends.reader()
        self.most = limit + decoding.max_reasoning_tokens if most is None else most
        # If the marks around the model's thoughts are unknown, the maximum length of replies also applies to thoughts.
        is_known = ends.thoughts is not None or decoding.max_reasoning_tokens
        self.budget = decoding.max_reasoning_tokens if is_known else decoding.max_new_tokens
        self.tokens: list[int] = []
        self.close = 0
        self.begun = self.is_over = False
        self.truncated = True

    @property
    def too_short(self) -> bool:
        # End tokens are excluded only after the first word. Excluding them earlier would change how replies begin.
        return self.begun and len(self.tokens) - self.reader.start < self.decoding.min_new_tokens

    def add(self, token: int, is_close: bool) -> None:
        if self.is_over:
            return
        ends, reader = self.ends, self.reader
        is_thought, had_begun = reader.is_thinking, self.begun
        self.tokens.append(token)
        number = len(self.tokens)
        if is_close:
            self.close = number
        if not reader.is_done:
            reader.read(token)
        if ends.pieces:
            self.begun = reader.has_begun
        elif token not in ends.marks and token not in ends.blank:
            self.begun = True
        length = number - reader.start
        if is_thought:
            is_dropped, is_end = ends.thoughts is not None and token in ends.thoughts.ends, False
        else:
            is_dropped = token in ends.dropped or (had_begun and token in ends.marks)
            is_sentence = self.decoding.end_after_sentence and length >= self.decoding.min_new_tokens
            is_end = self.begun and (token in ends.kept or (is_sentence and token in ends.sentence))
        if is_dropped:
            self.tokens.pop()
        self.truncated = not (is_dropped or is_end)
        is_full = length >= (self.budget if reader.is_thinking else self.limit) or number >= self.most
        self.is_over = is_full or not self.truncated


def _write(
    replies: Sequence[Reply],
    forward: NextLogits,
    decoding: Decoding,
    ends: EndTokens,
    drawn: torch.Tensor | None,
) -> None:
    """Decodes replies by greedy search or by sampling, until all of them are over."""
    rows = list(range(len(replies)))  # the replies in the batch
    logits = forward.first()
    is_end = table_of([*ends.dropped, *ends.marks, *ends.kept], logits.shape[1], logits.device)
    for step in range(max(reply.most for reply in replies)):
        here = [replies[row] for row in rows]
        logits = logits.float()
        highest = logits.amax(1)
        logits = allowed_next(logits, here, is_end)
        if drawn is None:
            chosen, is_close = index_of_highest(logits, CLOSE)
        else:
            chosen, is_close = draw(logits, drawn[:, step], **decoding.sampling, close=CLOSE)
        # The program waits for the device only here.
        tokens, close, finite = torch.stack([chosen, is_close.long(), highest.isfinite().long()]).tolist()
        if not all(finite):
            raise not_finite(highest)
        for reply, token, decision in zip(here, tokens, close, strict=True):
            reply.add(token, bool(decision))
        going = [place for place, reply in enumerate(here) if not reply.is_over]
        if len(going) <= (1 - _SHARE_OVER) * len(rows):
            if not going:
                return
            kept = torch.tensor(going, device=logits.device)
            rows, chosen, drawn = [rows[place] for place in going], chosen[kept], None if drawn is None else drawn[kept]
            forward.select(kept)
        logits = forward.next(chosen)


def allowed_next(logits: torch.Tensor, replies: Sequence[Reply], is_end: torch.Tensor) -> torch.Tensor:
    """Returns the logits [replies, vocabulary], with -inf for the ends of replies that are too short.

    `is_end` is [vocabulary].
    """
    if not replies[0].decoding.min_new_tokens:
        return logits
    short = torch.tensor([[reply.too_short] for reply in replies], device=logits.device)
    return logits.masked_fill(is_end & short, -torch.inf)


def _beam_search(
    model: PreTrainedModel, context: Sequence[int], decoding: Decoding, ends: EndTokens, *, cached: bool
) -> Decoded:
    """Decodes the reply to one context by the beam search of transformers, with `early_stopping=False`."""
    device = input_device(model)
    inputs = torch.tensor([context], device=device)
    start = decoder_start(model) if model.config.is_encoder_decoder else []
    if start:
        read = {"decoder_input_ids": torch.tensor([start], device=device)}
    elif first := first_position(model):  # `generate` would count from 0
        read = {"position_ids": torch.arange(first, first + len(context), device=device)[None]}
    else:
        read = {}
    num_read = len(start or context)
    restrict, has_ended = _rules(decoding, ends, num_read, model.get_output_embeddings().weight.shape[0], device)
    # `generate` would add settings from the model's own generation_config.
    writer = copy(model)
    writer.generation_config = GenerationConfig()
    output = writer.generate(
        inputs,
        attention_mask=torch.ones_like(inputs),
        generation_config=GenerationConfig(
            num_beams=decoding.num_beams,
            do_sample=False,
            max_new_tokens=decoding.max_new_tokens,
            length_penalty=decoding.length_penalty,
            decoder_start_token_id=start[0] if start else None,
            use_cache=cached and not model._is_stateful,
        ),
        logits_processor=LogitsProcessorList([restrict]),
        stopping_criteria=StoppingCriteriaList([has_ended]),
        **read,
    )
    reply = output[0, num_read:].tolist()
    over = bool(has_ended(output, None))
    is_dropped = over and reply[-1] in {*ends.dropped, *ends.marks}
    return Decoded(reply[:-1] if is_dropped else reply, truncated=not over)


def _rules(
    decoding: Decoding, ends: EndTokens, num_read: int, size: int, device: torch.device
) -> tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor]]:
    """Returns the functions that exclude next tokens and that find ended replies.

    The options of `generate` would end a reply at a line break before its first word, and block n-grams of the context,
    which the paper allows (Smith et al., 2022, A.4).
    """
    dropped, marks, kept = (table_of(ids, size, device) for ids in (ends.dropped, ends.marks, ends.kept))
    passed = table_of([*ends.marks, *ends.blank], size, device)

    def ending(replies: torch.Tensor) -> torch.Tensor:  # [rows, vocabulary]
        begun = ~passed[replies].all(1, keepdim=True)
        return dropped | ((marks | kept) & (begun | ~passed))

    def restrict(tokens: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        highest, replies = scores.amax(1), tokens[:, num_read:]
        if not highest.isfinite().all():
            raise not_finite(highest)
        if replies.shape[1] < decoding.min_new_tokens:
            scores = scores.masked_fill(ending(replies), -torch.inf)
        if decoding.no_repeat_ngram_size:
            return NoRepeatNGramLogitsProcessor(decoding.no_repeat_ngram_size)(replies, scores)
        return scores

    def has_ended(tokens: torch.Tensor, scores: object) -> torch.Tensor:  # [rows]
        replies = tokens[:, num_read:]
        return ending(replies[:, :-1]).gather(1, replies[:, -1:])[:, 0]

    return restrict, has_ended
