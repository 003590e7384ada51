"""Intervals for other terms and templates: influences by brute force, and simulations with known truth."""

from math import sqrt

import numpy as np
import pytest
from scipy import special

from hb_metrics.stats.cell_sums import CellSums
from hb_metrics.stats.clusters import (
    MIN_FREEDOM,
    Influences,
    gen_bias_influences,
    generalised,
    pair_share_influences,
    share_influences,
)
from hb_metrics.stats.gen_bias import gen_bias
from tests.hb_metrics.stats.generalising_designs import GEN_BIAS, SHARES, TESTS

ALL = [*GEN_BIAS.values(), *SHARES.values(), *TESTS.values()]
SMALL = [
    GEN_BIAS["20 terms, two replies"],
    GEN_BIAS["four templates"],
    GEN_BIAS["15 terms"],
    GEN_BIAS["20 terms, t3"],
    SHARES["both, 8 templates"],
]
FEW_INFLUENTIAL = [GEN_BIAS["20 terms, t3"], GEN_BIAS["20 terms, a tenth far"]]  # docs/coverage.md names them


@pytest.mark.parametrize(
    ("design", "sets"),
    [(design, 60) for design in SMALL] + [pytest.param(design, 500, marks=pytest.mark.long) for design in ALL],
)
def test_intervals_for_other_draws_hold_the_truth(design, sets):
    found = design.outcome(sets, 1)
    if not design.given:
        assert found.given == 0
        return
    assert found.given == 1, found
    # Chance in the simulation itself: four standard errors with few sets, one with many.
    margin = (1 if sets >= 500 else 4) * sqrt(0.05 * 0.95 / sets)
    most = 0.975 + margin if design.effect else 1.0  # without any effect, intervals may be too wide
    least = 0.91 if design in FEW_INFLUENTIAL else 0.93
    assert least - margin <= found.held <= most, found


def test_influences_on_gen_bias_are_those_of_pairs_of_terms():
    rng = np.random.default_rng(0)
    means, noise = rng.normal(size=(3, 7, 4)), rng.uniform(0.1, 0.3, size=(3, 7))
    means[1, 2], noise[1, 2] = np.nan, np.nan

    found = gen_bias_influences(means, noise, np.zeros(7, int))

    values = np.zeros(3)
    for template in range(3):
        terms = [term for term in range(7) if not np.isnan(noise[template, term])]
        for term in terms:
            total = 0.0
            for other in terms:
                if other != term:
                    apart = means[template, term] - means[template, other]
                    total += apart @ apart - noise[template, term] - noise[template, other]
            values[template] += total / len(terms) ** 2 / 2
            assert found.cells[template, term] == pytest.approx(total / len(terms) ** 2 / 3)
    assert np.isnan(found.cells[1, 2])
    assert found.templates == pytest.approx(values / 3)
    assert found.value - found.noise == pytest.approx(values.mean())


def test_influences_on_shares_are_the_changes_with_a_cell():
    rng = np.random.default_rng(2)
    sizes = rng.integers(3, 9, size=(4, 6))
    hits = rng.binomial(sizes, 0.3)
    found = share_influences(hits, sizes, np.zeros(6, int))
    share = hits.sum() / sizes.sum()
    for cell in np.ndindex(hits.shape):
        rest = (hits.sum() - hits[cell]) / (sizes.sum() - sizes[cell])
        assert found.cells[cell] == pytest.approx((share - rest) * (1 - sizes[cell] / sizes.sum()))
    assert found.templates == pytest.approx(found.cells.sum(axis=1))


def test_influences_on_pairs_are_the_changes_with_a_term():
    rng = np.random.default_rng(3)
    one, other = np.triu_indices(9, 1)
    where, firsts, seconds = np.repeat([0, 1], 36), np.tile(one, 2), np.tile(other, 2)
    flags = (rng.random(72) < 0.4).astype(float)
    found = pair_share_influences(where, firsts, seconds, flags, np.zeros(9, int))
    for term in range(9):
        kept = (firsts != term) & (seconds != term)
        # Without a term, its pairs are gone: 16 of 72 tests.
        change = (flags.mean() - flags[kept].mean()) * kept.sum() / 72
        assert found.cells[:, term].sum() == pytest.approx(change)
    assert found.templates == pytest.approx(
        [(flags[:36] - flags.mean()).sum() / 72, (flags[36:] - flags.mean()).sum() / 72]
    )


def some_shares(terms, templates, far=0.0):
    chances = np.full((templates, terms), 0.3)
    chances[:, 0] += far
    hits = np.random.default_rng(4).binomial(20, chances)
    return share_influences(hits, np.full(hits.shape, 20), np.zeros(terms, int))


def test_what_cannot_be_told_has_a_number_that_would_do():
    terms, templates = f"{MIN_FREEDOM + 1} terms on the same axes instead of 8", "4 templates instead of 3"
    assert generalised(some_shares(8, 4), "both", 0.95).reason.endswith(f"needs at least {terms}")
    assert generalised(some_shares(20, 3), "both", 0.95).reason.endswith(f"needs at least {templates}")
    assert generalised(some_shares(8, 3), "both", 0.95).reason.endswith(f"{terms} and at least {templates}")
    assert generalised(some_shares(8, 4), "templates", 0.95).interval is not None
    near, far = (generalised(some_shares(20, 30, far=far), "both", 0.95).interval for far in (0.0, 0.7))
    assert far[1] - far[0] > 5 * (near[1] - near[0])  # a term far from the rest widens the interval
    nothing = share_influences(np.zeros((4, 20)), np.full((4, 20), 8), np.zeros(20, int))
    assert "does not vary" in generalised(nothing, "terms", 0.95).reason


def test_for_other_terms_and_templates_cells_do_not_count_twice():
    """The variances are those of a balanced two-way analysis of variance."""
    rng = np.random.default_rng(5)
    chances = special.expit(rng.normal(0, 0.7, (8, 1)) + rng.normal(0, 0.7, 20) + rng.normal(0, 0.3, (8, 20)))
    hits = rng.binomial(20, chances)
    influences, table, share = (
        share_influences(hits, np.full(hits.shape, 20), np.zeros(20, int)),
        hits / 20,
        hits.mean() / 20,
    )
    residuals = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + share
    of_cells, of_templates = (residuals**2).sum() / (7 * 19) / table.size, table.mean(axis=1).var(ddof=1) / 8

    def squared_width(over):
        return np.ptp(special.logit(generalised(influences, over, 0.95).interval)) ** 2

    expected = squared_width("terms") + (1 - of_cells / of_templates) * squared_width("templates")
    assert squared_width("both") == pytest.approx(expected)


def test_equal_templates_have_no_interval_for_others():
    hits, axes = np.repeat(np.arange(24)[None] < 6, 4, axis=0).astype(float), np.arange(24) % 2
    means = np.repeat(np.random.default_rng(0).normal(size=(1, 24, 5)), 4, axis=0)
    for influences in (
        share_influences(hits, np.ones((4, 24)), axes),
        gen_bias_influences(means, np.full((4, 24), 0.01), axes),
    ):
        assert "the same in all templates" in generalised(influences, "templates", 0.95).reason
        assert generalised(influences, "both", 0.95) == generalised(influences, "terms", 0.95)


def test_replies_that_are_all_alike_have_no_interval():
    noise = np.random.default_rng(0).uniform(0, 1e-17, (4, 24))  # rounding errors
    influences = gen_bias_influences(np.full((4, 24, 4), 0.25), noise, np.zeros(24, int))
    assert [generalised(influences, over, 0.95).interval for over in ("terms", "templates", "both")] == [None] * 3


def test_intervals_for_other_templates_include_chance():
    # Each template has the same effects, but of other terms. The templates' values are therefore almost equal.
    rng = np.random.default_rng(6)
    effects = rng.dirichlet(np.ones(8), 12)
    for _ in range(10):
        cells, counts = CellSums(keep_replies=True), rng.integers(4, 13, size=(4, 12))
        for (template, term), count in np.ndenumerate(counts):
            replies = rng.dirichlet(6 * effects[(3 * template + term) % 12], count)
            cells.add(replies, [f"{term:02}"] * count, [str(template)] * count)
        low, high = gen_bias(cells, debias=True, scale=1, confidence_level=0.95).intervals.full_gen_bias
        moments = cells.moments(cells.cells())
        noise = moments.variances.sum(axis=1).reshape(counts.shape) / counts
        influences = gen_bias_influences(moments.means.reshape(*counts.shape, 8), noise, np.zeros(12, int))
        lowest, highest = generalised(influences, "templates", 0.95).interval
        assert highest - lowest > high - low


def test_an_interval_reaches_a_possible_value():
    cells = np.random.default_rng(0).normal(0, 1e-3, (4, 40))
    found = generalised(Influences(0.5, 1.0, cells, cells.sum(axis=1), np.zeros(40, int), np.ones(40)), "terms", 0.95)
    assert found.interval[1] == 0
