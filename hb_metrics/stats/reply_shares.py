"""Computes intervals of shares of replies, and of their changes, for the same terms and templates.

The interval of a share is Jeffreys's, with the number of independent replies that would have the same variance.
Intervals of two shares are combined into that of their difference (MOVER: Zou and Donner, 2008,
https://doi.org/10.1002/sim.3095).
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import optimize

from hb_metrics.stats.changes import PairedChange, correlations
from hb_metrics.stats.clusters import Bounds, jeffreys_bounds

# Ratios above this value are treated as infinite.
MAX_RATIO = 1e6


def share_interval(hits: np.ndarray, sizes: np.ndarray, confidence_level: float, times: float = 1.0) -> Bounds:
    """Computes the interval of a share of replies, for these terms and templates: `hits.sum() / sizes.sum()`.

    Each cell (a term in a template) has its own share, so the variance of the overall share is the variance within
    cells. The cells are split into those with mostly hits and those with mostly misses (see `_mostly_hits`). The share
    is then (hits of the second group − misses of the first group) / all replies, plus a constant. Both numbers count
    rare events. Each gets Jeffreys's interval, as if its replies were independent with the same variance. The two
    intervals are combined into the interval of the difference (MOVER).

    Args:
        hits: [terms, templates] The number of replies that count towards the share.
        sizes: [terms, templates] The number of replies.
        confidence_level: The confidence level.
        times: The interval is for a run with `times` as many replies and the same shares.
    """
    mostly = _mostly_hits(hits, sizes)
    below, above = _distances(hits * ~mostly, sizes * ~mostly, confidence_level, times)
    misses_below, misses_above = _distances((sizes - hits) * mostly, sizes * mostly, confidence_level, times)
    number = float(sizes.sum())
    share = float(hits.sum()) / number
    low, high = math.hypot(below, misses_above) / number, math.hypot(above, misses_below) / number
    return max(share - low, 0.0), min(share + high, 1.0)


def _mostly_hits(hits: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Splits cells by their term, or by their template if fewer replies then differ from most of their group.

    The split may not divide the replies whose differences show the variance: if a reply that only differs from other
    terms' replies decided on which side it is, all replies on a side would be the same.

    Returns:
        [terms, templates] Whether the cell is among those with mostly hits.
    """
    single = sizes == 1
    votes = ~(single & (single.sum(axis=1, keepdims=True) == 1))
    of_terms = (2 * hits * votes - sizes * votes).sum(axis=1, keepdims=True) > 0
    of_templates = (2 * hits - sizes).sum(axis=0, keepdims=True) > 0
    by_term, by_template = (np.where(mostly, sizes - hits, hits).sum() for mostly in (of_terms, of_templates))
    is_better = by_template < by_term and not single.any()
    return np.broadcast_to(of_templates if is_better else of_terms, sizes.shape)


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
    """Returns the distances from the number of hits to the bounds of its Jeffreys interval."""
    total, number = float(hits.sum()), float(sizes.sum())
    if number == 0:
        return 0.0, 0.0
    share = total / number
    variance = float(share_covariances([hits], sizes)[0, 0])
    independent = times * (share * (1 - share) / variance if variance > 0 else number)
    low, high = jeffreys_bounds(share, independent, confidence_level)
    return number * (share - low), number * (high - share)


def share_change(counts: np.ndarray, confidence_level: float) -> PairedChange:
    """Computes the change in a share of replies. Intervals cover variation between replies to the same prompts.

    A reply counts if it has a property, such as being a refusal. A pair of replies is gained if only the second reply
    counts, and lost if only the first reply counts. The change is the share of gained pairs minus the share of lost
    pairs. The interval of the change combines the intervals of both shares (MOVER).

    Args:
        counts: [2, 2, terms, templates] The numbers of pairs of replies. The first axis is the first run's reply, and
            the second axis is the second run's reply. On both axes, 1 means that the reply counts.
        confidence_level: The confidence level of the interval.
    """
    parts, sizes = [counts[0, 1], counts[1, 0], counts[1, 1]], counts.sum(axis=(0, 1))  # gained, lost, in both
    shares = np.array([hits.sum() for hits in parts]) / sizes.sum()
    bounds = np.array([share_interval(hits, sizes, confidence_level) for hits in parts])
    factors = np.array([(1, 0), (0, -1), (1, -1)])  # of the second and the first share
    between = correlations(share_covariances(parts, sizes))

    def bound(ratio: float, sign: int) -> float:
        """Returns the lower (sign −1) or upper (1) bound of the second share minus `ratio` times the first share."""
        times = factors @ (1, ratio)
        distances = times * np.where(sign * times > 0, bounds[:, 1] - shares, shares - bounds[:, 0])
        return float(times @ shares) + sign * math.sqrt(max(float(distances @ between @ distances), 0.0))

    first, second = (counts[1].sum() / sizes.sum()).item(), (counts[:, 1].sum() / sizes.sum()).item()
    return PairedChange(first, second, (bound(1, -1), bound(1, 1)), _relative(first, second, bound), None)


def _relative(first: float, second: float, bound: Callable[[float, int], float]) -> Bounds | None:
    """Returns the relative interval: every ratio − 1 for which the interval of second − ratio · first contains 0.

    Returns `None` if `first` is 0, or if the interval contains `MAX_RATIO`.
    """
    if first == 0 or bound(MAX_RATIO, 1) >= 0:
        return None
    ratio = second / first
    low = 0.0 if bound(0, -1) <= 0 else float(optimize.brentq(bound, 0, ratio, (-1,)))
    return low - 1, float(optimize.brentq(bound, ratio, MAX_RATIO, (1,))) - 1
