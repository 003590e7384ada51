"""Which tokens may come next: none that ends a reply too early, or repeats what it must not."""

import torch
from transformers import LogitsProcessor

from hb_metrics.inference.models.contexts import EndTokens
from hb_metrics.inference.replies.decoding_settings import Decoding

NOT_FINITE_ERROR = (
    "the model gives {value} as the score of the likeliest next token; try dtype float32, or check the weights"
)


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


def allowed(
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


def allowed_after_thoughts(
    scores: torch.Tensor,
    replies: torch.Tensor,
    blocker: ResponseNgramBlocker | None,
    decoding: Decoding,
    ends: tuple[torch.Tensor, torch.Tensor],
    starts: torch.Tensor,
    thinking: torch.Tensor,
    nonblank: torch.Tensor,
) -> torch.Tensor:
    """As `allowed`, with replies that begin at `starts` of each row, perhaps with a blank line after the thought.

    A thought can end whenever the model ends it, and an n-gram of it may stand in the reply.
    """
    step = replies.shape[1]
    short = ~thinking & (step - starts < decoding.min_new_tokens)
    unseen = torch.arange(step, device=scores.device) < starts[:, None]
    # Numbers that no token has, and none twice: the reply may repeat what the model thought.
    replies = torch.where(unseen, -1 - torch.arange(step, device=scores.device), replies)
    scores = allowed(scores, replies, blocker, decoding, ends, decoding.min_new_tokens)
    for rows, tokens in ((short, ends[0]), (short & nonblank, ends[1])):
        scores[:, tokens] = scores[:, tokens].masked_fill(rows[:, None], -torch.inf)
    return scores


def blocker_of(decoding: Decoding) -> ResponseNgramBlocker | None:
    """What blocks repeated n-grams; `None`: nothing does."""
    size = decoding.no_repeat_ngram_size
    return ResponseNgramBlocker(size, context_length=0) if size else None


def end_ids(ends: EndTokens) -> tuple[tuple[int, ...], ...]:
    """The tokens that end a reply and are left out, those that do and are kept, and those that end a sentence."""
    return ends.dropped, ends.kept, ends.sentence


def not_finite(highest: torch.Tensor) -> ValueError:
    """The error for rows ([rows] scores of the likeliest tokens) of which at least one is NaN or infinite."""
    return ValueError(NOT_FINITE_ERROR.format(value=highest[~highest.isfinite()][0].item()))
