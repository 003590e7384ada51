"""Populations of style vectors that a run looks at, and how its decisions and intervals compare with the truth."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from hb_metrics.measurements.generation.looks import look_sizes
from hb_metrics.stats.bias_variance import cell_moments
from hb_metrics.stats.intervals import _interval
from hb_metrics.stats.planned import pilot_spread
from hb_metrics.stats.sequential import decision, next_look, share_higher

LEVEL = 0.95


class Outcome(NamedTuple):
    """What many runs of one design came to.

    Attributes:
        wrong: The share of runs that stopped with the wrong answer.
        used: The mean share of replies made.
        coverage: The share of intervals after the last look that contain the truth.
        undecided: The share of runs without an answer.
        without: The share of runs without an interval.
    """

    wrong: float
    used: float
    coverage: float
    undecided: float
    without: float


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

    def simulate(self, runs, ratio, seed=0):
        """Many runs that ask whether the value is below `ratio` times the truth; at 1, every answer counts as wrong.

        With a ratio of 0, they stop at the half-width that a run has in the middle.
        """
        rng = np.random.default_rng(seed)
        shape = self.templates, self.terms, self.texts or self.styles
        far = np.where(np.arange(self.terms) < self.outliers, 4.0, 1.0)[:, None]
        shared, own = rng.normal(size=(1, *shape[1:])), rng.normal(size=shape)
        logits = 0.7 * rng.normal(size=(self.templates, 1, shape[2])) + self.effect * np.sqrt(0.5) * far * (
            shared + own
        )
        means = np.exp(logits) / np.exp(logits).sum(axis=-1, keepdims=True)
        texts = rng.dirichlet(np.full(self.styles, self.concentration), self.texts)
        spread = self.concentration * np.exp(self.unequal * rng.normal(size=(*shape[:2], 1)))
        spread = spread * np.where(np.arange(self.terms) % 2, self.groups, 1.0)[:, None]
        truth = float((means @ texts if self.texts else means).var(axis=1).sum(axis=-1).mean())
        width = None
        if ratio == 0:
            middle = look_sizes(self.replies)[2]
            low, high = interval_of(moments_of(self._replies(rng, means, spread, texts)[:, :, :middle]))
            width = (high - low) / 2
        found = []
        for _ in range(runs):
            found.append(self._run(self._replies(rng, means, spread, texts), truth, ratio * truth, width))
        answers, used, held = zip(*found, strict=True)
        known = [each for each in held if each is not None]
        wrong = {False: ratio >= 1, True: ratio <= 1, None: False}
        return Outcome(
            sum(wrong[answer] for answer in answers) / runs,
            float(np.mean(used)),
            float(np.mean(known)),
            sum(answer is None for answer in answers) / runs,
            1 - len(known) / runs,
        )

    def _replies(self, rng, means, spread, texts):
        """[templates, terms, replies, styles]; empty ones are NaN."""
        shape = *means.shape[:2], self.replies, means.shape[2]
        if self.texts:
            drawn = rng.random((*shape[:3], 1))
            replies = texts[(means.cumsum(axis=-1)[:, :, None] > drawn).argmax(axis=-1)]
        else:
            replies = rng.standard_gamma(np.broadcast_to((means * spread)[:, :, None], shape)) + 1e-300
            replies /= replies.sum(axis=-1, keepdims=True)
        replies[rng.random(shape[:3]) < self.empty] = np.nan
        return replies

    def _run(self, replies, truth, limit, width=None):
        """The answer, the share of replies, and whether the interval contains the truth (`None`: there is none)."""
        looks = []
        for size in look_sizes(self.replies):
            found = moments_of(replies[:, :, :size])
            moments, value, plain = found
            if width is not None or not looks:  # a run that has an interval has one later
                bounds = interval_of(found)
                if bounds is None:
                    continue
            if width is not None:
                if (bounds[1] - bounds[0]) / 2 < width or size == self.replies:
                    return None, size / self.replies, bounds[0] <= truth <= bounds[1]
                continue
            spread = pilot_spread(moments, value, plain)
            looks.append(next_look(spread, spread.size.replies * self.replies / size, limit, looks, LEVEL))
            answer = decision(looks[-1], limit)
            if answer is not None or size == self.replies:
                share = share_higher(looks, limit, truth)
                return answer, size / self.replies, (1 - LEVEL) / 2 <= share <= (1 + LEVEL) / 2
        return None, 1.0, None


def interval_of(found):
    """The interval without regard to looks; `None`: there is none."""
    moments, value, plain = found
    return _interval(moments, value, plain, 1.0, LEVEL).bounds


def moments_of(replies):
    """The moments by template, the debiased and the plain value of [templates, terms, replies, styles]."""
    there = ~np.isnan(replies[..., 0])
    filled, counts = np.where(there[..., None], replies, 0.0), there.sum(axis=-1)
    means = filled.sum(axis=2) / counts[..., None]
    spreads = ((filled**2).sum(axis=(2, 3)) - counts * (means**2).sum(axis=-1)) / (counts - 1)
    plain = float(means.var(axis=1).sum(axis=-1).mean())
    noise = (1 - 1 / replies.shape[1]) * float((spreads / counts).mean())
    pairs = [zip(*each, strict=True) for each in zip(replies, there, strict=True)]
    return [cell_moments([cell[kept] for cell, kept in of], 0) for of in pairs], plain - noise, plain


DESIGNS = [
    Design("even cells"),
    Design("small effect", 100, effect=0.25),
    Design("large effect", 25, 40, effect=1.2, concentration=2.0),
    Design("each reply nearly of one style", 100, 40, effect=0.8, concentration=0.3, styles=12),
    Design("unequal spread, a tenth empty", unequal=0.7, empty=0.1),
    Design("six terms in four templates", 150, 6, 4, effect=0.8),
    Design("many terms", terms=120, effect=0.4),
    Design("three texts", 100, 40, texts=3, concentration=0.3),
    Design("two terms far away", 60, 40, effect=0.3, outliers=2),
    Design("two groups of unlike spread", 60, effect=0.5, groups=0.15),
]
