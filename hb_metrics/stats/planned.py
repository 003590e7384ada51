"""The half-width that a debiased Gen Bias value will have at other numbers of replies, templates and terms.

The parts of the variance of a debiased value (`bias_variance.py`) depend on the numbers in known ways. With N replies a
cell, D terms and T templates, the part with the value falls as 1 / (N D T), that of squared spreads of cells as
1 / (N (N − 1) D T), and that of two cells as 1 / (N² D² T). A pilot run estimates the three.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from hb_metrics.stats.bias_variance import MIN_REPLIES, CellMoments, bias_variance
from hb_metrics.stats.intervals import MAX_WIDENING, MIN_CELLS, agreeing_values

# With fewer degrees of freedom, the variance that a pilot shows can be wrong by half.
MIN_PILOT_FREEDOM = 15


class Size(NamedTuple):
    """The size of a run: replies of a cell, templates, and terms that are compared."""

    replies: float
    templates: int
    terms: int


class Spread(NamedTuple):
    """The variance of a debiased value of a pilot, in parts.

    Attributes:
        value: The debiased value.
        squares: The part of squared spreads of cells, at a value of 0.
        crossed: The part of products of two cells, at a value of 0.
        slope: The increase of the variance per unit of the value.
        freedom: The degrees of freedom of the variance.
        size: The pilot's size.
    """

    value: float
    squares: float
    crossed: float
    slope: float
    freedom: float
    size: Size


def pilot_spread(templates: Sequence[CellMoments], value: float, plain: float) -> Spread:
    """The parts of the variance of a value from the moments of its cells, as `bias_variance` takes them."""
    found = bias_variance(templates, value, plain)
    crossed = sum(float(moments.rest.sum()) for moments in templates) / len(templates) ** 2
    counts = np.concatenate([moments.counts for moments in templates])
    size = Size(float(counts.mean()), len(templates), round(len(counts) / len(templates)))
    return Spread(value, found.at_zero - crossed, crossed, found.slope, found.freedom, size)


def assumed_spread(value: float, noise: float, styles: float, size: Size) -> Spread:
    """The parts of the variance if the replies of all cells have one covariance, alike in some directions.

    Args:
        value: The debiased value.
        noise: The trace of that covariance: the sampling noise of one reply.
        styles: The number of directions over which it is spread evenly.
        size: The size of the run.
    """
    replies, templates, terms = size
    squared = noise**2 / styles
    share = 1 - 1 / terms
    return Spread(
        value,
        2 * share**2 * squared / (replies * (replies - 1)) / terms / templates,
        2 * share * squared / replies**2 / terms**2 / templates,
        4 * noise / styles / replies / terms / templates,
        float(templates * terms * (replies - 1)) * styles,
        size,
    )


def at_size(spread: Spread, size: Size) -> Spread:
    """The same at another size."""
    before = spread.size
    templates, terms = before.templates / size.templates, before.terms / size.terms
    replies = before.replies / size.replies
    pairs = before.replies * (before.replies - 1) / (size.replies * (size.replies - 1))
    return Spread(
        spread.value,
        spread.squares * templates * terms * pairs,
        spread.crossed * templates * terms**2 * replies**2,
        spread.slope * templates * terms * replies,
        spread.freedom / (templates * terms) * (size.replies - 1) / (before.replies - 1),
        size,
    )


def half_width(spread: Spread, confidence_level: float) -> float | None:
    """Half the width of the interval at the spread's own size; `None`: most runs of that size will have none."""
    size, at_zero = spread.size, spread.squares + spread.crossed
    if size.replies < MIN_REPLIES or size.templates * size.terms < MIN_CELLS or at_zero <= 0 or spread.freedom <= 1:
        return None
    value, tail = max(spread.value, 0.0), (1 + confidence_level) / 2
    low, high = agreeing_values(value, at_zero, spread.slope, float(stats.t.ppf(tail, spread.freedom)))
    known = float(stats.norm.ppf(tail)) * math.sqrt(at_zero + spread.slope * value)
    return None if (high - low) / 2 > MAX_WIDENING * known else (high - low) / 2


def power_of_fall(spread: Spread, fall: float, confidence_level: float) -> float:
    """The probability that the change to a second run, whose value is lower by `fall` (a share), is beyond chance.

    The replies of the two runs count as independent; where they go together, the power is higher.
    """
    value, at_zero = max(spread.value, 0.0), spread.squares + spread.crossed
    error = math.sqrt(2 * at_zero + spread.slope * value * (2 - fall))
    quantile = float(stats.t.ppf((1 + confidence_level) / 2, max(spread.freedom, 1.0)))
    distance = fall * value / error
    return float(stats.norm.cdf(distance - quantile) + stats.norm.cdf(-distance - quantile))
