"""The change of a figure from one run to another with its interval, and what it is in parts of the first.

Two estimates with intervals of their own give an interval of their difference that is as lopsided as theirs (MOVER:
Zou and Donner, 2008, https://doi.org/10.1002/sim.3095). With estimates a and b, bounds l and u, and the correlation r
of the estimates, the lowest difference is

    b − a − √( (b − l_b)² + (u_a − a)² − 2r (b − l_b)(u_a − a) )

and the highest is its mirror image. A ratio R of the true values is in its interval if 0 is in that of B − R·A, which
is Fieller's rule. So a change in percent is beyond chance exactly if the difference is.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from hb_metrics.paired_changes.gen_bias_covariance import Covariance
from hb_metrics.reply_checks.refusal_shares import share_interval

Bounds = tuple[float, float]

NOTHING_SHARED = Covariance(0.0, 0.0)
# Of a quantile: with fewer, the intervals of the two runs by themselves say more than the covariance does.
MIN_FREEDOM = 4

# As in refusal_shares.py and obedience.py: with fewer terms their variance is known too roughly.
MIN_TERMS = 12
MIN_CHANGED_TERMS = 8
MIN_PAIRS = 20
# Two pairs without a common term.
MIN_COMPARED = 4
# On an ellipse; even. The bounds are exact to about (π / angles)² of their distance to each other.
NUM_ANGLES = 2000

NO_FILES_REASON = "a run folder lacks the files that it is computed from"
FEW_TERMS_REASON = f"fewer than {MIN_TERMS} terms, too few to estimate how far chance moves it"
FEW_CHANGED_REASON = (
    f"it comes from fewer than {MIN_CHANGED_TERMS} terms, effectively, too few to estimate how far chance moves it"
)
ROUGH_REASON = "the terms of an axis are too few to estimate how far chance moves it"
UNCHANGED_REASON = "it is the same for every term, so that how far chance moves it is not known"
FEW_PAIRS_REASON = f"fewer than {MIN_PAIRS} replies, too few to estimate how far chance moves it"


class PairedChange(NamedTuple):
    """A figure of two runs, and its change.

    Attributes:
        first: Its value in the first run.
        second: Its value in the second.
        interval: Of the second less the first; `None`: see `reason`.
        relative_interval: Of the change in parts of the first; `None`: there is none, or the first value's own interval
            is not above 0, or the ratios that the runs agree with are not one range.
        reason: Why there is no interval; `None` where there is one.
    """

    first: float
    second: float
    interval: Bounds | None
    relative_interval: Bounds | None
    reason: str | None

    @property
    def change(self) -> float:
        """The second less the first."""
        return self.second - self.first

    @property
    def relative(self) -> float | None:
        """The change in parts of the first, at least −1; `None`: there is no interval of it."""
        return None if self.relative_interval is None else max(self.change / self.first, -1.0)

    @property
    def beyond_chance(self) -> bool:
        """Whether the interval does not hold 0."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]


class _Sides(NamedTuple):
    """How far the bounds of an estimate are from it."""

    below: float
    above: float


def change_from_intervals(
    first: float, second: float, bounds: tuple[Bounds, Bounds], covariance: Covariance, confidence_level: float
) -> PairedChange:
    """The change of a value that cannot be below 0, from the intervals of both runs.

    Args:
        first: The estimate of the first run; it may be below 0.
        second: Of the second.
        bounds: Their intervals.
        covariance: Of the two estimates; `NOTHING_SHARED` if the runs share no prompts.
        confidence_level: Of both intervals and of the result.
    """
    quantile = float(stats.norm.ppf((1 + confidence_level) / 2))
    sides = [_Sides(value - low, high - value) for value, (low, high) in zip((first, second), bounds, strict=True)]
    # √(below · above) is the quantile times the standard error, of intervals as `intervals.py` makes them.
    errors = [math.sqrt(max(side.below * side.above, 0.0)) / quantile for side in sides]
    # The more the runs share, the more the variance of the difference is a difference of large numbers, of which the
    # covariance is uncertain: a t-quantile with Satterthwaite's degrees of freedom.
    variance = max(errors[0] ** 2 + errors[1] ** 2 - 2 * covariance.value, 0.0)
    freedom = variance**2 / (2 * covariance.variance) if covariance.variance > 0 else math.inf
    widening = float(stats.t.ppf((1 + confidence_level) / 2, max(freedom, MIN_FREEDOM))) / quantile
    sides = [_Sides(widening * side.below, widening * side.above) for side in sides]
    return _combined(first, second, sides, _correlation(covariance.value, *errors))


def share_change(hits: Sequence[np.ndarray], sizes: Sequence[np.ndarray], confidence_level: float) -> PairedChange:
    """The change of a share of replies, paired by term: terms are drawn anew, with all their replies in both runs.

    Args:
        hits: Of either run, [terms] how many of a term's replies have what is counted.
        sizes: Of either run, [terms] how many replies there are; each at least 1.
        confidence_level: Of the interval. There is none of few terms where few have what is counted, and none
            in parts of the first run's share where few terms have it there.
    """
    first, second = (float(num.sum() / total.sum()) for num, total in zip(hits, sizes, strict=True))
    shares = first, second
    intervals = [share_interval(num, total, confidence_level) for num, total in zip(hits, sizes, strict=True)]
    sides = [
        _Sides(share - interval.low, interval.high - share) for share, interval in zip(shares, intervals, strict=True)
    ]
    # What each term adds to the errors of the shares. Where intervals do not rest on that, the shares count as
    # independent, which makes theirs wider as a rule.
    errors = np.stack([num - share * total for num, share, total in zip(hits, shares, sizes, strict=True)])
    rough = [interval.counts_descriptors for interval in intervals]
    if any(rough) and len(hits[0]) < MIN_TERMS:
        return PairedChange(*shares, None, None, FEW_TERMS_REASON)
    norms = np.sqrt((errors**2).sum(axis=1))
    correlation = 0.0 if any(rough) or not norms.all() else float(errors[0] @ errors[1] / norms.prod())
    change = _combined(first, second, sides, correlation)
    # The lowest value of such an interval is as good as 0, and what is in percent of it has no bound.
    return change._replace(relative_interval=None) if rough[0] else change


def pair_share_change(
    firsts: np.ndarray,
    seconds: np.ndarray,
    groups: np.ndarray,
    significant: tuple[np.ndarray, np.ndarray],
    confidence_level: float,
) -> PairedChange:
    """The change of a share of tests between two terms: the terms of each axis are drawn anew, with all their tests.

    The share of an axis is a U-statistic, as the mean over pairs of its n terms. With r_d the sum of a term's pairs and
    e_p that of a pair, both less their mean, n(n − 1) / ((n − 2)(n − 3)) (Σ r_d² − Σ e_p²) is the variance of its sum
    without bias: the square less what pairs without a common term give. A jackknife, which has no Σ e_p², can be 2.5
    times as large with six terms; one of all axes together, too small, as a left-out term takes weight from its axis.

    Args:
        firsts: [tests] code of one of the two terms.
        seconds: [tests] code of the other, of the same axis.
        groups: [terms] code of the term's axis.
        significant: Whether each test was, [tests] of either run.
        confidence_level: Of the interval.
    """
    number, total = len(groups), len(firsts)
    flags = np.stack(significant).astype(float)
    shares = flags.mean(axis=1)
    first, second = map(float, shares)
    reason = _few(len(np.unique([firsts, seconds])), [_by_term(firsts, seconds, row, number) for row in flags])
    if reason is not None:
        return PairedChange(first, second, None, None, reason)
    covariance, noise = np.zeros((2, 2)), 0.0
    for axis in np.unique(groups[firsts]):
        tests, terms = groups[firsts] == axis, groups == axis
        own, size = flags[:, tests], int(terms.sum())
        if size < MIN_COMPARED:
            # On average the distance to the share of all axes is as large as the error, or larger.
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
    if not min(_of_change(covariance), covariance[0, 0], covariance[1, 1]) > 0:
        return PairedChange(first, second, None, None, ROUGH_REASON)
    # Satterthwaite's degrees of freedom: what varies is Σ r_d², of which Σ e_p² is taken off.
    freedom = _of_change(covariance) ** 2 / noise
    return _from_covariance(first, second, covariance, freedom, confidence_level)


def perplexity_change(
    losses: tuple[np.ndarray, np.ndarray], num_tokens: np.ndarray, confidence_level: float
) -> PairedChange:
    """The change of exp(total loss / total tokens), paired by reply: pairs of prompt and reply are drawn anew.

    The ratio of two perplexities is exp of a mean difference, whose t-interval it gets. The change depends on the first
    perplexity too, which other pairs would also move: its interval is the range of the change over the first loss per
    token and the difference that the runs agree with, an ellipse. It holds 0 exactly if that of the ratio holds 1.

    Args:
        losses: Of either run, [replies] negative log-likelihood.
        num_tokens: [replies] the tokens of each, the same in both runs.
        confidence_level: Of the intervals.
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
    norms = np.sqrt((errors**2).sum(axis=1))
    correlation = _correlation(float(errors[0] @ errors[1]), *norms)
    # The first and the middle angle have the highest and the lowest difference.
    angles = np.linspace(0, 2 * math.pi, NUM_ANGLES, endpoint=False)
    shifts = correlation * np.cos(angles) + math.sqrt(1 - correlation**2) * np.sin(angles)
    changes = first * np.exp(of_first * shifts) * np.expm1(means[0] + half * np.cos(angles))
    relative = math.expm1(means[0] - half), math.expm1(means[0] + half)
    return PairedChange(first, second, (float(changes.min()), float(changes.max())), relative, None)


def _few(number: int, per_term: Sequence[np.ndarray]) -> str | None:
    """Why there are too few terms for an interval; `None`: there are enough."""
    if number < MIN_TERMS:
        return FEW_TERMS_REASON
    if np.array_equal(per_term[0], per_term[1]):
        return UNCHANGED_REASON
    both = per_term[0] + per_term[1]
    return FEW_CHANGED_REASON if both.sum() ** 2 / (both**2).sum() < MIN_CHANGED_TERMS else None


def _by_term(firsts: np.ndarray, seconds: np.ndarray, values: np.ndarray, number: int) -> np.ndarray:
    """[terms] the sum of the values of each term's tests."""
    sums: np.ndarray = np.bincount(firsts, values, number) + np.bincount(seconds, values, number)
    return sums


def _of_change(covariance: np.ndarray) -> float:
    """The variance of the second less the first."""
    return float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])


def _from_covariance(
    first: float, second: float, covariance: np.ndarray, freedom: float, confidence_level: float
) -> PairedChange:
    """The change of two estimates with a common 2 × 2 covariance matrix, by t-quantiles."""
    quantile = float(stats.t.ppf((1 + confidence_level) / 2, freedom))
    errors = [math.sqrt(covariance[run, run]) for run in (0, 1)]
    sides = [_Sides(quantile * error, quantile * error) for error in errors]
    return _combined(first, second, sides, _correlation(float(covariance[0, 1]), *errors))


def _correlation(covariance: float, first_error: float, second_error: float) -> float:
    errors = first_error * second_error
    return min(max(covariance / errors, -1.0), 1.0) if errors > 0 else 0.0


def _combined(first: float, second: float, sides: Sequence[_Sides], correlation: float) -> PairedChange:
    before, after = sides
    low = _hypotenuse(after.below, before.above, correlation)
    high = _hypotenuse(after.above, before.below, correlation)
    change = second - first
    relative = _relative(first, second, before, after, correlation) if first > before.below else None
    # Where the second value is far above the first and may be 0, both small and large ratios can be in Fieller's set,
    # and 1 between them: a range of all would hold no change, although that is beyond chance.
    if relative is not None and (relative[0] <= 0 <= relative[1]) != (change - low <= 0 <= change + high):
        relative = None
    return PairedChange(first, second, (change - low, change + high), relative, None)


def _hypotenuse(one: float, other: float, correlation: float) -> float:
    return math.sqrt(max(one**2 + other**2 - 2 * correlation * one * other, 0.0))


def _relative(first: float, second: float, before: _Sides, after: _Sides, correlation: float) -> Bounds | None:
    """Bounds of the ratio less 1, for a first value whose interval is above 0; the ratio is not below 0.

    A bound R solves (second − R·first)² = b² + R²a² − 2rRab, with a and b the distances of the values' own bounds.
    """
    lowest = 0.0
    if second > after.below:
        middle, root = _middle_and_root(first, second, before.above, after.below, correlation)
        lowest = (second**2 - after.below**2) / (middle + root)
    middle, root = _middle_and_root(first, second, before.below, after.above, correlation)
    highest = (middle + root) / (first**2 - before.below**2)
    return (lowest - 1, highest - 1) if highest > 0 else None


def _middle_and_root(first: float, second: float, a: float, b: float, correlation: float) -> tuple[float, float]:
    """Half of the linear coefficient and the root of the discriminant of the equation above."""
    middle = first * second - correlation * a * b
    return middle, math.sqrt(max(middle**2 - (first**2 - a**2) * (second**2 - b**2), 0.0))
