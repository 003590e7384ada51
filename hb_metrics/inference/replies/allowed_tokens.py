"""Excludes next tokens that would end a reply too early or repeat an n-gram."""

from collections.abc import Sequence

import torch


def repeats_ngram(response: torch.Tensor, size: int, vocabulary_size: int) -> torch.Tensor:
    """Marks tokens that would repeat an n-gram of the response: [rows, vocabulary] bool for [rows, length].

    On decoder-only models, transformers' `no_repeat_ngram_size` also counts the prompt. The paper blocks 3-grams
    "within the response but not the context" (Smith et al., 2022, A.4).
    """
    # The additional column takes all other n-grams, because a selection of n-grams would have to wait for the device.
    blocked = torch.zeros(len(response), vocabulary_size + 1, dtype=torch.bool, device=response.device)
    length = response.shape[1]
    if length >= size:
        ngrams = response.unfold(1, size, 1)  # [rows, length - size + 1, size]
        repeats = (ngrams[:, :, :-1] == response[:, None, length - size + 1 :]).all(-1)
        blocked.scatter_(1, ngrams[:, :, -1].where(repeats, vocabulary_size), True)
    return blocked[:, :-1]


def allowed(
    scores: torch.Tensor,
    replies: torch.Tensor,
    ngram_size: int,
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
    if ngram_size:
        places = torch.arange(replies.shape[1], device=scores.device)
        # Negative numbers, which are not the ids of tokens. Each number occurs once.
        replies = torch.where(places < starts[:, None], -1 - places, replies)
        scores = scores.masked_fill(repeats_ngram(replies, ngram_size, scores.shape[1]), -torch.inf)
    return scores


def table_of(ids: Sequence[int], size: int, device: torch.device) -> torch.Tensor:
    table = torch.zeros(size, dtype=torch.bool, device=device)
    table[list(ids)] = True
    return table


def not_finite(highest: torch.Tensor) -> ValueError:
    return ValueError(
        f"the likeliest next token has the score {highest[~highest.isfinite()][0].item()}; try dtype float32, or check "
        "the model's weights"
    )
