"""Draws a random token for each row of a batch. The token does not depend on the other rows.

The Gumbel-max trick adds Gumbel noise to the log-probability of each token. The token with the highest sum is a random
draw from the distribution. The noise depends only on the prompt, the step and the token. The noise comes from the
generator SplitMix64, which can compute its i-th number without the earlier ones (Steele, Lea and Flood, 2014, "Fast
splittable pseudorandom number generators").
"""

from collections.abc import Collection

import numpy as np
import torch
from torch.nn.functional import pad
from transformers import TopPLogitsWarper

from hb_dataset.seeded_draws import seeded_generator


def table_of(ids: Collection[int], size: int, device: torch.device) -> torch.Tensor:
    table = torch.zeros(size, dtype=torch.bool, device=device)
    table[list(ids)] = True
    return table


def not_finite(highest: torch.Tensor) -> ValueError:
    score = highest[~highest.isfinite()][0].item()
    return ValueError(f"the likeliest token's score is {score}; set --dtype float32, or check the model's weights")


# The constants of SplitMix64, as signed numbers.
_GAMMA = 0x9E3779B97F4A7C15 - 2**64
_MIX = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))


def draw(
    logits: torch.Tensor, keys: torch.Tensor, *, temperature: float, top_k: int, top_p: float, close: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws a token for each row.

    Args:
        logits: [rows, vocabulary] float32 or float64. Tokens with the value -inf are never drawn.
        keys: [rows] int64 The seeds of the noise.
        temperature: The divisor of the logits.
        top_k: The number of likeliest tokens from which to draw.
        top_p: The total probability of the tokens from which to draw (see `Decoding`).
        close: The largest numerical error of a logit.

    Returns:
        The drawn tokens ([rows] int64), and whether an error of size `close` could change each of them ([rows] bool).
    """
    margin, vocabulary = close / temperature, logits.shape[1]
    if top_k >= vocabulary and top_p == 1:
        noise = gumbel_noise(keys, torch.arange(vocabulary, device=keys.device))
        return index_of_highest(logits.double() / temperature + noise, margin)
    return _draw_of_likeliest(logits, keys, temperature, min(top_k, vocabulary), top_p, margin)


def entropies(logits: torch.Tensor, *, temperature: float, top_k: int, top_p: float) -> torch.Tensor:
    """Returns the entropy of each distribution from which `draw` draws, in nats: [tokens] float64.

    `logits` [tokens, vocabulary] are -inf for tokens that are not allowed.
    """
    likeliest = logits.topk(min(top_k, logits.shape[1]), dim=1).values.double() / temperature
    return torch.special.entr(TopPLogitsWarper(top_p)(None, likeliest).softmax(1)).sum(1)


def draw_keys(seed: int, purpose: str, identifier: str, number: int) -> np.ndarray:
    """Returns the seeds of the noise for a row's steps: [number] int64. A larger `number` only appends seeds."""
    return seeded_generator(seed, purpose, identifier).integers(-(2**63), 2**63, number)


def index_of_highest(scores: torch.Tensor, margin: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the index of each row's highest score, and whether another score is less than `margin` below it."""
    best = scores.topk(2, dim=1)
    return best.indices[:, 0], best.values[:, 0] - best.values[:, 1] < margin


def gumbel_noise(keys: torch.Tensor, counters: torch.Tensor) -> torch.Tensor:
    """Returns random numbers from the standard Gumbel distribution: [rows, number] float64.

    A number depends only on its key and its counter. On different devices, it may differ in the last digit.
    """
    uniform = (_shift_right(splitmix64(keys, counters), 12).double() + 0.5) * 2.0**-52  # between 0 and 1, exclusive
    return -(-uniform.log()).log()


def splitmix64(keys: torch.Tensor, counters: torch.Tensor) -> torch.Tensor:
    """Returns random numbers of SplitMix64 generators: [rows, number] int64.

    `keys` are the generators' seeds, one per row. `counters` are the positions of the numbers in a generator's
    sequence, counted from 0.
    """
    bits = keys[:, None] + (counters + 1) * _GAMMA  # the generator relies on the overflow of int64
    for shift, factor in _MIX:
        bits = (bits ^ _shift_right(bits, shift)) * factor
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: torch.Tensor, by: int) -> torch.Tensor:
    return (bits >> by) & (2 ** (64 - by) - 1)


def _draw_of_likeliest(
    logits: torch.Tensor, keys: torch.Tensor, temperature: float, top_k: int, top_p: float, margin: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws from the likeliest tokens, as `top_k` and `top_p` require. Returns the same as `draw`.

    A value is a logit divided by the temperature, and `margin` is its largest numerical error. Errors may also change
    the set of likeliest tokens. A token is *certain* if it is in the set whatever the errors are, and *possible* if
    some errors would put it into the set. Errors cannot change the draw if two conditions are met. First, the possible
    token with the highest sum of value and noise is certain. Second, all other sums are at least `margin` lower.
    """
    # There are more columns than `top_k`, because further tokens may be possible. A smaller vocabulary is padded.
    columns = top_k + 2 + top_k // 16
    number = min(columns, logits.shape[1])
    likeliest = logits.topk(number, dim=1)
    values = pad(likeliest.values.double() / temperature, (0, columns - number), value=-torch.inf)
    tokens = pad(likeliest.indices, (0, columns - number))
    probabilities = (values - values[:, :top_k].logsumexp(1, keepdim=True)).exp()
    before = (probabilities.cumsum(1) - probabilities)[:, :top_k]  # the total probability of likelier tokens
    ranks = torch.arange(columns, device=values.device)

    def num_kept(top_p: float) -> torch.Tensor:
        least = (before < top_p).sum(1, keepdim=True).clamp(min=1)
        return least if top_p < 1 else torch.full_like(least, top_k)

    # The largest change in `before` if the values change by `margin`.
    nudge = top_p * (1 - top_p) * margin
    certain = values > values.gather(1, num_kept(top_p - nudge)) + margin
    possible = values > values.gather(1, num_kept(top_p + nudge) - 1) - margin
    sums = values + gumbel_noise(keys, tokens)
    winner, is_close = index_of_highest(sums.masked_fill(~possible, -torch.inf), margin)
    is_close |= ~certain.gather(1, winner[:, None])[:, 0]
    is_close |= possible[:, -1]  # tokens outside of these columns may also be possible
    chosen = sums.masked_fill(ranks >= num_kept(top_p), -torch.inf).argmax(1, keepdim=True)
    return tokens.gather(1, chosen)[:, 0], is_close
