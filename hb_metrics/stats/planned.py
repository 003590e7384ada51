"""Predicts the half-width of a Gen Bias interval in a run with more replies, templates or terms than a pilot run.

The variance of a debiased Gen Bias value (see `u_statistic.py`) is the sum of two parts. Only the first part grows
with the value. Let a run have N replies per cell (a term in a template), D terms and T templates. The first part is
proportional to 1 / (N D T). If all cells have the same variance, the second part is proportional to P² / (N (N − 1) D
T) + P / (N² D² T), where P = 1 − 1/D.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

from hb_metrics.stats.clusters import quantile
from hb_metrics.stats.intervals import MIN_EFFECTIVE_REPLIES, agreeing_values, variance_slope
from hb_metrics.stats.u_statistic import MIN_REPLIES, Covariance, mean_covariance


class Size(NamedTuple):
    replies: float
    templates: int
    terms: int


class Spread(NamedTuple):
    """A run's debiased value, and its variance, which is `at_zero` + `slope` × (the true value, if it is above 0)."""

    value: float
    at_zero: float
    slope: float
    freedom: float
    size: Size


def run_spread(templates: Sequence[Covariance], value: float, plain: float) -> Spread:
    variance, number = mean_covariance(templates), len(templates)
    size = Size(float(variance.counts.mean()), number, round(len(variance.counts) / number))
    slope = variance_slope(variance, value, plain)
    return Spread(value, float(variance.at_zero[0, 0]), slope, variance.freedom(), size)


def at_size(spread: Spread, size: Size) -> Spread:
    before = spread.size
    cells = before.templates * before.terms / (size.templates * size.terms)
    return Spread(
        spread.value,
        spread.at_zero * _at_zero(size) / _at_zero(before),
        spread.slope * cells * before.replies / size.replies,
        spread.freedom * (size.replies - 1) / (before.replies - 1) / cells,
        size,
    )


def _at_zero(size: Size) -> float:
    replies, templates, terms = size
    share = 1 - 1 / terms
    return (share**2 / (replies * (replies - 1)) + share / replies**2 / terms) / terms / templates


def half_width(spread: Spread, confidence_level: float) -> float | None:
    """Computes the half-width of the interval for a run of size `spread.size`, or `None` if there is no interval."""
    if spread.size.replies < MIN_REPLIES or math.prod(spread.size) < MIN_EFFECTIVE_REPLIES or spread.freedom < 1:
        return None
    t = quantile(confidence_level, spread.freedom)
    low, high = agreeing_values(max(spread.value, 0.0), spread.at_zero, spread.slope, t)
    return (high - low) / 2


def change_half_width(spread: Spread, confidence_level: float) -> float | None:
    """As `half_width`, for the change between two such runs with independent replies."""
    if half_width(spread, confidence_level) is None:
        return None
    variance = 2 * (spread.at_zero + spread.slope * max(spread.value, 0.0))
    return quantile(confidence_level, 2 * spread.freedom) * math.sqrt(variance)
