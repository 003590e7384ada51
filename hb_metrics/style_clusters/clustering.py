"""Agglomerative clustering of styles from their correlations, where its tree is cut, and how two partitions agree.

A partition is an array [styles] with the number of each style's cluster, counted from 0 in the order of the styles.
"""

from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

LINKAGES = ("average", "complete", "single")
# Correlations that differ by rounding errors alone are equal, so that the tree is the same on every machine.
_DIGITS = 10

NUM_CLUSTERS_ERROR = "num_clusters is {number}; give 2 to {most}, one less than the styles that vary"
MIN_CORRELATION_ERROR = "min_correlation is {value}; give a number greater than -1 and less than 1"
NO_CUT_ERROR = (
    "min_correlation {value} leaves {number} clusters of {styles} styles; styles are merged at correlations from "
    "{lowest:.3f} to {highest:.3f}: give a number between these, or --num_clusters"
)


class Cut(NamedTuple):
    """Where a tree is cut.

    Attributes:
        by: What decided: "silhouette", "num_clusters" or "min_correlation".
        num_clusters: How many clusters are left.
        height: A distance between the last merge that is kept and the first that is not.
        silhouette: The mean silhouette width of the clusters.
    """

    by: str
    num_clusters: int
    height: float
    silhouette: float


def distances_of(correlations: np.ndarray) -> np.ndarray:
    """[styles, styles] 1 − correlation."""
    distances = np.round(1 - correlations, _DIGITS).clip(0, 2)
    distances = (distances + distances.T) / 2
    np.fill_diagonal(distances, 0)
    return distances


def merge_tree(distances: np.ndarray, method: str = "average") -> np.ndarray:
    """[styles − 1, 4] the merges in the order of their heights, as `scipy.cluster.hierarchy.linkage` gives them."""
    return linkage(squareform(distances, checks=False), method)


def partition(tree: np.ndarray, num_clusters: int) -> np.ndarray:
    """The partition with so many clusters: that of the tree without its last merges."""
    number = len(tree) + 1
    members = {style: [style] for style in range(number)}
    for step, (first, second) in enumerate(tree[: number - num_clusters, :2].astype(int).tolist()):
        members[number + step] = members.pop(first) + members.pop(second)
    labels = np.empty(number, np.int64)
    for index, styles in enumerate(sorted(map(sorted, members.values()))):
        labels[styles] = index
    return labels


def silhouette(distances: np.ndarray, labels: np.ndarray) -> float:
    """The mean silhouette width (Rousseeuw, 1987): (b − a) / max(a, b) of each style, 0 of one by itself.

    a is its mean distance to the others of its cluster, b that to the nearest other cluster.
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


def choose_cut(
    distances: np.ndarray, tree: np.ndarray, num_clusters: int | None = None, min_correlation: float | None = None
) -> Cut:
    """Chooses where to cut: at the given number or correlation, else where the mean silhouette width is the highest.

    Args:
        distances: [styles, styles].
        tree: Their merges.
        num_clusters: How many clusters are left.
        min_correlation: Merges at a lower correlation (1 − height) are not made.

    Raises:
        ValueError: The number is not between 2 and one less than the styles, or the correlation leaves such a one.
    """
    number = len(tree) + 1
    if num_clusters is not None:
        if not 2 <= num_clusters < number:
            raise ValueError(NUM_CLUSTERS_ERROR.format(number=num_clusters, most=number - 1))
        return _cut("num_clusters", distances, tree, num_clusters)
    if min_correlation is not None:
        if not -1 < min_correlation < 1:
            raise ValueError(MIN_CORRELATION_ERROR.format(value=min_correlation))
        left = number - int((tree[:, 2] <= 1 - min_correlation).sum())
        if not 2 <= left < number:
            correlations = {"lowest": 1 - tree[-1, 2], "highest": 1 - tree[0, 2]}
            raise ValueError(NO_CUT_ERROR.format(value=min_correlation, number=left, styles=number, **correlations))
        return _cut("min_correlation", distances, tree, left)
    widths = {left: silhouette(distances, partition(tree, left)) for left in range(2, number)}
    # Of equals the fewest, whatever the rounding errors.
    return _cut("silhouette", distances, tree, max(widths, key=lambda left: (round(widths[left], _DIGITS), -left)))


def _cut(by: str, distances: np.ndarray, tree: np.ndarray, num_clusters: int) -> Cut:
    kept = len(tree) + 1 - num_clusters
    height = float(tree[kept - 1 : kept + 1, 2].mean())
    return Cut(by, num_clusters, height, silhouette(distances, partition(tree, num_clusters)))


def contingency(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """[clusters, clusters] how many styles each cluster of a partition shares with each of another."""
    counts = np.zeros((first.max() + 1, second.max() + 1), np.int64)
    np.add.at(counts, (first, second), 1)
    return counts


def best_jaccards(labels: np.ndarray, others: np.ndarray) -> np.ndarray:
    """[clusters] the Jaccard index of each cluster of `labels` with the one of `others` that is most like it."""
    common = contingency(labels, others)
    union = common.sum(axis=1)[:, None] + common.sum(axis=0) - common
    return (common / union).max(axis=1)


def adjusted_rand_index(first: np.ndarray, second: np.ndarray) -> float:
    """How far two partitions agree (Hubert and Arabie, 1985): 1 if they are the same, 0 on average by chance."""
    common = contingency(first, second)
    both, in_first, in_second = (
        float((counts * (counts - 1) / 2).sum()) for counts in (common, common.sum(axis=1), common.sum(axis=0))
    )
    expected = in_first * in_second / max(len(first) * (len(first) - 1) / 2, 1)
    most = (in_first + in_second) / 2
    return 1.0 if most == expected else (both - expected) / (most - expected)
