"""How styles move together, in all replies and in halves of each cell, against numpy on the same rows."""

import re

import numpy as np
import pytest

from hb_metrics.runs.replies import Replies
from hb_metrics.style_clusters import halves as module
from hb_metrics.style_clusters.clustering import best_jaccards, choose_cut, distances_of, merge_tree, partition
from hb_metrics.style_clusters.halves import correlation_reliability, styles_moving_together
from tests.hb_metrics.style_clusters.made_styles import made_replies, planted

GROUPS = np.repeat(range(5), 3)


def uneven(descriptor, template):
    """Cells of 1 to 5 replies, and one of none."""
    return 0 if (descriptor, template) == (2, 1) else 1 + (3 * descriptor + template) % 5


def taken(replies, rows):
    return Replies(*([column[row] for row in rows] for column in replies))


def test_correlations_are_those_of_numpy():
    replies = made_replies(8, 3, uneven)
    styles = planted(replies, GROUPS, of_terms=0.5)
    moving = styles_moving_together(styles, replies, num_splits=3, seed=5)

    assert np.allclose(moving.correlations, np.corrcoef(styles.T.astype(float)), atol=1e-9)
    for pair, first in zip(moving.halves, module._draw_halves(replies, 3, 5), strict=True):
        for half, chosen in zip(pair, (first, ~first), strict=True):
            assert np.allclose(half, np.corrcoef(styles[chosen].T.astype(float)), atol=1e-9)
    assert moving.num_still == 0
    assert moving.varies.all()


def test_halves_split_each_cell_and_odd_cells_by_chance():
    replies = made_replies(8, 3, uneven)
    in_first = module._draw_halves(replies, 200, 0)
    cells = np.array([f"{d}|{t}" for d, t in zip(replies.descriptors, replies.templates, strict=True)])
    for cell in np.unique(cells):
        size = (cells == cell).sum()
        numbers = in_first[:, cells == cell].sum(axis=1)
        assert set(numbers) == {size // 2, (size + 1) // 2}
        assert numbers.mean() == pytest.approx(size / 2, abs=0.15)
    assert in_first.mean(axis=0) == pytest.approx(0.5, abs=0.15)


def test_order_changes_nothing_and_the_seed_does():
    replies = made_replies(6, 2, 4)
    styles = planted(replies, GROUPS)
    first = styles_moving_together(styles, replies, num_splits=2)
    order = np.random.default_rng(0).permutation(len(styles))
    second = styles_moving_together(styles[order], taken(replies, order), num_splits=2)
    other = styles_moving_together(styles, replies, num_splits=2, seed=1)

    assert np.allclose(first.correlations, second.correlations, atol=1e-12)
    assert np.allclose(first.halves, second.halves, atol=1e-12)
    assert not np.allclose(first.halves, other.halves, atol=0.01)


def test_reliability_is_the_correlation_with_other_replies():
    replies = made_replies(10, 3, 6)
    estimated, actual = [], []
    pairs = np.triu_indices(15, 1)
    for seed in range(12):
        first, second = (planted(replies, GROUPS, strength=0.45, seed=2 * seed + part) for part in (0, 1))
        moving = styles_moving_together(first, replies, num_splits=6)
        estimated.append(correlation_reliability(moving.halves))
        other = styles_moving_together(second, replies, num_splits=2).correlations
        actual.append(np.corrcoef(moving.correlations[pairs], other[pairs])[0, 1])
    assert 0.2 < np.mean(actual) < 0.8
    assert np.mean(estimated) == pytest.approx(np.mean(actual), abs=0.08)


def stability(styles, replies):
    """The mean Jaccard index of each cluster with those of halves, the partition, and how styles move together."""
    moving = styles_moving_together(styles, replies, num_splits=8)
    distances = distances_of(moving.correlations)
    tree = merge_tree(distances)
    labels = partition(tree, choose_cut(distances, tree).num_clusters)
    others = [partition(merge_tree(distances_of(half)), labels.max() + 1) for pair in moving.halves for half in pair]
    return np.mean([best_jaccards(labels, other) for other in others], axis=0), labels, moving


def test_planted_clusters_recur_in_halves_and_noise_does_not():
    replies = made_replies(20, 3, 8)
    jaccards, labels, moving = stability(planted(replies, GROUPS), replies)
    assert labels.tolist() == GROUPS.tolist()
    assert jaccards.min() > 0.97
    assert correlation_reliability(moving.halves) > 0.9
    for seed in range(3):  # the page says of styles that have nothing to do with each other: 0.3 to 0.6
        jaccards, _, moving = stability(planted(replies, range(40), strength=0.0, seed=seed), replies)
        assert 0.25 < jaccards.mean() < 0.6
        assert abs(correlation_reliability(moving.halves)) < 0.1


@pytest.mark.parametrize(("num_descriptors", "number"), [(1, 2), (2, 4)])
def test_too_few_replies(num_descriptors, number):
    replies = made_replies(num_descriptors, 2, 1)
    with pytest.raises(ValueError, match=re.escape(f"there are {number} replies")):
        styles_moving_together(planted(replies, GROUPS), replies, num_splits=5)
