"""Shares of refusals: intervals by descriptor, and tests between descriptors and between axes."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from hb_metrics.reply_checks.refusal_shares import p_between_axes, p_between_descriptors, refusal_shares
from hb_metrics.run.replies import RatedReplies, Replies
from hb_metrics.stats.reply_shares import share_interval


def test_shares_and_counts_are_those_of_the_replies_in_any_order():
    rng = np.random.default_rng(0)
    cells = [(f"a{d % 3}", f"d{d}", f"t{t}") for d in range(12) for t in range(4) for _ in range(rng.integers(1, 6))]
    rows = pd.DataFrame(cells, columns=["axis", "descriptor", "template"])
    rows["flag"] = (rng.random(len(rows)) < 0.3) & (rows["axis"] != "a1")

    def made(rows):
        columns = [rows[name].tolist() for name in ("axis", "descriptor", "template", "flag", "flag")]
        return refusal_shares(RatedReplies(Replies([], *columns), rows["flag"].to_numpy()), 0.95)

    results = made(rows)

    parts = [(results, rows), *((results.by_axis[axis], part) for axis, part in rows.groupby("axis"))]
    for found, part in parts:
        assert (found.num, found.num_replies, found.share) == (part["flag"].sum(), len(part), part["flag"].mean())
        assert found.num_descriptors == part["descriptor"].nunique()
        by_cell = part.groupby(["descriptor", "template"])["flag"].agg(["sum", "size"]).unstack()
        counts, sizes = by_cell["sum"].to_numpy(), by_cell["size"].to_numpy()
        assert found.interval == pytest.approx(share_interval(counts, sizes, 0.95))
    counted = rows.groupby("descriptor")["flag"].agg(["sum", "size"])
    counted = counted[counted["sum"] > 0]
    found = {row.descriptor: [row.num, row.num_replies] for row in results.by_descriptor}
    assert found == dict(zip(counted.index, counted.to_numpy().tolist(), strict=True))
    shares = [row.num / row.num_replies for row in results.by_descriptor]
    assert shares == sorted(shares, reverse=True)
    assert made(rows.sample(frac=1, random_state=1)) == results


def null_counts(rng, number=20, templates=5, size=8):
    """Counts where refusing depends on the template alone."""
    sizes = rng.integers(1, size + 1, (number, templates))
    return rng.binomial(sizes, np.linspace(0.02, 0.6, templates)), sizes


def test_the_test_between_descriptors_is_chi_square():
    rng = np.random.default_rng(3)
    counts, sizes = rng.binomial(50, np.linspace(0.2, 0.35, 8))[:, None], np.full((8, 1), 50)
    table = np.concatenate([counts, sizes - counts], axis=1)
    expected = stats.chi2_contingency(table).pvalue
    assert p_between_descriptors(counts, sizes, 4999) == pytest.approx(expected, abs=0.02)


def test_the_tests_find_differences_and_nothing_else():
    rng = np.random.default_rng(1)
    axes = [f"axis {number % 4}" for number in range(20)]
    null = [null_counts(rng) for _ in range(120)]
    for p_values in (
        [p_between_descriptors(*made, 99) for made in null],
        [p_between_axes(*made, axes, 99) for made in null],
    ):
        assert 0.01 <= np.mean(np.array(p_values) <= 0.05) <= 0.1

    # Descriptors differ, whatever their axes: found between descriptors, and not between axes.
    found = []
    for _ in range(40):
        sizes = np.full((20, 5), 8)
        counts = rng.binomial(sizes, rng.beta(0.5, 1.5, (20, 1)))
        assert p_between_descriptors(counts, sizes, 99) == 0.01
        found.append(p_between_axes(counts, sizes, axes, 99) <= 0.05)
    assert np.mean(found) <= 0.15

    sizes = np.full((20, 5), 8)
    counts = rng.binomial(sizes, np.array([0.6 if axis == "axis 1" else 0.1 for axis in axes])[:, None])
    assert p_between_descriptors(counts, sizes, 999) == p_between_axes(counts, sizes, axes, 999) == 0.001


@pytest.mark.parametrize("num_terms", [(2, 30), (1, 15, 15), (2, 3, 20)], ids=str)
def test_few_terms_with_many_replies_do_not_look_like_an_axis_that_differs(num_terms):
    """Terms differ at random, and the terms of the smallest axis have ten times as many replies as others."""
    rng, found = np.random.default_rng(2), []
    axes = np.repeat(np.arange(len(num_terms)), num_terms)
    for _ in range(200):
        sizes = np.tile(np.where(np.arange(len(axes)) < num_terms[0], 30, 3)[:, None], 5)
        counts = rng.binomial(sizes, rng.beta(0.5, 1.5, (len(axes), 1)))
        found.append(p_between_axes(counts, sizes, axes.astype(str), 99) <= 0.05)
    assert 0.005 <= np.mean(found) <= 0.1


def test_descriptors_in_templates_without_refusals_are_no_evidence():
    """Two thirds of the terms have replies only in templates where nobody is refused."""
    rng, found, axes = np.random.default_rng(3), [], np.arange(60) % 3
    in_first = np.arange(60) % 9 < 3
    for _ in range(200):
        sizes = np.where(in_first[:, None] == (np.arange(6) < 3), rng.integers(1, 6, (60, 6)), 0)
        counts = rng.binomial(sizes, np.where(np.arange(6) < 3, 0.1, 0.0))
        found.append((p_between_axes(counts, sizes, axes.astype(str), 99) or 1) <= 0.05)
    assert 0.005 <= np.mean(found) <= 0.1


def test_without_a_difference_to_find_there_is_no_p_value():
    sizes = np.full((4, 3), 8)
    for counts in (sizes * 0, sizes):
        assert p_between_descriptors(counts, sizes, 99) is None
        assert p_between_axes(counts, sizes, ["a", "a", "b", "b"], 99) is None
    some = sizes * (np.arange(4) < 1)[:, None]
    assert p_between_axes(some, sizes, ["a"] * 4, 99) is None
    assert p_between_descriptors(some[:1], sizes[:1], 99) is None
