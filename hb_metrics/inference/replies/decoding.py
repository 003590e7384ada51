"""Decoding: from contexts as token ids to replies as token ids, the same in whatever batch a context is.

Greedy search, sampling and beam search. The numbers a model gives for a row move in their last bits with the rows and
the padding beside it, and a decision between two candidates that are closer than that may fall either way. Every
decision is therefore watched: a context with one that was too close is run again alone, and that reply counts. Sampling
has a random key for each token of a reply, from a generator that belongs to the prompt (see `sampling.py`).

Contexts of one length need no padding. Those of several are decoded together where a trial shows that the model can
(`trials.takes_padding`), since a CPU computes a token in large batches in half the time it takes in small ones.
"""

from collections.abc import Sequence
from functools import partial

import numpy as np
import torch
from transformers import PreTrainedModel

from hb_metrics.inference.devices import input_device
from hb_metrics.inference.models.contexts import EndTokens
from hb_metrics.inference.models.quantization import is_exact
from hb_metrics.inference.models.thoughts import ReplyReader
from hb_metrics.inference.replies.allowed_tokens import allowed, blocker_of, not_finite, table_of
from hb_metrics.inference.replies.beam_search import beam_search
from hb_metrics.inference.replies.decoding_settings import CLOSE, Decoded, Decoding
from hb_metrics.inference.replies.forward import Forward
from hb_metrics.inference.replies.sampling import draw, index_of_highest

# Rows whose reply is over are left out of the batch once they are this share of it: what stays is then copied, which
# takes about as long as a fifth of a step.
_SHARE_OVER = 1 / 8


def decode(
    model: PreTrainedModel,
    contexts: Sequence[Sequence[int]],
    decoding: Decoding,
    ends: EndTokens,
    keys: np.ndarray | None = None,
    padded: bool = False,
    limits: Sequence[int] | None = None,
    cached: bool = True,
) -> list[Decoded]:
    """Decodes a reply to each context.

    Args:
        model: A causal model, or an encoder–decoder one whose encoder is given the contexts.
        contexts: Token ids, all of one length unless `padded`.
        decoding: How.
        ends: What ends a reply.
        keys: [contexts, max_reasoning_tokens + max_new_tokens] random int64 numbers, when sampling (`draw_keys`).
        padded: Whether shorter contexts are padded: only for a model that `trials.takes_padding`.
        limits: [contexts] at how many tokens each reply is cut, at most `max_new_tokens`; `None`: all at that. Not
            with beams.
        cached: Whether keys and values are kept from token to token: only for a model that `trials.takes_cache`.

    Returns:
        The replies in order. In float32 and float64 they do not depend on which contexts are decoded together.

    Raises:
        ValueError: A score is NaN or infinite.
    """
    if not contexts:
        return []
    device = input_device(model)
    drawn = None if keys is None else torch.as_tensor(keys, dtype=torch.int64, device=device)
    most = torch.tensor([decoding.max_new_tokens] * len(contexts) if limits is None else limits, device=device)
    whole = most + decoding.max_reasoning_tokens  # thought and reply
    run = partial(beam_search if decoding.num_beams > 1 else _one_by_one, cached=cached)
    decoded, close = run(model, contexts, decoding, ends, drawn, most, whole)
    if len(contexts) > 1 and is_exact(model):
        for row in np.flatnonzero(close).tolist():
            one = slice(row, row + 1)
            mine = None if drawn is None else drawn[one]
            until = torch.tensor(close[one], device=device)
            (alone,), _ = run(model, contexts[one], decoding, ends, mine, most[one], until)
            if until < whole[row]:
                if alone.tokens == decoded[row].tokens[: close[row]]:  # then what follows holds, too
                    continue
                (alone,), _ = run(model, contexts[one], decoding, ends, mine, most[one], whole[one])
            decoded[row] = alone
    return decoded


def _one_by_one(
    model: PreTrainedModel,
    contexts: Sequence[Sequence[int]],
    decoding: Decoding,
    ends: EndTokens,
    drawn: torch.Tensor | None,
    most: torch.Tensor,
    until: torch.Tensor,
    *,
    cached: bool,
) -> tuple[list[Decoded], np.ndarray]:
    """Greedy decoding and sampling.

    Args:
        model: As `decode`, like those below that are not named here.
        contexts: Token ids.
        decoding: How.
        ends: What ends a reply.
        drawn: The random keys.
        most: [contexts] tokens of each reply at most.
        until: [contexts] tokens of each thought and reply together at most.
        cached: Whether keys and values are kept.

    Returns:
        The replies, and [contexts] how many tokens there are up to the last one that a close decision was about.
    """
    device = input_device(model)
    num, thinks = len(contexts), ends.thoughts is not None
    size = decoding.max_new_tokens + decoding.max_reasoning_tokens
    # A model that is not known to think may think for as long as it may reply.
    budget = decoding.max_reasoning_tokens if thinks or decoding.max_reasoning_tokens else decoding.max_new_tokens
    close = torch.zeros(num, dtype=torch.int64, device=device)
    replies = torch.zeros(num, size, dtype=torch.int64, device=device)
    lengths = until.clone()
    truncated = torch.ones(num, dtype=torch.bool, device=device)
    readers = [ends.reader() for _ in range(num)] if ends.pieces else []
    reading = bool(readers)
    begun = torch.zeros(num, dtype=torch.bool, device=device)  # replies with a word
    thinking = torch.full((num,), thinks and readers[0].is_thinking, device=device)
    starts = torch.zeros(num, dtype=torch.int64, device=device)  # where the reply begins, after thoughts and marks
    forward = Forward(model, contexts, cached=cached)
    logits = forward.first()
    width = logits.shape[1]
    dropped, marks, kept, sentence = (
        table_of(ids, width, device) for ids in (ends.dropped, ends.marks, ends.kept, ends.sentence)
    )
    is_end = dropped | marks | kept
    passed = table_of([*ends.marks, *ends.blank], width, device)
    thought_ends = table_of(ends.dropped if ends.thoughts is None else ends.thoughts.ends, width, device)
    blocker = blocker_of(decoding)
    rows = torch.arange(num, device=device)  # the contexts in the batch
    going = torch.ones(num, dtype=torch.bool, device=device)  # those of them still being answered
    for step in range(size):
        logits = logits.float()
        highest = logits.amax(1)
        # Only of a reply that has begun: what is forbidden before would push the model off what it begins with.
        short = None
        if decoding.min_new_tokens:
            short = (begun[rows] & (step - starts[rows] < decoding.min_new_tokens))[:, None]
        replying = torch.where(thinking[rows], step, starts[rows])
        logits = allowed(logits, replies[rows, :step], blocker, replying, is_end, short)
        if decoding.sample:
            assert drawn is not None
            chosen, was_close = draw(
                logits,
                drawn[rows, step],
                temperature=decoding.temperature,
                top_k=decoding.top_k,
                top_p=decoding.top_p,
                close=CLOSE,
            )
        else:
            chosen, was_close = index_of_highest(logits, CLOSE)
        close[rows] = torch.where(was_close & going, step + 1, close[rows])
        replies[rows, step] = chosen
        is_thought, had_begun = thinking[rows], begun[rows]
        begun[rows] |= ~passed[chosen] & ~is_thought
        if reading:
            reading = _read(readers, rows, chosen, thinking, starts, begun)
        is_dropped = torch.where(is_thought, thought_ends[chosen], dropped[chosen] | (marks[chosen] & had_begun))
        over = kept[chosen] & begun[rows]
        if decoding.end_after_sentence:
            over |= sentence[chosen] & begun[rows] & (step + 1 - starts[rows] >= decoding.min_new_tokens)
        over = going & (is_dropped | (over & ~is_thought))
        full = step + 1 - starts[rows] >= torch.where(thinking[rows], budget, most[rows])
        stopped = going & (over | full | (step + 1 >= until[rows]))
        lengths[rows] = torch.where(stopped, step + 1 - (is_dropped & over).long(), lengths[rows])
        truncated[rows] &= ~over
        going &= ~stopped
        # The one time in a step that the device is waited for, once all replies have begun.
        num_going, num_broken = torch.stack([going.sum(), (~highest.isfinite()).sum()]).tolist()
        if num_broken:
            raise not_finite(highest)
        if not num_going:
            break
        if num_going <= (1 - _SHARE_OVER) * len(rows):
            kept_rows = going.nonzero()[:, 0]
            rows, chosen, going = rows[kept_rows], chosen[kept_rows], going[kept_rows]
            forward.select(kept_rows)
        logits = forward.next(chosen)
    decoded = [
        Decoded(reply[:length], cut)
        for reply, length, cut in zip(replies.tolist(), lengths.tolist(), truncated.tolist(), strict=True)
    ]
    return decoded, close.cpu().numpy()


def _read(
    readers: list[ReplyReader],
    rows: torch.Tensor,
    chosen: torch.Tensor,
    thinking: torch.Tensor,
    starts: torch.Tensor,
    begun: torch.Tensor,
) -> bool:
    """Notes which rows think after the chosen tokens and where replies begin; returns whether any is still to read."""
    states = []
    for row, token in torch.stack([rows, chosen], 1).tolist():
        reader = readers[row]
        if not reader.is_done:
            reader.read(token)
        states.append((reader.start, reader.is_thinking, reader.has_begun))
    found = torch.tensor(states, device=rows.device)
    starts[rows], thinking[rows], begun[rows] = found[:, 0], found[:, 1].bool(), found[:, 2].bool()
    return not all(reader.is_done for reader in readers)
