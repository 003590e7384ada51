"""The change in a figure from one run to another with its interval, both absolute and relative to the first run.

The relative interval contains a ratio R of the true values if the interval of B − R·A contains 0 (Fieller's rule). A
change in percent is therefore significant if and only if the difference is significant.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import optimize, stats

from hb_metrics.stats.share_intervals import Bounds, share_covariances, share_interval

# The limit of a t-quantile. If the variance is less certain, there is no interval.
MIN_FREEDOM = 4
MIN_TERMS = 12
MIN_PAIRS = 20
# The minimum number of terms in an axis, so that two pairs without a common term exist.
MIN_COMPARED = 4
# The even number of angles on an ellipse. The error of the bounds is about (π / angles)² of the distance between them.
NUM_ANGLES = 2000
# A ratio above this value is practically infinite.
MAX_RATIO = 1e6

NO_FILES_REASON = "a run folder lacks the files that it is computed from"
FEW_TERMS_REASON = f"fewer than {MIN_TERMS} terms, too few to estimate the standard error"
ROUGH_REASON = "too few replies or terms to estimate the standard error"
UNCHANGED_REASON = "its two values are the same, so the standard error is unknown"
FEW_PAIRS_REASON = f"fewer than {MIN_PAIRS} replies, too few to estimate the standard error"


class PairedChange(NamedTuple):
    """A figure of two runs, and its change.

    `interval` is that of the second value minus the first. If it is `None`, `reason` states why. `relative_interval` is
    that of the change as a share of the first value. It is `None` if the interval of the first value is not above 0 or
    is too large.
    """

    first: float
    second: float
    interval: Bounds | None
    relative_interval: Bounds | None
    reason: str | None

    @property
    def change(self) -> float:
        return self.second - self.first

    @property
    def relative(self) -> float | None:
        """The change as a share of the first value, at least −1."""
        return None if self.relative_interval is None else max(self.change / self.first, -1.0)

    @property
    def beyond_chance(self) -> bool:
        """Whether the interval excludes 0."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]


def change_from_covariance(
    first: float, second: float, covariance: np.ndarray, freedom: float, confidence_level: float
) -> PairedChange:
    """Computes the change in a value from the covariance matrix of its estimates in two runs, by t-quantiles.

    `freedom` is the degrees of freedom of the variance of the change.
    """
    variance = _of_change(covariance)
    if not (variance > 0 and freedom >= MIN_FREEDOM):
        return PairedChange(first, second, None, None, UNCHANGED_REASON if first == second else ROUGH_REASON)
    squared = float(stats.t.ppf((1 + confidence_level) / 2, freedom)) ** 2
    half = math.sqrt(squared * variance)
    bounds = second - first - half, second - first + half
    ratios = ratio_bounds(first, second, covariance, squared)
    relative = None if ratios is None or ratios[1] <= 0 else (max(ratios[0], 0.0) - 1, ratios[1] - 1)
    return PairedChange(first, second, bounds, relative, None)


def ratio_bounds(first: float, second: float, covariance: np.ndarray, squared: float) -> Bounds | None:
    """Solves (second − R·first)² ≤ squared · (c₁₁ − 2R c₀₁ + R² c₀₀) for R; `None` if `first` may be 0.

    `squared` is the square of a quantile.
    """
    leading = first**2 - squared * covariance[0, 0]
    if first <= 0 or leading <= 0:
        return None
    middle = first * second - squared * covariance[0, 1]
    root = math.sqrt(max(middle**2 - leading * (second**2 - squared * covariance[1, 1]), 0.0))
    return (middle - root) / leading, (middle + root) / leading


def share_change(counts: np.ndarray, confidence_level: float) -> PairedChange:
    """Computes the change in a share of replies, for other replies to the same terms and templates.

    If both runs replied to a prompt, the second reply may count although the first does not (gained), or the reverse
    (lost). The change is the share gained minus the share lost, with an interval that combines those of both shares
    (MOVER, as in `share_intervals.py`). Prompts with a reply from only one run add independent parts.

    Args:
        counts: [3, 3, terms, templates] numbers of prompts by the replies of the first and the second run: 0 if the
            reply does not count, 1 if it counts, 2 if there is no reply. Both runs have replies.
        confidence_level: The confidence level of the interval.
    """
    numbers = counts[:2].sum(), counts[:, :2].sum()
    shared, only_first, only_second = (
        counts[:2, :2].sum(axis=(0, 1)),
        counts[:2, 2].sum(axis=0),
        counts[2, :2].sum(axis=0),
    )
    both, lost, gained = counts[1, 1], counts[1, 0], counts[0, 1]
    # Parts of either run's replies that count, the replies of which they are shares, and the runs in which they count.
    parts = [(gained, shared, 0, 1), (lost, shared, 1, 0), (both, shared, 1, 1)]
    parts += [(counts[1, 2], only_first, 1, 0), (counts[2, 1], only_second, 0, 1)]
    parts = [part for part in parts if part[1].any()]
    totals = np.array([sizes.sum() for _, sizes, _, _ in parts])
    shares = np.array([hits.sum() for hits, *_ in parts]) / totals
    bounds = np.array([share_interval(hits, sizes, confidence_level) for hits, sizes, _, _ in parts])
    factors = np.array([(second / numbers[1], -first / numbers[0]) for _, _, first, second in parts]) * totals[:, None]
    correlations = np.eye(len(parts))
    if shared.any():
        correlations[:3, :3] = _correlations(share_covariances([gained, lost, both], shared))

    def bound(ratio: float, sign: int) -> float:
        """Computes the lowest (−1) or highest (1) value of the second share minus this multiple of the first share."""
        times = factors @ (1, ratio)
        distances = times * np.where(sign * times > 0, bounds[:, 1] - shares, shares - bounds[:, 0])
        return float(times @ shares) + sign * math.sqrt(max(float(distances @ correlations @ distances), 0.0))

    first, second = (counts[1, :].sum() / numbers[0]).item(), (counts[:, 1].sum() / numbers[1]).item()
    return PairedChange(first, second, (bound(1, -1), bound(1, 1)), _relative(first, second, bound), None)


def pair_share_change(
    firsts: np.ndarray,
    seconds: np.ndarray,
    groups: np.ndarray,
    significant: tuple[np.ndarray, np.ndarray],
    confidence_level: float,
) -> PairedChange:
    """Computes the change in a share of tests between two terms, for other terms of each axis with all their tests.

    The share of an axis is a U-statistic: the mean over pairs of its n terms. r_d is the sum over the pairs of a term,
    and e_p the sum over a pair, both minus their mean. n(n − 1) / ((n − 2)(n − 3)) (Σ r_d² − Σ e_p²) estimates the
    variance of the axis's sum without bias. It is the square minus the products of pairs without a common term. A
    jackknife lacks Σ e_p² and can be 2.5 times too large if there are six terms. A jackknife over all axes together is
    too small, because omitting a term reduces the weight of its axis.

    `firsts` and `seconds` are the codes of each test's terms, and `groups` are the codes of the terms' axes.
    `significant` contains the results of both runs.
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
            # On average, the distance to the share of all axes is at least as large as the error.
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
    # Satterthwaite's degrees of freedom. Σ r_d² varies, and Σ e_p² is subtracted from it.
    freedom = _of_change(covariance) ** 2 / noise if noise > 0 else 0.0
    return change_from_covariance(first, second, covariance, freedom, confidence_level)


def perplexity_change(
    losses: tuple[np.ndarray, np.ndarray], num_tokens: np.ndarray, confidence_level: float
) -> PairedChange:
    """Computes the change in exp(total loss / total tokens), paired by reply, for other pairs of a prompt and a reply.

    The ratio of two perplexities is exp of a mean difference, so the interval of the ratio is exp of the difference's
    t-interval. The change also depends on the first perplexity, which would differ for other pairs too. The interval of
    the change is therefore the range of the change over an ellipse. The ellipse contains the losses per token of the
    first run and the differences that agree with the runs. The interval of the change contains 0 if and
    only if the interval of the ratio contains 1.
    """
    total, number = num_tokens.sum(), len(num_tokens)
    first, second = (float(np.exp(loss.sum() / total)) for loss in losses)
    if number < MIN_PAIRS:
        return PairedChange(first, second, None, None, FEW_PAIRS_REASON)
    both = np.stack([losses[1] - losses[0], losses[0]])
    means = both.sum(axis=1) / total
    errors = (both - means[:, None] * num_tokens) / total
    quantile = float(stats.t.ppf((1 + confidence_level) / 2, number - 1))
    half, of_first = quantile * np.sqrt(number / (number - 1) * (errors**2).sum(axis=1))
    correlation = float(_correlations(errors @ errors.T)[0, 1])
    # The first angle has the highest difference, and the middle angle the lowest.
    angles = np.linspace(0, 2 * math.pi, NUM_ANGLES, endpoint=False)
    shifts = correlation * np.cos(angles) + math.sqrt(1 - correlation**2) * np.sin(angles)
    changes = first * np.exp(of_first * shifts) * np.expm1(means[0] + half * np.cos(angles))
    relative = math.expm1(means[0] - half), math.expm1(means[0] + half)
    return PairedChange(first, second, (float(changes.min()), float(changes.max())), relative, None)


def _by_term(firsts: np.ndarray, seconds: np.ndarray, values: np.ndarray, number: int) -> np.ndarray:
    sums: np.ndarray = np.bincount(firsts, values, number) + np.bincount(seconds, values, number)
    return sums


def _of_change(covariance: np.ndarray) -> float:
    return float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])


def _correlations(covariance: np.ndarray) -> np.ndarray:
    errors = np.sqrt(np.maximum(np.diag(covariance), 0))
    products = np.outer(errors, errors)
    correlations: np.ndarray = np.divide(covariance, products, out=np.eye(len(errors)), where=products > 0)
    return correlations


def _relative(first: float, second: float, bound: Callable[[float, int], float]) -> Bounds | None:
    """Returns the ratios minus 1 for which the interval of `second` − ratio · `first` contains 0."""
    if first == 0 or bound(MAX_RATIO, 1) >= 0:
        return None
    ratio = second / first
    low = 0.0 if bound(0, -1) <= 0 else float(optimize.brentq(bound, 0, ratio, (-1,)))
    return low - 1, float(optimize.brentq(bound, ratio, MAX_RATIO, (1,))) - 1
