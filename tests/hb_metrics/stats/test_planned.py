"""Predicted half-widths: against the intervals of the pilot itself, and of runs drawn anew from the same population."""

from itertools import product
from typing import NamedTuple

import numpy as np
import pytest

from hb_metrics.command.pilot import _ERROR, planned_share
from hb_metrics.paired_changes.gen_bias_covariance import CellReplies, gen_bias_change, gen_bias_covariances
from hb_metrics.stats.clusters import share_interval
from hb_metrics.stats.intervals import value_interval
from hb_metrics.stats.planned import Size, Spread, at_size, change_half_width, half_width, run_spread
from hb_metrics.stats.u_statistic import Paired, template_covariances
from tests.hb_metrics.paired_changes.test_gen_bias_covariance import dirichlet
from tests.hb_metrics.stats.test_clusters import DESIGNS as SHARES

LEVEL = 0.95


class Population(NamedTuple):
    """Terms in templates; the terms of the pilot and of the later run are its first.

    Attributes:
        effect: How far terms differ, in logits.
        concentration: How alike the replies of a cell are.
        unequal: How unlike the spreads of cells are.
        uneven: Whether cells have any number of replies from half of the run's to one and a half times as many.
    """

    pilot: Size
    later: Size
    effect: float = 0.6
    concentration: float = 1.5
    unequal: float = 0.0
    styles: int = 20
    uneven: bool = False

    def cells(self, rng):
        """Means and concentrations of the replies of all cells: [templates, terms, styles]."""
        shape = *np.maximum(self.pilot, self.later)[1:].astype(int), self.styles
        common, own = rng.normal(size=(1, *shape[1:])), rng.normal(size=shape)
        logits = rng.normal(size=(shape[0], 1, self.styles)) + self.effect * np.sqrt(0.5) * (common + own)
        means = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        return means, self.concentration * np.exp(self.unequal * rng.normal(size=(*shape[:2], 1)))

    def replies(self, rng, cells, size):
        """[templates][terms] style vectors: [replies, styles]."""
        means, spread = (values[: size.templates, : size.terms].reshape(-1, values.shape[-1]) for values in cells)
        counts = np.full(len(means), size.replies)
        if self.uneven:
            counts = rng.integers(size.replies - size.replies // 2, size.replies * 3 // 2 + 1, len(means))
        drawn = dirichlet(rng, np.repeat(means, counts, axis=0), np.repeat(spread, counts, axis=0))
        vectors = np.split(drawn, counts.cumsum()[:-1])
        return [vectors[row : row + size.terms] for row in range(0, len(vectors), size.terms)]


def found_of(replies):
    """A run's variances by template, its debiased value and its plain value."""
    templates, plain, noise = [], [], []
    for cells in replies:
        rows, counts = np.concatenate(cells), np.array([len(cell) for cell in cells])
        templates.append(({None: len(cells)}, [Paired(rows, rows, counts)]))
        plain.append(np.array([cell.mean(axis=0) for cell in cells]).var(axis=0).sum())
        noise.append((1 - 1 / len(cells)) * np.mean([cell.var(axis=0, ddof=1).sum() / len(cell) for cell in cells]))
    covariances = [covariance for (covariance,) in template_covariances(templates, {})[None]]
    return covariances, float(np.mean(plain) - np.mean(noise)), float(np.mean(plain))


def half_of(bounds):
    return np.nan if bounds is None else (bounds[1] - bounds[0]) / 2


def change_half_of(replies, others):
    """Half the width of the interval of a change between two runs with independent replies."""
    runs = []
    for run in (replies, others):
        sizes = [len(cell) for cells in run for cell in cells]
        rows = iter(np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]))
        cells = {(f"t{t:02}", None, f"d{d:03}"): next(rows) for t, of in enumerate(run) for d in range(len(of))}
        runs.append(CellReplies(np.concatenate([cell for of in run for cell in of]), np.arange(sum(sizes)), cells))
    (covariance,) = gen_bias_covariances(runs[0], runs[1]._replace(ids=-1 - runs[1].ids), {})[None]
    return half_of(gen_bias_change(0.0, 0.0, covariance, 1, LEVEL).interval)


SIZES = [
    (Size(8, 4, 20), Size(32, 4, 20)),
    (Size(8, 8, 20), Size(8, 4, 20)),
    (Size(8, 4, 6), Size(16, 4, 6)),
    (Size(5, 4, 78), Size(16, 4, 78)),
    (Size(8, 4, 40), Size(5, 4, 40)),
    (Size(8, 4, 40), Size(16, 8, 40)),
    (Size(8, 4, 20), Size(16, 4, 60)),
    (Size(5, 8, 30), Size(8, 26, 30)),
    (Size(5, 4, 6), Size(32, 4, 6)),
    (Size(8, 26, 8), Size(16, 26, 8)),
]
KINDS = [
    {},
    {"effect": 0.2, "unequal": 0.5},
    {"effect": 1.2, "uneven": True},
    {"concentration": 6.0, "unequal": 0.3},
    {"concentration": 0.5, "styles": 60, "uneven": True},
]
DESIGNS = [Population(*sizes, **kind) for sizes, kind in product(SIZES, KINDS)]


def errors_of(designs, sets, seed=0):
    """Relative errors of half-widths, in parts of what the plan gives as their error."""
    errors = []
    for design in designs:
        rng = np.random.default_rng(seed := seed + 1)
        cells = design.cells(rng)
        spread = run_spread(*found_of(design.replies(rng, cells, design.pilot)))
        planned = half_width(at_size(spread, design.later), LEVEL)
        later = [found_of(design.replies(rng, cells, design.later)) for _ in range(sets)]
        realised = np.nanmean([half_of(value_interval(*found, LEVEL).bounds) for found in later])
        errors.append(abs(planned / realised - 1) / (_ERROR / np.sqrt(spread.freedom)))
    return np.array(errors)


def test_predicted_half_widths_are_those_of_later_runs():
    errors = errors_of(DESIGNS[:15], 1)
    assert np.median(errors) < 0.6
    assert np.mean(errors < 1) > 0.7


@pytest.mark.long
def test_nine_in_ten_predictions_are_within_their_error_in_all_designs():
    errors = errors_of(DESIGNS * 8, 3)
    assert 0.87 < np.mean(errors < 1) < 0.97


def test_changes_are_as_sure_as_between_later_runs():
    design, rng = DESIGNS[0], np.random.default_rng(0)
    cells = design.cells(rng)
    spread = run_spread(*found_of(design.replies(rng, cells, design.pilot)))
    realised = change_half_of(*(design.replies(rng, cells, design.later) for _ in range(2)))
    assert change_half_width(at_size(spread, design.later), LEVEL) == pytest.approx(realised, rel=0.25)


def test_the_half_width_at_the_pilots_size_is_that_of_its_interval():
    design, rng = DESIGNS[0], np.random.default_rng(0)
    found = found_of(design.replies(rng, design.cells(rng), design.pilot))
    spread = run_spread(*found)
    assert half_width(spread, LEVEL) == pytest.approx(half_of(value_interval(*found, LEVEL).bounds), rel=1e-6)
    assert np.allclose(at_size(spread, spread.size)[:4], spread[:4])


def test_runs_that_will_have_no_interval_have_no_half_width():
    spread = Spread(0.01, 1e-6, 1e-5, 100.0, Size(8, 4, 40))
    for other in (
        spread._replace(size=Size(3, 4, 40)),
        spread._replace(size=Size(7, 1, 2)),
        spread._replace(freedom=0),
    ):
        assert half_width(other, LEVEL) is change_half_width(other, LEVEL) is None
    assert half_width(spread._replace(size=Size(4, 4, 40)), LEVEL) is not None


@pytest.mark.parametrize("name", ["few refuse, others at times", "all alike", "six terms"])
def test_predicted_half_widths_of_shares_are_those_of_later_runs(name):
    design, rng, errors = SHARES[name], np.random.default_rng(0), []
    shape = design.terms, design.templates
    for times in (4, 0.5) * 10:
        shares = np.where(rng.random(design.terms) < design.part, design.share, design.rest)[:, None]
        pilot, later = (np.full(shape, int(2 * design.number * more)) for more in (1, times))
        planned = planned_share(rng.binomial(pilot, shares), pilot, later, LEVEL)
        realised = half_of(share_interval(rng.binomial(later, shares), later, LEVEL))
        errors.append(abs(planned.at(later[0, 0]) / realised - 1) / planned.error)
    assert np.median(errors) < 1
    assert np.mean(np.array(errors) < 2.5) > 0.9


def test_a_share_that_no_reply_has_has_no_known_error():
    found = planned_share(np.zeros((20, 4)), np.full((20, 4), 5), np.full((20, 4), 20), LEVEL)
    assert found.at(20) > 0
    assert found.error == np.inf
