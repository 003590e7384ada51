"""Intervals of the Gen Bias family in simulations with known truth."""

from math import sqrt

import numpy as np
import pytest

from hb_metrics.stats.gen_bias import CellSums, gen_bias
from hb_metrics.stats.gen_bias_intervals import (
    FEW_REPLIES_REASON,
    FEW_VARIED_REASON,
    NO_VARIATION_REASON,
    agreeing_values,
    rounded,
)
from tests.hb_metrics.stats.interval_designs import ALL, SMALL, Design, constant, simulate

SETS = 500


@pytest.mark.parametrize(
    ("design", "sets"),
    [(design, 40) for design in SMALL] + [pytest.param(design, SETS, marks=pytest.mark.long) for design in ALL],
    ids=lambda value: getattr(value, "name", value),
)
def test_intervals_hold_the_truth_as_often_as_they_say(design, sets):
    result, _ = simulate(design, sets)
    if not design.given:
        assert result.given < 0.5, result
        return
    assert result.given > 0.85, result
    # Chance in the simulation itself: four standard errors of it with few sets, one with many.
    errors = 1 if sets >= SETS else 4
    margin = errors * sqrt(0.05 * 0.95 / sets)
    # No true value is below 0, so intervals for 0 are hardly ever too low.
    most = 0.97 if design.effect else 0.99
    assert 0.93 - margin <= result.held <= most + margin, result
    assert abs(result.width - 1) <= 0.15 + errors / sqrt(2 * sets) + design.too_wide, result


@pytest.mark.parametrize("value", [-3.0, -0.5, 0.0, 0.5, 3.0])
def test_bounds_are_the_true_values_that_are_t_of_their_standard_errors_away(value):
    low, high = agreeing_values(value, at_zero=0.1, slope=0.3, t=2.0)
    assert low < value < high
    at_zero = max(0.1, min(value, 0.0) ** 2 / 2)
    for bound in (low, high):
        assert abs(bound - value) == pytest.approx(2.0 * sqrt(at_zero + 0.3 * max(bound, 0.0)))


def test_if_most_replies_are_the_same_intervals_contain_a_possible_value():
    highest = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        kinds = rng.dirichlet(np.full(6, 0.3), 6)
        drawn = rng.choice(6, 24 * 6 * 2, p=[0.92, *[0.016] * 5])
        bounds = gen_bias_of(kinds[drawn], [6] * 24).intervals.full_gen_bias
        highest += [] if bounds is None else [bounds[1]]
    assert len(highest) > 20
    assert min(highest) > 0  # no true value is below 0


def test_intervals_with_two_replies_say_why_there_are_none():
    assert simulate(Design("", constant(2), 5, 2, 5), 1)[1] == {FEW_REPLIES_REASON}


def test_an_interval_does_not_vanish_as_replies_are_added():
    for number in (4, 12, 60):
        assert simulate(Design("", constant(number), 8, 2, 5, effect=0.05, dominant=5.0), 20)[0].given == 1


def test_styles_that_too_few_replies_have_give_no_interval():
    rng = np.random.default_rng(0)
    replies = np.tile([1.0, 0, 0], (160, 1))
    replies[rng.choice(160, 5, replace=False)] = 0, 0.9, 0.1
    assert gen_bias_of(replies, [8] * 10).no_intervals.full_gen_bias == FEW_VARIED_REASON


def test_bounds_of_any_size_are_rounded():
    assert rounded(1 / 3, 2 / 3) == [0.33333333333, 0.66666666667]
    assert rounded(-1e-20 / 3, 2e-20) == [-3.333333333e-21, 2e-20]
    assert rounded(2.0, 2.0) == [2.0, 2.0]
    assert rounded(0.0, 0.0) == [0.0, 0.0]


def gen_bias_of(replies, counts, num_templates=2):
    """Gen Bias with intervals of [replies, styles], of which `counts` a descriptor and template are taken in turn."""
    cells = CellSums(keep_replies=True)
    prompts = [
        (f"d{d}", f"t{t}") for t in range(num_templates) for d, number in enumerate(counts) for _ in range(number)
    ]
    cells.add(replies, [descriptor for descriptor, _ in prompts], [template for _, template in prompts])
    return gen_bias(cells, debias=True, confidence_level=0.95)


def test_replies_that_do_not_vary_within_their_cell_give_no_interval_and_no_warning():
    # Greedy decoding, say: what rounding leaves of the spread is none.
    means = np.random.default_rng(0).dirichlet(np.ones(5), 20)
    for replies in (np.repeat(means, 6, axis=0), np.tile([1.0, 0, 0, 0, 0], (120, 1)), np.ones((120, 1))):
        result = gen_bias_of(replies, [6] * 10)
        assert result.intervals.full_gen_bias is None
        assert result.no_intervals.full_gen_bias == NO_VARIATION_REASON
