from collections.abc import Collection

import torch


def repeats_ngram(response: torch.Tensor, size: int, vocabulary_size: int) -> torch.Tensor:
    """Returns which next tokens would repeat an n-gram of the response: [rows, vocabulary] bool.

    `response` contains the tokens so far: [rows, length].

    The paper blocks 3-grams "within the response but not the context" (Smith et al., 2022, A.4). For decoder-only
    models, the option `no_repeat_ngram_size` of transformers also blocks n-grams of the prompt, so it cannot replace
    this function.
    """
    # N-grams that are not repeated mark the additional last column, which is removed at the end. Selecting the repeated
    # n-grams instead would make the program wait for the device.
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
    starts: torch.Tensor | None,
    is_end: torch.Tensor,
    short: torch.Tensor | None,
) -> torch.Tensor:
    """Returns the scores, with -inf for the next tokens that are not allowed: [rows, vocabulary].

    Args:
        scores: [rows, vocabulary]
        replies: [rows, length] The tokens so far.
        ngram_size: The length of n-grams that must not be repeated. 0 allows repetitions.
        starts: [rows] The position at which the reply begins. Earlier tokens are a thought, whose n-grams the reply may
            repeat. `None` if there are no thoughts.
        is_end: [vocabulary] or [rows, vocabulary] Whether a token ends the reply.
        short: [rows, 1] Whether the reply is too short to end, or `None` if no reply is too short.
    """
    if short is not None:
        scores = scores.masked_fill(is_end & short, -torch.inf)
    if ngram_size:
        if starts is not None:  # replace the tokens of thoughts with distinct negative numbers, which no token has
            positions = torch.arange(replies.shape[1], device=scores.device)
            replies = torch.where(positions < starts[:, None], -1 - positions, replies)
        scores = scores.masked_fill(repeats_ngram(replies, ngram_size, scores.shape[1]), -torch.inf)
    return scores


def table_of(ids: Collection[int], size: int, device: torch.device) -> torch.Tensor:
    table = torch.zeros(size, dtype=torch.bool, device=device)
    table[list(ids)] = True
    return table


def not_finite(highest: torch.Tensor) -> ValueError:
    return ValueError(
        f"the score of the most likely next token is {highest[~highest.isfinite()][0].item()}, which is not a finite "
        "number; set --dtype float32, or check the model's weights"
    )
