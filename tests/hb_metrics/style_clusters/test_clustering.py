"""Clustering of styles from their correlations, against scikit-learn and counting by hand."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score, silhouette_score

from hb_metrics.style_clusters.__main__ import cluster_styles, silhouette


def test_a_partition_by_hand():
    # a and b go together, c less so, d against all: the merges are a + b, + c, + d.
    correlations = np.array([[1, 0.8, 0.5, -0.2], [0.8, 1, 0.3, -0.4], [0.5, 0.3, 1, 0], [-0.2, -0.4, 0, 1]])
    # Silhouettes: three clusters (0.6 + 5/7 + 0 + 0) / 4, two clusters (17/24 + 19/28 + 2/5 + 0) / 4.
    assert silhouette(1 - correlations, np.array([0, 0, 1, 2])) == pytest.approx((0.6 + 5 / 7) / 4)
    assert adjusted_rand_score(cluster_styles(correlations), [0, 0, 0, 1]) == 1


def test_the_partition_is_the_widest_of_the_libraries():
    correlations = np.corrcoef(np.random.default_rng(0).normal(size=(12, 30)))
    distances = 1 - correlations
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False), "average")
    partitions = [fcluster(tree, number, "maxclust") for number in range(2, 12)]
    widths = [silhouette_score(distances, labels, metric="precomputed") for labels in partitions]
    assert [silhouette(distances, labels - 1) for labels in partitions] == pytest.approx(widths)
    assert adjusted_rand_score(cluster_styles(correlations), partitions[np.argmax(widths)]) == 1
