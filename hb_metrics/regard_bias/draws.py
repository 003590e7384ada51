"""Random draws whose results do not depend on names, and the ranges of what they give."""

import numpy as np

from hb_metrics.regard_bias.cell_means import ROUNDING

# Each kind of draw has random numbers of its own. All results depend on these numbers: they must not change.
SAMPLE_DRAWS, HALF_DRAWS, SHUFFLE_DRAWS = 3, 4, 5

RANGE_LEVEL = 0.95  # share of the draws that a range covers


def generator(seed: int, draws: int) -> np.random.Generator:
    """A generator of random numbers for one kind of draws."""
    return np.random.default_rng([seed, draws])


def by_content(counts: np.ndarray) -> np.ndarray:
    """Sorts structures, or other units that are drawn, by their counts, so that draws do not depend on names.

    Args:
        counts: [groups, units, labels].

    Returns:
        [units] indices in this order. Totals over the groups come first, so that the order of the groups matters only
        where totals are equal.
    """
    totals = counts.sum(axis=0)
    keys = np.concatenate([totals, *counts], axis=1)
    return np.lexsort(keys.T[::-1])


def weighted_means(weights: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Weighted means over structures; NaN is left out.

    Args:
        weights: [draws, structures].
        means: [groups, structures].

    Returns:
        [draws, groups]; NaN where all weights are 0. By einsum and not BLAS, whose rounding depends on its threads.
    """
    is_known = ~np.isnan(means)
    weights = weights.astype(float)
    sums = np.einsum("ts,gs->tg", weights, np.where(is_known, means, 0.0))
    totals = np.einsum("ts,gs->tg", weights, is_known.astype(float))
    return np.divide(sums, totals, out=np.full(sums.shape, np.nan), where=totals > 0)


def middle_range(values: np.ndarray) -> list[float] | None:
    """[lowest, highest] of the middle 95 % of the values that are not NaN; `None` if all are NaN.

    The range is that of draws from the same texts: splits or shuffles. It is not an interval for the results of other
    texts.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    known = np.where(np.abs(known) < ROUNDING, 0.0, known)
    tail = (1 - RANGE_LEVEL) / 2
    return np.quantile(known, [tail, 1 - tail]).tolist()
