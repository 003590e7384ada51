"""Clusters styles by their correlations (agglomerative clustering).

A partition is an array [styles] of cluster numbers, counted from 0 in the order of the styles.
"""

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

# Values are rounded to this many digits. Otherwise, rounding errors could decide ties differently on other machines.
_DIGITS = 10


def cluster_styles(correlations: np.ndarray) -> np.ndarray:
    """Partitions three or more styles by average linkage with the distance 1 − correlation.

    The number of clusters is chosen to maximise the mean silhouette width. In a tie, the smaller number is chosen.
    """
    distances = np.round(1 - correlations, _DIGITS).clip(0, 2)
    distances = (distances + distances.T) / 2
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False), "average")
    best, widest = partition(tree, 2), -np.inf
    for number in range(2, len(distances)):
        parts = partition(tree, number)
        width = round(silhouette(distances, parts), _DIGITS)
        if width > widest:
            best, widest = parts, width
    return best


def partition(tree: np.ndarray, num_clusters: int) -> np.ndarray:
    number = len(tree) + 1
    members = {style: [style] for style in range(number)}
    for step, (first, second) in enumerate(tree[: number - num_clusters, :2].astype(int).tolist()):
        members[number + step] = members.pop(first) + members.pop(second)
    labels = np.empty(number, np.int64)
    for index, styles in enumerate(sorted(map(sorted, members.values()))):
        labels[styles] = index
    return labels


def silhouette(distances: np.ndarray, labels: np.ndarray) -> float:
    """Computes the mean silhouette width (Rousseeuw, 1987): the mean of (b − a) / max(a, b) over the styles.

    For each style, a is the mean distance to the other styles of its cluster, and b is the mean distance to the styles
    of the nearest other cluster. A style that is alone in its cluster has a width of 0.
    """
    rows = np.arange(len(labels))
    members = np.eye(labels.max() + 1)[labels]
    sizes = members.sum(axis=0)
    sums = distances @ members
    own = sums[rows, labels] / np.maximum(sizes[labels] - 1, 1)
    others = sums / sizes
    others[rows, labels] = np.inf
    nearest = others.min(axis=1)
    larger = np.maximum(own, nearest)
    widths = np.divide(nearest - own, larger, out=np.zeros(len(labels)), where=larger > 0)
    return float(np.where(sizes[labels] > 1, widths, 0).mean())
