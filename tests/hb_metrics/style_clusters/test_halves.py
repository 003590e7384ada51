"""How styles move together, in all replies and in halves of each cell, against numpy on the same rows."""

import re

import numpy as np
import pytest

from hb_metrics.runs.replies import Replies
from hb_metrics.statistics.bias_values import bias_values
from hb_metrics.style_clusters import halves as module
from hb_metrics.style_clusters.clustering import best_jaccards, choose_cut, distances_of, merge_tree, partition
from hb_metrics.style_clusters.halves import correlation_reliability, spearman_brown, styles_moving_together
from tests.hb_metrics.style_clusters.made_styles import made_replies, planted

GROUPS = np.repeat(range(5), 3)


def uneven(descriptor, template):
    """Cells of 1 to 5 replies, and one of none."""
    return 0 if (descriptor, template) == (2, 1) else 1 + (3 * descriptor + template) % 5


def in_halves(replies, seed, num_splits):
    """[splits, replies] which replies are in the first half, as `_halves` draws it for cells in the order of ids."""
    order = np.argsort(replies.ids)
    cells = np.unique([f"{d}|{t}" for d, t in zip(replies.descriptors, replies.templates, strict=True)])
    codes = {cell: code for code, cell in enumerate(cells)}
    members = [codes[f"{d}|{t}"] for d, t in zip(replies.descriptors, replies.templates, strict=True)]
    masks = np.empty((num_splits, len(order)), bool)
    for split in range(num_splits):
        masks[split, order] = module._halves(np.array(members)[order], seed, split)
    return masks, np.array(members)


def taken(replies, rows):
    return Replies(*([column[row] for row in rows] for column in replies))


def correlations(samples, styles, replies):
    if samples == "descriptors":
        styles = bias_values(styles, replies.descriptors, replies.templates, replies.axes).descriptor_means
    return np.corrcoef(np.asarray(styles, float).T)


@pytest.mark.parametrize("samples", ["replies", "descriptors"])
def test_correlations_are_those_of_numpy_in_all_replies_and_in_each_half(samples, monkeypatch):
    monkeypatch.setattr(module, "BATCH_SIZE", 7)
    replies = made_replies(8, 3, uneven)
    styles = planted(replies, GROUPS, of_terms=0.5)
    moving = styles_moving_together(styles, replies, samples=samples, num_splits=3, seed=5)

    assert np.allclose(moving.correlations, correlations(samples, styles, replies), atol=1e-9)
    assert moving.num_samples == (len(styles) if samples == "replies" else 8)
    masks, _ = in_halves(replies, 5, 3)
    for pair, mask in zip(moving.halves, masks, strict=True):
        for half, chosen in zip(pair, (mask, ~mask), strict=True):
            rows = np.flatnonzero(chosen)
            assert np.allclose(half, correlations(samples, styles[rows], taken(replies, rows)), atol=1e-9)
    assert moving.num_still == 0
    assert moving.varies.all()


def test_halves_split_each_cell_and_odd_cells_by_chance():
    replies = made_replies(8, 3, uneven)
    masks, members = in_halves(replies, 0, 200)
    sizes = np.bincount(members)
    for cell, size in enumerate(sizes):
        in_first = masks[:, members == cell].sum(axis=1)
        assert set(in_first) == {size // 2, (size + 1) // 2}
        assert in_first.mean() == pytest.approx(size / 2, abs=0.15)
    assert masks.mean(axis=0) == pytest.approx(0.5, abs=0.15)


@pytest.mark.parametrize("samples", ["replies", "descriptors"])
def test_the_order_of_rows_and_blocks_change_nothing_and_another_seed_does(samples, monkeypatch):
    replies = made_replies(6, 2, 4)
    styles = planted(replies, GROUPS)
    first = styles_moving_together(styles, replies, samples=samples, num_splits=2)
    monkeypatch.setattr(module, "BATCH_SIZE", 5)
    order = np.random.default_rng(0).permutation(len(styles))
    second = styles_moving_together(styles[order], taken(replies, order), samples=samples, num_splits=2)
    other = styles_moving_together(styles, replies, samples=samples, num_splits=2, seed=1)

    assert np.allclose(first.correlations, second.correlations, atol=1e-12)
    assert np.allclose(first.halves, second.halves, atol=1e-12)
    assert not np.allclose(first.halves, other.halves, atol=0.01)


def test_styles_that_do_not_vary_are_left_out():
    replies = made_replies(6, 2, 4)
    part = planted(replies, GROUPS)
    styles = np.column_stack([part[:, :4] * 0.75, np.full(len(part), 0.25), part[:, 4:] * 0.75]).astype(np.float32)
    moving = styles_moving_together(styles, replies, num_splits=2)

    assert np.flatnonzero(~moving.varies).tolist() == [4]
    assert np.allclose(moving.correlations, np.corrcoef(part.T.astype(float)), atol=1e-5)


def test_a_style_that_varies_in_one_half_only_is_uncorrelated_in_the_other_and_counted():
    replies = made_replies(6, 2, 4)
    styles = planted(replies, GROUPS)
    styles[:, 0] = 0
    styles[7, 0] = 0.5  # one reply alone has the style
    moving = styles_moving_together(styles, replies, num_splits=3)

    assert moving.varies.all()
    assert moving.num_still == 3
    still = [half for pair in moving.halves for half in pair if not half[0, 1:].any()]
    assert len(still) == 3
    assert all(half[0, 0] == 1 for half in still)


def test_reliability_of_means_is_the_share_of_their_variance_that_is_signal():
    # Two styles, p and 1 − p, whose term means are known: variance 0.01 of terms, 0.04 / (3 × 8) of noise.
    rng = np.random.default_rng(0)
    replies = made_replies(400, 3, 8)
    terms = np.unique(replies.descriptors, return_inverse=True)[1]
    p = 0.5 + 0.05 * rng.normal(size=400)[terms] + 0.2 * rng.normal(size=len(terms))
    expected = 0.05**2 / (0.05**2 + 0.2**2 / 24)
    moving = styles_moving_together(np.column_stack([p, 1 - p]), replies, samples="descriptors", num_splits=10)

    assert moving.means_reliability == pytest.approx(expected, abs=0.05)
    assert expected == pytest.approx(0.6)


def test_reliability_of_correlations_is_how_they_correlate_with_those_of_other_replies():
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


def test_spearman_brown():
    assert spearman_brown(0.5) == pytest.approx(2 / 3)
    assert (spearman_brown(0), spearman_brown(-0.2), spearman_brown(1)) == (0, -0.2, 1)


def stability(styles, replies, samples):
    """The mean Jaccard index of each cluster with those of halves, and its size."""
    moving = styles_moving_together(styles, replies, samples=samples, num_splits=8)
    distances = distances_of(moving.correlations)
    tree = merge_tree(distances)
    labels = partition(tree, choose_cut(distances, tree).num_clusters)
    others = [partition(merge_tree(distances_of(half)), labels.max() + 1) for pair in moving.halves for half in pair]
    return np.mean([best_jaccards(labels, other) for other in others], axis=0), labels, moving


def test_planted_clusters_recur_in_halves():
    replies = made_replies(20, 3, 8)
    for samples, of_terms in (("replies", 0.0), ("descriptors", 1.0)):
        jaccards, labels, moving = stability(planted(replies, GROUPS, of_terms=of_terms), replies, samples)
        assert labels.tolist() == GROUPS.tolist()
        assert jaccards.min() > 0.97
        assert correlation_reliability(moving.halves) > 0.9


def test_clusters_of_noise_do_not():
    # What the page says of styles that have nothing to do with each other: 0.3 to 0.6.
    replies = made_replies(20, 3, 8)
    for samples in ("replies", "descriptors"):
        found = [stability(planted(replies, range(40), strength=0.0, seed=seed), replies, samples) for seed in range(3)]
        assert all(0.25 < jaccards.mean() < 0.6 for jaccards, _, _ in found)
        assert all(abs(correlation_reliability(moving.halves)) < 0.1 for _, _, moving in found)
        if samples == "descriptors":
            assert all(abs(moving.means_reliability) < 0.25 for _, _, moving in found)


@pytest.mark.parametrize(
    ("num_descriptors", "sizes", "samples", "message"),
    [
        (2, 8, "descriptors", "there are 2 descriptors, and correlations over them need 3; measure more terms, or"),
        (1, 1, "replies", "there are 2 replies, and correlations over them need 3; make more of them"),
        (2, 1, "replies", "a half of the replies has "),
    ],
)
def test_too_few_samples(num_descriptors, sizes, samples, message):
    replies = made_replies(num_descriptors, 2, sizes)

    with pytest.raises(ValueError, match=re.escape(message)):
        styles_moving_together(planted(replies, GROUPS), replies, samples=samples, num_splits=5)


def test_two_terms_are_enough_over_replies():
    replies = made_replies(2, 2, 8)

    assert styles_moving_together(planted(replies, GROUPS), replies).num_samples == 32
