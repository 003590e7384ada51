"""Clustering of styles from their correlations, against scipy, scikit-learn and counting by hand."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score, silhouette_score

from hb_metrics.style_clusters.clustering import cluster_styles, partition, silhouette


def test_a_partition_by_hand():
    # a and b go together, c less so, d against all: the merges are a + b, + c, + d.
    correlations = np.array([[1, 0.8, 0.5, -0.2], [0.8, 1, 0.3, -0.4], [0.5, 0.3, 1, 0], [-0.2, -0.4, 0, 1]])
    tree = linkage(squareform(1 - correlations, checks=False), "average")
    assert partition(tree, 3).tolist() == [0, 0, 1, 2]
    assert partition(tree, 2).tolist() == [0, 0, 0, 1]
    # Silhouettes: three clusters (0.6 + 5/7 + 0 + 0) / 4, two clusters (17/24 + 19/28 + 2/5 + 0) / 4.
    assert silhouette(1 - correlations, partition(tree, 3)) == pytest.approx((0.6 + 5 / 7) / 4)
    assert cluster_styles(correlations).tolist() == [0, 0, 0, 1]


def test_partitions_and_silhouettes_are_those_of_the_libraries():
    values = np.random.default_rng(0).normal(size=(30, 12))
    distances = 1 - np.corrcoef(values.T)
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False), "average")
    widths = {}
    for number in range(2, 12):
        ours = partition(tree, number)
        assert adjusted_rand_score(ours, fcluster(tree, number, "maxclust")) == 1
        widths[number] = silhouette_score(distances, ours, metric="precomputed")
        assert silhouette(distances, ours) == pytest.approx(widths[number])
    assert cluster_styles(np.corrcoef(values.T)).max() + 1 == max(widths, key=widths.__getitem__)
