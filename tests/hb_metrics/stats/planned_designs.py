"""Populations of style vectors, and what a plan from one pilot predicts of other runs from the same population."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hb_metrics.paired_changes.gen_bias_covariance import PairedCell, gen_bias_covariances
from hb_metrics.paired_changes.paired_change import change_from_covariance
from hb_metrics.stats.bias_variance import cell_moments
from hb_metrics.stats.intervals import _interval
from hb_metrics.stats.planned import Size, change_half_width, half_width, pilot_spread, predicted

LEVEL = 0.95


class Found(NamedTuple):
    """A run's moments by template, its debiased value and its plain value."""

    moments: list
    value: float
    plain: float


def interval_of(found):
    """The bounds that a run's report has; `None`: there are none."""
    return _interval(found.moments, found.value, found.plain, 1.0, LEVEL).bounds


def found_of(replies):
    """Of [templates][terms] style vectors: [replies, styles]."""
    moments, plain, noise = [], [], []
    for cells in replies:
        moments.append(cell_moments(cells, 0))
        plain.append(np.array([cell.mean(axis=0) for cell in cells]).var(axis=0).sum())
        of_means = [cell.var(axis=0, ddof=1).sum() / len(cell) for cell in cells]
        noise.append((1 - 1 / len(cells)) * np.mean(of_means))
    return Found(moments, float(np.mean(plain) - np.mean(noise)), float(np.mean(plain)))


@dataclass(frozen=True)
class Population:
    """Terms in templates, with style vectors nearly of one style each; the terms of a run are its first.

    Attributes:
        size: The pilot.
        other: The run that is planned.
        effect: How far terms differ, in logits.
        concentration: How alike the replies of a cell are.
        unequal: How unlike the spreads of cells are.
        styles: Styles.
        uneven: Whether cells have any number of replies from half of the run's to one and a half times as many.
    """

    size: Size
    other: Size
    effect: float = 0.6
    concentration: float = 1.5
    unequal: float = 0.0
    styles: int = 20
    uneven: bool = False

    def cells(self, rng, size):
        """Parameters of the Dirichlet distributions of new templates and terms: [templates, terms, styles]."""
        shape = size.templates, size.terms, self.styles
        common, own = rng.normal(size=(1, *shape[1:])), rng.normal(size=shape)
        logits = rng.normal(size=(size.templates, 1, self.styles)) + self.effect * np.sqrt(0.5) * (common + own)
        values = np.exp(logits)
        spread = self.concentration * np.exp(self.unequal * rng.normal(size=(*shape[:2], 1)))
        return spread * values / values.sum(axis=-1, keepdims=True)

    def replies(self, rng, cells, number):
        """[templates][terms] style vectors: [replies, styles]."""
        templates, terms, styles = cells.shape
        counts = np.full(templates * terms, number)
        if self.uneven:
            counts = rng.integers(number - number // 2, number + number // 2 + 1, templates * terms)
        drawn = rng.standard_gamma(np.repeat(cells.reshape(-1, styles), counts, axis=0)) + 1e-300
        vectors = np.split(drawn / drawn.sum(axis=-1, keepdims=True), counts.cumsum()[:-1])
        return [vectors[row * terms : (row + 1) * terms] for row in range(templates)]

    def widths(self, sets, seed):
        """The half-width predicted from one pilot, and the mean of those with an interval in later runs."""
        rng = np.random.default_rng(seed)
        large = Size(0, max(self.size.templates, self.other.templates), max(self.size.terms, self.other.terms))
        cells = self.cells(rng, large)
        pilot = found_of(self.replies(rng, cells[: self.size.templates, : self.size.terms], self.size.replies))
        found = predicted(pilot_spread(*pilot), self.other, lambda spread: half_width(spread, LEVEL))
        realised = []
        for _ in range(sets):
            run = found_of(self.replies(rng, cells[: self.other.templates, : self.other.terms], self.other.replies))
            bounds = interval_of(run)
            if bounds is not None:
                realised.append((bounds[1] - bounds[0]) / 2)
        return found, float(np.mean(realised)) if 2 * len(realised) > sets else None

    def changes(self, sets, seed):
        """The half-width of a change between independent runs, predicted from one pilot, and that of later pairs."""
        rng = np.random.default_rng(seed)
        cells = self.cells(rng, self.size)
        pilot = found_of(self.replies(rng, cells, self.size.replies))
        found = predicted(pilot_spread(*pilot), self.other, lambda spread: change_half_width(spread, LEVEL))
        return found, float(np.mean([self.change(rng, cells, self.other.replies, 0.0)[0] for _ in range(sets)]))

    def change(self, rng, cells, number, same):
        """Half the width of the interval of a change between two runs, and what was found of the first."""
        first, second = (self.replies(rng, cells, number) for _ in range(2))
        templates = []
        for cells, others in zip(first, second, strict=True):
            kept = [rng.random((len(cell), 1)) < same for cell in cells]
            mixed = [np.where(keep, *pair) for keep, *pair in zip(kept, cells, others, strict=True)]
            ids = [np.tile(np.arange(len(cell)), (2, 1)) for cell in cells]
            templates.append({None: [PairedCell(*cell) for cell in zip(cells, mixed, ids, strict=True)]})
        covariance = gen_bias_covariances(templates, {})[None][0]
        low, high = change_from_covariance(0.0, 0.0, covariance.matrix, covariance.freedom, LEVEL).interval
        return (high - low) / 2, found_of(first)
