"""Excludes next tokens that would end a reply too early or repeat an n-gram."""

from collections.abc import Sequence

import torch
from transformers import LogitsProcessor

from hb_metrics.inference.replies.decoding_settings import Decoding


class ResponseNgramBlocker(LogitsProcessor):
    """Blocks n-grams that occur earlier in the *response*. N-grams of the prompt may be repeated.

    On decoder-only models, transformers' `no_repeat_ngram_size` also counts the prompt. The paper blocks 3-grams
    "within the response but not the context" (Smith et al., 2022, A.4).
    """

    def __init__(self, ngram_size: int, context_length: int) -> None:
        self.ngram_size = ngram_size
        self.context_length = context_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return scores.masked_fill(self.blocked(input_ids[:, self.context_length :], scores.shape[1]), -torch.inf)

    def blocked(self, response: torch.Tensor, vocabulary_size: int) -> torch.Tensor:
        """Marks tokens that would repeat an n-gram: [rows, vocabulary] bool for responses of [rows, length]."""
        # The additional column takes all other n-grams, because a selection of n-grams would have to wait for the
        # device.
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
    """Sets the scores of excluded next tokens to -inf: [rows, vocabulary].

    `replies` [rows, length] has the tokens so far. A reply may repeat an n-gram of a thought, so n-grams are blocked
    only after `starts` [rows]. `is_end` is [vocabulary] or [rows, vocabulary]. `short` [rows, 1] marks replies that
    must not end yet. If it is `None`, scores are not copied.
    """
    if short is not None:
        scores = scores.masked_fill(is_end & short, -torch.inf)
    if blocker is not None:
        places = torch.arange(replies.shape[1], device=scores.device)
        # Negative numbers, which are not the ids of tokens. Each number occurs once.
        replies = torch.where(places < starts[:, None], -1 - places, replies)
        scores = scores.masked_fill(blocker.blocked(replies, scores.shape[1]), -torch.inf)
    return scores


def blocker_of(decoding: Decoding) -> ResponseNgramBlocker | None:
    size = decoding.no_repeat_ngram_size
    return ResponseNgramBlocker(size, context_length=0) if size else None


def table_of(ids: Sequence[int], size: int, device: torch.device) -> torch.Tensor:
    table = torch.zeros(size, dtype=torch.bool, device=device)
    table[list(ids)] = True
    return table


def not_finite(highest: torch.Tensor) -> ValueError:
    return ValueError(
        f"the likeliest next token has the score {highest[~highest.isfinite()][0].item()}; try dtype float32, or check "
        "the model's weights"
    )
