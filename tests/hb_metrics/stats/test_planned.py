"""Predicted half-widths and powers: against intervals of the same cells, brute force, and runs drawn anew."""

from itertools import product
from math import sqrt

import numpy as np
import pytest

from hb_metrics.stats.calibration import corrected_rate
from hb_metrics.stats.generalising import generalised
from hb_metrics.stats.planned import (
    Size,
    assumed_spread,
    at_size,
    half_width,
    likelihood_half_width,
    pilot_spread,
    share_half_width,
)
from hb_metrics.stats.share_intervals import share_interval
from tests.hb_metrics.stats.calibration_designs import DESIGNS as CORRECTED
from tests.hb_metrics.stats.calibration_designs import draw_set
from tests.hb_metrics.stats.generalising_designs import Pairs
from tests.hb_metrics.stats.planned_designs import LEVEL, Population, found_of, interval_of
from tests.hb_metrics.stats.test_share_intervals import DESIGNS as SHARES

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
POWERS = [
    (Population(Size(8, 4, 40), Size(16, 4, 40)), 0.3),
    (Population(Size(8, 4, 78), Size(8, 4, 78)), 0.3),
    (Population(Size(8, 4, 78), Size(16, 4, 78), effect=0.4), 0.3),
    (Population(Size(8, 8, 40), Size(8, 8, 40), effect=1.0), 0.3),
    (Population(Size(8, 4, 20), Size(16, 4, 20), effect=1.0), 0.3),
    (Population(Size(8, 4, 6), Size(32, 4, 6), effect=1.0), 0.5),
    (Population(Size(5, 4, 78), Size(8, 4, 78), uneven=True), 0.4),
    (Population(Size(8, 8, 12), Size(16, 8, 12), concentration=6.0), 0.2),
    (Population(Size(6, 4, 40), Size(10, 4, 40), unequal=0.5, concentration=3.0), 0.2),
    (Population(Size(16, 4, 20), Size(8, 4, 20), effect=0.8, styles=60), 0.4),
]


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


@pytest.mark.long
@pytest.mark.parametrize(("population", "fall"), POWERS)
def test_predicted_power_is_the_share_of_falls_that_are_seen(population, fall):
    found, seen = population.powers(200, 0, fall)
    margin = 2 * sqrt(max(seen * (1 - seen), 0.01) / 200)
    assert found.low - margin <= seen <= found.high + margin
    if max(found.high - found.middle, found.middle - found.low) <= 0.05:
        assert abs(found.middle - seen) < 0.05 + margin


def check_changes(design, same, sets):
    found, realised = design.changes(sets, 0, same)
    if found.is_sure:
        assert found.middle == pytest.approx(realised, rel=0.25)
    else:
        assert found.low <= realised <= found.high


def test_paired_changes_are_as_sure_as_in_later_runs():
    check_changes(Population(Size(8, 4, 40), Size(16, 4, 40)), 0.7, 2)


@pytest.mark.long
@pytest.mark.parametrize("same", [0.0, 0.5, 0.9])
@pytest.mark.parametrize("design", [DESIGNS[0], DESIGNS[6], DESIGNS[15], DESIGNS[18]])
def test_paired_changes_are_as_sure_as_in_later_runs_in_all_designs(design, same):
    check_changes(design, same, 5)


def test_the_half_width_at_the_pilots_size_is_that_of_its_interval():
    rng = np.random.default_rng(0)
    population = DESIGNS[0]
    found = found_of(population.replies(rng, population.cells(rng, population.size), 8))
    spread = pilot_spread(*found)
    low, high = interval_of(found)
    assert half_width(spread, LEVEL) == pytest.approx((high - low) / 2, rel=0.01)
    same = at_size(spread, spread.size)
    assert np.allclose(same[:5], spread[:5])


def test_assumed_spreads_are_those_of_even_cells():
    # By brute force: the variance of the debiased value of normal cells, about and away from 0.
    rng = np.random.default_rng(1)
    size, styles = Size(6, 2, 10), 5
    for strength in (0.0, 0.4):
        means = strength * rng.normal(size=(1, size.templates, size.terms, 1, styles))
        replies = means + rng.normal(size=(6000, size.templates, size.terms, size.replies, styles))
        noise = (1 - 1 / size.terms) * replies.var(axis=3, ddof=1).sum(axis=-1).mean(axis=2) / size.replies
        values = (replies.mean(axis=3).var(axis=2).sum(axis=-1) - noise).mean(axis=1)
        true = float(means[..., 0, :].var(axis=2).sum(axis=-1).mean())
        spread = assumed_spread(true, float(styles), styles, size)
        assert spread.at_zero + spread.slope * true == pytest.approx(values.var(), rel=0.08)


def test_runs_that_will_have_no_interval_have_no_half_width():
    for size in (Size(3, 4, 40), Size(7, 1, 2)):
        assert half_width(assumed_spread(0.01, 0.2, 10, size), LEVEL) is None
    assert half_width(assumed_spread(0.01, 0.2, 10, Size(4, 4, 40)), LEVEL) is not None


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


@pytest.mark.parametrize(("times", "templates"), [(1, 4), (3, 4), (1, 16)])
def test_likelihood_bias_is_known_as_well_as_in_later_runs(times, templates):
    def influences_of(terms, templates):
        design = Pairs(terms, templates, effect=0.3, common=0.5)
        return design.influences(
            rng, design.effects(rng, terms, design.codes(), 1), design.of_templates(rng, templates)
        )

    rng = np.random.default_rng(0)
    found = [likelihood_half_width(influences_of(40, 4), templates, times, LEVEL) for _ in range(30)]
    bounds = [generalised(influences_of(40 * times, templates), "terms", LEVEL).interval for _ in range(30)]
    assert np.mean([each.middle for each in found if each]) == pytest.approx(
        np.mean([np.diff(each) / 2 for each in bounds if each]), rel=0.1
    )


@pytest.mark.parametrize("design", [CORRECTED[0], CORRECTED[6], CORRECTED[27]], ids=lambda design: design.name)
def test_more_replies_alone_hardly_narrow_a_corrected_rate(design):
    rng, widths = np.random.default_rng(0), {}
    for times in (1, 4):
        drawn = [draw_set(design._replace(per_term=times * design.per_term), rng) for _ in range(15)]
        bounds = [corrected_rate(*each[:5]).interval for each in drawn]
        widths[times] = np.mean([high - low for low, high in filter(None, bounds)])
    assert widths[4] == pytest.approx(widths[1], rel=0.25)
