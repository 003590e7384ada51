"""Predicted half-widths and powers: against intervals of the same cells, brute force, and runs drawn anew."""

from itertools import product
from math import sqrt

import numpy as np
import pytest

from hb_metrics.stats.planned import Size, assumed_spread, at_size, half_width, pilot_spread
from tests.hb_metrics.stats.planned_designs import LEVEL, Population, interval_of

SIZES = [
    (Size(8, 4, 78), Size(16, 4, 78)),
    (Size(5, 4, 78), Size(16, 4, 78)),
    (Size(8, 4, 40), Size(5, 4, 40)),
    (Size(8, 4, 20), Size(32, 4, 20)),
    (Size(8, 8, 20), Size(8, 4, 20)),
    (Size(8, 4, 40), Size(16, 8, 40)),
    (Size(8, 4, 20), Size(16, 4, 60)),
    (Size(5, 8, 30), Size(8, 26, 30)),
]
KINDS = [(0.6, 1.5, 0.0), (0.2, 1.5, 0.5), (1.2, 1.5, 0.0), (0.6, 6.0, 0.3)]
DESIGNS = [Population(*sizes, *kind) for sizes, kind in product(SIZES, KINDS)]
POWERS = [
    (Population(Size(8, 4, 40), Size(16, 4, 40)), 0.3),
    (Population(Size(8, 4, 78), Size(8, 4, 78)), 0.3),
    (Population(Size(8, 4, 78), Size(16, 4, 78), effect=0.4), 0.3),
    (Population(Size(8, 8, 40), Size(8, 8, 40), effect=1.0), 0.3),
    (Population(Size(8, 4, 20), Size(16, 4, 20), effect=1.0), 0.3),
]


def errors_of(designs, sets):
    found = [design.widths(sets, seed) for seed, design in enumerate(designs)]
    return [abs(predicted / realised - 1) for predicted, realised in found]


def test_predicted_half_widths_are_those_of_later_runs():
    assert max(errors_of(DESIGNS[4::4], 3)) < 0.25


@pytest.mark.long
def test_predicted_half_widths_are_those_of_later_runs_in_all_designs():
    errors = errors_of(DESIGNS, 10)
    assert np.median(errors) < 0.1
    assert max(errors) < 0.25


@pytest.mark.long
@pytest.mark.parametrize(("population", "fall"), POWERS)
def test_predicted_power_is_the_share_of_falls_that_are_seen(population, fall):
    predicted, seen = population.powers(200, 0, fall)
    assert abs(predicted - seen) < 0.05 + sqrt(seen * (1 - seen) / 200)


def test_the_half_width_at_the_pilots_size_is_that_of_its_interval():
    rng = np.random.default_rng(0)
    population = DESIGNS[0]
    found = population.found(population.replies(rng, population.means(rng, population.size), 8))
    spread = pilot_spread(*found)
    low, high = interval_of(found)
    assert half_width(spread, LEVEL) == pytest.approx((high - low) / 2)
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
        assert spread.squares + spread.crossed + spread.slope * true == pytest.approx(values.var(), rel=0.08)


def test_runs_that_will_have_no_interval_have_no_half_width():
    for size in (Size(3, 4, 40), Size(8, 1, 11)):
        assert half_width(assumed_spread(0.01, 0.2, 10, size), LEVEL) is None
    assert half_width(assumed_spread(0.01, 0.2, 10, Size(4, 4, 40)), LEVEL) is not None
