"""Sampling: a token drawn at random for each row, the same token in whatever batch the row is.

The Gumbel-max trick: the token with the highest sum of log-probability and Gumbel noise is a draw from the
distribution. Its noise follows from a key and the token alone, and the key from the prompt and the step (Steele, Lea
and Flood, 2014, "Fast splittable pseudorandom number generators": SplitMix64, whose i-th number needs none before it).
Only two sums that are nearly equal make a decision close, however many tokens there are, and nothing is sorted but the
`top_k` likeliest tokens.

Noise for every token of a large vocabulary would take longer than the model. The vocabulary is therefore drawn from in
two steps: a block of tokens by the log of its total probability, then a token of it. Blocks are of neighbouring ids and
not of similar probability, so that they do not change with the batch.
"""

from math import exp, isqrt

import numpy as np
import torch
from torch.nn.functional import pad

from hb_dataset.seeded_draws import seeded_generator

# How often a token is drawn from the whole vocabulary and, if it is none of those that make up `top_p`, again, before
# they are looked for by sorting. They are drawn with a probability of at least `top_p`.
_ATTEMPTS = 4
# SplitMix64, as signed numbers.
_GAMMA = 0x9E3779B97F4A7C15 - 2**64
_MIX = ((30, 0xBF58476D1CE4E5B9 - 2**64), (27, 0x94D049BB133111EB - 2**64))


def draw(
    logits: torch.Tensor, keys: torch.Tensor, *, temperature: float, top_k: int, top_p: float, close: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws a token for each row.

    Args:
        logits: [rows, vocabulary] float32 or float64; -inf for tokens that may not be drawn.
        keys: [rows] int64, the key of each row's noise.
        temperature: What logits are divided by.
        top_k: Only so many of the likeliest tokens are drawn from.
        top_p: Of those only the fewest likeliest ones with a total probability of at least this.
        close: By how much the difference of two logits may change with the batch.

    Returns:
        [rows] the tokens, and [rows] whether another token would come of logits that much different. Without `top_k`
        but with `top_p` the device is waited for, up to five times.
    """
    margin = close / temperature
    if top_k < logits.shape[1]:
        return _draw_of_likeliest(logits, keys, temperature, top_k, top_p, margin)
    weights = (logits - logits.amax(1, keepdim=True)).div_(temperature).exp_()
    if top_p == 1:
        return _draw_of_all(weights, keys, margin)
    return _draw_of_nucleus(weights, keys, top_p, margin)


def draw_keys(seed: int, purpose: str, identifier: str, number: int) -> np.ndarray:
    """[number] int64 keys of a row's steps; the first ones are the same however many there are.

    Args:
        seed: The seed of the run.
        purpose: What is sampled, as of `seeded_generator`.
        identifier: The row's id.
        number: How many.
    """
    return seeded_generator(seed, purpose, identifier).integers(-(2**63), 2**63, number)


def index_of_highest(scores: torch.Tensor, margin: float) -> tuple[torch.Tensor, torch.Tensor]:
    """The index of each row's highest score ([rows, at least 2]), and whether another is less than a margin below."""
    best = scores.topk(2, dim=1)
    return best.indices[:, 0], best.values[:, 0] - best.values[:, 1] < margin


def gumbel_noise(keys: torch.Tensor, counters: torch.Tensor) -> torch.Tensor:
    """Numbers from the standard Gumbel distribution, which follow from key and counter alone.

    The bits beneath are the same on every device; the logarithms of them may differ in the last digit.

    Args:
        keys: [rows] int64.
        counters: [number] or [rows, number] int64, from 0.

    Returns:
        [rows, number] float64.
    """
    uniform = (_shift_right(splitmix64(keys, counters), 12).double() + 0.5) * 2.0**-52  # between 0 and 1, never either
    return -(-uniform.log()).log()


def splitmix64(keys: torch.Tensor, counters: torch.Tensor) -> torch.Tensor:
    """The number at each counter, from 0, of the SplitMix64 generators that the keys seed: [rows, number] int64."""
    bits = keys[:, None] + (counters + 1) * _GAMMA  # int64 wraps around, as the generator asks for
    for shift, factor in _MIX:
        bits = (bits ^ _shift_right(bits, shift)) * factor
    return bits ^ _shift_right(bits, 31)


def _shift_right(bits: torch.Tensor, by: int) -> torch.Tensor:
    return (bits >> by) & (2 ** (64 - by) - 1)


def _draw_of_likeliest(
    logits: torch.Tensor,
    keys: torch.Tensor,
    temperature: float,
    top_k: int,
    top_p: float,
    margin: float,
    first_counter: int = 0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws from the `top_k` likeliest tokens, or as many of them as make up `top_p`.

    A token is certainly drawn from if it stays so with values a margin apart, and possibly if it then may be. A
    decision holds if the highest sum is that of a certain token, and no possible one comes near.
    """
    # Beyond the likeliest, those that may be as likely as the last of them. The vocabulary is followed by blanks.
    columns = top_k + 2 + top_k // 16
    number = min(columns, logits.shape[1])
    likeliest = logits.topk(number, dim=1)
    values = pad(likeliest.values.double() / temperature, (0, columns - number), value=-torch.inf)
    tokens = pad(likeliest.indices, (0, columns - number))
    probabilities = (values - values[:, :top_k].logsumexp(1, keepdim=True)).exp()
    before = (probabilities.cumsum(1) - probabilities)[:, :top_k]  # of the likelier ones
    ranks = torch.arange(columns, device=values.device)

    def num_kept(top_p: float) -> torch.Tensor:
        least = (before < top_p).sum(1, keepdim=True).clamp(min=1)
        return least if top_p < 1 else torch.full_like(least, top_k)

    nudge = _nudge(top_p, margin)
    certain = values > values.gather(1, num_kept(top_p - nudge)) + margin
    possible = values > values.gather(1, num_kept(top_p + nudge) - 1) - margin
    sums = values + gumbel_noise(keys, tokens + first_counter)
    winner, is_close = index_of_highest(sums.masked_fill(~possible, -torch.inf), margin)
    is_close |= ~certain.gather(1, winner[:, None])[:, 0]
    is_close |= possible[:, -1]  # then so may be some that were left out here
    chosen = sums.masked_fill(ranks >= num_kept(top_p), -torch.inf).argmax(1, keepdim=True)
    return tokens.gather(1, chosen)[:, 0], is_close


def _draw_of_all(
    weights: torch.Tensor, keys: torch.Tensor, margin: float, first_counter: int = 0
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws tokens in proportion to the weights ([rows, vocabulary]): a block of tokens, then a token of the block."""
    vocabulary = weights.shape[1]
    size = isqrt(vocabulary) + 1
    num_blocks = vocabulary // size  # of this size; the last one has the rest
    whole = weights[:, : num_blocks * size].unflatten(1, (num_blocks, size)).sum(2)
    masses = torch.cat([whole, weights[:, num_blocks * size :].sum(1, keepdim=True)], 1)
    counters = first_counter + vocabulary + torch.arange(num_blocks + 1, device=weights.device)
    block, block_is_close = index_of_highest(masses.double().log() + gumbel_noise(keys, counters), margin)
    tokens = block[:, None] * size + torch.arange(size, device=weights.device)
    is_token = tokens < vocabulary
    tokens = tokens.clamp(max=vocabulary - 1)
    sums = weights.gather(1, tokens).double().log() + gumbel_noise(keys, first_counter + tokens)
    index, token_is_close = index_of_highest(sums.masked_fill(~is_token, -torch.inf), margin)
    return tokens.gather(1, index[:, None])[:, 0], block_is_close | token_is_close


def _draw_of_nucleus(
    weights: torch.Tensor, keys: torch.Tensor, top_p: float, margin: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Draws from the fewest likeliest tokens that make up `top_p`: from all, until it is one of those.

    A token is one of those if all likelier tokens together have a probability below `top_p`, which needs no sorting.
    """
    num_rows, vocabulary = weights.shape
    chosen, is_close = torch.zeros_like(keys), torch.zeros_like(keys, dtype=torch.bool)
    rows, nudge = torch.arange(num_rows, device=keys.device), _nudge(top_p, margin)
    for attempt in range(_ATTEMPTS):
        tokens, unsure = _draw_of_all(weights, keys[rows], margin, 2 * vocabulary * attempt)
        mine = weights.gather(1, tokens[:, None])
        inside = _share_above(weights, mine) < top_p
        least = _share_above(weights, mine * exp(min(margin, 700)))
        most = _share_above(weights, mine * exp(-margin)) - mine[:, 0] / weights.sum(1)
        unsure |= (least < top_p + nudge) & (most >= top_p - nudge)
        chosen[rows] = tokens
        is_close[rows] |= unsure
        left = (~inside).nonzero()[:, 0]
        if not len(left):
            return chosen, is_close
        rows, weights = rows[left], weights[left]
    counter = 2 * vocabulary * _ATTEMPTS
    chosen[rows], unsure = _draw_of_likeliest(weights.log(), keys[rows], 1.0, vocabulary, top_p, margin, counter)
    is_close[rows] |= unsure
    return chosen, is_close


def _share_above(weights: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """[rows] the share of the weights ([rows, vocabulary]) that is of those above a weight ([rows, 1])."""
    return torch.where(weights > weight, weights, 0).sum(1) / weights.sum(1)


def _nudge(top_p: float, margin: float) -> float:
    """By how much tokens with a total probability of `top_p` change it, at most, as values change by a margin."""
    return top_p * (1 - top_p) * margin
