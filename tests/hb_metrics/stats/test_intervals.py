"""Intervals of the Gen Bias family: against U-statistics by brute force, and in simulations with known truth."""

from itertools import permutations
from math import sqrt

import numpy as np
import pytest

from hb_metrics.stats.bias_variance import bias_variance, cell_moments
from hb_metrics.stats.gen_bias import CellSums, gen_bias
from hb_metrics.stats.intervals import FEW_COMPARISONS_REASON
from tests.hb_metrics.stats.interval_designs import ALL, SMALL, Design, constant, simulate
from tests.hb_metrics.stats.planned_designs import found_of

SETS = 500


def check(design, sets):
    result = simulate(design, sets)
    if not design.given:
        assert result.share < 0.5, result
        assert None not in result.reasons
        return
    assert result.share > 0.85, result
    # Chance in the simulation itself: four standard errors of it with few sets, one with many.
    errors = 1 if sets >= SETS else 4
    margin = errors * sqrt(0.05 * 0.95 / sets)
    assert 0.93 - margin <= result.coverage <= 0.97 + margin, result
    assert abs(result.width - 1) <= 0.15 + errors / sqrt(2 * sets) + design.too_wide, result


@pytest.mark.parametrize("design", SMALL, ids=lambda design: design.name)
def test_intervals_hold_the_truth_as_often_as_they_say(design):
    check(design, 150)


@pytest.mark.long
@pytest.mark.parametrize("design", ALL, ids=lambda design: design.name)
def test_intervals_of_every_design_hold_the_truth_as_often_as_they_say(design):
    check(design, SETS)


def test_intervals_with_two_replies_say_why_there_are_none():
    result = simulate(Design("", constant(2), 5, 2, 5), 1)

    assert result.reasons == {
        "in at least one template, half or more of the descriptors have fewer than 4 replies, too few to estimate the "
        "standard error"
    }


def test_the_moments_of_a_cell_are_those_of_u_statistics():
    # The U-statistics themselves: means over all replies that differ from each other.
    rng = np.random.default_rng(3)
    cells = [rng.gamma(0.5, size=(number, 3)) for number in (5, 7, 4, 3, 2, 1)]

    result = cell_moments(cells, 0)

    for cell, rows in enumerate(cells[:3]):
        groups = list(permutations(rows, 4))
        squares = np.mean([((a - b) @ (c - d)) ** 2 / 4 for a, b, c, d in groups])
        assert result.squares[cell] == pytest.approx(squares, rel=1e-9)
        # E‖x − y‖⁴ / 2 = E‖ε‖⁴ + (tr Σ)² + 2 tr(Σ²), and E‖w − x‖²‖y − z‖² / 4 = (tr Σ)².
        pairs = np.mean([((a - b) @ (a - b)) ** 2 for a, b in permutations(rows, 2)]) / 2
        traces = np.mean([((a - b) @ (a - b)) * ((c - d) @ (c - d)) for a, b, c, d in groups]) / 4
        assert result.excess[cell] == pytest.approx(pairs - 2 * traces - 4 * squares, rel=1e-9, abs=1e-9)
    assert np.isnan(result.squares[3:]).all()
    covariances = [np.cov(rows.T) for rows in cells[:5]]
    for cell, own in enumerate(covariances):
        others = np.mean([other for index, other in enumerate(covariances) if index != cell], axis=0)
        assert result.cross[cell] == pytest.approx(np.trace(own @ others))
    assert np.isnan(result.cross[5])


def test_the_variance_is_that_of_the_debiased_value():
    # By brute force: the debiased value of 4,000 draws from skewed cells of unequal spread.
    rng = np.random.default_rng(5)
    centres, spreads = rng.normal(size=(6, 4)), rng.uniform(0.5, 2, size=(6, 4))
    sizes = [4, 6, 8, 5, 9, 12]
    drawn = [
        centre + spread * (rng.exponential(size=(4000, size, 4)) - 1)
        for centre, spread, size in zip(centres, spreads, sizes, strict=True)
    ]
    means = np.stack([replies.mean(axis=1) for replies in drawn])
    noise = [replies.var(axis=1, ddof=1).sum(axis=1) / size for replies, size in zip(drawn, sizes, strict=True)]
    values = means.var(axis=0).sum(axis=1) - 5 / 6 * np.mean(noise, axis=0)
    variances = []
    for row, expected in enumerate(values[:500]):
        cells = [replies[row] for replies in drawn]
        moments, value, plain = found_of([cells])
        at_zero, slope, *_ = bias_variance(moments, value, plain)
        assert value == pytest.approx(expected)
        variances.append(at_zero + slope * value)

    # The standard error is about 2.5 %; cells of unlike spread are pooled, which may cost as much again.
    assert np.mean(variances) == pytest.approx(np.var(values), rel=0.1)
    # With ddof 1, every value is 6 / 5 of what it is with ddof 0.
    at_zero, slope, *_ = bias_variance([cell_moments(cells, 1)], 1.2 * value, 1.2 * plain)
    assert at_zero + slope * 1.2 * value == pytest.approx(1.44 * variances[-1])


def test_the_variance_of_style_vectors_that_vary_much_is_not_too_low():
    # Where replies are nearly of one style each, as in the widest of unlike axes. Exact, by the formula of the module.
    rng = np.random.default_rng(11)
    means = np.exp(rng.normal(size=(4, 1, 20)) + 0.7 * rng.normal(size=(4, 6, 20)))
    means /= means.sum(axis=-1, keepdims=True)
    size, number = 8, means.shape[1]
    covariances = (means[..., None] * np.eye(20) - means[..., None] * means[..., None, :]) / 2  # concentration 1
    apart = means - means.mean(axis=1, keepdims=True)
    linear = 4 * np.einsum("tdi,tdij,tdj->", apart, covariances, apart) / size
    squares, summed = np.sum(covariances**2), covariances.sum(axis=1)
    at_zero = 2 * (1 - 1 / number) ** 2 * squares / (size * (size - 1))
    at_zero += 2 / number**2 * (np.sum(summed**2) - squares) / size**2

    estimates = []
    for _ in range(300):
        found = found_of([[rng.dirichlet(mean, size) for mean in template] for template in means])
        estimate = bias_variance(*found)
        estimates.append([estimate.at_zero, estimate.slope * found.value])

    scale = (number * len(means)) ** 2
    found = np.mean(estimates, axis=0) * scale
    assert found[0] == pytest.approx(at_zero, rel=0.05)
    assert found[1] == pytest.approx(linear, rel=0.1)


@pytest.mark.parametrize(
    ("counts", "fewest"),
    # Too few where cells have two replies, which get the mean of the others: how unlike these are counts as error.
    [([8] * 40, 0.8), ([8] * 32 + [2] * 8, 0.7), ([6, 9, 12, 20] * 10, 0.8)],
    ids=["equal", "two", "unequal"],
)
def test_degrees_of_freedom_are_those_of_the_variance(counts, fewest):
    # Satterthwaite's: 2 mean² / variance of the estimated variance.
    rng = np.random.default_rng(7)
    estimates = []
    for _ in range(600):
        cells = [rng.normal(size=(count, 6)) for count in counts]
        plain = np.array([rows.mean(axis=0) for rows in cells]).var(axis=0).sum()
        estimates.append(bias_variance([cell_moments(cells, 0)], 0.0, plain))

    variances = np.array([estimate.at_zero for estimate in estimates])
    expected = 2 * variances.mean() ** 2 / variances.var()
    assert fewest <= np.median([estimate.freedom for estimate in estimates]) / expected <= 1.25


def gen_bias_of(replies, counts, num_templates=2, **options):
    """Gen Bias with intervals of [replies, styles], of which `counts` a descriptor and template are taken in turn."""
    cells = CellSums(keep_replies=True)
    prompts = [
        (f"d{d}", f"t{t}") for t in range(num_templates) for d, number in enumerate(counts) for _ in range(number)
    ]
    cells.add(replies, [descriptor for descriptor, _ in prompts], [template for _, template in prompts])
    return gen_bias(cells, debias=True, **{"confidence_level": 0.95, **options})


def test_replies_that_do_not_vary_within_their_cell_give_no_interval_and_no_warning():
    # Greedy decoding, say: what rounding leaves of the spread is none.
    means = np.random.default_rng(0).dirichlet(np.ones(5), 20)
    for replies in (np.repeat(means, 6, axis=0), np.tile([1.0, 0, 0, 0, 0], (120, 1)), np.ones((120, 1))):
        result = gen_bias_of(replies, [6] * 10)
        assert result.intervals["full_gen_bias"] is None
        assert result.no_intervals["full_gen_bias"].startswith("replies to the same prompt do not vary")


def test_a_variance_that_comes_out_below_0_is_no_sign_of_replies_that_do_not_vary():
    reasons = set()
    for seed in range(30):  # one of these estimates is below 0
        replies = np.random.default_rng(seed).dirichlet(np.full(2, 0.1), 48)
        reasons.add(gen_bias_of(replies, [4] * 2, num_templates=6).no_intervals["full_gen_bias"])
    assert reasons - {None} == {FEW_COMPARISONS_REASON}


def test_levels_that_no_quantile_tells_from_0_or_1_are_refused():
    replies = np.random.default_rng(0).dirichlet(np.ones(5), 120)
    for level in (1e-300, 1e-17, 1 - 1e-16):
        with pytest.raises(ValueError, match="pass a number between 0 and 1"):
            gen_bias_of(replies, [6] * 10, confidence_level=level)
