"""Mann–Whitney U tests between all pairs of groups at once, with scipy's p-values.

Everything is ranked once. With C the matrix of how often each group takes each distinct value, the U statistics of all
pairs are one matrix product, and so are the tie corrections.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

# scipy.stats.mannwhitneyu(method="auto") turns exact when a group has no more values than this and the pair no ties.
EXACT_UP_TO = 8
# How many entries of C are held at a time (32 MB at most).
_CHUNK_ENTRIES = 2**22
# Sums of whole and half numbers are exact in float32 below this, and twice as fast as in float64.
_EXACT_IN_FLOAT32 = 2**22


class PairwiseTests(NamedTuple):
    """One test for each unordered pair of groups; all arrays are [pairs].

    Attributes:
        first: Index of the pair's first group.
        second: Index of its second group, greater than `first`.
        statistic: U of the first group: pairs of values in which it is the greater, ties counting one half.
        pvalue: Two-sided p-value.
        effect_size: Rank-biserial correlation, 2U / (n₁n₂) − 1, from −1 to 1.
    """

    first: np.ndarray
    second: np.ndarray
    statistic: np.ndarray
    pvalue: np.ndarray
    effect_size: np.ndarray


def pairwise_mann_whitney(values: np.ndarray, groups: np.ndarray) -> PairwiseTests:
    """Two-sided Mann–Whitney U tests between all pairs of groups.

    Equal to `scipy.stats.mannwhitneyu` with its defaults on each pair: tie-corrected and continuity-corrected, exact
    for small groups without ties.

    Args:
        values: [n] finite numbers.
        groups: [n] group of each value, as whole numbers 0 … G−1; each group has at least one value.

    Returns:
        The tests of the G(G−1)/2 pairs, ordered by first, then second group.
    """
    _, rank = np.unique(values, return_inverse=True)
    sizes = np.bincount(groups).astype(float)
    statistic, ties = _statistics_and_ties(rank, groups, len(sizes))
    first, second = np.triu_indices(len(sizes), k=1)
    u, tie, n1, n2 = statistic[first, second], ties[first, second], sizes[first], sizes[second]
    pvalue = _asymptotic_pvalues(u, n1, n2, tie)
    exact = (np.minimum(n1, n2) <= EXACT_UP_TO) & (tie == 0)
    if exact.any():
        pvalue[exact] = _exact_pvalues(u[exact], n1[exact].astype(int), n2[exact].astype(int))
    return PairwiseTests(first, second, u, pvalue, 2 * u / (n1 * n2) - 1)


def _statistics_and_ties(rank: np.ndarray, groups: np.ndarray, num_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """U and Σ(t³ − t) over the tied values, for every ordered pair of groups: two [G, G] arrays."""
    statistic = np.zeros((num_groups, num_groups))
    own = np.zeros(num_groups)  # Σ_r c³ − c of one group
    cross = np.zeros((num_groups, num_groups))  # Σ_r c_i² c_j
    largest = int(np.bincount(groups).max())
    dtype: type[np.floating] = np.float32 if largest**2 < _EXACT_IN_FLOAT32 else np.float64
    below = np.zeros(num_groups, dtype=dtype)
    order = np.argsort(rank, kind="stable")
    rank, groups = rank[order], groups[order]
    distinct = int(rank[-1]) + 1
    step = max(1, _CHUNK_ENTRIES // num_groups)
    for low in range(0, distinct, step):
        high = min(low + step, distinct)
        inside = slice(*np.searchsorted(rank, [low, high]))
        cells = (rank[inside] - low) * num_groups + groups[inside]
        counts = np.bincount(cells, minlength=(high - low) * num_groups).reshape(-1, num_groups).astype(dtype)
        upto = np.cumsum(counts, axis=0)
        upto += below
        below = upto[-1].copy()
        upto -= counts / 2
        statistic += counts.T @ upto
        tied = counts[counts.sum(axis=1) > 1].astype(float)
        own += (tied**3 - tied).sum(axis=0)
        cross += (tied**2).T @ tied
    # U counted each value against smaller and equal ones: (upto − c/2) = smaller + c/2. With t = c_i + c_j,
    # t³ − t = (c_i³ − c_i) + (c_j³ − c_j) + 3 c_i² c_j + 3 c_i c_j².
    return statistic, own[:, None] + own[None, :] + 3 * (cross + cross.T)


def _asymptotic_pvalues(u: np.ndarray, n1: np.ndarray, n2: np.ndarray, tie: np.ndarray) -> np.ndarray:
    n = n1 + n2
    sd = np.sqrt(n1 * n2 / 12 * ((n + 1) - tie / (n * (n - 1))))
    greater = np.maximum(u, n1 * n2 - u)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (greater - n1 * n2 / 2 - 0.5) / sd  # sd is 0 if all values are equal: z = −∞, p = 1
    return np.clip(2 * ndtr(-z), 0, 1)


def _exact_pvalues(u: np.ndarray, n1: np.ndarray, n2: np.ndarray) -> np.ndarray:
    """Scipy's exact p-values, which depend on (U, n₁, n₂) alone: looked up on made-up samples, one for each."""
    from scipy.stats import mannwhitneyu  # slow to import, and rarely needed

    pvalues = np.empty(len(u))
    for sizes in np.unique(np.stack([n1, n2]), axis=1).T:
        size1, size2 = sizes
        here = (n1 == size1) & (n2 == size2)
        distinct, which = np.unique(u[here].astype(int), return_inverse=True)
        # x exceeds as many of y = 0 … n₂−1 as it takes for x's share of U; shares add up to U.
        shares = np.clip(distinct[:, None] - size2 * np.arange(size1), 0, size2)
        x = shares - 0.5 + np.arange(size1) / (2 * size1)
        y = np.broadcast_to(np.arange(size2, dtype=float), (len(distinct), size2))
        pvalues[here] = mannwhitneyu(x, y, axis=1, method="exact").pvalue[which]
    return pvalues
