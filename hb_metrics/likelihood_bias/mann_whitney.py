"""Mann–Whitney U tests between all pairs of groups at once, with the p-values of scipy.

All values are sorted once and cut into blocks. C contains the number of values of each group in each block. From C, a
single matrix product yields the U statistics of all pairs for values in different blocks. Pairs of values in the same
block are counted. Another matrix product counts the ties of all pairs.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import ndtr

# scipy.stats.mannwhitneyu(method="auto") is exact if one group has at most this many values and the pair has no ties.
EXACT_UP_TO = 8
# The number of values in a block. Larger blocks make the matrices smaller, but there is more to count within blocks.
_BLOCK = 16
_LATER, _EARLIER = np.tril_indices(_BLOCK, k=-1)
# The number of entries of C that memory holds at a time (32 MB).
_CHUNK_ENTRIES = 2**22
# OpenBLAS uses only one thread up to this number of multiplications. On a busy machine, several threads would wait for
# each other. Products are therefore computed in parts of this size, if such parts have at least _FEWEST rows.
_ONE_THREAD = 2**18
_FEWEST = 4


class PairwiseTests(NamedTuple):
    """One test for each unordered pair of groups. All arrays are [pairs].

    `statistic` is the U of the first group, in which a tie counts as one half. `pvalue` is two-sided. `effect_size` is
    the rank-biserial correlation 2U / (n₁n₂) − 1.
    """

    first: np.ndarray
    second: np.ndarray
    statistic: np.ndarray
    pvalue: np.ndarray
    effect_size: np.ndarray


def pairwise_mann_whitney(values: np.ndarray, groups: np.ndarray) -> PairwiseTests:
    """Runs two-sided Mann–Whitney U tests between all pairs of groups.

    For each pair, the results equal those of `scipy.stats.mannwhitneyu` with its defaults. They are corrected for ties
    and for continuity, and exact for small groups without ties.

    Args:
        values: [n] finite numbers.
        groups: [n] group of each value, as whole numbers 0 … G−1; each group has at least one value.

    Returns:
        The tests of the G(G−1)/2 pairs, ordered by the first group, then by the second.
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
    """Counts the pairs of values of groups i and j in which the value of i comes later: [G, G].

    `groups` must be in the order of the values, from the smallest to the largest. The diagonal of the result has no
    meaning.
    """
    wins = np.zeros((num_groups, num_groups))
    below = np.zeros(num_groups)  # the number of values of each group before the chunk
    # An extra group contains the values that fill up the last block. Nothing is counted for this group.
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
        # Pairs of values in the same block.
        pairs = chunk[:, _LATER] * (spare + 1) + chunk[:, _EARLIER]
        within += np.bincount(pairs.ravel(), minlength=len(within))
        # Pairs of values in different blocks.
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

    Args:
        rank: [n] index of each value among the distinct values, in ascending order.
        groups: [n] group of each value, in ascending order within the same rank.
        num_groups: G.

    Returns:
        Two [G, G] arrays. The first array corrects the result of `_wins`, which counts a tie as 1 for the greater group
        and 0 for the other. After the correction, each tie counts as one half for both groups. The second array is Σ(t³
        − t) over the tied values. The diagonals have no meaning.
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
    """Computes scipy's exact p-values.

    They depend only on (U, n₁, n₂), so one constructed sample is tested for each such combination.
    """
    from scipy.stats import mannwhitneyu  # this import is slow, and it is rarely needed

    pvalues = np.empty(len(u))
    for sizes in np.unique(np.stack([n1, n2]), axis=1).T:
        size1, size2 = sizes
        chosen = (n1 == size1) & (n2 == size2)
        distinct, index = np.unique(u[chosen].astype(int), return_inverse=True)
        # Each x exceeds as many of y = 0 … n₂−1 as its share of U requires. The shares sum to U.
        shares = np.clip(distinct[:, None] - size2 * np.arange(size1), 0, size2)
        x = shares - 0.5 + np.arange(size1) / (2 * size1)
        y = np.broadcast_to(np.arange(size2, dtype=float), (len(distinct), size2))
        pvalues[chosen] = mannwhitneyu(x, y, axis=1, method="exact").pvalue[index]
    return pvalues
