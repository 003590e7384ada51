"""Random draws, whose order no name decides, and the ranges of what comes of them."""

import numpy as np

from .cell_means import ROUNDING

# Each kind of draw has random numbers of its own. The numbers are part of every result: they do not change.
SAMPLE_DRAWS, HALF_DRAWS, SHUFFLE_DRAWS = 3, 4, 5

RANGE_LEVEL = 0.95  # of the middle of what many draws give


def generator(seed: int, draws: int) -> np.random.Generator:
    """Random numbers of one kind of draws."""
    return np.random.default_rng([seed, draws])


def by_content(counts: np.ndarray) -> np.ndarray:
    """Order of structures, or what else is drawn, by what they hold, so that no name decides about a draw.

    Args:
        counts: [groups, units, labels].

    Returns:
        [units] places. First by totals over the groups, so that groups' names decide but where these are equal.
    """
    totals = counts.sum(axis=0)
    keys = np.concatenate([totals, *counts], axis=1)
    return np.lexsort(keys.T[::-1])


def weighted_means(weights: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Means over structures, each with a weight; what is NaN is left out.

    Args:
        weights: [times, structures].
        means: [groups, structures].

    Returns:
        [times, groups]; NaN where all weights are 0. By einsum, not BLAS, whose threads would round differently.
    """
    is_known = ~np.isnan(means)
    weights = weights.astype(float)
    sums = np.einsum("ts,gs->tg", weights, np.where(is_known, means, 0.0))
    totals = np.einsum("ts,gs->tg", weights, is_known.astype(float))
    return np.divide(sums, totals, out=np.full(sums.shape, np.nan), where=totals > 0)


def middle_range(values: np.ndarray) -> list[float] | None:
    """[lowest, highest] of the middle 95 % of the values that are not NaN; `None` where all are.

    It says where draws fall: of splits of the texts there are, or of texts dealt out anew. It is no interval for what
    other texts would give.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    known = np.where(np.abs(known) < ROUNDING, 0.0, known)
    tail = (1 - RANGE_LEVEL) / 2
    return np.quantile(known, [tail, 1 - tail]).tolist()
