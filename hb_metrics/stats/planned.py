"""Predicts the half-width of a figure's interval in a run with more replies, templates or terms than a pilot run.

The variance of a debiased Gen Bias value (see `u_statistic.py`) is the sum of two parts. Only the first part grows
with the value. Let a run have N replies per cell (a term in a template), D terms and T templates. The first part is
proportional to 1 / (N D T). If all cells have the same variance, the second part is proportional to P² / (N (N − 1) D
T) + P / (N² D² T), where P = 1 − 1/D.

A small pilot estimates the value and both parts of the variance only roughly, so a prediction has a range. The range
combines the effects of the three errors (the root of their summed squares). If the larger run has other templates,
differences between templates also affect both parts.
"""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from hb_metrics.stats.clusters import share_interval
from hb_metrics.stats.intervals import MIN_EFFECTIVE_REPLIES, agreeing_values, unbiased_weight, variance_slope
from hb_metrics.stats.u_statistic import MIN_REPLIES, Covariance, mean_covariance

# A prediction is shown without its range if both ends are at most this far from it, relative to the prediction.
SURE = 0.2
# The largest allowed ratio between the ends of a range. Wider ranges are useless, so they are not shown.
MAX_RANGE = 10.0
_RANGE_LEVEL = 0.95


class Size(NamedTuple):
    replies: float
    templates: int
    terms: int


class Spread(NamedTuple):
    """A run's debiased value, and its variance, which is `at_zero` + `slope` × (the true value, if it is above 0).

    `zero_error` is the relative standard error of `at_zero`, and `slope_error` is the standard error of `slope`.
    `zero_apart` and `slope_apart` are the corresponding errors due to the choice of templates, from a jackknife over
    templates.
    """

    value: float
    at_zero: float
    slope: float
    zero_error: float
    slope_error: float
    size: Size
    zero_apart: float = 0.0
    slope_apart: float = 0.0

    @property
    def freedom(self) -> float:
        value = max(self.value, 0.0)
        # Both errors come from the same replies, so they are added.
        noise = self.zero_error * self.at_zero + self.slope_error * value
        return 2 * ((self.at_zero + self.slope * value) / noise) ** 2 if noise > 0 else math.inf


class Range(NamedTuple):
    low: float
    middle: float
    high: float

    @property
    def is_sure(self) -> bool:
        return self.high < (1 + SURE) * self.middle and self.low > (1 - SURE) * self.middle


def run_spread(templates: Sequence[Covariance], value: float, plain: float) -> Spread:
    variance = mean_covariance(templates)
    counts, at_zero = variance.counts, float(variance.at_zero[0, 0])
    size = Size(float(counts.mean()), len(templates), round(len(counts) / len(templates)))
    weight = unbiased_weight(variance, value)
    slopes = (1 - weight) * variance.plug_in_cells / plain
    if weight:
        slopes = slopes + weight * variance.linear_cells / value
    # Both parts of the variance are sums over cells. Their errors are estimated from the differences between cells.
    zero_error, slope_error = (math.sqrt(len(counts)) * float(part.std()) for part in (variance.pair_cells, slopes))
    slope = variance_slope(variance, value, plain)
    return Spread(value, at_zero, slope, zero_error / at_zero, slope_error, size)


def pilot_spread(templates: Sequence[Covariance], value: float, plain: float) -> Spread:
    spread, number = run_spread(templates, value, plain), len(templates)
    if number == 1:
        return spread
    without = [run_spread([*templates[:index], *templates[index + 1 :]], value, plain) for index in range(number)]
    # Both parts of the variance are inversely proportional to the number of templates.
    others = (1 - 1 / number) * np.array([(other.at_zero / spread.at_zero, other.slope) for other in without])
    zero_apart, slope_apart = (math.sqrt(number - 1) * others.std(axis=0)).tolist()
    return spread._replace(zero_apart=zero_apart, slope_apart=slope_apart)


def at_size(spread: Spread, size: Size) -> Spread:
    before = spread.size
    cells = before.templates * before.terms / (size.templates * size.terms)
    error = math.sqrt(cells * (before.replies - 1) / (size.replies - 1))
    slope = cells * before.replies / size.replies
    return Spread(
        spread.value,
        spread.at_zero * _at_zero(size) / _at_zero(before),
        spread.slope * slope,
        spread.zero_error * error,
        spread.slope_error * slope * error,
        size,
    )


def _at_zero(size: Size) -> float:
    replies, templates, terms = size
    share = 1 - 1 / terms
    return (share**2 / (replies * (replies - 1)) + share / replies**2 / terms) / terms / templates


def half_width(spread: Spread, confidence_level: float) -> float | None:
    """Computes the half-width of the interval for a run of size `spread.size`.

    The result is `None` if runs of this size have no interval, and infinity if the spread is too uncertain.
    """
    if spread.size.replies < MIN_REPLIES or math.prod(spread.size) < MIN_EFFECTIVE_REPLIES:
        return None
    if spread.freedom < 1:
        return math.inf
    quantile = _quantile((1 + confidence_level) / 2, spread.freedom)
    low, high = agreeing_values(max(spread.value, 0.0), spread.at_zero, spread.slope, quantile)
    return (high - low) / 2


def change_half_width(spread: Spread, confidence_level: float) -> float | None:
    half = half_width(spread, confidence_level)
    if half is None or half == math.inf:
        return half
    quantile = _quantile((1 + confidence_level) / 2, 2 * spread.freedom)
    return quantile * math.sqrt(2 * (spread.at_zero + spread.slope * max(spread.value, 0.0)))


def predicted(pilot: Spread, size: Size, predict: Callable[[Spread], float | None]) -> Range | None:
    """Predicts a number and its range for a run of another size.

    `predict` computes the number, such as a half-width, from the spread of the larger run, and may return `None`.
    """
    middle = predict(at_size(pilot, size))
    if middle is None:
        return None
    if middle == math.inf or pilot.size.templates == 1 < size.templates:
        return Range(0.0, math.inf, math.inf)
    # The standard error of a variance is even less certain than the variance, so it has half the degrees of freedom.
    tail, freedom = (1 + _RANGE_LEVEL) / 2, max(pilot.freedom, 2.0)
    rough = _quantile(tail, freedom / 2)
    # The smaller run's templates are assumed to be among the larger run's templates.
    apart = _quantile(tail) * math.sqrt(abs(1 - pilot.size.templates / size.templates))
    zero_error = math.hypot(rough * pilot.zero_error, apart * pilot.zero_apart)
    slope_error = math.hypot(rough * pilot.slope_error, apart * pilot.slope_apart)
    bounds = agreeing_values(pilot.value, pilot.at_zero, pilot.slope, _quantile(tail, freedom))
    zero, linear = [0.0], [0.0]  # the logarithms of predictions, relative to the middle
    for sign, bound in zip((-1, 1), bounds, strict=True):
        moved = [pilot._replace(at_zero=pilot.at_zero * math.exp(sign * zero_error))]
        # The value and the slope are multiplied, so they are also changed together.
        for of_value, of_slope in ((1.0, 0.0), (0.0, 1.0), (math.sqrt(0.5), math.sqrt(0.5))):
            value = pilot.value + of_value * (bound - pilot.value)
            slope = max(pilot.slope + of_slope * sign * slope_error, 0.0)
            # A smaller slope is estimated with a smaller error.
            error = pilot.slope_error * min(slope / pilot.slope, 1.0) if pilot.slope else pilot.slope_error
            moved.append(pilot._replace(value=value, slope=slope, slope_error=error))
        for index, other in enumerate(moved):
            end = predict(at_size(other, size)) or middle
            if end < math.inf:
                (linear if index else zero).append(math.log(end / middle))
    below, above = (math.hypot(pick(zero), pick(linear)) for pick in (min, max))
    return Range(middle * math.exp(-below), middle, middle * math.exp(above))


def share_half_width(hits: np.ndarray, sizes: np.ndarray, times: float, confidence_level: float) -> Range:
    """Predicts the half-width of a share of replies in a run with `times` as many replies as the pilot.

    Both arrays are [terms, templates]. `sizes` contains the number of the pilot's replies in each cell. `hits` contains
    the number of these replies that count towards the share.
    """
    low, high = share_interval(hits, sizes, confidence_level, times)
    middle = (high - low) / 2
    # The variance is a sum over terms and templates. Its error is estimated from the differences between templates.
    share = hits.sum(axis=1, keepdims=True) / sizes.sum(axis=1, keepdims=True)
    of_term = hits * (1 - share) ** 2 + (sizes - hits) * share**2
    squares = np.where(sizes > 1, hits * (sizes - hits) / np.maximum(sizes - 1, 1), of_term)
    templates = hits.shape[1]
    if squares.sum() == 0 or templates == 1:
        bound = share_interval(hits, sizes, _RANGE_LEVEL)[1]
        most = _quantile((1 + confidence_level) / 2) * math.sqrt(bound * (1 - bound) / times / float(sizes.sum()))
        return Range(0.0, middle, max(middle, most))
    apart = squares - squares.mean(axis=1, keepdims=True)
    error = math.sqrt(templates / (templates - 1) * float((apart**2).sum())) / float(squares.sum())
    # With few terms, templates may be alike by chance. The error is therefore at least the error of one overall share.
    error = max(error, abs(1 - 2 * float(hits.sum() / sizes.sum())) / math.sqrt(float(squares.sum())))
    factor = math.exp(_quantile((1 + _RANGE_LEVEL) / 2) * error / 2)
    return Range(middle / factor, middle, middle * factor)


def _quantile(tail: float, freedom: float = math.inf) -> float:
    # `scipy.special` is about 50 times as fast as `scipy.stats`.
    return float(special.stdtrit(freedom, tail) if freedom < math.inf else special.ndtri(tail))
