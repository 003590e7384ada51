"""Predicted half-widths: against intervals of the same cells, brute force, and runs drawn anew."""

from itertools import product

import numpy as np
import pytest

from hb_metrics.stats.clusters import share_interval
from hb_metrics.stats.planned import (
    Size,
    Spread,
    at_size,
    half_width,
    pilot_spread,
    share_half_width,
)
from tests.hb_metrics.stats.planned_designs import LEVEL, Population, found_of, interval_of
from tests.hb_metrics.stats.test_clusters import DESIGNS as SHARES

SIZES = [
    (Size(8, 4, 78), Size(16, 4, 78)),
    (Size(5, 4, 78), Size(16, 4, 78)),
    (Size(8, 4, 40), Size(5, 4, 40)),
    (Size(8, 4, 20), Size(32, 4, 20)),
    (Size(8, 8, 20), Size(8, 4, 20)),
    (Size(8, 4, 40), Size(16, 8, 40)),
    (Size(8, 4, 20), Size(16, 4, 60)),
    (Size(5, 8, 30), Size(8, 26, 30)),
    (Size(8, 4, 6), Size(16, 4, 6)),
    (Size(5, 4, 6), Size(32, 4, 6)),
    (Size(16, 4, 6), Size(32, 4, 6)),
    (Size(8, 8, 6), Size(16, 4, 6)),
    (Size(8, 26, 8), Size(16, 26, 8)),
]
KINDS = [
    {"concentration": 1.5},
    {"effect": 0.2, "unequal": 0.5},
    {"effect": 1.2, "uneven": True},
    {"concentration": 6.0, "unequal": 0.3},
    {"concentration": 0.5, "styles": 60, "uneven": True},
]
DESIGNS = [Population(*sizes, **kind) for sizes, kind in product(SIZES, KINDS)]


def of_designs(designs, sets):
    """Relative errors of the half-widths that pilots are sure of; and whether each range holds the later half-width."""
    errors, held = [], []
    for seed, design in enumerate(designs):
        found, realised = design.widths(sets, seed)
        if found.is_sure:
            errors.append(abs(found.middle / realised - 1))
        held.append(found.low <= realised <= found.high)
    return errors, np.mean(held)


def test_predicted_half_widths_are_those_of_later_runs():
    errors, held = of_designs(DESIGNS[4::6], 3)
    assert max(errors) < 0.25
    assert held > 0.8


@pytest.mark.long
def test_predicted_half_widths_are_those_of_later_runs_in_all_designs():
    errors, held = of_designs(DESIGNS * 3, 10)
    assert len(errors) > 30
    assert np.median(errors) < 0.1
    assert max(errors) < 0.25
    assert held > 0.91


@pytest.mark.parametrize("design", [DESIGNS[0], DESIGNS[6]])
def test_changes_are_as_sure_as_between_later_runs(design):
    found, realised = design.changes(3, 0)
    assert found.low <= realised <= found.high
    assert found.middle == pytest.approx(realised, rel=0.25)


def test_the_half_width_at_the_pilots_size_is_that_of_its_interval():
    rng = np.random.default_rng(0)
    population = DESIGNS[0]
    found = found_of(population.replies(rng, population.cells(rng, population.size), 8))
    spread = pilot_spread(*found)
    low, high = interval_of(found)
    assert half_width(spread, LEVEL) == pytest.approx((high - low) / 2, rel=0.01)
    same = at_size(spread, spread.size)
    assert np.allclose(same[:5], spread[:5])


def test_runs_that_will_have_no_interval_have_no_half_width():
    spread = Spread(0.01, 1e-6, 1e-5, 0.1, 1e-6, Size(8, 4, 40))
    for size in (Size(3, 4, 40), Size(7, 1, 2)):
        assert half_width(spread._replace(size=size), LEVEL) is None
    assert half_width(spread._replace(size=Size(4, 4, 40)), LEVEL) is not None


def of_shares(design, sets):
    """As `of_designs`, of a share of replies with four times a pilot's replies, and with half as many."""
    rng, errors, held = np.random.default_rng(0), [], []
    shape = design.terms, design.templates
    for _, times in product(range(sets), (4, 0.5)):
        shares = np.where(rng.random(design.terms) < design.part, design.share, design.rest)[:, None]
        number = 2 * design.number
        pilot, later = np.full(shape, number), np.full(shape, int(times * number))
        found = share_half_width(rng.binomial(number, shares, shape), pilot, times, LEVEL)
        bounds = [share_interval(rng.binomial(later, shares), later, LEVEL) for _ in range(6)]
        realised = np.mean(np.diff(bounds)) / 2
        if found.is_sure:
            errors.append(abs(found.middle / realised - 1))
        held.append(found.low <= realised <= found.high)
    return errors, np.mean(held)


@pytest.mark.parametrize("name", ["few refuse, others at times", "all alike", "six terms"])
def test_predicted_half_widths_of_shares_are_those_of_later_runs(name):
    errors, held = of_shares(SHARES[name], 8)
    assert np.median(errors) < 0.1
    assert max(errors) < 0.25
    assert held > 0.7


@pytest.mark.long
def test_predicted_half_widths_of_shares_are_later_ones_in_all_designs():
    found = [of_shares(design, 15) for design in SHARES.values() if design.kind == "few"]
    errors = np.concatenate([errors for errors, _ in found])
    assert np.median(errors) < 0.1
    assert np.mean(errors > 0.25) < 0.01
    assert np.mean([held for _, held in found]) > 0.87


def test_a_share_that_no_reply_has_gets_a_range():
    found = share_half_width(np.zeros((20, 4)), np.full((20, 4), 5), 4, LEVEL)
    assert not found.is_sure
    assert found.low == 0 < found.middle < found.high
