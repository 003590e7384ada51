"""Runs Mann–Whitney U tests between all pairs of groups at once. The p-values are the same as scipy's.

All values are sorted once and divided into blocks. The matrix C contains the number of values that each group has in
each block. For values in different blocks, a matrix product of C yields the U statistics of all pairs of groups. For
values in the same block, the pairs of values are counted one by one. Another matrix product counts the ties.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

# scipy.stats.mannwhitneyu(method="auto") is exact if a group has at most this many values and there are no ties.
EXACT_UP_TO = 8
# The number of values in a block. Larger blocks make the matrices smaller, but more pairs must be counted within
# blocks.
_BLOCK = 16
_LATER, _EARLIER = np.tril_indices(_BLOCK, k=-1)
# The maximum number of entries of C in memory at a time (32 MB).
_CHUNK_ENTRIES = 2**22
# Up to this number of multiplications, OpenBLAS uses only one thread. On a busy machine, several threads would wait for
# each other. Products are therefore computed in parts of this size, unless a part would have fewer than _FEWEST rows.
_ONE_THREAD = 2**18
_FEWEST = 4


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
    order = np.argsort(values)
    in_order = values[order]
    tied = in_order[1:] == in_order[:-1]
    if tied.any():  # among equal values, the values of the first group come first
        order = np.lexsort((groups, values))
    statistic = _wins(groups[order], len(sizes))
    tie = np.zeros(len(first))
    if tied.any():
        halves, ties = _ties(np.cumsum(np.append(False, ~tied)), groups[order], len(sizes))
        statistic += halves
        tie = ties[first, second]
    u, n1, n2 = statistic[first, second], sizes[first], sizes[second]
    pvalue = _asymptotic_pvalues(u, n1, n2, tie)
    if sizes.min() <= EXACT_UP_TO:
        exact = (np.minimum(n1, n2) <= EXACT_UP_TO) & (tie == 0)
        if exact.any():
            pvalue[exact] = _exact_pvalues(u[exact], n1[exact].astype(int), n2[exact].astype(int))
    return PairwiseTests(first, second, u, pvalue, 2 * u / (n1 * n2) - 1)


def _wins(groups: np.ndarray, num_groups: int) -> np.ndarray:
    """Counts, for groups i and j, the pairs of values in which the value of group i comes later: [G, G].

    `groups` contains the groups of the values, sorted from the smallest to the largest value. The result's diagonal has
    no meaning.
    """
    wins = np.zeros((num_groups, num_groups))
    below = np.zeros(num_groups)  # the number of values of each group before the chunk
    # An extra group fills up the last block. Its counts are not used.
    spare = num_groups
    num_blocks = -(-len(groups) // _BLOCK)
    blocks = np.full((num_blocks, _BLOCK), spare)
    blocks.flat[: len(groups)] = groups
    step = max(1, _CHUNK_ENTRIES // (spare + _BLOCK**2))
    rows = _ONE_THREAD // spare**2
    if rows < _FEWEST:
        rows = step
    within: np.ndarray = np.zeros((spare + 1) ** 2, dtype=np.int64)
    for low in range(0, num_blocks, step):
        chunk = blocks[low : low + step]
        # Count pairs of values in the same block.
        pairs = chunk[:, _LATER] * (spare + 1) + chunk[:, _EARLIER]
        within += np.bincount(pairs.ravel(), minlength=len(within))
        # Count pairs of values in different blocks.
        cells = np.arange(len(chunk))[:, None] * (spare + 1) + chunk
        counts = np.bincount(cells.ravel(), minlength=len(chunk) * (spare + 1)).reshape(len(chunk), spare + 1)
        counts = counts[:, :spare].astype(float)
        upto: np.ndarray = np.cumsum(counts, axis=0)
        upto += below
        below = upto[-1].copy()
        upto -= counts
        for first in range(0, len(counts), rows):
            wins += counts[first : first + rows].T @ upto[first : first + rows]
    return wins + within.reshape(spare + 1, spare + 1)[:spare, :spare]


def _ties(rank: np.ndarray, groups: np.ndarray, num_groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Computes the tie corrections for each ordered pair of groups (i, j).

    `rank` [n] contains the index of each value among the distinct values, in ascending order. `groups` [n] contains the
    values' groups, in ascending order within the same rank.

    Returns:
        Two arrays [G, G]. The first array corrects the result of `_wins`, which counts a tie as 1 for the group with
        the greater number and as 0 for the other group. When the array is added to this result, each tie counts as one
        half for both groups. The second array is Σ(t³ − t) over the tied values. The diagonals have no meaning.
    """
    own = np.zeros(num_groups)  # Σ_r c³ − c of one group
    both = np.zeros((num_groups, num_groups))  # Σ_r c_i c_j
    cross = np.zeros((num_groups, num_groups))  # Σ_r c_i² c_j
    repeated = np.bincount(rank) > 1
    kept = repeated[rank]
    rank, groups = (np.cumsum(repeated) - 1)[rank[kept]], groups[kept]
    distinct = int(rank[-1]) + 1
    step = max(1, _CHUNK_ENTRIES // num_groups)
    for low in range(0, distinct, step):
        high = min(low + step, distinct)
        inside = slice(*np.searchsorted(rank, [low, high]))
        cells = (rank[inside] - low) * num_groups + groups[inside]
        counts = np.bincount(cells, minlength=(high - low) * num_groups).reshape(-1, num_groups).astype(float)
        own += (counts**3 - counts).sum(axis=0)
        both += counts.T @ counts
        cross += (counts**2).T @ counts
    halves = (np.triu(both) - np.tril(both)) / 2
    # With t = c_i + c_j, t³ − t = (c_i³ − c_i) + (c_j³ − c_j) + 3 c_i² c_j + 3 c_i c_j².
    return halves, own[:, None] + own[None, :] + 3 * (cross + cross.T)


def _asymptotic_pvalues(u: np.ndarray, n1: np.ndarray, n2: np.ndarray, tie: np.ndarray) -> np.ndarray:
    n = n1 + n2
    sd = np.sqrt(n1 * n2 / 12 * ((n + 1) - tie / (n * (n - 1))))
    greater = np.maximum(u, n1 * n2 - u)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = (greater - n1 * n2 / 2 - 0.5) / sd  # if all values are equal, sd is 0, so z = −∞ and p = 1
    return np.clip(2 * ndtr(-z), 0, 1)


def _exact_pvalues(u: np.ndarray, n1: np.ndarray, n2: np.ndarray) -> np.ndarray:
    """Computes exact p-values with scipy, from a constructed sample for each combination of U, n₁ and n₂."""
    from scipy.stats import mannwhitneyu  # this import is slow, and it is rarely needed

    pvalues = np.empty(len(u))
    for sizes in np.unique(np.stack([n1, n2]), axis=1).T:
        size1, size2 = sizes
        chosen = (n1 == size1) & (n2 == size2)
        distinct, index = np.unique(u[chosen].astype(int), return_inverse=True)
        # U is the number of pairs in which x is above y, for y = 0 … n₂−1. It is divided among the values of x.
        shares = np.clip(distinct[:, None] - size2 * np.arange(size1), 0, size2)
        x = shares - 0.5 + np.arange(size1) / (2 * size1)
        y = np.broadcast_to(np.arange(size2, dtype=float), (len(distinct), size2))
        pvalues[chosen] = mannwhitneyu(x, y, axis=1, method="exact").pvalue[index]
    return pvalues
