"""Excludes next tokens that would end a reply too early or repeat an n-gram."""

from collections.abc import Sequence

import torch
from transformers import LogitsProcessor

from hb_metrics.inference.replies.decoding_settings import Decoding


class ResponseNgramBlocker(LogitsProcessor):
    """Blocks n-grams that occur earlier in the *response*; those of the prompt may be repeated.

    On decoder-only models, transformers' `no_repeat_ngram_size` also counts the prompt. The paper blocks 3-grams
    "within the response but not the context" (Smith et al., 2022, A.4).

    Args:
        ngram_size: The length n of the n-grams.
        context_length: The number of tokens at the start of `input_ids` that belong to the context.
    """

    def __init__(self, ngram_size: int, context_length: int) -> None:
        self.ngram_size = ngram_size
        self.context_length = context_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Sets the scores ([rows, vocabulary]) of tokens that would complete a repeated n-gram to -inf."""
        return scores.masked_fill(self.blocked(input_ids[:, self.context_length :], scores.shape[1]), -torch.inf)

    def blocked(self, response: torch.Tensor, vocabulary_size: int) -> torch.Tensor:
        """Marks tokens that would repeat an n-gram: [rows, vocabulary] bool for responses of [rows, length]."""
        # The additional column takes the other n-grams, because selecting n-grams would wait for the device.
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
    starts: torch.Tensor,
    is_end: torch.Tensor,
    short: torch.Tensor | None,
) -> torch.Tensor:
    """Sets the scores of excluded tokens to -inf.

    Args:
        scores: [rows, vocabulary] the scores of the next token.
        replies: [rows, length] the tokens so far, including thoughts and marks.
        blocker: The processor that blocks repeated n-grams, or `None`.
        starts: [rows] the position at which the reply begins, because a reply may repeat an n-gram of a thought.
        is_end: [vocabulary], or [rows, vocabulary], whether a token ends a reply.
        short: [rows, 1] whether the reply may not end yet. `None` if all may end; the scores are then not copied.
    """
    if short is not None:
        scores = scores.masked_fill(is_end & short, -torch.inf)
    if blocker is not None:
        places = torch.arange(replies.shape[1], device=scores.device)
        # Negative numbers, which no token has; each occurs once.
        replies = torch.where(places < starts[:, None], -1 - places, replies)
        scores = scores.masked_fill(blocker.blocked(replies, scores.shape[1]), -torch.inf)
    return scores


def blocker_of(decoding: Decoding) -> ResponseNgramBlocker | None:
    """The processor that blocks repeated n-grams, or `None`."""
    size = decoding.no_repeat_ngram_size
    return ResponseNgramBlocker(size, context_length=0) if size else None


def table_of(ids: Sequence[int], size: int, device: torch.device) -> torch.Tensor:
    """[size] Whether each token is one of these ids."""
    table = torch.zeros(size, dtype=torch.bool, device=device)
    table[list(ids)] = True
    return table


def not_finite(highest: torch.Tensor) -> ValueError:
    """Composes the error for rows ([rows] scores of the likeliest tokens) with a score that is NaN or infinite."""
    return ValueError(
        f"the likeliest next token has the score {highest[~highest.isfinite()][0].item()}; try dtype float32, or check "
        "the model's weights"
    )
