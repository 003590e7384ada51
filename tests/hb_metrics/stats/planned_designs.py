"""Populations of style vectors, and what a plan from one pilot predicts of other runs from the same population."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hb_metrics.paired_changes.gen_bias_covariance import CellReplies, gen_bias_change, gen_bias_covariances
from hb_metrics.stats.intervals import value_interval
from hb_metrics.stats.planned import Size, change_half_width, half_width, pilot_spread, predicted
from hb_metrics.stats.u_statistic import Paired, template_covariances

LEVEL = 0.95


class Found(NamedTuple):
    """A run's variances by template, its debiased value and its plain value."""

    templates: list
    value: float
    plain: float


def interval_of(found):
    """The bounds that a run's report has; `None`: there are none."""
    return value_interval(*found, LEVEL).bounds


def found_of(replies):
    """Of [templates][terms] style vectors: [replies, styles]."""
    templates, plain, noise = [], [], []
    for cells in replies:
        rows, counts = np.concatenate(cells), np.array([len(cell) for cell in cells])
        templates.append(({None: len(cells)}, [Paired(rows, rows, counts)]))
        plain.append(np.array([cell.mean(axis=0) for cell in cells]).var(axis=0).sum())
        of_means = [cell.var(axis=0, ddof=1).sum() / len(cell) for cell in cells]
        noise.append((1 - 1 / len(cells)) * np.mean(of_means))
    covariances = [covariance for (covariance,) in template_covariances(templates, {})[None]]
    return Found(covariances, float(np.mean(plain) - np.mean(noise)), float(np.mean(plain)))


def run_of(replies):
    """As `found_of`, for changes between runs."""
    sizes = [len(cell) for cells in replies for cell in cells]
    rows = iter(np.split(np.arange(sum(sizes)), np.cumsum(sizes)[:-1]))
    cells = {(f"t{t:02}", None, f"d{d:03}"): next(rows) for t, of in enumerate(replies) for d in range(len(of))}
    return CellReplies(np.concatenate([cell for of in replies for cell in of]), np.arange(sum(sizes)), cells)


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
        before, other = (run_of(run) for run in (first, second))
        kept = rng.random((len(before.vectors), 1)) < same
        after = before._replace(vectors=np.where(kept, before.vectors, other.vectors))
        (covariance,) = gen_bias_covariances(before, after, {})[None]
        low, high = gen_bias_change(0.0, 0.0, covariance, 1, LEVEL).interval
        return (high - low) / 2, found_of(first)
