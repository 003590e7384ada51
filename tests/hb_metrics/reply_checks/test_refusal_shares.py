"""Shares of refusals: intervals by descriptor, and tests between descriptors and between axes."""

import numpy as np
import pytest
from scipy import stats

from hb_metrics.reply_checks.refusal_shares import (
    MIN_DESCRIPTORS,
    p_between_axes,
    p_between_descriptors,
    refusal_shares,
    share_interval,
)

REPLIES = 64  # of a descriptor


def test_shares_and_counts_are_those_of_a_loop_in_any_order():
    rng = np.random.default_rng(0)
    rows = [(f"a{d % 3}", f"d{d}", f"t{t}") for d in range(12) for t in range(4) for _ in range(rng.integers(1, 6))]
    flags = rng.random(len(rows)) < 0.3
    flags[[index for index, row in enumerate(rows) if row[0] == "a1"]] = False
    axes, descriptors, templates = zip(*rows, strict=True)

    results = refusal_shares(flags, descriptors, templates, axes, num_shuffles=99)

    assert (results["num"], results["num_replies"]) == (flags.sum(), len(rows))
    assert results["share"] == flags.mean()
    for axis, of_axis in results["by_axis"].items():
        chosen = np.array(axes) == axis
        assert (of_axis["num"], of_axis["num_replies"]) == (flags[chosen].sum(), chosen.sum())
        assert (of_axis["share"], of_axis["num_descriptors"]) == (flags[chosen].mean(), 4)
        assert of_axis["interval"][0] <= of_axis["share"] <= of_axis["interval"][1]
    counted = {
        name: (flags[np.array(descriptors) == name].sum(), descriptors.count(name))
        for name in set(descriptors)
        if flags[np.array(descriptors) == name].any()
    }
    assert {row["descriptor"]: (row["num"], row["num_replies"]) for row in results["by_descriptor"]} == counted
    shares = [row["num"] / row["num_replies"] for row in results["by_descriptor"]]
    assert shares == sorted(shares, reverse=True)
    order = rng.permutation(len(rows))
    shuffled = refusal_shares(
        flags[order], *([column[row] for row in order] for column in (descriptors, templates, axes)), num_shuffles=99
    )
    assert shuffled == results


@pytest.mark.parametrize(("refused", "number"), [(0, 6), (1, 6), (3, 20), (20, 20), (0, 1), (1, 1)])
def test_descriptors_that_count_as_single_draws_have_the_exact_binomial_interval(refused, number):
    sizes = np.full(number, REPLIES)
    interval = share_interval(sizes * (np.arange(number) < refused), sizes, 0.95)

    expected = stats.binomtest(refused, number).proportion_ci(0.95, method="exact")
    assert interval[:2] == pytest.approx((expected.low, expected.high))
    assert interval.counts_descriptors
    if refused == 0:
        assert (interval.low, interval.high) == (0, pytest.approx(1 - 0.025 ** (1 / number)))


def test_the_interval_is_that_of_korn_and_graubard():
    num, sizes = np.array([9, 2, 5, 0, 7, 3, 8, 4, 6, 12, 1, 3]), np.full(12, 40)
    shares = num / sizes
    assert shares.sum() ** 2 / (shares**2).sum() >= MIN_DESCRIPTORS
    mean, variance = shares.mean(), shares.var(ddof=1) / 12
    number = mean * (1 - mean) / variance * (stats.norm.ppf(0.95) / stats.t.ppf(0.95, 11)) ** 2
    x = mean * number
    expected = stats.beta.ppf(0.05, x, number - x + 1), stats.beta.ppf(0.95, x + 1, number - x)

    interval = share_interval(num, sizes, 0.9)

    assert not interval.counts_descriptors
    assert interval[:2] == pytest.approx(expected)
    # Refusals and replies that are none change places.
    assert share_interval(sizes - num, sizes, 0.9)[:2] == pytest.approx((1 - expected[1], 1 - expected[0]))


def refused(counts):
    """The arguments of `refusal_shares` for so many refusals of `REPLIES` of each descriptor."""
    flags = np.concatenate([np.arange(REPLIES) < count for count in counts])
    names = np.repeat([f"term {index}" for index in range(len(counts))], REPLIES).tolist()
    return flags, names, ["t"] * len(flags), ["axis"] * len(flags)


@pytest.mark.parametrize("counts", [(0,) * 6, (3, 0, 0, 0, 1, 0), (REPLIES,) * 3])
def test_with_refusals_of_few_descriptors_the_interval_is_of_these_alone(counts):
    results = refusal_shares(*refused(counts), num_shuffles=1)
    expected = stats.binomtest(sum(counts), REPLIES * len(counts)).proportion_ci(0.95, method="exact")
    for part in (results, results["by_axis"]["axis"]):
        assert part["of_these_descriptors"]
        assert part["interval"] == [expected.low, expected.high]
    assert not refusal_shares(*refused([4] * 12), num_shuffles=1)["of_these_descriptors"]


@pytest.mark.parametrize("shares", [(0.02,) * 6, (0.1, 0, 0, 0, 0.02, 0), (0.9, 0, 0), (0.5, 0.4)])
def test_intervals_of_these_descriptors_hold_their_share(shares):
    rng = np.random.default_rng(0)
    total = REPLIES * len(shares)
    counts = rng.binomial(REPLIES, shares, size=(4000, len(shares))).sum(axis=1)
    held = 0
    for count, sets in zip(*np.unique(counts, return_counts=True), strict=True):
        bounds = stats.binomtest(int(count), total).proportion_ci(0.95, method="exact")
        held += sets * (bounds.low <= np.mean(shares) <= bounds.high)
    assert held / len(counts) >= 0.945


def coverage(number, mean, correlation, sets, seed=0):
    """How often intervals hold the true share, and how often descriptors count as single draws."""
    rng = np.random.default_rng(seed)
    held = single = 0
    sizes = np.full(number, REPLIES)
    for _ in range(sets):
        if correlation == 1:  # a part of the descriptors is refused nine times in ten
            shares = np.where(rng.random(number) < mean / 0.9, 0.9, 0)
        elif correlation:
            spread = 1 / correlation - 1
            shares = rng.beta(mean * spread, (1 - mean) * spread, number)
        else:
            shares = np.full(number, mean)
        interval = share_interval(rng.binomial(REPLIES, shares), sizes, 0.95)
        held += interval.low <= mean <= interval.high
        single += interval.counts_descriptors
    return held / sets, single / sets


ENOUGH = [(30, 0.1, 0.05), (30, 0.4, 0.3), (60, 0.1, 0.3), (60, 0.4, 1), (100, 0.02, 0.05), (100, 0.9, 0.3)]
FEW = [(6, 0.02, 0.3), (6, 0.4, 1), (12, 0.02, 1), (12, 0.1, 0.3), (30, 0.02, 0.3), (100, 0.02, 1)]


@pytest.mark.parametrize("design", [ENOUGH[0], ENOUGH[2], FEW[1], FEW[4]])
def test_intervals_hold_the_true_share(design):
    held, single = coverage(*design, sets=400)
    assert held >= 0.92
    assert (single < 0.1) is (design in ENOUGH)


@pytest.mark.long
def test_intervals_hold_the_true_share_in_all_designs():
    for design in ENOUGH:
        held, single = coverage(*design, sets=4000)
        assert 0.93 < held < 0.975, design
        assert single < 0.1
    for design in FEW:  # never less often than stated
        held, _ = coverage(*design, sets=4000)
        assert held > 0.94, design


def null_counts(rng, number=20, templates=5, size=8):
    """Counts where refusing depends on the template alone."""
    sizes = rng.integers(1, size + 1, (number, templates))
    return rng.binomial(sizes, np.linspace(0.02, 0.6, templates)), sizes


def test_the_test_between_descriptors_is_a_chi_square_test_within_templates():
    rng = np.random.default_rng(3)
    counts, sizes = rng.binomial(50, np.linspace(0.2, 0.35, 8))[:, None], np.full((8, 1), 50)
    table = np.concatenate([counts, sizes - counts], axis=1)
    expected = stats.chi2_contingency(table).pvalue
    assert p_between_descriptors(counts, sizes, 4999, 0) == pytest.approx(expected, abs=0.02)


def test_the_tests_find_nothing_where_there_is_nothing_and_something_where_there_is():
    rng = np.random.default_rng(1)
    axes = [f"axis {number % 4}" for number in range(20)]
    null = [null_counts(rng) for _ in range(200)]
    for p_values in (
        [p_between_descriptors(*made, 99, 0) for made in null],
        [p_between_axes(*made, axes, 99, 0) for made in null],
    ):
        assert 0.01 <= np.mean(np.array(p_values) <= 0.05) <= 0.1

    # Descriptors differ, whatever their axes: found between descriptors, and not between axes.
    found = []
    for _ in range(100):
        sizes = np.full((20, 5), 8)
        counts = rng.binomial(sizes, rng.beta(0.5, 1.5, (20, 1)))
        assert p_between_descriptors(counts, sizes, 99, 0) == 0.01
        found.append(p_between_axes(counts, sizes, axes, 99, 0) <= 0.05)
    assert np.mean(found) <= 0.12

    sizes = np.full((20, 5), 8)
    counts = rng.binomial(sizes, np.array([0.6 if axis == "axis 1" else 0.1 for axis in axes])[:, None])
    assert p_between_descriptors(counts, sizes, 999, 0) == p_between_axes(counts, sizes, axes, 999, 0) == 0.001


def test_without_a_difference_to_find_there_is_no_p_value():
    sizes = np.full((4, 3), 8)
    for counts in (sizes * 0, sizes):
        assert p_between_descriptors(counts, sizes, 99, 0) is None
        assert p_between_axes(counts, sizes, ["a", "a", "b", "b"], 99, 0) is None
    some = sizes * (np.arange(4) < 1)[:, None]
    assert p_between_axes(some, sizes, ["a"] * 4, 99, 0) is None
    assert p_between_descriptors(some[:1], sizes[:1], 99, 0) is None


def test_bad_input_is_named():
    with pytest.raises(ValueError, match="there are no replies"):
        refusal_shares(np.array([], bool), [], [], [])
    with pytest.raises(ValueError, match="confidence_level is 1\\.5"):
        refusal_shares(np.array([True]), ["d"], ["t"], ["a"], confidence_level=1.5)
