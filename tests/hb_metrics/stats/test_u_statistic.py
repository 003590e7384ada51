"""The covariance of debiased Gen Bias values: against the enumeration of all samples, and against draws."""

from itertools import combinations_with_replacement, product
from math import factorial, prod

import numpy as np
import pytest

from hb_metrics.stats.u_statistic import Paired, stratum_freedom, template_covariances
from tests.hb_metrics.stats.test_gen_bias_changes import debiased


def covariance_of(*runs, counts, ddof=0):
    """The covariance of one template's values, in runs that replied to the same prompts: [prompts, styles]."""
    pairs = [runs] if len(runs) == 1 else [runs[:1], runs, runs[1:]]
    template = [Paired(np.stack(pair), np.array(counts)) for pair in pairs]
    return template_covariances([({None: len(counts)}, template)], {}, ddof)[None][0][0]


@pytest.mark.parametrize("runs", [1, 2])
def test_the_expectation_of_the_estimate_is_the_variance_of_all_samples(runs):
    """A cell has four replies, and each is one of a few texts; all samples are listed, with their probabilities."""
    rng = np.random.default_rng(runs)
    texts = rng.dirichlet(np.ones(3), (runs, 3))  # of each run; a prompt's replies have the same number in both runs
    shares = rng.dirichlet(np.ones(3), 2)
    samples = list(combinations_with_replacement(range(3), 4))
    total, squares, estimates = np.zeros(runs), np.zeros((runs, runs)), np.zeros((runs, runs))
    for cells in product(samples, repeat=2):
        probability = prod(
            factorial(4) * prod(share[text] for text in cell) / prod(factorial(cell.count(text)) for text in range(3))
            for cell, share in zip(cells, shares, strict=True)
        )
        rows = [of_run[np.concatenate(cells)] for of_run in texts]
        values = np.array([debiased(of_run.reshape(1, 2, 4, 3)) / 1000 for of_run in rows])
        total += probability * values
        squares += probability * np.outer(values, values)
        estimates += probability * covariance_of(*rows, counts=[4, 4]).matrix
    assert estimates == pytest.approx(squares - np.outer(total, total), rel=1e-9)


def test_the_variance_is_that_of_drawn_values_with_small_cells():
    rng = np.random.default_rng(5)
    sizes = np.tile([7, 12, 6, 9, 6, 3, 6, 1, 8, 6], 2)
    centres = rng.normal(size=(len(sizes), 1, 4))
    values, variances = [], []
    for _ in range(400):
        replies = centres + rng.exponential(size=(len(sizes), 12, 4))
        values.append(debiased(replies[None], sizes[None]) / 1000)
        rows = np.concatenate([cell[:size] for cell, size in zip(replies, sizes, strict=True)])
        variances.append(covariance_of(rows, counts=sizes).matrix[0, 0])
    assert np.mean(variances) == pytest.approx(np.var(values), rel=0.25)
    assert covariance_of(rows, counts=sizes, ddof=1).matrix == pytest.approx((20 / 19) ** 2 * variances[-1])


def test_the_plug_in_sum_has_sample_means_and_covariances():
    rng = np.random.default_rng(6)
    cells = [rng.normal(size=(number, 3)) + rng.normal(size=3) for number in (4, 7, 5)]
    means = np.array([rows.mean(axis=0) for rows in cells])
    apart = means - (means.sum(axis=0) - means) / 2
    parts = [4 / len(rows) * own @ np.cov(rows.T) @ own for rows, own in zip(cells, apart, strict=True)]
    covariance = covariance_of(np.concatenate(cells), counts=[4, 7, 5])
    assert covariance.plug_in_cells.ravel() == pytest.approx(np.array(parts) * (2 / 3 / 3) ** 2)


def test_the_pair_sum_of_small_cells_has_the_mean_moment_of_the_others():
    rng, counts = np.random.default_rng(7), np.array([4, 7, 2, 3, 5, 0])
    sizes = np.array([4, 7, 2, 4, 6, 2]), np.array([5, 7, 2, 3, 5, 2])
    runs = [rng.normal(size=(of_run.sum(), 3)) for of_run in (counts, *sizes)]
    both = Paired(np.stack([runs[0], runs[0] + rng.normal(size=runs[0].shape)]), counts)
    template = [Paired(runs[1][None], sizes[0]), both, Paired(runs[2][None], sizes[1])]
    pairs = template_covariances([({None: 6}, template)], {})[None][0][0].pair_cells
    for (one, other), numbers in (((0, 0), sizes[0]), ((0, 1), counts), ((1, 1), sizes[1])):
        factors = numbers * (numbers - 1) / np.prod([of_run * (of_run - 1) for of_run in (sizes[one], sizes[other])], 0)
        moments = pairs[factors > 0, one, other] / factors[factors > 0]
        is_full = numbers[factors > 0] >= 4
        assert moments[~is_full] == pytest.approx(moments[is_full].mean())
        assert not pairs[factors == 0, one, other].any()


def test_degrees_of_freedom():
    counts = np.array([9, 5, 9, 2])
    assert stratum_freedom(np.ones((4, 1, 1)), counts) == pytest.approx(16 / (1 / 8 + 1 / 4 + 1 / 8 + 1 / 2))
    assert stratum_freedom(np.array([3.0, 0, -1, 0]).reshape(-1, 1, 1), counts) == pytest.approx(8)
    assert stratum_freedom(np.zeros((4, 1, 1)), counts) == 0
    rng = np.random.default_rng(0)
    first = rng.dirichlet(np.ones(4), 100)
    second = first.copy()
    second[:3] = rng.dirichlet(np.ones(4), 3)
    covariance = covariance_of(first, second, counts=[20] * 5)
    own = stratum_freedom(covariance.linear_cells + covariance.pair_cells, covariance.counts, (-1, 1))
    assert covariance.changed == 3
    assert covariance.freedom((-1, 1)) == pytest.approx(1 / (1 / own + 1.5 / 3))
    assert covariance_of(first, first, counts=[20] * 5).freedom((-1, 1)) == 0


def test_the_same_replies_leave_no_variance_of_the_change():
    first = np.random.default_rng(0).dirichlet(np.ones(4), 30)
    matrix = covariance_of(first, first, counts=[6] * 5).matrix
    assert matrix[0, 0] == matrix[0, 1] == matrix[1, 1] > 0
