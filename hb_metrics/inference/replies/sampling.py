"""Samples a random token for each row. The token is the same in any batch.

By the Gumbel-max trick, the token with the highest sum of log-probability and Gumbel noise is a draw from the
distribution. The noise depends only on the prompt, the step and the token. It comes from SplitMix64, whose i-th number
can be computed without the earlier ones (Steele, Lea and Flood, 2014, "Fast splittable pseudorandom number
generators"). A decision is close only if two sums are nearly equal, whatever the number of tokens.
"""

import numpy as np
import torch
from torch.nn.functional import pad

from hb_dataset.seeded_draws import seeded_generator

# The constants of SplitMix64, as signed numbers.
_GAMMA = 0x9E3779B97F4A7C15 - 2**64
_MIX = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))


def draw(
    logits: torch.Tensor, keys: torch.Tensor, *, temperature: float, top_k: int, top_p: float, close: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws a token for each row. Also returns whether another token might be drawn if logits differed by `close`.

    `logits` [rows, vocabulary] is float32 or float64, and -inf for tokens that must not be drawn. `keys` [rows] has the
    int64 seed of each row's noise.
    """
    margin, vocabulary = close / temperature, logits.shape[1]
    if top_k >= vocabulary and top_p == 1:
        noise = gumbel_noise(keys, torch.arange(vocabulary, device=keys.device))
        return index_of_highest(logits.double() / temperature + noise, margin)
    return _draw_of_likeliest(logits, keys, temperature, min(top_k, vocabulary), top_p, margin)


def draw_keys(seed: int, purpose: str, identifier: str, number: int) -> np.ndarray:
    """Draws a row's int64 keys, one per step. A larger `number` only appends keys."""
    return seeded_generator(seed, purpose, identifier).integers(-(2**63), 2**63, number)


def index_of_highest(scores: torch.Tensor, margin: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the index of each row's highest score, and whether another score is lower by less than `margin`."""
    best = scores.topk(2, dim=1)
    return best.indices[:, 0], best.values[:, 0] - best.values[:, 1] < margin


def gumbel_noise(keys: torch.Tensor, counters: torch.Tensor) -> torch.Tensor:
    """Draws standard Gumbel numbers that depend only on the key and the counter: [rows, number] float64.

    The random bits are the same on every device, but the logarithms may differ in the last digit.
    """
    uniform = (_shift_right(splitmix64(keys, counters), 12).double() + 0.5) * 2.0**-52  # between 0 and 1, exclusive
    return -(-uniform.log()).log()


def splitmix64(keys: torch.Tensor, counters: torch.Tensor) -> torch.Tensor:
    """Computes the numbers at the counters (from 0) of each key's SplitMix64 generator: [rows, number] int64."""
    bits = keys[:, None] + (counters + 1) * _GAMMA  # int64 wraps around, as the generator requires
    for shift, factor in _MIX:
        bits = (bits ^ _shift_right(bits, shift)) * factor
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: torch.Tensor, by: int) -> torch.Tensor:
    return (bits >> by) & (2 ** (64 - by) - 1)


def _draw_of_likeliest(
    logits: torch.Tensor, keys: torch.Tensor, temperature: float, top_k: int, top_p: float, margin: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws from the `top_k` likeliest tokens. Also returns the rows whose decision is not safe.

    With `top_p`, draws only from the likeliest of these tokens whose total probability reaches `top_p`. A token's value
    is its logit divided by the temperature, and its sum is its value plus the noise. When all values change by up to
    `margin`, a certain token remains eligible, and a possible token may become eligible. A decision is safe if the
    highest sum of all possible tokens belongs to a certain token, and exceeds the next sum by at least `margin`.
    """
    # These include tokens that may be as likely as the last of the likeliest. Blanks extend the vocabulary.
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

    # The largest change in `before` if values change by the margin.
    nudge = top_p * (1 - top_p) * margin
    certain = values > values.gather(1, num_kept(top_p - nudge)) + margin
    possible = values > values.gather(1, num_kept(top_p + nudge) - 1) - margin
    sums = values + gumbel_noise(keys, tokens)
    winner, is_close = index_of_highest(sums.masked_fill(~possible, -torch.inf), margin)
    is_close |= ~certain.gather(1, winner[:, None])[:, 0]
    is_close |= possible[:, -1]  # tokens outside of these columns may also be eligible
    chosen = sums.masked_fill(ranks >= num_kept(top_p), -torch.inf).argmax(1, keepdim=True)
    return tokens.gather(1, chosen)[:, 0], is_close
