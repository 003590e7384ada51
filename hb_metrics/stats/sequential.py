"""Interim looks at a value before all replies exist, with one error rate for all looks together.

The looks test whether the true value is below a limit. The test statistic is the distance of the debiased value from
the limit, in standard errors at the limit. The permitted error is spent as information grows (Lan and DeMets, 1983,
https://doi.org/10.1093/biomet/70.3.659), in the shape of O'Brien and Fleming's boundaries (1979,
https://doi.org/10.2307/2530245), so early looks spend hardly any of it. A debiased value is a U-statistic, so the
covariance of its values at two looks is the variance of the later value. The looks are thus steps of a Brownian motion
whose time is the information: the variance at the last look divided by the variance at the present look.

The interval after the last look orders outcomes by stage (Armitage, 1957; Tsiatis, Rosner and Mehta, 1984,
https://doi.org/10.2307/2530912). Among outcomes above the boundary, an earlier outcome ranks higher.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from hb_metrics.stats.planned import Spread, at_size

# The Gauss–Legendre nodes of the density of undecided runs, and the largest distance in standard errors.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_FARTHEST = 8.0
_NEVER = 9.0  # the boundary of a look that has too little information to decide anything
_MANY = 1e8  # the degrees of freedom
# The minimum gain in information between looks. It is needed because variances are estimates.
_LEAST_GAIN = 0.01
# The share of the permitted error that looks spend. It is below 1 because variances are estimates.
_SPENT = 0.9


class Look(NamedTuple):
    """A look at a debiased value, whose variance is `at_zero` plus `slope` per unit of the true value.

    `information` is the share of the whole run's information. `boundary` is the distance from the limit at which the
    look decides, in standard errors of a known variance.
    """

    value: float
    at_zero: float
    slope: float
    freedom: float
    information: float
    boundary: float

    def error(self, true: float) -> float:
        return math.sqrt(self.at_zero + self.slope * max(true, 0.0))

    def distance(self, value: float, true: float) -> float:
        """Returns the distance from a true value to a value, in standard errors of a known variance."""
        errors = (value - true) / self.error(true)
        known = -float(ndtri(stdtr(min(self.freedom, _MANY), -abs(errors))))
        return math.copysign(min(known, _FARTHEST), errors)

    def deciding(self, limit: float) -> tuple[float, float]:
        """Returns the bounds of the undecided values. The look decides at these bounds and beyond them."""
        half = -float(stdtrit(min(self.freedom, _MANY), ndtr(-self.boundary))) * self.error(limit)
        return limit - half, limit + half


def next_look(spread: Spread, whole: float, limit: float, before: Sequence[Look], confidence_level: float) -> Look:
    """Looks at a value after the looks `before`. `whole` is the number of replies per cell at the last look.

    All looks together have the error of `_error_per_side` on either side of the limit.
    """
    ends = [at_size(spread, spread.size._replace(replies=replies)) for replies in (whole, spread.size.replies)]
    last, now = (end.at_zero + end.slope * limit for end in ends)
    information = last / now
    if before:
        information = max(information, before[-1].information + _LEAST_GAIN)
    information = min(information, 1.0)
    boundary = next_boundary(
        [*(look.information for look in before), information],
        [look.boundary for look in before],
        _error_per_side(confidence_level),
    )
    return Look(spread.value, spread.at_zero, spread.slope, spread.freedom, information, boundary)


def decision(look: Look, limit: float) -> bool | None:
    distance = look.distance(look.value, limit)
    return None if abs(distance) < look.boundary else distance < 0


def spent(information: float, error: float) -> float:
    """Returns the error that is spent on one side up to this share of the information."""
    return 2 * float(ndtr(ndtri(error / 2) / math.sqrt(information)))


def next_boundary(information: Sequence[float], before: Sequence[float], error: float) -> float:
    """Computes the distance from the limit at which the next look decides.

    `information` includes the next look. `before` contains the boundaries of the earlier looks. `error` is the error of
    all looks together, on one side.
    """
    due, undecided, then = spent(information[-1], error), (np.zeros(1), np.ones(1)), 0.0
    for now, bound in zip(information, before, strict=False):
        reach = math.sqrt(now) * bound
        undecided, then = _still_undecided(undecided, -reach, reach, math.sqrt(now - then)), now
    due -= spent(then, error) if before else 0.0
    time, step = math.sqrt(information[-1]), math.sqrt(information[-1] - then)
    if _beyond(undecided, time * _NEVER, step) >= due:
        return _NEVER
    return float(optimize.brentq(lambda bound: _beyond(undecided, time * bound, step) - due, 0.0, _NEVER))


def share_higher(looks: Sequence[Look], limit: float, true: float) -> float:
    """Computes the probability of an outcome at least as high as that of these looks. The last look ended the run."""
    *earlier, last = looks
    bounds = [[look.distance(value, true) for value in look.deciding(limit)] for look in earlier]
    ends = [*(high for _, high in bounds), last.distance(last.value, true)]
    undecided, before, total = (np.zeros(1), np.ones(1)), 0.0, 0.0
    for number, look in enumerate(looks):
        time, step = math.sqrt(look.information), math.sqrt(look.information - before)
        total += _beyond(undecided, time * ends[number], step)
        if number < len(bounds):
            low, high = bounds[number]
            undecided, before = _still_undecided(undecided, time * low, time * high, step), look.information
    return total


def interval_after(looks: Sequence[Look], limit: float, confidence_level: float) -> tuple[float, float]:
    """Computes the interval of the true value after the last of these looks. No earlier look decided."""
    last, tail = looks[-1], _error_per_side(confidence_level)
    ends = []
    for share, direction in ((tail, -1), (1 - tail, 1)):
        near = far = last.value
        step = direction * last.error(max(last.value, limit))
        while (share_higher(looks, limit, far) - share) * direction < 0:
            near, far, step = far, far + step, 2 * step
        if near != far:
            far = optimize.brentq(
                lambda true, share=share: share_higher(looks, limit, true) - share, near, far, xtol=1e-14
            )
        ends.append(float(far))
    return ends[0], ends[1]


def _error_per_side(confidence_level: float) -> float:
    """Returns the error of the looks and of the interval after them, which must agree with the looks' answer."""
    return _SPENT * (1 - confidence_level) / 2


def _still_undecided(
    undecided: tuple[np.ndarray, np.ndarray], low: float, high: float, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the positions of runs that stay between two bounds of the motion, and each position's probability."""
    positions, masses = undecided
    half = max(high - low, 0.0) / 2
    to = (low + high) / 2 + half * _NODES
    density = np.exp(-(((to[:, None] - positions) / step) ** 2) / 2) / (step * math.sqrt(2 * math.pi))
    return to, half * _WEIGHTS * (density @ masses)


def _beyond(undecided: tuple[np.ndarray, np.ndarray], bound: float, scale: float) -> float:
    """Computes the probability that undecided runs pass a bound of the motion at the next look."""
    positions, masses = undecided
    return float(masses @ ndtr((positions - bound) / scale))
