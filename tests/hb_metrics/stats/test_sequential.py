"""Boundaries against the published ones and a multivariate normal, and what looks do in runs with known truth."""

import math

import numpy as np
import pytest
from scipy import stats

from hb_metrics.measurements.generation.looks import SHARES
from hb_metrics.stats.sequential import Look, decision, interval_after, next_boundary, share_higher, spent
from tests.hb_metrics.stats.sequential_designs import DESIGNS, TAIL


def boundaries(information, error=TAIL):
    found = []
    for number in range(1, len(information) + 1):
        found.append(next_boundary(information[:number], found, error))
    return found


def test_boundaries_are_the_published_ones():
    # ldbounds, and Jennison and Turnbull (1999): five equal looks, 5 % on two sides.
    expected = [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]
    assert np.allclose(boundaries([0.2, 0.4, 0.6, 0.8, 1.0], 0.025), expected, atol=2e-4)


def test_all_looks_err_as_a_multivariate_normal():
    information = np.array([0.15, 0.3, 0.7, 1.0])
    bounds = np.array(boundaries(information.tolist(), 0.05))
    earlier, later = np.minimum.outer(information, information), np.maximum.outer(information, information)
    undecided = stats.multivariate_normal(np.zeros(4), np.sqrt(earlier / later)).cdf(bounds, lower_limit=-bounds)
    assert 1 - undecided == pytest.approx(0.1, abs=1e-4)
    assert spent(1.0, 0.05) == pytest.approx(0.05)


def made_looks(value, information, slope=0.0, freedom=math.inf):
    bounds = boundaries(information)
    pairs = zip(value, information, bounds, strict=True)
    return [Look(each, (1 - slope) / share, slope / share, freedom, share, bound) for each, share, bound in pairs]


def test_the_first_look_has_the_interval_of_one_look():
    (look,) = made_looks([5.0], [0.3])
    low, high = interval_after([look], 1.0, 0.95)
    half = 2.004654 * look.error(0)
    assert (low, high) == pytest.approx((5.0 - half, 5.0 + half))


@pytest.mark.parametrize("truth", [0.0, 2.5, -4.0])
def test_intervals_after_stopping_cover_a_brownian_motion(truth):
    rng, information = np.random.default_rng(0), [0.2, 0.4, 1.0]
    steps = np.diff([0, *information])
    covered, errors, sets = 0, 0, 300
    for number in range(sets):
        motion = np.cumsum(rng.normal(truth * steps, np.sqrt(steps)))
        looks = made_looks(motion / information, information)
        answers = [decision(look, 0.0) for look in looks]
        last = next((place for place, answer in enumerate(answers) if answer is not None), 2)
        holds = TAIL <= share_higher(looks[: last + 1], 0.0, truth) <= 1 - TAIL
        covered += holds
        if number < 20:
            low, high = interval_after(looks[: last + 1], 0.0, 0.95)
            assert holds == (low <= truth <= high)
            assert (answers[last] is None) == (low <= 0 <= high)  # the interval agrees with the answer
        errors += answers[last] == (truth >= 0)
    assert abs(covered / sets - 1 + 2 * TAIL) < 3 * math.sqrt(2 * TAIL / sets)
    assert errors / sets < TAIL + 3 * math.sqrt(TAIL / sets)


def test_the_replies_that_a_clear_case_needs():
    """As in docs/planning.md: the limit is so many final half-widths away."""
    rng, information = np.random.default_rng(0), np.array(SHARES)
    bounds, steps = boundaries(information.tolist()), np.diff([0, *information])
    for distance, expected in ((2, 0.68), (3, 0.46), (4, 0.35), (5, 0.28)):
        motion = np.cumsum(rng.normal(1.96 * distance * steps, np.sqrt(steps), (20_000, len(steps))), axis=1)
        decided = np.abs(motion / np.sqrt(information)) >= bounds
        last = np.where(decided.any(axis=1), decided.argmax(axis=1), len(steps) - 1)
        assert information[last].mean() == pytest.approx(expected, abs=0.01)
        values = motion[np.arange(len(last)), last] / information[last]
        assert 1.03 < values.mean() / (1.96 * distance) < 1.1  # early stops exaggerate the distance


@pytest.mark.parametrize("design", [DESIGNS[0], DESIGNS[5]], ids=lambda design: design.name)
def test_looks_at_style_vectors_err_rarely_and_stop_early(design):
    at_truth, twice = design.simulate(20, 1, 2)
    assert at_truth.wrong <= 0.2
    assert twice.wrong == 0
    assert twice.used < 0.6
    assert twice.coverage >= 0.7


@pytest.mark.long
@pytest.mark.parametrize("design", DESIGNS, ids=lambda design: design.name)
def test_looks_at_style_vectors_keep_their_error_in_many_runs(design):
    at_truth, half, twice, precise = design.simulate(10_000, 1, 0.5, 2, 0)
    assert at_truth.wrong <= 0.05
    for found in (at_truth, half, twice, precise):
        assert 0.93 < found.coverage < 0.975
    for found in (half, twice):
        assert found.wrong == 0
        assert found.used <= 0.4
