"""Runs Mann–Whitney U tests between all pairs of groups at once. The p-values are the same as scipy's.

The matrix C contains the number of values of each group at each distinct value, in ascending order. Sums over its
columns yield the U statistics of all pairs of groups, and products of its columns the corrections for ties.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse, stats
from scipy.special import ndtr

# scipy.stats.mannwhitneyu(method="auto") is exact if a group has at most this many values and there are no ties.
EXACT_UP_TO = 8


class PairwiseTests(NamedTuple):
    """The tests of all pairs of groups. All arrays are [pairs].

    Attributes:
        statistic: U of the first group. A tie counts as one half.
        effect_size: The rank-biserial correlation 2U / (n₁n₂) − 1.
    """

    first: np.ndarray
    second: np.ndarray
    statistic: np.ndarray
    pvalue: np.ndarray
    effect_size: np.ndarray


def pairwise_mann_whitney(values: np.ndarray, groups: np.ndarray) -> PairwiseTests:
    """Runs two-sided Mann–Whitney U tests between all pairs of groups, like `scipy.stats.mannwhitneyu` by default.

    If all values of a pair are equal, the p-value is 1. scipy from 1.18 returns NaN.

    Args:
        values: [n] Finite numbers.
        groups: [n] The group of each value, as whole numbers from 0 to G−1. Each group has at least one value.

    Returns:
        The tests of the G(G−1)/2 pairs, sorted by the first group and then by the second group.
    """
    sizes = np.bincount(groups).astype(float)
    first, second = np.nonzero(np.tri(len(sizes), k=-1, dtype=bool).T)
    distinct, rank = np.unique(values, return_inverse=True)
    counts = sparse.csc_array((np.ones(len(values)), (rank, groups)), shape=(len(distinct), len(sizes)))
    whole = counts.toarray()
    # For each distinct value, the values of each group that are below it. A tie counts as one half.
    statistic = counts.T @ (whole.cumsum(axis=0) - whole / 2)
    u, n1, n2 = statistic[first, second], sizes[first], sizes[second]
    tie = np.zeros(len(first))
    if len(distinct) < len(values):
        # With t = c_i + c_j, t³ − t = (c_i³ − c_i) + (c_j³ − c_j) + 3 c_i² c_j + 3 c_i c_j².
        own, cross = (counts.power(3) - counts).sum(axis=0), (counts.power(2).T @ counts).toarray()
        tie = own[first] + own[second] + 3 * (cross[first, second] + cross[second, first])
    pvalue = _asymptotic_pvalues(u, n1, n2, tie)
    exact = (np.minimum(n1, n2) <= EXACT_UP_TO) & (tie == 0)
    if exact.any():
        pvalue[exact] = _exact_pvalues(u[exact], n1[exact].astype(int), n2[exact].astype(int))
    return PairwiseTests(first, second, u, pvalue, 2 * u / (n1 * n2) - 1)


def _asymptotic_pvalues(u: np.ndarray, n1: np.ndarray, n2: np.ndarray, tie: np.ndarray) -> np.ndarray:
    n = n1 + n2
    sd = np.sqrt(n1 * n2 / 12 * ((n + 1) - tie / (n * (n - 1))))
    greater = np.maximum(u, n1 * n2 - u)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (greater - n1 * n2 / 2 - 0.5) / sd  # if all values are equal, sd is 0, so z = −∞ and p = 1
    return np.clip(2 * ndtr(-z), 0, 1)


def _exact_pvalues(u: np.ndarray, n1: np.ndarray, n2: np.ndarray) -> np.ndarray:
    """Computes exact p-values with scipy, from a constructed sample for each combination of U, n₁ and n₂."""
    pvalues = np.empty(len(u))
    for sizes in np.unique(np.stack([n1, n2]), axis=1).T:
        size1, size2 = sizes
        chosen = (n1 == size1) & (n2 == size2)
        distinct, index = np.unique(u[chosen].astype(int), return_inverse=True)
        # U is the number of pairs in which x is above y, for y = 0 … n₂−1. It is divided among the values of x.
        shares = np.clip(distinct[:, None] - size2 * np.arange(size1), 0, size2)
        x = shares - 0.5 + np.arange(size1) / (2 * size1)
        y = np.broadcast_to(np.arange(size2, dtype=float), (len(distinct), size2))
        pvalues[chosen] = stats.mannwhitneyu(x, y, axis=1, method="exact").pvalue[index]
    return pvalues
