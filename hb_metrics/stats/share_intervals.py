"""Computes intervals for shares of replies. They cover variation between replies to the same terms and templates.

Each cell (a term in a template) has its own share, so the variance of the overall share is the variance within cells.
Terms are not treated as a sample, because a sample might contain none of the few terms that elicit refusals.

A reply that counts towards the share is a hit, and any other reply is a miss. The terms are split into terms with
mostly hits and terms with mostly misses. The share is then (hits of the second group − misses of the first group) / all
replies, plus a constant. Both numbers count rare events. Each number gets an exact binomial interval (mid-P: Lancaster,
1961), as if its replies were independent with the same variance. The two intervals are combined into the interval of
the difference (MOVER: Zou and Donner, 2008, https://doi.org/10.1002/sim.3095).
"""

import math

import numpy as np

Bounds = tuple[float, float]


def share_interval(hits: np.ndarray, sizes: np.ndarray, confidence_level: float, times: float = 1.0) -> Bounds:
    """Computes the interval of a share, `hits.sum() / sizes.sum()`.

    `hits` contains the number of replies that count towards the share, and `sizes` the number of all replies. Both are
    [terms, templates]. The interval is for a run with `times` as many replies and the same shares.
    """
    mostly = 2 * hits.sum(axis=1) > sizes.sum(axis=1)
    below, above = _distances(hits[~mostly], sizes[~mostly], confidence_level, times)
    misses_below, misses_above = _distances((sizes - hits)[mostly], sizes[mostly], confidence_level, times)
    number = sizes.sum()
    share = float(hits.sum() / number)
    low, high = math.hypot(below, misses_above) / number, math.hypot(above, misses_below) / number
    return max(share - low, 0.0), min(share + high, 1.0)


def share_covariances(hits: list[np.ndarray], sizes: np.ndarray) -> np.ndarray:
    """Estimates the covariance matrix of several shares of the same replies, without bias.

    `hits` contains an array [terms, templates] for each share. A reply counts towards at most one share.
    """
    counts, single = np.stack(hits), sizes == 1
    # A cell with one reply shows no variance. All such cells of a term form one stratum. Terms with only one such cell
    # together form another stratum.
    of_term, num_single = np.where(single, counts, 0).sum(axis=2), single.sum(axis=1)
    lone = num_single == 1
    strata = np.concatenate([sizes[sizes > 1], num_single[num_single > 1], [lone.sum()]])
    joined = np.concatenate(
        [counts[:, sizes > 1], of_term[:, num_single > 1], of_term[:, lone].sum(axis=1, keepdims=True)], axis=1
    )
    weighted = joined / np.maximum(strata - 1, 1)
    return (np.diag(weighted @ strata) - weighted @ joined.T) / float(sizes.sum()) ** 2


def _distances(hits: np.ndarray, sizes: np.ndarray, confidence_level: float, times: float) -> Bounds:
    """Returns the distances from the number of hits to the bounds of its exact binomial interval."""
    from scipy import optimize, special  # this import is slow

    if not sizes.any():
        return 0.0, 0.0
    total, number = float(hits.sum()), float(sizes.sum())
    share = total / number
    variance = float(share_covariances([hits], sizes)[0, 0])
    independent = times * (share * (1 - share) / variance if variance > 0 else number)
    successes, failures = independent * share, independent * (1 - share)

    def excess(probability: float, tail: float) -> float:
        """Computes the probability of more successes, plus half the probability of equally many, minus `tail`."""
        more = special.betainc(successes + 1, failures, probability) if failures else 0.0
        as_many_or_more = special.betainc(successes, failures + 1, probability) if successes else 1.0
        return float(more + as_many_or_more) / 2 - tail

    tail = (1 - confidence_level) / 2
    low = float(optimize.brentq(excess, 0, 1, (tail,))) if successes else 0.0
    high = float(optimize.brentq(excess, 0, 1, (1 - tail,))) if failures else 1.0
    return number * (share - low), number * (high - share)
