"""Agglomerative clustering of styles from their correlations, the cut of its tree, and the similarity of partitions.

A partition is an array [styles] of cluster numbers, counted from 0 in the order of the styles.
"""

from typing import NamedTuple

import numpy as np
from scipy.cluster.hierarchy import linkage
from scipy.spatial.distance import squareform

# Rounded, so that rounding errors do not decide ties and every machine builds the same tree.
_DIGITS = 10


class Cut(NamedTuple):
    """Where a tree is cut.

    Attributes:
        num_clusters: The number of clusters left.
        height: A distance between the last merge that is kept and the first that is not.
        silhouette: The mean silhouette width of the clusters.
    """

    num_clusters: int
    height: float
    silhouette: float


def distances_of(correlations: np.ndarray) -> np.ndarray:
    """[styles, styles] 1 − correlation."""
    distances = np.round(1 - correlations, _DIGITS).clip(0, 2)
    distances = (distances + distances.T) / 2
    np.fill_diagonal(distances, 0)
    return distances


def merge_tree(distances: np.ndarray) -> np.ndarray:
    """[styles − 1, 4] the merges by average linkage, in the order of their heights, as scipy's `linkage`."""
    return linkage(squareform(distances, checks=False), "average")


def partition(tree: np.ndarray, num_clusters: int) -> np.ndarray:
    """The partition of a tree without its last merges."""
    number = len(tree) + 1
    members = {style: [style] for style in range(number)}
    for step, (first, second) in enumerate(tree[: number - num_clusters, :2].astype(int).tolist()):
        members[number + step] = members.pop(first) + members.pop(second)
    labels = np.empty(number, np.int64)
    for index, styles in enumerate(sorted(map(sorted, members.values()))):
        labels[styles] = index
    return labels


def silhouette(distances: np.ndarray, labels: np.ndarray) -> float:
    """The mean silhouette width (Rousseeuw, 1987): (b − a) / max(a, b) of each style, 0 in a cluster of one.

    a is the style's mean distance to the others of its cluster, b to the nearest other cluster.
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


def choose_cut(distances: np.ndarray, tree: np.ndarray, num_clusters: int | None = None) -> Cut:
    """Cuts at the given number of clusters, else at the highest mean silhouette width (of equals, the fewest).

    Args:
        distances: [styles, styles].
        tree: The merges of the styles.
        num_clusters: The number of clusters left.

    Raises:
        ValueError: The number is not between 2 and one less than the styles.
    """
    number = len(tree) + 1
    if num_clusters is None:
        best = -np.inf
        for left in range(2, number):
            width = round(silhouette(distances, partition(tree, left)), _DIGITS)
            if width > best:
                best, num_clusters = width, left
    if num_clusters is None or not 2 <= num_clusters < number:
        raise ValueError(f"num_clusters is {num_clusters}; set 2 to {number - 1}, one less than the styles that vary")
    height = float(tree[[number - num_clusters - 1, number - num_clusters], 2].mean())
    return Cut(num_clusters, height, silhouette(distances, partition(tree, num_clusters)))


def best_jaccards(labels: np.ndarray, others: np.ndarray) -> np.ndarray:
    """[clusters] the Jaccard index of each cluster of `labels` with the most similar cluster of `others`."""
    common = np.zeros((labels.max() + 1, others.max() + 1), np.int64)
    np.add.at(common, (labels, others), 1)
    union = common.sum(axis=1)[:, None] + common.sum(axis=0) - common
    return (common / union).max(axis=1)
