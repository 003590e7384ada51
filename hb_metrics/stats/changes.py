"""Computes the change in a figure from one run to another, absolute and in percent, with intervals.

A is the figure in the first run, and B is the figure in the second run. The relative interval contains the ratios R for
which the interval of B − R·A contains 0 (Fieller's rule). Therefore, either both the absolute and the relative interval
contain "no change", or neither does.
"""

import math
from typing import NamedTuple

import numpy as np

from hb_metrics.stats.clusters import Bounds, loss_per_token, mean_bounds, quantile

MIN_TERMS = 12
# The minimum number of terms on an axis. With fewer, any two pairs of terms have a term in common.
MIN_COMPARED = 4
# The number of points at which a change is computed on an ellipse. It must be even. With n points, the relative error
# of the bounds is about (π / n)².
NUM_ANGLES = 2000

NO_FILES_REASON = "a run's folder lacks the files that the computation needs"
FEW_TERMS_REASON = f"fewer than {MIN_TERMS} terms, too few to estimate the standard error"
ROUGH_REASON = "too few replies or terms, or too few that changed, to estimate the standard error"
UNCHANGED_REASON = "both values are the same, so the standard error is unknown"


class PairedChange(NamedTuple):
    """A figure of two runs, and its change.

    Attributes:
        interval: The interval of the second value minus the first.
        relative_interval: The interval of the change divided by the first value. `None` if the first value is not
            clearly above 0.
        freedom: The degrees of freedom of the interval, or `None` if it does not use Student's t.
        scope: The answers that are compared, if others are missing from one of the runs.
    """

    first: float
    second: float
    interval: Bounds | None
    relative_interval: Bounds | None
    reason: str | None
    freedom: float | None = None
    scope: str = ""

    @property
    def change(self) -> float:
        return self.second - self.first

    @property
    def relative(self) -> float | None:
        """Returns the change divided by the first value. The minimum is −1."""
        return None if self.relative_interval is None else max(self.change / self.first, -1.0)

    @property
    def beyond_chance(self) -> bool:
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]


class FigureChanges(NamedTuple):
    """The changes in a measurement's figures between two runs, by the names of the figures.

    `reason` states why changes of other figures are missing, and is `None` if none are missing.
    """

    by_name: dict[str, PairedChange]
    reason: str | None = None


def change_from_covariance(
    first: float, second: float, covariance: np.ndarray, freedom: float, confidence_level: float
) -> PairedChange:
    """Computes the change in a value, with Student's t intervals.

    `covariance` is the covariance matrix of the value's estimates in the two runs. `freedom` contains the degrees of
    freedom for the variance of the change.
    """
    variance = _of_change(covariance)
    if not (variance > 0 and freedom >= 1):
        return PairedChange(first, second, None, None, UNCHANGED_REASON if first == second else ROUGH_REASON)
    squared = quantile(confidence_level, freedom) ** 2
    half = math.sqrt(squared * variance)
    bounds = second - first - half, second - first + half
    ratios = ratio_bounds(first, second, covariance, squared)
    relative = None if ratios is None or ratios[1] <= 0 else (max(ratios[0], 0.0) - 1, ratios[1] - 1)
    return PairedChange(first, second, bounds, relative, None, freedom)


def ratio_bounds(first: float, second: float, covariance: np.ndarray, squared: float) -> Bounds | None:
    """Returns the bounds of the ratio R of two values.

    R satisfies (second − R·first)² ≤ squared · (c₁₁ − 2R c₀₁ + R² c₀₀). `squared` is the square of a quantile. The
    result is `None` if the true value of `first` may be 0, or if an estimated variance is not above 0.
    """
    leading = first**2 - squared * covariance[0, 0]
    middle = first * second - squared * covariance[0, 1]
    # This is above 0 if and only if the variance of second − R·first is above 0 for R = second / first.
    discriminant = middle**2 - leading * (second**2 - squared * covariance[1, 1])
    if min(first, leading, covariance[0, 0], covariance[1, 1], discriminant) <= 0:
        return None
    root = math.sqrt(discriminant)
    return (middle - root) / leading, (middle + root) / leading


def pair_share_change(
    firsts: np.ndarray,
    seconds: np.ndarray,
    groups: np.ndarray,
    significant: tuple[np.ndarray, np.ndarray],
    confidence_level: float,
) -> PairedChange:
    """Computes the change in the share of significant tests. Intervals cover variation between terms of the same axes.

    Each test compares two terms of one axis. The share of an axis is a U-statistic, which is a mean over pairs of the
    axis's n terms. The overall mean is subtracted from each result. r_d is then the sum of the results over all pairs
    that contain term d, and e_p is the sum of the results for pair p. An unbiased estimate of the variance of the
    axis's sum is n(n − 1) / ((n − 2)(n − 3)) (Σ r_d² − Σ e_p²). A jackknife over the terms of an axis omits Σ e_p².
    With six terms, its variance can therefore be 2.5 times too large. The variance of a jackknife over all axes
    together is too small, because omitting a term reduces the weight of its axis.

    Args:
        firsts: [tests] The code of each test's first term.
        seconds: [tests] The code of each test's second term.
        groups: [terms] The code of each term's axis.
        significant: For each run, whether each test is significant: [tests].
        confidence_level: The confidence level of the interval.
    """
    number, total = len(groups), len(firsts)
    flags = np.stack(significant).astype(float)
    shares = flags.mean(axis=1)
    first, second = map(float, shares)
    if len(np.unique([firsts, seconds])) < MIN_TERMS:
        return PairedChange(first, second, None, None, FEW_TERMS_REASON)
    covariance, noise = np.zeros((2, 2)), 0.0
    for axis in np.unique(groups[firsts]):
        tests, terms = groups[firsts] == axis, groups == axis
        own, size = flags[:, tests], int(terms.sum())
        if size < MIN_COMPARED:
            # So few terms show no variance. It is replaced by the squared distance of their share from the overall
            # share, which is on average at least as large as the squared error.
            distance = (own - shares[:, None]).sum(axis=1) / total
            part = np.outer(distance, distance)
            noise += _of_change(part) ** 2
        else:
            own = (own - own.mean(axis=1, keepdims=True)) / total
            by_term = np.stack([_by_term(firsts[tests], seconds[tests], row, number)[terms] for row in own])
            _, pairs = np.unique(firsts[tests] * number + seconds[tests], return_inverse=True)
            by_pair = np.stack([np.bincount(pairs, row) for row in own])
            factor = size * (size - 1) / ((size - 2) * (size - 3))
            linear = factor * by_term @ by_term.T
            part = linear - factor * by_pair @ by_pair.T
            noise += _of_change(linear) ** 2 / (size - 1)
        covariance += part
    # Satterthwaite's degrees of freedom, which account only for the error in Σ r_d².
    freedom = _of_change(covariance) ** 2 / noise if noise > 0 else 0.0
    return change_from_covariance(first, second, covariance, freedom, confidence_level)


def perplexity_change(
    losses: tuple[np.ndarray, np.ndarray], num_tokens: np.ndarray, confidence_level: float
) -> PairedChange:
    """Computes the change in perplexity, exp(total loss / total tokens). Intervals cover variation between dialogues.

    The ratio of two perplexities is exp(mean difference of losses per token). The interval of the ratio is therefore
    the difference's interval, with both limits exponentiated. The absolute change also depends on the perplexity of
    the first run, which is uncertain too. All pairs of a first loss and a difference that agree with the data form an
    ellipse. The interval of the absolute change is the range of the change over this ellipse. It contains 0 if and only
    if the interval of the ratio contains 1.

    Args:
        losses: For each run, the loss of each reply: [replies].
        num_tokens: [replies] The number of tokens of each reply.
        confidence_level: The confidence level of the intervals.
    """
    first, second = (float(np.exp(loss.sum() / num_tokens.sum())) for loss in losses)
    difference, of_difference, reason = loss_per_token(losses[1] - losses[0], num_tokens)
    if reason is not None:
        return PairedChange(first, second, None, None, reason)
    mean, of_first, _ = loss_per_token(losses[0], num_tokens)
    low, high = mean_bounds(difference, of_difference, confidence_level)
    lowest, highest = mean_bounds(mean, of_first, confidence_level)
    errors = np.stack([losses[1] - losses[0] - difference * num_tokens, losses[0] - mean * num_tokens])
    correlation = float(correlations(errors @ errors.T)[0, 1])
    # The difference is highest at the first angle and lowest at the middle angle.
    angles = np.linspace(0, 2 * math.pi, NUM_ANGLES, endpoint=False)
    shifts = correlation * np.cos(angles) + math.sqrt(max(0.0, 1 - correlation**2)) * np.sin(angles)
    firsts = np.exp((lowest + highest) / 2 + (highest - lowest) / 2 * shifts)
    changes = firsts * np.expm1((low + high) / 2 + (high - low) / 2 * np.cos(angles))
    relative = math.expm1(low), math.expm1(high)
    absolute = float(changes.min()), float(changes.max())
    return PairedChange(first, second, absolute, relative, None, of_difference.freedom)


def _by_term(firsts: np.ndarray, seconds: np.ndarray, values: np.ndarray, number: int) -> np.ndarray:
    return np.bincount(firsts, values, number) + np.bincount(seconds, values, number)


def _of_change(covariance: np.ndarray) -> float:
    return float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])


def correlations(covariance: np.ndarray) -> np.ndarray:
    errors = np.sqrt(np.maximum(np.diag(covariance), 0))
    products = np.outer(errors, errors)
    return np.divide(covariance, products, out=np.eye(len(errors)), where=products > 0)
