"""Changes with intervals: the formulas against brute force, and how often they hold the truth."""

from itertools import combinations

import numpy as np
import pytest
from scipy import stats

from hb_metrics.stats.changes import (
    FEW_TERMS_REASON,
    ROUGH_REASON,
    UNCHANGED_REASON,
    change_from_covariance,
    pair_share_change,
    perplexity_change,
)
from hb_metrics.stats.reply_shares import share_change, share_interval


def test_the_interval_is_that_of_the_variance_of_a_difference():
    covariance = np.array([[4.0, 2.0], [2.0, 3.0]])
    change = change_from_covariance(10.0, 7.0, covariance, 9, 0.9)
    half = stats.t.ppf(0.95, 9) * np.sqrt(3)
    assert change.change == -3
    assert change.interval == pytest.approx((-3 - half, -3 + half))
    assert change.beyond_chance == (half < 3)


@pytest.mark.parametrize("second", [6.0, -0.2])
def test_ratios_are_those_whose_difference_interval_holds_0(second):
    covariance = np.array([[4.0, 1.5], [1.5, 3.0]])
    change = change_from_covariance(10.0, second, covariance, 30, 0.95)
    inside = []
    for ratio in np.linspace(0, 3, 1201):
        times = np.diag([ratio, 1.0])
        scaled = change_from_covariance(10 * ratio, second, times @ covariance @ times, 30, 0.95)
        if scaled.interval[0] <= 0 <= scaled.interval[1]:
            inside.append(ratio)
    assert change.relative_interval == pytest.approx((min(inside) - 1, max(inside) - 1), abs=3e-3)
    assert change.relative == max(second / 10 - 1, -1)


def test_there_are_no_percent_of_a_value_that_may_be_0():
    change = change_from_covariance(2.0, 1.0, np.diag([4.0, 0.1]), 50, 0.95)
    assert change.interval is not None
    assert change.relative is None
    assert change.relative_interval is None


@pytest.mark.parametrize(
    "covariance",
    [
        [[-0.01, 0], [0, 4]],  # unbiased variances may be below 0
        [[0.01, 0], [0, -0.001]],
        [[1, 2], [2, 3]],  # that of the ratio is below 0
        [[0, 0], [0, 4]],
    ],
)
def test_there_are_no_percent_where_a_variance_is_unknown(covariance):
    change = change_from_covariance(4.0, 9.0, np.array(covariance, float), 50, 0.95)
    assert change.relative_interval is None
    assert (change.interval is None) == (np.array([-1, 1]) @ covariance @ [-1, 1] <= 0)


@pytest.mark.parametrize(
    ("covariance", "freedom"), [(np.full((2, 2), np.nan), np.nan), (np.eye(2), 0.9), (np.ones((2, 2)), np.inf)]
)
def test_without_a_known_variance_there_is_no_interval(covariance, freedom):
    change = change_from_covariance(2.0, 1.0, covariance, freedom, 0.95)
    assert (change.interval, change.relative_interval, change.reason) == (None, None, ROUGH_REASON)
    assert change_from_covariance(2.0, 2.0, np.ones((2, 2)), np.inf, 0.95).reason == UNCHANGED_REASON


def test_a_share_changes_by_no_more_than_it_is():
    counts = np.zeros((2, 2, 20, 1), dtype=int)
    counts[0, 0], counts[1, 0] = 21, 9
    change = share_change(counts, 0.95)
    assert change.relative == -1
    assert change.relative_interval[0] == -1
    assert -1 < change.relative_interval[1] < -0.95
    assert share_change(counts.swapaxes(0, 1), 0.95).relative_interval is None


def test_only_replies_that_differ_move_a_paired_share():
    """Where 5 of 600 replies gained it and none lost it, bounds are those of 5 of 600, whatever both runs have."""
    counts = np.zeros((2, 2, 20, 1), dtype=int)
    counts[0, 0], counts[0, 1, :5], counts[0, 0, :5] = 20, 1, 19
    counts[1, 1] = 10
    change = share_change(counts, 0.95)
    low, high = share_interval(counts[0, 1], np.full((20, 1), 30), 0.95)
    none = share_interval(0 * counts[0, 1], np.full((20, 1), 30), 0.95)[1]
    value = 5 / 600
    assert change.change == pytest.approx(value)
    assert change.interval[1] == pytest.approx(high, rel=0.01)
    assert change.interval[0] == pytest.approx(value - np.hypot(value - low, none), rel=0.02)
    assert change.interval[1] - change.interval[0] < 0.02 < 0.1  # independent runs: about 0.1


def drawn_tests(rng, sizes, strengths, templates=3):
    """Tests between terms that differ so much in two runs, in axes of `sizes` terms."""
    groups = np.repeat(np.arange(len(sizes)), sizes)
    pairs = [pair for pair in combinations(range(len(groups)), 2) if groups[pair[0]] == groups[pair[1]]]
    firsts, seconds = np.array(pairs * templates).T
    values = np.outer(strengths, rng.normal(size=len(groups))) + 0.3 * rng.normal(size=(2, len(groups)))
    differences = values[:, firsts] - values[:, seconds]
    flags = np.abs(differences + 0.3 * rng.normal(size=differences.shape)) > 0.8
    return firsts, seconds, groups, tuple(flags)


def test_a_share_of_tests_has_the_variance_of_u_statistics():
    rng = np.random.default_rng(2)
    firsts, seconds, groups, (before, after) = drawn_tests(rng, (13, 9), (0.6, 0.3))
    change = pair_share_change(firsts, seconds, groups, (before, after), 0.95)
    variance, noise = 0.0, 0.0
    for axis in (0, 1):
        tests, number = groups[firsts] == axis, (groups == axis).sum()
        kernel = {}  # what each pair changes by, over its templates
        for first, second, one, other in zip(*(row[tests] for row in (firsts, seconds, before, after)), strict=True):
            kernel.setdefault((first, second), []).append(float(other) - float(one))
        kernel = {pair: np.mean(of_pair) for pair, of_pair in kernel.items()}
        apart = np.mean([kernel[one] * kernel[other] for one in kernel for other in kernel if not {*one} & {*other}])
        value, part = np.mean(list(kernel.values())), tests.mean()
        variance += part**2 * (value**2 - apart)
        pairs = sum((of_pair - value) ** 2 for of_pair in kernel.values())
        factor = number * (number - 1) / ((number - 2) * (number - 3)) / len(kernel) ** 2
        noise += (part**2 * (value**2 - apart + factor * pairs)) ** 2 / (number - 1)
    half = stats.t.ppf(0.975, variance**2 / noise) * np.sqrt(variance)
    value = after.mean() - before.mean()
    assert change.interval == pytest.approx((value - half, value + half))


def test_too_few_terms_and_no_changes_have_no_interval():
    rng = np.random.default_rng(0)
    firsts, seconds, groups, (before, after) = drawn_tests(rng, (6,), (1.0, 0.2))
    assert pair_share_change(firsts, seconds, groups, (before, after), 0.95).reason == FEW_TERMS_REASON
    firsts, seconds, groups, (before, _) = drawn_tests(rng, (14,), (1.0, 0.2))
    assert pair_share_change(firsts, seconds, groups, (before, before), 0.95).reason == UNCHANGED_REASON


def drawn_losses(rng, number, shift):
    tokens = rng.geometric(0.08, size=number) + 2
    losses = tokens * (3 + 0.5 * rng.normal(size=number))
    return (losses, losses + shift * tokens + 0.4 * np.sqrt(tokens) * rng.standard_t(5, size=number)), tokens


def test_perplexities_are_those_of_all_tokens():
    (before, after), tokens = drawn_losses(np.random.default_rng(1), 150, 0.0)
    change = perplexity_change((before, after), tokens, 0.95)
    assert change.first == pytest.approx(np.exp(before.sum() / tokens.sum()))
    assert change.second == pytest.approx(np.exp(after.sum() / tokens.sum()))
    assert perplexity_change((before[:9], after[:9]), tokens[:9], 0.95).reason.startswith("9 replies of these lengths")
