"""Populations of style vectors that a run looks at, and how its decisions and intervals compare with the truth."""

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from hb_metrics.measurements.generation.looks import look_sizes
from hb_metrics.stats.bias_variance import cell_moments
from hb_metrics.stats.planned import run_spread
from hb_metrics.stats.sequential import decision, next_look, share_higher
from tests.hb_metrics.stats.planned_designs import LEVEL, Found, interval_of

TAIL = 0.0225  # the error of an interval after looks, on one side
POSSIBLE = 1000


class Outcome(NamedTuple):
    """What many runs of one design came to.

    Attributes:
        wrong: The share of runs that stopped with the wrong answer.
        used: The mean share of replies made.
        coverage: The share of intervals after the last look that contain the truth.
    """

    wrong: float
    used: float
    coverage: float


@dataclass(frozen=True)
class Design:
    """A population, and the run that looks at it.

    Attributes:
        name: What is special about it.
        replies: Replies of a cell in the whole run.
        terms: Terms.
        templates: Templates.
        styles: Styles.
        effect: How far terms differ, in logits.
        concentration: How alike the replies of a cell are; 0.3: nearly of one style each.
        unequal: How unlike the spreads of cells are (standard deviation of the logarithm).
        empty: The share of empty replies.
        texts: Replies are one of so many texts; 0: no two are alike.
        outliers: Terms that differ four times as far.
        groups: How unlike the spreads of two halves of the terms are (a factor).
    """

    name: str
    replies: int = 40
    terms: int = 60
    templates: int = 1
    styles: int = 8
    effect: float = 0.6
    concentration: float = 4.0
    unequal: float = 0.0
    empty: float = 0.0
    texts: int = 0
    outliers: int = 0
    groups: float = 1.0

    def simulate(self, runs, *ratios, seed=0):
        """Many runs, each of which asks in turn whether the value is below `ratio` times the truth.

        At a ratio of 1, every answer counts as wrong. At 0, runs stop at the half-width that a run has in the middle.
        """
        rng = np.random.default_rng(seed)
        possible = self.possible_replies(rng)
        truth = float(possible.mean(axis=2).var(axis=1).sum(axis=-1).mean())
        low, high = interval_of(moments_of(self.drawn(rng, possible)[:, :, : look_sizes(self.replies)[2]]))
        found = {ratio: [] for ratio in ratios}
        for _ in range(runs):
            replies = self.drawn(rng, possible)
            at = cache(lambda size, replies=replies: moments_of(replies[:, :, :size]))
            for ratio in ratios:
                outcome = self._precise(at, truth, (high - low) / 2) if ratio == 0 else self._run(at, truth, ratio)
                found[ratio].append(outcome)
        return [Outcome(*map(np.nanmean, zip(*found[ratio], strict=True))) for ratio in ratios]

    def possible_replies(self, rng):
        """[templates, terms, `POSSIBLE`, styles]: the style vectors of which a cell's replies are drawn."""
        shape = self.templates, self.terms, self.texts or self.styles
        far = np.where(np.arange(self.terms) < self.outliers, 4.0, 1.0)[:, None]
        shared, own = rng.normal(size=(1, *shape[1:])), rng.normal(size=shape)
        logits = 0.7 * rng.normal(size=(self.templates, 1, shape[2])) + self.effect * np.sqrt(0.5) * far * (
            shared + own
        )
        means = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        shape = *shape[:2], POSSIBLE, shape[2]
        if self.texts:
            texts = rng.dirichlet(np.full(self.styles, self.concentration), self.texts)
            return texts[(means.cumsum(axis=-1)[:, :, None] > rng.random((*shape[:3], 1))).argmax(axis=-1)]
        spread = self.concentration * np.exp(self.unequal * rng.normal(size=(*shape[:2], 1)))
        spread = spread * np.where(np.arange(self.terms) % 2, self.groups, 1.0)[:, None]
        replies = rng.standard_gamma(np.broadcast_to((means * spread)[:, :, None], shape)) + 1e-300
        return replies / replies.sum(axis=-1, keepdims=True)

    def drawn(self, rng, possible):
        """[templates, terms, replies, styles]; empty ones are NaN."""
        chosen = rng.integers(POSSIBLE, size=(self.templates, self.terms, self.replies))
        replies = np.take_along_axis(possible, chosen[..., None], axis=2)
        if self.empty:
            replies[rng.random(chosen.shape) < self.empty] = np.nan
        return replies

    def _precise(self, at, truth, width):
        """The outcome of a run that stops at a half-width."""
        for size in look_sizes(self.replies):
            low, high = interval_of(at(size)) or (-np.inf, np.inf)
            if (high - low) / 2 < width:
                break
        return False, size / self.replies, low <= truth <= high

    def _run(self, at, truth, ratio):
        """The outcome of a run that compares the value with a limit; coverage is NaN without an interval."""
        looks, limit = [], ratio * truth
        for size in look_sizes(self.replies):
            moments, value, plain = at(size)
            if looks or interval_of(at(size)):  # a run that has an interval has one later
                spread = run_spread(moments, value, plain)
                looks.append(next_look(spread, spread.size.replies * self.replies / size, limit, looks, LEVEL))
                answer = decision(looks[-1], limit)
                if answer is not None:
                    break
        else:
            answer = None
        wrong = answer is not None and (ratio == 1 or answer == (ratio < 1))
        share = share_higher(looks, limit, truth) if looks else np.nan
        return wrong, size / self.replies, TAIL <= share <= 1 - TAIL if looks else np.nan


def moments_of(replies):
    """The moments by template, the debiased and the plain value of [templates, terms, replies, styles]."""
    there = ~np.isnan(replies[..., 0])
    filled, counts = np.where(there[..., None], replies, 0.0), there.sum(axis=-1)
    means = filled.sum(axis=2) / counts[..., None]
    spreads = ((filled**2).sum(axis=(2, 3)) - counts * (means**2).sum(axis=-1)) / (counts - 1)
    plain = float(means.var(axis=1).sum(axis=-1).mean())
    noise = (1 - 1 / replies.shape[1]) * float((spreads / counts).mean())
    pairs = [zip(*each, strict=True) for each in zip(replies, there, strict=True)]
    return Found([cell_moments([cell[kept] for cell, kept in of], 0) for of in pairs], plain - noise, plain)


DESIGNS = [
    Design("even cells"),
    Design("small effect", 100, effect=0.25),
    Design("large effect", 25, 40, effect=1.2, concentration=2.0),
    Design("each reply nearly of one style", 100, 40, effect=0.8, concentration=0.3, styles=12),
    Design("unequal spread, a tenth empty", unequal=0.7, empty=0.1),
    Design("six terms in four templates", 150, 6, 4, effect=0.8),
    Design("many terms", terms=120, effect=0.4),
    Design("three texts", 150, 40, texts=3, concentration=0.3),
    Design("two terms far away", 60, 40, effect=0.3, outliers=2),
    Design("two groups of unlike spread", 60, effect=0.5, groups=0.15),
]
