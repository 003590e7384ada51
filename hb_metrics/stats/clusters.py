"""Computes intervals for figures whose sample consists of clusters, such as terms, names, templates or dialogues.

To first order, the error of a figure is the sum of one influence per cluster. Let e_c be the influence of cluster c,
minus its expected part of the stratum's sum, and let h_c be the cluster's share of the stratum's weight. The variance
of the figure is estimated by

    V = Σ_c q_c      q_c = e_c² / (1 − h_c),

which is the usual n / (n − 1) Σ e_c² if all n clusters have the same weight. V itself is uncertain, so intervals use
Student's t. The degrees of freedom are the smaller of two numbers:

* Freedom by weight (Welch): V² / Σ_s V_s² / (n_s − 1) over strata s, where n_s = (Σ h_c^1.5)² / Σ h_c³ is the effective
  number of clusters. The power is a compromise between clusters that do not differ (1) and clusters that do (2).
* Freedom by tails: V² / Σ_c (q_c − mean of q)². This is half of what the kurtosis of the influences implies, because
  the kurtosis of a sample is too small if the sample lacks the clusters that matter.

Whether there is an interval depends only on the number and the weights of the clusters. Their values can only widen it:
a rule that rejects outlying values would keep the samples that miss the outlying clusters.

The t-interval is computed on a scale on which errors are nearly symmetric: the logit of a share, or the logarithm of a
sum of squares. The interval of a mean is instead shifted and widened by the skewness of the influences (the inverted
Cornish-Fisher expansion).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import special

Bounds = tuple[float, float]

# With fewer degrees of freedom, intervals become much wider, but contain the true value hardly more often.
LEAST_FREEDOM = 2.0
# The minimum effective number of dialogues for the interval of a perplexity.
MIN_DIALOGUES = 30


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, or with the reason why it has none."""

    value: float | None
    interval: Bounds | None
    reason: str | None


class Spread(NamedTuple):
    """The uncertainty of a figure.

    Attributes:
        variance: V.
        freedom: The degrees of freedom of V.
        welch: The freedom by weight.
        by_weight: The effective number of clusters minus the number of strata, which depends on weights alone.
        third: The third central moment of the figure, Σ e_c³.
    """

    variance: float
    freedom: float
    welch: float
    by_weight: float
    third: float

    def half_width(self, confidence_level: float) -> float:
        return quantile(confidence_level, self.freedom) * math.sqrt(self.variance)


def spread(influences: np.ndarray, strata: np.ndarray | None = None, weights: np.ndarray | None = None) -> Spread:
    """Computes the spread of a figure from its influences [clusters], which may be uncentred.

    By default, there is one stratum, and all clusters have the same weight. Strata with one cluster show no spread, so
    they form one stratum together.
    """
    codes, shares = _codes_and_shares(len(influences), strata, weights)
    errors = cluster_errors(influences, strata, weights)
    squares = errors**2
    by_stratum, variance = np.bincount(codes, squares), float(squares.sum())
    effective = np.bincount(codes, shares**1.5) ** 2 / np.bincount(codes, shares**3)
    by_weight = float((effective - 1).sum())
    if variance == 0:
        return Spread(0.0, by_weight, by_weight, by_weight, 0.0)
    welch = float(variance**2 / (by_stratum**2 / np.maximum(effective - 1, 1e-9)).sum())
    tails = variance**2 / max(float(((squares - squares.mean()) ** 2).sum()), 1e-9 * variance**2)
    third = float((errors**3 * (1 - shares) ** 1.5).sum())
    return Spread(variance, max(min(welch, tails), LEAST_FREEDOM), welch, by_weight, third)


def cluster_errors(
    influences: np.ndarray, strata: np.ndarray | None = None, weights: np.ndarray | None = None
) -> np.ndarray:
    """Returns e_c / √(1 − h_c): [..., clusters]. The cross product of this array is the figures' covariance matrix."""
    codes, shares = _codes_and_shares(influences.shape[-1], strata, weights)
    rows = influences.reshape(-1, len(codes))
    centred = np.stack([row - shares * np.bincount(codes, row)[codes] for row in rows])
    scaled = np.divide(centred, np.sqrt(1 - shares), out=np.zeros(centred.shape), where=shares < 1)
    return scaled.reshape(influences.shape)


def _codes_and_shares(
    number: int, strata: np.ndarray | None, weights: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    codes = np.zeros(number, int) if strata is None else joined_strata(strata)
    weights = np.ones(number) if weights is None else weights
    return codes, weights / np.bincount(codes, weights)[codes]


def joined_strata(strata: np.ndarray) -> np.ndarray:
    """Returns codes of strata from 0. All strata with a single cluster get the same code."""
    _, codes, counts = np.unique(strata, return_inverse=True, return_counts=True)
    return np.unique(np.where(counts[codes] == 1, -1, codes), return_inverse=True)[1]


def quantile(confidence_level: float, freedom: float = math.inf) -> float:
    tail = (1 + confidence_level) / 2
    return float(special.stdtrit(freedom, tail) if freedom < math.inf else special.ndtri(tail))


def mean_bounds(mean: float, spread: Spread, confidence_level: float) -> Bounds:
    if spread.variance == 0:
        return mean, mean
    normal = quantile(confidence_level)
    return skewed_bounds(mean, spread.half_width(confidence_level), spread.third / spread.variance, normal)


def skewed_bounds(value: float, half_width: float, shift: float, quantile: float) -> Bounds:
    """Shifts and widens a t-interval, as in the inverted Cornish-Fisher expansion.

    `shift` is the third central moment of the estimate divided by its variance. For a single share, the interval is
    close to Wilson's.
    """
    middle = value + shift * (2 * quantile**2 + 1) / 6
    half = math.hypot(half_width, quantile**2 * shift / 2)
    return middle - half, middle + half


def loss_per_token(losses: np.ndarray, num_tokens: np.ndarray) -> tuple[float, Spread, str | None]:
    """Computes the mean loss per token over dialogues, whose weights are their numbers of tokens: [dialogues].

    Returns:
        The mean, its spread, and the reason why there is no interval, or `None`.
    """
    mean = float(losses.sum() / num_tokens.sum())
    of_mean = spread((losses - mean * num_tokens) / num_tokens.sum(), weights=num_tokens)
    if round(of_mean.by_weight, 6) >= MIN_DIALOGUES - 1:
        return mean, of_mean, None
    few = f"{len(losses):,} replies of these lengths count as only {of_mean.by_weight + 1:.0f} of equal length"
    return mean, of_mean, f"{few}, and an interval needs {MIN_DIALOGUES}"


MIN_REPLIES = 30  # the minimum effective number of replies, minus the number of cells, for the interval of a mean


def mean_of_replies(values: np.ndarray, strata: np.ndarray, confidence_level: float) -> Estimate:
    """Computes the mean of replies. The interval is for other replies to the same terms and templates.

    `strata` contains the code of each reply's stratum (see `reply_strata`): [replies].
    """
    mean, of_mean = float(values.mean()), spread(values / len(values), strata)
    if of_mean.by_weight < MIN_REPLIES:
        return Estimate(mean, None, f"an interval needs {MIN_REPLIES} replies beyond the first to a term and template")
    if math.sqrt(of_mean.variance) <= 1e-12 * abs(mean):  # rounding errors
        return Estimate(mean, None, "replies to the same term and template do not vary")
    return Estimate(mean, mean_bounds(mean, of_mean, confidence_level), None)


def reply_strata(terms: np.ndarray, templates: np.ndarray) -> np.ndarray:
    """Returns the code of each reply's stratum [replies]: its cell or, if no other reply is in the cell, its term."""
    cells = np.unique(np.stack([terms, templates]), axis=1, return_inverse=True)[1].ravel()
    return np.where(np.bincount(cells)[cells] > 1, cells, len(cells) + terms)


def share_bounds(share: float, half_width: float) -> Bounds:
    """Computes the interval of a share between 0 and 1, exclusive, from the half-width of its plain t-interval."""
    middle, half = special.logit(share), half_width / (share * (1 - share))
    return float(special.expit(middle - half)), float(special.expit(middle + half))


def square_bounds(square: float, half_width: float) -> Bounds:
    """Computes the interval of a sum of squares above 0, from the half-width of its plain t-interval."""
    half = min(half_width / square, 700.0)  # the largest number whose exponential is finite
    return square * math.exp(-half), square * math.exp(half)


def share_interval(hits: np.ndarray, sizes: np.ndarray, confidence_level: float, times: float = 1.0) -> Bounds:
    """Computes the interval of a share of replies, for these terms and templates: `hits.sum() / sizes.sum()`.

    Each cell (a term in a template) has its own share, so the variance of the overall share is the variance within
    cells. The terms are split into terms with mostly hits and terms with mostly misses. The share is then (hits of the
    second group − misses of the first group) / all replies, plus a constant. Both numbers count rare events. Each gets
    Jeffreys's interval, as if its replies were independent with the same variance. The two intervals are combined into
    the interval of the difference (MOVER: Zou and Donner, 2008, https://doi.org/10.1002/sim.3095).

    Args:
        hits: [terms, templates] The number of replies that count towards the share.
        sizes: [terms, templates] The number of replies.
        confidence_level: The confidence level.
        times: The interval is for a run with `times` as many replies and the same shares.
    """
    mostly = 2 * hits.sum(axis=1) > sizes.sum(axis=1)
    below, above = _distances(hits[~mostly], sizes[~mostly], confidence_level, times)
    misses_below, misses_above = _distances((sizes - hits)[mostly], sizes[mostly], confidence_level, times)
    number = float(sizes.sum())
    share = float(hits.sum()) / number
    low, high = math.hypot(below, misses_above) / number, math.hypot(above, misses_below) / number
    return max(share - low, 0.0), min(share + high, 1.0)


def share_covariances(hits: list[np.ndarray], sizes: np.ndarray) -> np.ndarray:
    """Estimates the covariance matrix of several shares of the same replies, without bias.

    `hits` contains an array [terms, templates] for each share. A reply counts towards at most one share.
    """
    counts, single = np.stack(hits), sizes == 1
    # A cell with one reply shows no variance. All such cells of a term form one stratum. Terms with only one such cell
    # together form another stratum.
    of_term, num_single = np.where(single, counts, 0).sum(axis=2), single.sum(axis=1)
    lone = num_single == 1
    strata = np.concatenate([sizes[sizes > 1], num_single[num_single > 1], [lone.sum()]])
    joined = np.concatenate(
        [counts[:, sizes > 1], of_term[:, num_single > 1], of_term[:, lone].sum(axis=1, keepdims=True)], axis=1
    )
    weighted = joined / np.maximum(strata - 1, 1)
    return (np.diag(weighted @ strata) - weighted @ joined.T) / float(sizes.sum()) ** 2


def _distances(hits: np.ndarray, sizes: np.ndarray, confidence_level: float, times: float) -> Bounds:
    """Returns the distances from the number of hits to the bounds of its Jeffreys interval."""
    total, number = float(hits.sum()), float(sizes.sum())
    if number == 0:
        return 0.0, 0.0
    share = total / number
    variance = float(share_covariances([hits], sizes)[0, 0])
    independent = times * (share * (1 - share) / variance if variance > 0 else number)
    successes, failures, tail = independent * share, independent * (1 - share), (1 - confidence_level) / 2
    low = special.betaincinv(successes + 0.5, failures + 0.5, tail) if successes else 0.0
    high = special.betaincinv(successes + 0.5, failures + 0.5, 1 - tail) if failures else 1.0
    return number * (share - float(low)), number * (float(high) - share)
