"""Clustering of styles from their correlations, against scipy, scikit-learn and counting by hand."""

import re

import numpy as np
import pytest
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score, silhouette_score

from hb_metrics.style_clusters.clustering import (
    LINKAGES,
    adjusted_rand_index,
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
    heights = {"average": [0.2, 0.6, 1.2], "complete": [0.2, 0.7, 1.4], "single": [0.2, 0.5, 1.0]}
    assert heights.keys() == set(LINKAGES)
    for method, expected in heights.items():
        assert np.allclose(merge_tree(distances, method)[:, 2], expected)
    assert merge_tree(distances)[:, :2].tolist() == [[0, 1], [2, 4], [3, 5]]


@pytest.mark.parametrize("method", LINKAGES)
def test_trees_and_partitions_are_those_of_scipy(method):
    for seed in range(2):
        distances = random_distances(seed)
        tree = merge_tree(distances, method)
        assert np.array_equal(tree, linkage(squareform(distances), method))
        for number in (1, 2, 5, 9, 11, 12):
            ours = partition(tree, number)
            assert ours.max() + 1 == number
            assert adjusted_rand_score(ours, fcluster(tree, number, "maxclust")) == 1


def test_clusters_are_numbered_by_their_first_style():
    tree = merge_tree(distances_of(BY_HAND[::-1, ::-1]))

    assert partition(tree, 3).tolist() == [0, 1, 2, 2]
    assert partition(tree, 2).tolist() == [0, 1, 1, 1]


def test_silhouettes_are_those_of_scikit_learn():
    for seed in range(2):
        distances = random_distances(seed)
        tree = merge_tree(distances)
        for number in (2, 3, 6, 11):
            labels = partition(tree, number)
            assert silhouette(distances, labels) == pytest.approx(
                silhouette_score(distances, labels, metric="precomputed")
            )


def test_adjusted_rand_index_is_that_of_scikit_learn():
    rng = np.random.default_rng(0)
    for number in (2, 5, 20):
        for _ in range(4):
            first, second = (np.unique(rng.integers(number, size=20), return_inverse=True)[1] for _ in "ab")
            assert adjusted_rand_index(first, second) == pytest.approx(adjusted_rand_score(first, second))
    alone, one = np.arange(5), np.zeros(5, int)
    assert adjusted_rand_index(alone, alone) == adjusted_rand_index(one, one) == 1
    assert adjusted_rand_index(alone, one) == 0


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
        assert (cut.by, cut.num_clusters) == ("silhouette", groups)
        assert partition(tree, groups).tolist() == np.repeat(range(groups), size).tolist()
        assert tree[-groups, 2] < cut.height < tree[-groups + 1, 2]


def test_a_given_cut():
    distances = distances_of(BY_HAND)
    tree = merge_tree(distances)  # merges at 0.2, 0.6, 1.2

    assert choose_cut(distances, tree, 3)[:3] == ("num_clusters", 3, pytest.approx(0.4))
    assert choose_cut(distances, tree, min_correlation=0.4)[:2] == ("min_correlation", 2)
    assert choose_cut(distances, tree, min_correlation=0.41)[:2] == ("min_correlation", 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_clusters": 1}, "num_clusters is 1; give 2 to 3, one less than the styles that vary"),
        ({"num_clusters": 4}, "num_clusters is 4; give 2 to 3"),
        ({"min_correlation": 1.0}, "min_correlation is 1.0; give a number greater than -1 and less than 1"),
        ({"min_correlation": float("nan")}, "min_correlation is nan; give a number"),
        ({"min_correlation": 0.9}, "leaves 4 clusters of 4 styles; styles are merged at correlations from -0.200 to"),
        ({"min_correlation": -0.9}, "leaves 1 clusters of 4 styles"),
    ],
)
def test_cuts_that_are_not_possible(options, message):
    distances = distances_of(BY_HAND)

    with pytest.raises(ValueError, match=re.escape(message)):
        choose_cut(distances, merge_tree(distances), **options)
