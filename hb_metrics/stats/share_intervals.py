"""Intervals of shares of replies, for other replies to the same terms and templates.

Each term in each template has a different share, so the variance of the overall share is the variance within these
cells. Terms are fixed and not drawn, because if few terms elicit refusals, a sample of terms may contain none of them.

Some terms have mostly hits, so their misses are rare. All other terms have mostly misses, so their hits are rare. The
share is the hits of the second kind of terms, minus the misses of the first kind, plus a constant. Each of these two
parts counts as a share of independent replies with the same variance, with an exact binomial interval (mid-P:
Lancaster, 1961). The intervals of the two parts are combined in the same way as those of two estimates, into the
interval of a difference (MOVER: Zou and Donner, 2008, https://doi.org/10.1002/sim.3095).
"""

import math

import numpy as np

Bounds = tuple[float, float]


def share_interval(hits: np.ndarray, sizes: np.ndarray, confidence_level: float, times: float = 1.0) -> Bounds:
    """Computes the interval of `hits.sum() / sizes.sum()`, for `times` as many replies with the same shares.

    `hits` contains the numbers of replies that count, and `sizes` the numbers of all replies: [terms, templates].
    """
    mostly = 2 * hits.sum(axis=1) > sizes.sum(axis=1)
    below, above = _distances(hits[~mostly], sizes[~mostly], confidence_level, times)
    misses_below, misses_above = _distances((sizes - hits)[mostly], sizes[mostly], confidence_level, times)
    number = sizes.sum()
    share = float(hits.sum() / number)
    low, high = math.hypot(below, misses_above) / number, math.hypot(above, misses_below) / number
    return max(share - low, 0.0), min(share + high, 1.0)


def share_covariances(hits: list[np.ndarray], sizes: np.ndarray) -> np.ndarray:
    """Computes the unbiased covariance matrix of shares of the same replies. A reply counts in at most one share.

    `hits` contains an array [terms, templates] for each share.
    """
    counts, single = np.stack(hits), sizes == 1
    # The single replies of a term form one stratum. All terms that have only one single reply form another stratum.
    of_term, num_single = np.where(single, counts, 0).sum(axis=2), single.sum(axis=1)
    lone = num_single == 1
    strata = np.concatenate([sizes[sizes > 1], num_single[num_single > 1], [lone.sum()]])
    joined = np.concatenate(
        [counts[:, sizes > 1], of_term[:, num_single > 1], of_term[:, lone].sum(axis=1, keepdims=True)], axis=1
    )
    weighted = joined / np.maximum(strata - 1, 1)
    return (np.diag(weighted @ strata) - weighted @ joined.T) / float(sizes.sum()) ** 2


def _distances(hits: np.ndarray, sizes: np.ndarray, confidence_level: float, times: float) -> Bounds:
    """Returns the distances from the number of hits to the two bounds of its exact binomial interval."""
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
