"""Decoding: from contexts as token ids to replies as token ids, the same in whatever batch a context is.

Greedy search, sampling and beam search. The numbers a model gives for a row move in their last bits with the rows and
the padding beside it, and a decision between two candidates that are closer than that may fall either way. Every
decision is therefore watched: a context with one that was too close is run again alone, and that reply counts. Sampling
has a random key for each token of a reply, from a generator that belongs to the prompt (see `sampling.py`).

Contexts of one length need no padding. Those of several are decoded together where a trial shows that the model can
(`takes_padding`), since a CPU computes a token in large batches in half the time it takes in small ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import NamedTuple

import numpy as np
import torch
from transformers import LogitsProcessor, PreTrainedModel

from hb_metrics.inference.models.chats import ThoughtReader
from hb_metrics.inference.models.contexts import EndTokens
from hb_metrics.inference.replies.forward import Forward
from hb_metrics.inference.replies.sampling import draw, index_of_highest

# How close two candidates may be before the decision counts as close, in log-probability (of whole beams in beam
# search). In float32, rows and padding beside a row move the log-probabilities of the embedded model by up to 8e-5 (96
# contexts, 24 tokens each).
CLOSE = 2e-4
# Rows whose reply is over are left out of the batch once they are this share of it: what stays is then copied, which
# takes about as long as a fifth of a step.
_SHARE_OVER = 1 / 8
_NEVER = -1e9

NOT_FINITE_ERROR = (
    "the model gives {value} as the score of the likeliest next token; try dtype float32, or check the weights"
)


@dataclass(frozen=True, kw_only=True)
class Decoding:
    """How replies are decoded.

    Attributes:
        num_beams: 1: one token after the other; more: beam search.
        sample: Whether tokens are drawn at random; only without beams.
        temperature, top_k, top_p: Of sampling: logits are divided by the temperature, then only the `top_k` likeliest
            tokens and of those the fewest with a total probability of at least `top_p` are drawn from.
        min_new_tokens: A reply does not end before it has so many tokens.
        max_new_tokens: A reply is cut when it has so many tokens.
        max_reasoning_tokens: A thought before the reply is given up when it has so many tokens, and there is no reply.
        no_repeat_ngram_size: No sequence of so many tokens comes twice in a reply; 0: not blocked.
        length_penalty: Beam scores are summed log-probabilities / length ** length_penalty.
        end_after_sentence: Whether a reply ends with the first sentence that ends after `min_new_tokens`.
    """

    num_beams: int = 1
    sample: bool = False
    temperature: float = 1.0
    top_k: int = 50
    top_p: float = 1.0
    min_new_tokens: int = 1
    max_new_tokens: int = 60
    no_repeat_ngram_size: int = 0
    length_penalty: float = 1.0
    end_after_sentence: bool = False
    max_reasoning_tokens: int = 0

    def __post_init__(self) -> None:
        """Raises a ValueError that names the first setting that is out of range or contradicts another."""
        whole = {"num_beams": 1, "top_k": 1, "min_new_tokens": 0, "max_new_tokens": 1, "no_repeat_ngram_size": 0}
        whole["max_reasoning_tokens"] = 0
        for name, lowest in whole.items():
            if getattr(self, name) < lowest:
                raise ValueError(f"{name} is {getattr(self, name)}; give at least {lowest}")
        if self.min_new_tokens > self.max_new_tokens:
            raise ValueError(
                f"min_new_tokens is {self.min_new_tokens}, more than max_new_tokens {self.max_new_tokens}; lower the "
                "first, or raise the second"
            )
        if not 0 < self.temperature < inf:  # which NaN is not, either
            raise ValueError(f"temperature is {self.temperature}; give more than 0, or decode greedily")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p is {self.top_p}; give more than 0 and at most 1")
        if self.sample and self.num_beams > 1:
            raise ValueError(f"sampling with num_beams {self.num_beams}: draw with num_beams 1, or do not sample")


class Decoded(NamedTuple):
    """A reply as tokens, with the thought before it, and whether it was cut at `max_new_tokens`."""

    tokens: list[int]
    truncated: bool


class ResponseNgramBlocker(LogitsProcessor):
    """Blocks n-grams that the *response* already has; those of the prompt may come again.

    `no_repeat_ngram_size` of transformers counts the prompt as well on decoder-only models. The paper blocks 3-grams
    "within the response but not the context" (Smith et al., 2022, A.4).

    Args:
        ngram_size: n.
        context_length: Tokens at the start of `input_ids` that belong to the context.
    """

    def __init__(self, ngram_size: int, context_length: int) -> None:
        if ngram_size < 1:
            raise ValueError(f"ngram_size is {ngram_size}; give at least 1")
        self.ngram_size = ngram_size
        self.context_length = context_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Sets the scores ([rows, vocabulary]) of tokens that would complete a repeated n-gram to -inf."""
        return scores.masked_fill(self.blocked(input_ids[:, self.context_length :], scores.shape[1]), -torch.inf)

    def blocked(self, response: torch.Tensor, vocabulary_size: int) -> torch.Tensor:
        """Which tokens would repeat an n-gram: [rows, vocabulary] bool for responses of [rows, length]."""
        # One column more, for the n-grams that would not be repeated: looking for the others would wait for the device.
        blocked = torch.zeros(len(response), vocabulary_size + 1, dtype=torch.bool, device=response.device)
        size, length = self.ngram_size, response.shape[1]
        if length >= size:
            ngrams = response.unfold(1, size, 1)  # [rows, length - size + 1, size]
            repeats = (ngrams[:, :, :-1] == response[:, None, length - size + 1 :]).all(-1)
            blocked.scatter_(1, ngrams[:, :, -1].where(repeats, vocabulary_size), True)
        return blocked[:, :-1]


def decode(
    model: PreTrainedModel,
    contexts: Sequence[Sequence[int]],
    decoding: Decoding,
    ends: EndTokens,
    keys: np.ndarray | None = None,
    padded: bool = False,
    limits: Sequence[int] | None = None,
) -> list[Decoded]:
    """Decodes a reply to each context.

    Args:
        model: A causal model, or an encoder–decoder one whose encoder is given the contexts.
        contexts: Token ids, all of one length unless `padded`.
        decoding: How.
        ends: What ends a reply.
        keys: [contexts, max_reasoning_tokens + max_new_tokens] random int64 numbers, when sampling (`draw_keys`).
        padded: Whether shorter contexts are padded: only for a model that `takes_padding`.
        limits: [contexts] at how many tokens each reply is cut, at most `max_new_tokens`; `None`: all at that. Not
            with beams.

    Returns:
        The replies in order. In float32 and float64 they do not depend on which contexts are decoded together.

    Raises:
        ValueError: The contexts are not of one length, there are no keys to sample with, or beam search is
            given blank tokens or limits.
    """
    lengths = {len(context) for context in contexts}
    if len(lengths) > 1 and not padded:
        raise ValueError(f"contexts of {len(lengths)} lengths; decode those of one length together")
    if decoding.sample and keys is None:
        raise ValueError("sampling needs random keys for each context")
    if decoding.num_beams > 1 and (ends.blank or ends.thoughts is not None or limits is not None):
        raise ValueError("blank tokens, thoughts and limits are for num_beams 1 only; leave them out")
    if not contexts:
        return []
    drawn = None if keys is None else torch.as_tensor(keys, dtype=torch.int64, device=model.device)
    most = torch.tensor([decoding.max_new_tokens] * len(contexts) if limits is None else limits, device=model.device)
    whole = most if ends.thoughts is None else most + decoding.max_reasoning_tokens  # thought and reply
    run = _beam_search if decoding.num_beams > 1 else _one_by_one
    decoded, close = run(model, contexts, decoding, ends, drawn, most, whole)
    if len(contexts) > 1 and is_invariant(model):
        for row in np.flatnonzero(close).tolist():
            one = slice(row, row + 1)
            mine = None if drawn is None else drawn[one]
            until = torch.tensor(close[one], device=model.device)
            (alone,), _ = run(model, contexts[one], decoding, ends, mine, most[one], until)
            if until < whole[row]:
                if alone.tokens == decoded[row].tokens[: close[row]]:  # then what follows holds, too
                    continue
                (alone,), _ = run(model, contexts[one], decoding, ends, mine, most[one], whole[one])
            decoded[row] = alone
    return decoded


def takes_padding(model: PreTrainedModel, contexts: Sequence[Sequence[int]]) -> bool:
    """Whether contexts of several lengths can be decoded together: tried on the shortest and the longest.

    Whether an architecture honours padding and position ids cannot be read off its class: some raise, some silently
    compute something else. In half precision replies depend on their batch, which is then kept as plain as can be.
    """
    ordered = sorted(contexts, key=len)
    if not ordered or len(ordered[0]) == len(ordered[-1]) or model.config.is_encoder_decoder or not is_invariant(model):
        return False
    trial = [ordered[0], ordered[-1]]

    def log_probs(given: Sequence[Sequence[int]]) -> torch.Tensor:
        """After the context, and after one more token: [2, contexts, vocabulary]."""
        forward = Forward(model, given, 2)
        first = forward.first()
        more = torch.tensor([context[-1] for context in given], device=first.device)
        return torch.stack([first, forward.next(more)]).float().log_softmax(2)

    try:
        with torch.inference_mode():
            together = log_probs(trial)
            alone = torch.cat([log_probs([context]) for context in trial], 1)
    except Exception:  # noqa: BLE001 - whatever it is, contexts of one length are then decoded together
        return False
    return bool((together - alone).abs().max() < CLOSE / 2)  # two candidates can move towards each other


def is_invariant(model: PreTrainedModel) -> bool:
    """Whether replies are the same in any batch: in half precision close decisions are too many to run again."""
    return model.dtype in (torch.float32, torch.float64)


def _one_by_one(
    model: PreTrainedModel,
    contexts: Sequence[Sequence[int]],
    decoding: Decoding,
    ends: EndTokens,
    drawn: torch.Tensor | None,
    most: torch.Tensor,
    until: torch.Tensor,
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

    Returns:
        The replies, and [contexts] how many tokens there are up to the last one that a close decision was about.
    """
    device = model.device
    num, thoughts = len(contexts), ends.thoughts
    size = decoding.max_new_tokens + (0 if thoughts is None else decoding.max_reasoning_tokens)
    close = torch.zeros(num, dtype=torch.int64, device=device)
    replies = torch.zeros(num, size, dtype=torch.int64, device=device)
    lengths = until.clone()
    truncated = torch.ones(num, dtype=torch.bool, device=device)
    blocker = _blocker(decoding)
    dropped, kept, sentence = (torch.tensor(ids, dtype=torch.int64, device=device) for ids in _ids(ends))
    blank = torch.tensor(ends.blank, dtype=torch.int64, device=device)
    nonblank = torch.zeros(num, dtype=torch.bool, device=device)  # replies with another token than blank ones
    readers = [] if thoughts is None else [ThoughtReader(thoughts) for _ in range(num)]
    thought_ends = torch.tensor(() if thoughts is None else thoughts.ends, dtype=torch.int64, device=device)
    thinking = torch.full((num,), thoughts is not None and thoughts.is_opened, device=device)
    starts = torch.zeros(num, dtype=torch.int64, device=device)  # where the reply begins, after the last thought
    forward = Forward(model, contexts, size)
    logits = forward.first()
    rows = torch.arange(num, device=device)  # the contexts in the batch
    going = torch.ones(num, dtype=torch.bool, device=device)  # those of them still being answered
    for step in range(size):
        logits = logits.float()
        highest = logits.amax(1)
        if thoughts is None:
            logits = _allowed(logits, replies[rows, :step], blocker, decoding, (dropped, kept), step)
        else:
            replying = torch.where(thinking[rows], step, starts[rows])
            logits = _allowed_after_thoughts(
                logits,
                replies[rows, :step],
                blocker,
                decoding,
                (dropped, kept),
                replying,
                thinking[rows],
                nonblank[rows],
            )
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
        is_thought = thinking[rows]
        is_dropped = torch.isin(chosen, dropped)
        if thoughts is not None:
            is_dropped = torch.where(is_thought, torch.isin(chosen, thought_ends), is_dropped)
        nonblank[rows] |= ~torch.isin(chosen, blank)
        over = is_dropped | (torch.isin(chosen, kept) & nonblank[rows] & ~is_thought)
        if decoding.end_after_sentence:
            long_enough = step + 1 - starts[rows] >= decoding.min_new_tokens
            over |= torch.isin(chosen, sentence) & long_enough & ~is_thought
        over &= going
        if thoughts is not None:
            _read_thoughts(readers, rows, chosen, step, thinking, starts, nonblank)
        full = step + 1 - starts[rows] >= torch.where(thinking[rows], decoding.max_reasoning_tokens, most[rows])
        stopped = going & (over | full | (step + 1 >= until[rows]))
        lengths[rows] = torch.where(stopped, step + 1 - (is_dropped & over).long(), lengths[rows])
        truncated[rows] &= ~over
        going &= ~stopped
        # The one time in a step that the device is waited for.
        num_going, num_broken = torch.stack([going.sum(), (~highest.isfinite()).sum()]).tolist()
        if num_broken:
            raise _not_finite(highest)
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


def _read_thoughts(
    readers: list[ThoughtReader],
    rows: torch.Tensor,
    chosen: torch.Tensor,
    step: int,
    thinking: torch.Tensor,
    starts: torch.Tensor,
    nonblank: torch.Tensor,
) -> None:
    """Notes which rows think after the tokens that were chosen, and where the replies of the others begin."""
    for row, token in zip(rows.tolist(), chosen.tolist(), strict=True):
        was_open = readers[row].is_open
        if readers[row].read(token):
            starts[row], nonblank[row], thinking[row] = step + 1, False, False
        elif readers[row].is_open != was_open:
            thinking[row] = True


def _allowed_after_thoughts(
    scores: torch.Tensor,
    replies: torch.Tensor,
    blocker: ResponseNgramBlocker | None,
    decoding: Decoding,
    ends: tuple[torch.Tensor, torch.Tensor],
    starts: torch.Tensor,
    thinking: torch.Tensor,
    nonblank: torch.Tensor,
) -> torch.Tensor:
    """As `_allowed`, with replies that begin at `starts` of each row, perhaps with a blank line after the thought.

    A thought can end whenever the model ends it, and an n-gram of it may stand in the reply.
    """
    step = replies.shape[1]
    short = ~thinking & (step - starts < decoding.min_new_tokens)
    unseen = torch.arange(step, device=scores.device) < starts[:, None]
    # Numbers that no token has, and none twice: the reply may repeat what the model thought.
    replies = torch.where(unseen, -1 - torch.arange(step, device=scores.device), replies)
    scores = _allowed(scores, replies, blocker, decoding, ends, decoding.min_new_tokens)
    for rows, tokens in ((short, ends[0]), (short & nonblank, ends[1])):
        scores[rows.nonzero(), tokens] = -torch.inf
    return scores


def _beam_search(
    model: PreTrainedModel,
    contexts: Sequence[Sequence[int]],
    decoding: Decoding,
    ends: EndTokens,
    drawn: torch.Tensor | None,
    limits: torch.Tensor,
    until: torch.Tensor,
) -> tuple[list[Decoded], np.ndarray]:
    """Beam search as transformers does it (`early_stopping=False`), with an eye on close decisions.

    A context is finished when its best running beam, at its present length, scores below all `num_beams` finished ones.

    Returns:
        The replies, and [contexts] the most tokens there may be for those that had a close decision, 0 for the others.
    """
    del drawn, until
    device, beams, most = model.device, decoding.num_beams, decoding.max_new_tokens
    num = len(contexts)
    close = torch.zeros(num, dtype=torch.bool, device=device)
    running = torch.zeros(num, beams, most, dtype=torch.int64, device=device)
    scores = torch.full((num, beams), _NEVER, device=device)
    scores[:, 0] = 0  # all beams start the same
    finished = torch.zeros(num, beams, most, dtype=torch.int64, device=device)
    finished_scores = torch.full((num, beams), _NEVER, device=device)
    finished_lengths = torch.zeros(num, beams, dtype=torch.int64, device=device)
    finished_truncated = torch.zeros(num, beams, dtype=torch.bool, device=device)
    results: list[Decoded | None] = [None] * num
    blocker = _blocker(decoding)
    dropped, kept, sentence = (torch.tensor(ids, dtype=torch.int64, device=device) for ids in _ids(ends))
    forward = Forward(model, contexts, most, beams)
    logits = forward.first()
    rows = torch.arange(num, device=device)
    for step in range(most):
        log_probs = logits.float().log_softmax(1)
        highest = log_probs.amax(1)
        broken = ~highest.isfinite().view(len(rows), beams).all(1)
        log_probs = _allowed(log_probs, running.flatten(0, 1)[:, :step], blocker, decoding, (dropped, kept), step)
        vocabulary = log_probs.shape[1]
        totals = (log_probs.view(len(rows), beams, vocabulary) + scores[:, :, None]).flatten(1)
        enders = (dropped, kept, sentence) if _sentence_ends(decoding, step) else (dropped, kept)
        is_end = torch.zeros(vocabulary, dtype=torch.bool, device=device)
        is_end[torch.cat(enders)] = True
        last = step + 1 == most

        # Finished: candidates among the best `beams` that end the reply. Running: the best `beams` that do not.
        best, best_indices = totals.topk(beams + 1, dim=1)
        end_here = is_end[best_indices % vocabulary]
        edge = (best[:, -2] - best[:, -1] < CLOSE) & (end_here[:, -2] | end_here[:, -1])
        open_totals = totals if last else totals.view(len(rows), beams, vocabulary).masked_fill(is_end, -torch.inf)
        next_scores, indices = open_totals.flatten(1).topk(beams + 1, dim=1)
        if not last:
            edge |= next_scores[:, -2] - next_scores[:, -1] < CLOSE

        is_finished = torch.ones_like(end_here[:, :-1]) if last else end_here[:, :-1]
        best, best_indices = best[:, :-1], best_indices[:, :-1]
        candidates = running.gather(1, (best_indices // vocabulary)[:, :, None].expand(-1, -1, most)).clone()
        ending = best_indices % vocabulary
        candidates[:, :, step] = ending
        is_dropped = torch.isin(ending, dropped)
        candidate_lengths = step + 1 - is_dropped.long()
        cut = ~is_end[ending]
        candidate_scores = torch.where(is_finished, best / (step + 1) ** decoding.length_penalty, _NEVER)
        finished_scores, order = torch.cat([finished_scores, candidate_scores], 1).topk(beams, dim=1)
        finished = torch.cat([finished, candidates], 1).gather(1, order[:, :, None].expand(-1, -1, most))
        finished_lengths = torch.cat([finished_lengths, candidate_lengths], 1).gather(1, order)
        finished_truncated = torch.cat([finished_truncated, cut], 1).gather(1, order)

        indices, scores = indices[:, :-1], next_scores[:, :-1]
        parents, chosen = indices // vocabulary, indices % vocabulary
        running = running.gather(1, parents[:, :, None].expand(-1, -1, most)).clone()
        running[:, :, step] = chosen

        reach = scores[:, 0] / (step + 1) ** decoding.length_penalty
        worst = finished_scores[:, -1]
        if last:
            over = torch.ones_like(broken)
        else:
            over = (worst > _NEVER / 2) & (reach <= worst)
            edge |= (worst > _NEVER / 2) & ((reach - worst).abs() < CLOSE)
        ranking_is_close = over & (finished_scores[:, 0] - finished_scores[:, 1] < CLOSE)
        close[rows] |= edge | ranking_is_close
        # The one time in a step that the device is waited for, but where replies end.
        is_broken, is_over = torch.stack([broken, over]).tolist()
        if any(is_broken):
            raise _not_finite(highest)
        if any(is_over):
            best_replies = finished[:, 0].tolist(), finished_lengths[:, 0].tolist(), finished_truncated[:, 0].tolist()
            for context, ends_here, reply, length, cut in zip(rows.tolist(), is_over, *best_replies, strict=True):
                if ends_here:
                    results[context] = Decoded(reply[:length], cut)
        if all(is_over):
            break
        going = torch.tensor([row for row, ends_here in enumerate(is_over) if not ends_here], device=device)
        forward.select((going[:, None] * beams + parents[going]).flatten())
        rows, running, scores, chosen = rows[going], running[going], scores[going], chosen[going]
        finished, finished_scores = finished[going], finished_scores[going]
        finished_lengths, finished_truncated = finished_lengths[going], finished_truncated[going]
        logits = forward.next(chosen.flatten())
    return [reply for reply in results if reply is not None], (close * limits).cpu().numpy()


def _allowed(
    scores: torch.Tensor,
    replies: torch.Tensor,
    blocker: ResponseNgramBlocker | None,
    decoding: Decoding,
    ends: tuple[torch.Tensor, torch.Tensor],
    step: int,
) -> torch.Tensor:
    """The scores with -inf for tokens that may not come next."""
    if step < decoding.min_new_tokens:
        scores[:, torch.cat(ends)] = -torch.inf
    if blocker is not None:
        scores = scores.masked_fill(blocker.blocked(replies, scores.shape[1]), -torch.inf)
    return scores


def _not_finite(highest: torch.Tensor) -> ValueError:
    """The error for rows ([rows] scores of the likeliest tokens) of which at least one is NaN or infinite."""
    return ValueError(NOT_FINITE_ERROR.format(value=highest[~highest.isfinite()][0].item()))


def _sentence_ends(decoding: Decoding, step: int) -> bool:
    return decoding.end_after_sentence and step + 1 >= decoding.min_new_tokens


def _blocker(decoding: Decoding) -> ResponseNgramBlocker | None:
    size = decoding.no_repeat_ngram_size
    return ResponseNgramBlocker(size, context_length=0) if size else None


def _ids(ends: EndTokens) -> tuple[tuple[int, ...], ...]:
    return ends.dropped, ends.kept, ends.sentence
