"""Decodes replies to contexts. A reply does not depend on the batch in which it is decoded.

The other contexts in a batch change the last bits of a context's logits. If two tokens are almost equally likely, these
small changes may reverse the choice between them. A context with such a close decision is therefore decoded again by
itself, and the second reply is used.

If the model supports padding (see `trials.decoding_paths`), contexts of different lengths are decoded together. In
large batches on CPU, joint decoding halves the time per token.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
import torch
from transformers import PreTrainedModel

from hb_metrics.collect.replies.allowed_tokens import allowed, not_finite, table_of
from hb_metrics.collect.replies.beam_search import beam_search
from hb_metrics.collect.replies.decoding_settings import CLOSE, Decoded, Decoding
from hb_metrics.collect.replies.forward import Forward, States
from hb_metrics.collect.replies.sampling import draw, index_of_highest
from hb_metrics.models.contexts import EndTokens
from hb_metrics.models.devices import input_device
from hb_metrics.models.quantization import is_exact
from hb_metrics.models.thoughts import ReplyReader

# When this share of a batch's replies is finished, they are removed from the batch. Removal copies the remaining rows,
# which takes about a fifth of the time of a step.
_SHARE_OVER = 1 / 8
# A function that takes a batch, the row of a finished reply in the batch, and the index of this row's context.
Keep = Callable[[Forward, int, int], None]


def decode(
    model: PreTrainedModel,
    contexts: Sequence[Sequence[int]],
    decoding: Decoding,
    ends: EndTokens,
    keys: np.ndarray | None = None,
    limits: Sequence[int] | None = None,
    cached: bool = True,
    states: Sequence[States | None] = (),
    keep: Keep | None = None,
) -> list[Decoded]:
    """Decodes a reply to each context. In float32 and float64, a reply does not depend on the other contexts.

    Args:
        model: A causal model, or a model with an encoder and a decoder.
        contexts: [contexts] The token ids of the model's inputs.
        decoding: The decoding settings.
        ends: The tokens that end a reply.
        keys: [contexts, max_reasoning_tokens + max_new_tokens] Random int64 numbers, needed only for sampling.
        limits: [contexts] The maximum length of each reply. Beam search does not support these limits.
        cached: Whether the model caches keys and values from token to token (see `trials.decoding_paths`).
        states: [contexts] The states of earlier turns (see `Forward`). Beam search does not use them.
        keep: A function that stores the states of this turn. Beam search does not call it.
    """
    if not contexts:
        return []
    if decoding.num_beams > 1:
        return [beam_search(model, context, decoding, ends, cached=cached) for context in contexts]
    device = input_device(model)
    drawn = None if keys is None else torch.as_tensor(keys, dtype=torch.int64, device=device)
    most = torch.tensor([decoding.max_new_tokens] * len(contexts) if limits is None else limits, device=device)
    whole = most + decoding.max_reasoning_tokens  # thought and reply
    run = partial(_one_by_one, cached=cached)
    decoded, close = run(model, contexts, decoding, ends, drawn, most, whole, states=states, keep=keep)
    if (len(contexts) > 1 or any(states)) and is_exact(model):
        for row in np.flatnonzero(close).tolist():
            one = slice(row, row + 1)
            mine = None if drawn is None else drawn[one]
            until = torch.tensor(close[one], device=device)
            (alone,), _ = run(model, contexts[one], decoding, ends, mine, most[one], until)
            if until < whole[row]:
                if alone.tokens == decoded[row].tokens[: close[row]]:  # no later decision was close
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
    states: Sequence[States | None] = (),
    keep: Keep | None = None,
) -> tuple[list[Decoded], np.ndarray]:
    """Decodes by greedy search or by sampling.

    `most` [contexts] limits the number of tokens in a reply. `until` [contexts] limits the number of tokens in a
    thought and its reply together.

    Returns:
        The replies, and the number of tokens in each reply up to the last close decision (see `CLOSE`).
    """
    device = input_device(model)
    num, thinks = len(contexts), ends.thoughts is not None
    size = decoding.max_new_tokens + decoding.max_reasoning_tokens
    # If the marks around the model's thoughts are unknown, the maximum length of replies also applies to thoughts.
    budget = decoding.max_reasoning_tokens if thinks or decoding.max_reasoning_tokens else decoding.max_new_tokens
    close = torch.zeros(num, dtype=torch.int64, device=device)
    replies = torch.zeros(num, size, dtype=torch.int64, device=device)
    lengths = until.clone()
    truncated = torch.ones(num, dtype=torch.bool, device=device)
    readers = [ends.reader() for _ in range(num)] if ends.pieces else []
    reading = bool(readers)
    begun = torch.zeros(num, dtype=torch.bool, device=device)  # whether the reply contains a word
    thinking = torch.full((num,), thinks and readers[0].is_thinking, device=device)
    starts = torch.zeros(num, dtype=torch.int64, device=device)  # the start of the reply, after thoughts and marks
    forward = Forward(model, contexts, cached=cached, states=states)
    logits = forward.first()
    width = logits.shape[1]
    dropped, marks, kept, sentence = (
        table_of(ids, width, device) for ids in (ends.dropped, ends.marks, ends.kept, ends.sentence)
    )
    is_end = dropped | marks | kept
    passed = table_of([*ends.marks, *ends.blank], width, device)
    thought_ends = table_of(ends.dropped if ends.thoughts is None else ends.thoughts.ends, width, device)
    rows = torch.arange(num, device=device)  # the contexts in the batch
    going = torch.ones(num, dtype=torch.bool, device=device)  # whether their replies are unfinished
    for step in range(size):
        logits = logits.float()
        highest = logits.amax(1)
        # End tokens are excluded only after a reply's first word. Excluding them earlier would change how replies
        # begin.
        short = None
        if decoding.min_new_tokens:
            short = (begun[rows] & (step - starts[rows] < decoding.min_new_tokens))[:, None]
        replying = torch.where(thinking[rows], step, starts[rows])
        logits = allowed(logits, replies[rows, :step], decoding.no_repeat_ngram_size, replying, is_end, short)
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
        # After all replies have begun, the program waits for the device only here.
        num_going, num_broken = torch.stack([going.sum(), (~highest.isfinite()).sum()]).tolist()
        if num_broken:
            raise not_finite(highest)
        if num_going <= (1 - _SHARE_OVER) * len(rows):
            if keep is not None:
                for row, index in torch.stack([torch.arange(len(rows), device=device), rows], 1)[~going].tolist():
                    keep(forward, row, index)
            if not num_going:
                break
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
    """Passes the chosen tokens to the readers, and updates `thinking`, `starts` and `begun`.

    Returns whether a reader still needs tokens.
    """
    states = []
    for row, token in torch.stack([rows, chosen], 1).tolist():
        reader = readers[row]
        if not reader.is_done:
            reader.read(token)
        states.append((reader.start, reader.is_thinking, reader.has_begun))
    columns = torch.tensor(states, device=rows.device).T
    starts[rows], thinking[rows], begun[rows] = columns[0], columns[1].bool(), columns[2].bool()
    return not all(reader.is_done for reader in readers)
