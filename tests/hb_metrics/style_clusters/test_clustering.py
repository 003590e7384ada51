"""Clustering of styles from their correlations, against scipy, scikit-learn and counting by hand."""

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score, silhouette_score

from hb_metrics.style_clusters.clustering import (
    best_jaccards,
    choose_cut,
    distances_of,
    merge_tree,
    partition,
    silhouette,
)

# a and b go together, c less so, d against all.
BY_HAND = np.array([[1, 0.8, 0.5, -0.2], [0.8, 1, 0.3, -0.4], [0.5, 0.3, 1, 0], [-0.2, -0.4, 0, 1]])


def random_distances(seed, number=12):
    values = np.random.default_rng(seed).normal(size=(30, number))
    return distances_of(np.corrcoef(values.T))


def test_a_tree_by_hand():
    distances = distances_of(BY_HAND)

    assert np.allclose(distances, [[0, 0.2, 0.5, 1.2], [0.2, 0, 0.7, 1.4], [0.5, 0.7, 0, 1], [1.2, 1.4, 1, 0]])
    tree = merge_tree(distances)
    assert np.allclose(tree[:, 2], [0.2, 0.6, 1.2])
    assert tree[:, :2].tolist() == [[0, 1], [2, 4], [3, 5]]
    assert partition(merge_tree(distances_of(BY_HAND[::-1, ::-1])), 3).tolist() == [0, 1, 2, 2]


def test_trees_and_silhouettes_are_those_of_the_libraries():
    for seed in range(2):
        distances = random_distances(seed)
        tree = merge_tree(distances)
        assert np.array_equal(tree, linkage(squareform(distances), "average"))
        for number in (2, 5, 9, 11):
            ours = partition(tree, number)
            assert ours.max() + 1 == number
            assert adjusted_rand_score(ours, fcluster(tree, number, "maxclust")) == 1
            expected = silhouette_score(distances, ours, metric="precomputed")
            assert silhouette(distances, ours) == pytest.approx(expected)


def test_jaccard_indices_are_those_of_counting():
    first, second = np.array([0, 0, 0, 1, 1, 2]), np.array([0, 0, 1, 1, 1, 2])

    assert best_jaccards(first, second).tolist() == [2 / 3, 2 / 3, 1]
    assert best_jaccards(first, first).tolist() == [1, 1, 1]
    assert best_jaccards(np.zeros(6, int), np.arange(6)).tolist() == [1 / 6]


def test_the_cut_is_at_the_planted_number_of_clusters():
    rng = np.random.default_rng(1)
    for groups, size in ((3, 4), (6, 2), (2, 10)):
        factors = np.repeat(rng.normal(size=(300, groups)), size, axis=1)
        distances = distances_of(np.corrcoef((0.8 * factors + 0.6 * rng.normal(size=factors.shape)).T))
        tree = merge_tree(distances)
        cut = choose_cut(distances, tree)
        assert cut.num_clusters == groups
        assert partition(tree, groups).tolist() == np.repeat(range(groups), size).tolist()
        assert tree[-groups, 2] < cut.height < tree[-groups + 1, 2]


def test_a_given_cut():
    distances = distances_of(BY_HAND)
    tree = merge_tree(distances)  # merges at 0.2, 0.6, 1.2

    assert choose_cut(distances, tree, 3)[:2] == (3, pytest.approx(0.4))
    for number in (1, 4):
        with pytest.raises(ValueError, match=f"num_clusters is {number}; set 2 to 3"):
            choose_cut(distances, tree, number)
