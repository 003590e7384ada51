"""Excludes next tokens that would end a reply too early, or that would repeat an n-gram."""

from collections.abc import Sequence

import torch
from transformers import LogitsProcessor

from hb_metrics.inference.replies.decoding_settings import Decoding


class ResponseNgramBlocker(LogitsProcessor):
    """Prevents a response from repeating its own n-grams. It may repeat n-grams of the prompt.

    The paper blocks 3-grams "within the response but not the context" (Smith et al., 2022, A.4). The option
    `no_repeat_ngram_size` of transformers cannot replace this class, because decoder-only models apply it to the prompt
    too.
    """

    def __init__(self, ngram_size: int, context_length: int) -> None:
        self.ngram_size = ngram_size
        self.context_length = context_length

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return scores.masked_fill(self.blocked(input_ids[:, self.context_length :], scores.shape[1]), -torch.inf)

    def blocked(self, response: torch.Tensor, vocabulary_size: int) -> torch.Tensor:
        """Returns which next tokens would repeat an n-gram: [rows, vocabulary] bool.

        `response` has the tokens so far: [rows, length].
        """
        # N-grams that are not repeated mark the additional last column, which is removed at the end. Selecting the
        # repeated n-grams instead would make the program wait for the device.
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
    """Returns the scores, with -inf for the next tokens that are not allowed: [rows, vocabulary].

    Args:
        scores: [rows, vocabulary]
        replies: [rows, length] The tokens so far.
        blocker: Blocks repeated n-grams, or `None`.
        starts: [rows] The position at which the reply begins. Earlier tokens are a thought, whose n-grams the reply may
            repeat.
        is_end: [vocabulary] or [rows, vocabulary] Whether a token ends the reply.
        short: [rows, 1] Whether the reply is too short to end, or `None` if no reply is too short.
    """
    if short is not None:
        scores = scores.masked_fill(is_end & short, -torch.inf)
    if blocker is not None:
        positions = torch.arange(replies.shape[1], device=scores.device)
        # Replace the tokens of thoughts with distinct negative numbers, which no token has.
        replies = torch.where(positions < starts[:, None], -1 - positions, replies)
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
        f"the model gave its likeliest next token the score {highest[~highest.isfinite()][0].item()}, which is not a "
        "finite number; set --dtype float32, or check the model's weights"
    )
