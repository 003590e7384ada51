"""The noise of `sampling.py` and a draw with it, number by number in plain Python."""

from math import log

import numpy as np

_MASK = 2**64 - 1


def splitmix64(key: int, counter: int) -> int:
    """As Vigna's splitmix64.c: the state after `counter` + 1 steps from the key, mixed."""
    bits = (key + (counter + 1) * 0x9E3779B97F4A7C15) & _MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & _MASK
    return bits ^ (bits >> 31)


def gumbel(key: int, counter: int) -> float:
    """The inverse of the Gumbel distribution function at the upper 52 bits."""
    return -log(-log(((splitmix64(key, counter) >> 12) + 0.5) / 2**52))


def draw_of_likeliest(logits: np.ndarray, key: int, temperature: float, top_k: int) -> int:
    """The token that is drawn with fewer candidates than tokens."""
    best = np.argsort(-logits)[:top_k]
    return int(max(best, key=lambda token: logits[token] / temperature + gumbel(int(key), int(token))))
