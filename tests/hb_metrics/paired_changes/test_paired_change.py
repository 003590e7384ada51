"""Changes with intervals: the formulas against brute force, and how often they hold the truth."""

import numpy as np
import pytest
from scipy import stats

from hb_metrics.likelihood_bias.mann_whitney import pairwise_mann_whitney
from hb_metrics.paired_changes.gen_bias_covariance import Covariance
from hb_metrics.paired_changes.paired_change import (
    FEW_CHANGED_REASON,
    FEW_PAIRS_REASON,
    FEW_TERMS_REASON,
    NOTHING_SHARED,
    UNCHANGED_REASON,
    change_from_intervals,
    pair_share_change,
    perplexity_change,
    share_change,
)


def test_independent_estimates_of_even_intervals_have_the_usual_interval():
    change = change_from_intervals(10.0, 7.0, ((8.0, 12.0), (5.5, 8.5)), NOTHING_SHARED, 0.95)
    assert change.change == -3
    assert change.interval == pytest.approx((-5.5, -0.5))
    assert change.beyond_chance


def test_what_runs_share_makes_the_interval_narrower():
    bounds, error = ((8.0, 12.0), (8.0, 12.0)), 2 / stats.norm.ppf(0.975)
    change = change_from_intervals(10.0, 10.0, bounds, Covariance(0.75 * error**2, 0.0), 0.95)
    assert change.interval == pytest.approx((-np.sqrt(2), np.sqrt(2)))


@pytest.mark.parametrize(
    ("second", "bounds"),
    [(6.0, ((8.0, 12.5), (4.0, 9.0))), (0.4, ((7.0, 14.0), (-1.0, 2.5))), (18.0, ((7, 14), (15, 22)))],
)
def test_a_ratio_is_in_its_interval_where_0_is_in_that_of_the_difference_to_so_many_times_the_first(second, bounds):
    covariance = Covariance(0.3, 0.0)
    change = change_from_intervals(10.0, second, bounds, covariance, 0.95)
    inside = []
    for ratio in np.linspace(1e-6, 3, 1201):
        times = tuple(ratio * bound for bound in bounds[0])
        scaled = change_from_intervals(10 * ratio, second, (times, bounds[1]), Covariance(0.3 * ratio, 0.0), 0.95)
        if scaled.interval[0] <= 0 <= scaled.interval[1]:
            inside.append(ratio)
    assert change.relative_interval == pytest.approx((min(inside) - 1, max(inside) - 1), abs=3e-3)


def test_there_are_no_percent_of_a_value_that_is_not_clearly_above_0():
    change = change_from_intervals(2.0, 1.0, ((-0.5, 5.0), (0.5, 2.0)), NOTHING_SHARED, 0.95)
    assert change.interval is not None
    assert change.relative is None
    assert change.relative_interval is None


def test_there_are_no_percent_where_they_would_hold_no_change_and_the_difference_does_not():
    """Small ratios are in Fieller's set, as the second value may be 0, and large ones, but not 1."""
    change = change_from_intervals(1.0, 10.0, ((0.5, 4.0), (-0.5, 12.0)), Covariance(1.39, 0.0), 0.95)
    assert change.beyond_chance
    assert change.interval[0] > 0
    assert change.relative_interval is None


def test_a_share_changes_by_no_more_than_it_is():
    hits = np.array([[9] * 20, [0] * 20])
    change = share_change(hits, np.full((2, 20), 30), 0.95)
    assert change.relative == -1
    assert change.relative_interval[0] == -1
    assert -1 < change.relative_interval[1] < -0.3  # as none is known, each term counts as one draw


def test_few_hits_have_no_percent_and_those_of_few_terms_no_interval():
    hits = np.zeros((2, 20), dtype=int)
    hits[0, 3] = hits[1, 5] = 2
    change = share_change(hits, np.full((2, 20), 32), 0.95)
    assert change.interval[0] < 0 < change.interval[1]
    assert change.relative_interval is None
    few = share_change(hits[:, :6], np.full((2, 6), 32), 0.95)
    assert (few.first, few.second) == (2 / 192, 2 / 192)
    assert few.interval is None
    assert few.reason == FEW_TERMS_REASON


def drawn_shares(rng, number, share, other, size):
    """Hits of terms whose shares are beta-distributed and go together in two runs."""
    normal = rng.normal(size=(2, number))
    normal[1] = 0.7 * normal[0] + np.sqrt(1 - 0.49) * normal[1]
    means = np.array([[share], [other]])
    shares = stats.beta.ppf(stats.norm.cdf(normal), 5 * means, 5 * (1 - means))
    return [rng.binomial(size, row) for row in shares], [np.full(number, size)] * 2


@pytest.mark.parametrize(("share", "other"), [(0.2, 0.2), (0.2, 0.1)])
def test_intervals_of_shares_hold_the_change(share, other):
    rng = np.random.default_rng(5)
    changes = [share_change(*drawn_shares(rng, 60, share, other, 24), 0.95) for _ in range(200)]
    held = [change.interval[0] <= other - share <= change.interval[1] for change in changes]
    relative = [low <= other / share - 1 <= high for change in changes for low, high in [change.relative_interval]]
    assert 0.915 < np.mean(held) < 0.985
    assert 0.915 < np.mean(relative) < 0.985


def drawn_tests(rng, sizes, strengths, common=0.8, templates=3, sentences=10):
    """Tests between terms whose perplexities differ so much, in axes of `sizes` terms and in two runs that go along."""
    firsts, seconds, groups, significant, start = [], [], [], [[], []], 0
    for axis, number in enumerate(sizes):
        own = rng.normal(size=(2, number))
        own[1] = common * own[0] + np.sqrt(1 - common**2) * own[1]
        for _ in range(templates):
            for run, strength in enumerate(strengths):
                values = strength * own[run][:, None] + rng.normal(size=(number, sentences))
                tests = pairwise_mann_whitney(values.ravel(), np.repeat(np.arange(number), sentences))
                significant[run].append(tests.pvalue < 0.05)
            firsts.append(tests.first + start)
            seconds.append(tests.second + start)
        groups += [axis] * number
        start += number
    joined = tuple(np.concatenate(of_run) for of_run in significant)
    return np.concatenate(firsts), np.concatenate(seconds), np.array(groups), joined


def test_the_variance_of_a_share_of_tests_is_that_of_pairs_without_a_common_term():
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


def test_intervals_of_shares_of_tests_hold_no_change_as_often_as_they_should():
    rng = np.random.default_rng(4)
    changes = [pair_share_change(*drawn_tests(rng, (16, 12), (0.5, 0.5)), 0.95) for _ in range(150)]
    assert np.mean([change.beyond_chance for change in changes]) < 0.1
    assert np.mean([change.interval is not None for change in changes]) > 0.95


def test_too_few_terms_or_changes_have_no_interval():
    rng = np.random.default_rng(0)
    firsts, seconds, groups, (before, after) = drawn_tests(rng, (6,), (1.0, 0.2))
    assert pair_share_change(firsts, seconds, groups, (before, after), 0.95).reason == FEW_TERMS_REASON
    firsts, seconds, groups, (before, _) = drawn_tests(rng, (14,), (1.0, 0.2))
    assert pair_share_change(firsts, seconds, groups, (before, before), 0.95).reason == UNCHANGED_REASON
    one = (firsts == 0) & (seconds == 1)
    assert pair_share_change(firsts, seconds, groups, (one, ~one & one), 0.95).reason == FEW_CHANGED_REASON


def drawn_losses(rng, number, shift):
    tokens = rng.geometric(0.08, size=number) + 2
    losses = tokens * (3 + 0.5 * rng.normal(size=number))
    return (losses, losses + shift * tokens + 0.4 * np.sqrt(tokens) * rng.standard_t(5, size=number)), tokens


def test_the_interval_of_perplexity_holds_the_change():
    rng = np.random.default_rng(6)
    changes = [perplexity_change(*drawn_losses(rng, 60, 0.05), 0.95) for _ in range(800)]
    held = [low <= np.expm1(0.05) <= high for change in changes for low, high in [change.relative_interval]]
    assert 0.92 < np.mean(held) < 0.98


def test_perplexity_is_paired():
    (before, after), tokens = drawn_losses(np.random.default_rng(1), 50, 0.0)
    change = perplexity_change((before, after), tokens, 0.95)
    assert change.first == pytest.approx(np.exp(before.sum() / tokens.sum()))
    assert change.second == pytest.approx(np.exp(after.sum() / tokens.sum()))
    boot = []
    rng = np.random.default_rng(0)
    for _ in range(4000):
        rows = rng.integers(50, size=50)
        boot.append([np.exp(loss[rows].sum() / tokens[rows].sum()) for loss in (before, after)])
    first, second = np.transpose(boot)
    assert change.relative_interval == pytest.approx(np.quantile(second / first - 1, (0.025, 0.975)), abs=0.012)
    assert change.interval == pytest.approx(np.quantile(second - first, (0.025, 0.975)), abs=0.25)
    assert perplexity_change((before[:9], after[:9]), tokens[:9], 0.95).reason == FEW_PAIRS_REASON
