from itertools import permutations

import numpy as np
import pytest
from scipy.stats import pearsonr, rankdata, spearmanr

from hb_metrics.stats.rank_correlation import rank_correlation


@pytest.mark.parametrize("decimals", [12, 1], ids=["no ties", "ties"])
def test_the_correlation_is_pearsons_of_the_ranks(decimals):
    rng = np.random.default_rng(1)
    x = rng.normal(size=40).round(decimals)
    y = (x + rng.normal(size=40)).round(decimals)
    expected = pearsonr(rankdata(x), rankdata(y))
    assert rank_correlation(x.tolist(), y.tolist()) == pytest.approx((expected.statistic, expected.pvalue), rel=1e-6)


@pytest.mark.parametrize(("number", "decimals"), [(3, 12), (5, 0)])
def test_the_p_value_of_few_pairs_counts_all_orders(number, decimals):
    rng = np.random.default_rng(number)
    x, y = rng.normal(size=(2, number), scale=2).round(decimals).tolist()
    found = abs(spearmanr(x, y).statistic)
    orders = [abs(spearmanr(x, order).statistic) for order in permutations(y)]
    expected = sum(value >= found - 1e-9 for value in orders) / len(orders)
    assert rank_correlation(x, y)[1] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("x", "y"),
    [([0.0, 0.0, 0.0], [1, 2, 3]), ([1, 2, 3], [0.5, 0.5, 0.5]), ([1, 2], [1, 2]), ([], [])],
    ids=["constant x", "constant y", "two", "none"],
)
def test_an_undefined_correlation_is_none(x, y):
    assert rank_correlation(x, y) == (None, None)
