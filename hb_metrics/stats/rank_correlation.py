from collections.abc import Sequence
from itertools import permutations

import numpy as np

MIN_PAIRS = 3  # a correlation needs at least three, because two points always lie on a line
# Up to this number of pairs, the p-value comes from all permutations. For three pairs, Student's t could yield p = 0.
MOST_COUNTED = 8


def rank_correlation(x: Sequence[float], y: Sequence[float]) -> tuple[float | None, float | None]:
    """Computes Spearman's ρ of pairs of numbers, and its two-sided p-value.

    The p-value is exact for up to `MOST_COUNTED` pairs. For more pairs, it comes from Student's t. Both results are
    `None` if there are fewer than three pairs, or if one of the two numbers is the same in all pairs.
    """
    from scipy.stats import rankdata, spearmanr  # this import is slow

    if len(x) < MIN_PAIRS or len(set(x)) == 1 or len(set(y)) == 1:
        return None, None
    test = spearmanr(x, y)
    p_value = _counted_p_value(rankdata(x), rankdata(y)) if len(x) <= MOST_COUNTED else float(test.pvalue)
    return float(test.statistic), p_value


def _counted_p_value(x: np.ndarray, y: np.ndarray) -> float:
    """Returns the exact p-value: the share of permutations of `y` whose |ρ| is at least the observed |ρ|."""
    covariances = np.abs(np.array(list(permutations(y - y.mean()))) @ (x - x.mean()))
    return float((covariances >= covariances[0] - 1e-9).mean())
