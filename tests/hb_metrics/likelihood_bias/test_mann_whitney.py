from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.stats import mannwhitneyu

from hb_metrics.likelihood_bias.mann_whitney import pairwise_mann_whitney

# A p-value is compared to the last few bits, the smallest ones too.
SAME = {"rtol": 1e-9, "atol": 0}

# Few distinct values, so that ties within and across groups are the rule.
tied_samples = st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=12), min_size=2, max_size=5)


def flatten(samples):
    values = np.concatenate([np.asarray(sample, dtype=float) for sample in samples])
    return values, np.repeat(np.arange(len(samples)), [len(sample) for sample in samples])


def random_samples(sizes, ties, seed=0):
    rng = np.random.default_rng(seed)
    # Shifted, so that p-values from nearly 0 to 1 come up.
    return [rng.integers(0, 12, n) + shift if ties else rng.normal(shift, 3, n) for shift, n in enumerate(sizes)]


def assert_equals_scipy(samples):
    tests = pairwise_mann_whitney(*flatten(samples))

    pairs = list(combinations(range(len(samples)), 2))
    expected = [mannwhitneyu(samples[first], samples[second]) for first, second in pairs]
    assert list(zip(tests.first, tests.second, strict=True)) == pairs
    assert_array_equal(tests.statistic, [test.statistic for test in expected])
    # If all values are equal, scipy from 1.18 returns NaN instead of 1.
    assert_allclose(tests.pvalue, np.nan_to_num([test.pvalue for test in expected], nan=1.0), **SAME)


@pytest.mark.parametrize("ties", [False, True], ids=["no ties", "ties"])
def test_every_pair_equals_scipy_on_both_sides_of_its_exact_switch(ties):
    assert_equals_scipy(random_samples([1, 2, 7, 8, 9, 12, 8, 9, 30, 150], ties))


@given(tied_samples)
@settings(max_examples=30)
def test_any_samples_equal_scipy(samples):
    assert_equals_scipy(samples)


def test_perplexities_of_very_different_sizes_equal_scipy():
    assert_equals_scipy([[1e-300, 1.0, 1e300], [1.0, 1 + 2**-52, 2.0], [5e-324, 1e300, 1.7e308, 3.0]])


@pytest.mark.parametrize("sizes", [(1, 1), (7, 1000)])
def test_equal_values_have_a_p_value_of_1_and_no_effect(sizes):
    tests = pairwise_mann_whitney(*flatten([np.full(size, 20.5) for size in sizes]))

    assert_array_equal(tests.pvalue, [1])
    assert_array_equal(tests.effect_size, [0])
