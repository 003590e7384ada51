"""The variance and the freedom of figures whose sample is clusters."""

import numpy as np
import pytest
from scipy import stats

from hb_metrics.stats.clusters import crossed, mean_bounds, uncertainty


def test_equal_clusters_have_the_variance_and_the_freedom_of_a_mean():
    values = np.random.default_rng(0).normal(size=12)
    found = uncertainty(values / 12)
    assert found.variance == pytest.approx(values.var(ddof=1) / 12)
    assert found.by_weight == pytest.approx(11)
    assert found.third == pytest.approx(((values - values.mean()) ** 3).sum() / 12**3)
    low, high = mean_bounds(0.0, found._replace(freedom=11, third=0.0), 0.95)
    expected = stats.ttest_1samp(values - values.mean(), 0).confidence_interval()
    assert (low, high) == pytest.approx(tuple(expected))


def test_two_groups_have_the_freedom_of_welch():
    one, other = (np.random.default_rng(1).normal(0, scale, number) for scale, number in ((1, 5), (3, 14)))
    influences, strata = np.concatenate([one / 5, -other / 14]), np.repeat([0, 1], [5, 14])
    found, expected = uncertainty(influences, strata), stats.ttest_ind(one, other, equal_var=False)
    assert found.welch == pytest.approx(expected.df)
    assert (one.mean() - other.mean()) / np.sqrt(found.variance) == pytest.approx(expected.statistic)


@pytest.mark.parametrize("longer_vary_less", [False, True])
def test_the_mean_of_unequal_clusters_is_within_its_half_width(longer_vary_less):
    """A weighted mean of normal values; the variance is unbiased if it is in inverse proportion to the weight."""
    rng, weights = np.random.default_rng(2), np.repeat([30.0, 1.0], [3, 40])
    shares = weights / weights.sum()
    values = rng.normal(size=(2000, 43)) / (np.sqrt(shares) if longer_vary_less else 1)
    found = [uncertainty(shares * (row - shares @ row), weights=weights) for row in values]
    ratio = np.mean([each.variance for each in found]) / (1 if longer_vary_less else (shares**2).sum())
    assert ratio == pytest.approx(1 if longer_vary_less else 0.91, abs=0.05)
    assert found[0].by_weight == pytest.approx((shares**1.5).sum() ** 2 / (shares**3).sum() - 1)
    assert found[0].by_weight < 3.5
    assert np.mean(np.abs(values @ shares) < [each.half_width(0.95) for each in found]) > 0.93


def test_a_stratum_with_one_cluster_is_joined_with_the_others():
    values = np.array([1.0, 2.0, 4.0, 7.0])
    assert uncertainty(values, np.array([0, 0, 1, 2])) == uncertainty(values, np.array([5, 5, 3, 3]))


def test_crossed_clusters_add_their_excess_over_independent_cells():
    """Compared with a loop over pairs of units. A kind whose clusters do not differ adds nothing."""
    rng = np.random.default_rng(1)
    first, second = rng.integers(0, 20, (2, 300))
    values = 2 * rng.normal(size=20)[first] + rng.normal(size=300)
    influences = (values - values.mean()) / 300

    def variance(clusters):
        total = 0.0
        for cluster in set(clusters.tolist()):
            members = clusters == cluster
            total += influences[members].sum() ** 2 / (1 - members.mean())
        return total

    of_cells = variance(first * 20 + second)
    excess = [max(variance(kind) - of_cells, 0) for kind in (first, second)]
    of_figure = crossed(influences, first, second)
    assert excess[0] > 10 * excess[1]
    assert of_figure.variance == pytest.approx(of_cells + sum(excess))
    assert of_figure.welch == pytest.approx(of_figure.variance**2 / (variance(first) ** 2 / 18), rel=0.15)
    alone = crossed(influences, first, first)
    assert alone.variance == pytest.approx(variance(first))


@pytest.mark.parametrize(
    ("sizes", "of_first", "of_second"),
    [((12, 12), 0.5, 0.5), ((12, 12), 0.0, 0.0), ((15, 40), 0.1, 1.0), ((100, 100), 0.3, 0.3)],
)
def test_means_of_crossed_clusters_are_within_their_half_width(sizes, of_first, of_second):
    rng, held = np.random.default_rng(4), []
    for _ in range(300):
        first, second = (rng.integers(0, size, 200) for size in sizes)
        effects = of_first * rng.normal(size=sizes[0])[first] + of_second * rng.normal(size=sizes[1])[second]
        values = effects + rng.normal(size=200)
        of_mean = crossed((values - values.mean()) / 200, first, second)
        held.append(abs(values.mean()) < of_mean.half_width(0.95))
    assert 0.92 <= np.mean(held) <= 0.99
