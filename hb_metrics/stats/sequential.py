"""Tests repeatedly, while a run's replies are being generated, whether a value is below a limit.

Each of these tests is called a look. The permitted error rate applies to all looks together. The test statistic is the
distance of the debiased value from the limit, in standard errors at the limit.

The information at a look is the variance at the last look divided by the variance at this look. As the information
grows, the looks use up more of the permitted error (Lan and DeMets, 1983, https://doi.org/10.1093/biomet/70.3.659).
With the spending function of O'Brien and Fleming (1979, https://doi.org/10.2307/2530245), early looks use up hardly any
error. A debiased value is a U-statistic, so the covariance of its values at two looks is the variance at the later
look. The values at the looks are therefore points of a Brownian motion, and the information is its time.

The interval after the last look uses the stage-wise order of outcomes (Armitage, 1957; Tsiatis, Rosner and Mehta, 1984,
https://doi.org/10.2307/2530912). In this order, the earlier a value passes the upper boundary, the higher it ranks.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from hb_metrics.stats.planned import Spread, at_size

# Nodes and weights of Gauss–Legendre integration over the values of undecided runs.
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(64)
_FARTHEST = 8.0  # distances, in standard errors, are capped at this value
_NEVER = 9.0  # the boundary of a look that has too little information to decide anything
_MANY = 1e8  # a maximum for the degrees of freedom, because `stdtr` does not accept infinity
# The minimum gain in information between looks. Estimated variances could otherwise show no gain at all.
_LEAST_GAIN = 0.01
# The share of the permitted error that the looks use. The rest allows for errors in the estimated variances.
_SPENT = 0.9


class Look(NamedTuple):
    """A look at a debiased value, with the variance `at_zero` plus `slope` per unit of the true value.

    `information` is relative to the information of the whole run. The look is decisive if the value is at least
    `boundary` standard errors from the limit. `boundary` is computed as if the variance were known.
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
        """Returns `value - true` in standard errors, converted from Student's t to a normal distribution."""
        errors = (value - true) / self.error(true)
        known = -float(ndtri(stdtr(min(self.freedom, _MANY), -abs(errors))))
        return math.copysign(min(known, _FARTHEST), errors)

    def deciding(self, limit: float) -> tuple[float, float]:
        half = -float(stdtrit(min(self.freedom, _MANY), ndtr(-self.boundary))) * self.error(limit)
        return limit - half, limit + half


def next_look(spread: Spread, whole: float, limit: float, before: Sequence[Look], confidence_level: float) -> Look:
    """Computes the next look after the looks `before`.

    `whole` is the planned number of replies per cell at the last look.
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
    """Returns the part of the one-sided `error` that looks may use up before the information exceeds this share."""
    return 2 * float(ndtr(ndtri(error / 2) / math.sqrt(information)))


def next_boundary(information: Sequence[float], before: Sequence[float], error: float) -> float:
    """Computes the minimum distance between the estimate and the limit at which the next look is decisive.

    `information` includes the next look, and `before` contains the boundaries of the earlier looks. `error` is the
    total one-sided error permitted across all looks.
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
    """Computes the probability that a run with the value `true` ranks at least as high as this run.

    `looks` contains the looks of this run. Only the last of them was decisive.
    """
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
    """Computes the interval for the true value after the last look, given that all earlier looks were inconclusive."""
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
    """Returns the error on each side.

    Looks and intervals use the same error, so an interval never contradicts a look.
    """
    return _SPENT * (1 - confidence_level) / 2


def _still_undecided(
    undecided: tuple[np.ndarray, np.ndarray], low: float, high: float, step: float
) -> tuple[np.ndarray, np.ndarray]:
    """Returns the positions of runs that are still between two bounds, and the probability of each position.

    `undecided` contains the positions and probabilities at the previous look. A position is a value of the Brownian
    motion, and `step` is the standard deviation of its next step.
    """
    positions, masses = undecided
    half = max(high - low, 0.0) / 2
    to = (low + high) / 2 + half * _NODES
    density = np.exp(-(((to[:, None] - positions) / step) ** 2) / 2) / (step * math.sqrt(2 * math.pi))
    return to, half * _WEIGHTS * (density @ masses)


def _beyond(undecided: tuple[np.ndarray, np.ndarray], bound: float, scale: float) -> float:
    """Computes the probability that a run is still undecided and then exceeds `bound` at the next look."""
    positions, masses = undecided
    return float(masses @ ndtr((positions - bound) / scale))
