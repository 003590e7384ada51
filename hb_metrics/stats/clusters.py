"""Computes intervals for figures whose sample consists of clusters, such as terms, names, templates or dialogues.

To first order, the error of a figure is the sum of one influence per cluster. Let h_c be the share of cluster c in the
weight of its stratum, and e_c its influence minus h_c times the sum of the stratum's influences. The variance of the
figure is estimated by

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
sum of squares. The interval of a mean is instead shifted and widened by the skewness of the influences.
"""

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from scipy import special

Bounds = tuple[float, float]
Over = Literal["terms", "templates", "both"]

# With fewer degrees of freedom, intervals become much wider, but contain the true value hardly more often.
LEAST_FREEDOM = 2.0
# The minimum effective number of dialogues for the interval of a perplexity.
MIN_DIALOGUES = 30
# The minimum effective number of replies, minus the number of cells, for the interval of a mean.
MIN_REPLIES_OF_MEAN = 30
# For other terms and templates: the minimum effective number of terms minus that of axes, and the minimum of templates.
MIN_FREEDOM = 15
MIN_TEMPLATES = 4
# If a figure consists of squares or products of effects, the influences of terms have heavier tails than the effects,
# and a sample shows too little of these tails. The degrees of freedom are therefore multiplied by this number.
OF_SQUARES = 0.7


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, or with the reason why it has none."""

    value: float | None
    interval: Bounds | None
    reason: str | None


class Interval(NamedTuple):
    """An interval, or the reason why there is none."""

    bounds: list[float] | None
    reason: str | None = None


class Uncertainty(NamedTuple):
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

    def of_squares(self) -> "Uncertainty":
        """Returns the uncertainty with the degrees of freedom for a figure that consists of squares or products."""
        return self._replace(freedom=max(OF_SQUARES * self.freedom, LEAST_FREEDOM))


def uncertainty(
    influences: np.ndarray, strata: np.ndarray | None = None, weights: np.ndarray | None = None
) -> Uncertainty:
    """Computes the uncertainty of a figure from its influences [clusters], which may be uncentred.

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
        return Uncertainty(0.0, by_weight, by_weight, by_weight, 0.0)
    welch = welch_freedom(by_stratum, np.maximum(effective - 1, 1e-9))
    tails = variance**2 / max(float(((squares - squares.mean()) ** 2).sum()), 1e-9 * variance**2)
    third = float((errors**3 * (1 - shares) ** 1.5).sum())
    return Uncertainty(variance, max(min(welch, tails), LEAST_FREEDOM), welch, by_weight, third)


def crossed(influences: np.ndarray, first: np.ndarray, second: np.ndarray) -> Uncertainty:
    """Computes the uncertainty of a figure whose units belong to two clusters each, such as a term and a question.

    `first` and `second` [units] contain the clusters' names. Let V_cells be the variance if pairs of clusters are
    independent. A kind of cluster adds the excess of its variance over V_cells (Cameron, Gelbach and Miller, 2011), and
    the excess of its third moment over the pairs' third moment. Without an excess, nothing shows that its clusters
    differ, so it adds nothing.
    """
    cells = np.unique(np.stack([first, second]), axis=1, return_inverse=True)[1].ravel()
    of_cells, *kinds = (_clustered(influences, clusters) for clusters in (cells, first, second))
    by_weight = min(kind.by_weight for kind in kinds)
    adding = [kind for kind in kinds if kind.variance > of_cells.variance]
    if not adding:
        return of_cells._replace(by_weight=by_weight)
    variance = of_cells.variance + sum(kind.variance - of_cells.variance for kind in adding)
    third = of_cells.third + sum(kind.third - of_cells.third for kind in adding)
    welch = variance**2 / sum(kind.variance**2 / kind.welch for kind in adding)
    freedom = variance**2 / sum(kind.variance**2 / kind.freedom for kind in adding)
    return Uncertainty(variance, max(freedom, LEAST_FREEDOM), max(welch, 1.0), by_weight, third)


def _clustered(influences: np.ndarray, clusters: np.ndarray) -> Uncertainty:
    _, codes, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    return uncertainty(np.bincount(codes, influences), weights=sizes.astype(float))


def welch_freedom(variances: np.ndarray, freedoms: np.ndarray) -> float:
    """Returns the degrees of freedom of a sum of independent variances (Welch–Satterthwaite)."""
    return float(variances.sum() ** 2 / (variances**2 / freedoms).sum())


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


def mean_bounds(mean: float, of_mean: Uncertainty, confidence_level: float) -> Bounds:
    if of_mean.variance == 0:
        return mean, mean
    normal = quantile(confidence_level)
    return skewed_bounds(mean, of_mean.half_width(confidence_level), of_mean.third / of_mean.variance, normal)


def skewed_bounds(value: float, half_width: float, shift: float, quantile: float) -> Bounds:
    """Shifts and widens a t-interval, as in the inverted Cornish-Fisher expansion.

    `shift` is the third central moment of the estimate divided by its variance. For a single share, the interval is
    close to Wilson's.
    """
    middle = value + shift * (2 * quantile**2 + 1) / 6
    half = math.hypot(half_width, quantile**2 * shift / 2)
    return middle - half, middle + half


def loss_per_token(losses: np.ndarray, num_tokens: np.ndarray) -> tuple[float, Uncertainty, str | None]:
    """Computes the mean loss per token over dialogues, whose weights are their numbers of tokens: [dialogues].

    Returns:
        The mean, its uncertainty, and the reason why there is no interval, or `None`.
    """
    mean = float(losses.sum() / num_tokens.sum())
    of_mean = uncertainty((losses - mean * num_tokens) / num_tokens.sum(), weights=num_tokens)
    if round(of_mean.by_weight, 6) >= MIN_DIALOGUES - 1:
        return mean, of_mean, None
    few = f"{len(losses):,} replies of these lengths count as only {of_mean.by_weight + 1:.0f} of equal length"
    return mean, of_mean, f"{few}, and an interval needs {MIN_DIALOGUES}"


def mean_of_replies(values: np.ndarray, strata: np.ndarray, confidence_level: float) -> Estimate:
    """Computes the mean of replies. The interval generalises to other replies to the same terms and templates.

    `values` [replies] are at least 0, and so are the bounds. `strata` [replies] are those of `reply_strata`.
    """
    mean, of_mean = float(values.mean()), uncertainty(values / len(values), strata)
    if of_mean.by_weight < MIN_REPLIES_OF_MEAN:
        few = f"an interval needs {MIN_REPLIES_OF_MEAN} replies beyond the first to a term and template"
        return Estimate(mean, None, few)
    if math.sqrt(of_mean.variance) <= 1e-12 * abs(mean):  # rounding errors
        return Estimate(mean, None, "replies to the same term and template do not vary")
    low, high = mean_bounds(mean, of_mean, confidence_level)
    return Estimate(mean, (max(low, 0.0), high), None)


def reply_strata(terms: np.ndarray, templates: np.ndarray) -> np.ndarray:
    """Returns the code of each reply's stratum [replies]: its cell or, if no other reply is in the cell, its term."""
    cells = np.unique(np.stack([terms, templates]), axis=1, return_inverse=True)[1].ravel()
    return np.where(np.bincount(cells)[cells] > 1, cells, len(cells) + terms)


def jeffreys_bounds(share: float, number: float, confidence_level: float) -> Bounds:
    """Computes Jeffreys's interval of a share of a number of independent units, which need not be whole."""
    hits, misses, tail = number * share, number * (1 - share), (1 - confidence_level) / 2
    low = float(special.betaincinv(hits + 0.5, misses + 0.5, tail)) if hits else 0.0
    high = float(special.betaincinv(hits + 0.5, misses + 0.5, 1 - tail)) if misses else 1.0
    return low, high


def share_bounds(share: float, half_width: float) -> Bounds:
    """Computes the interval of a share between 0 and 1, exclusive, from the half-width of its plain t-interval."""
    middle, half = special.logit(share), half_width / (share * (1 - share))
    return float(special.expit(middle - half)), float(special.expit(middle + half))


def square_bounds(square: float, half_width: float) -> Bounds:
    """Computes the interval of a sum of squares above 0, from the half-width of its plain t-interval."""
    half = min(half_width / square, 700.0)  # the largest number whose exponential is finite
    return square * math.exp(-half), square * math.exp(half)


class Influences(NamedTuple):
    """A figure, and the influence of each cell on it.

    Attributes:
        value: The figure. Gen Bias still contains its sampling noise.
        noise: The sampling noise of Gen Bias, or `None` for a share.
        cells: [templates, terms] The influence of each cell, or NaN for a missing cell.
        templates: [templates] The influence of each template.
        axes: [terms] The code of each term's axis.
        weights: [terms] The weight of each term in the figure.
    """

    value: float
    noise: float | None
    cells: np.ndarray
    templates: np.ndarray
    axes: np.ndarray
    weights: np.ndarray


class Generalised(NamedTuple):
    interval: Bounds | None
    reason: str | None = None


def generalised(influences: Influences, over: Over, confidence_level: float) -> Generalised:
    """Computes an interval that generalises to other terms, to other templates, or to both.

    The terms of each axis, or the templates, are treated as a random sample from a population (random effects). Miller
    (2024, https://arxiv.org/abs/2411.00640) clusters questions in the same way.

    A cell is a term in a template, and a figure is an average over cells. The influence of a cell is the first-order
    change in the figure when the cell changes (for U-statistics, the projection). It includes the chance error of the
    cell's replies. The variance over terms, V_terms, and the variance over templates, V_templates, come from the sums
    of these influences over the other factor. Both contain the variance V_cells of single cells. If terms and templates
    are both drawn again, the variance is therefore V_terms + V_templates − V_cells (Owen, 2007). No variance is set
    below V_cells, which contains the variance between replies.

    The sampling noise of Gen Bias is subtracted from the bounds of its plain value.
    """
    num_templates, num_terms = influences.cells.shape
    terms = uncertainty(np.nansum(influences.cells, axis=0), influences.axes, influences.weights)
    templates = uncertainty(influences.templates)
    few = []
    if over != "templates" and terms.by_weight < MIN_FREEDOM:
        needed = num_terms - round(terms.by_weight) + MIN_FREEDOM
        few.append(f"at least {needed} terms on the same axes instead of {num_terms}")
    if over != "terms" and num_templates < MIN_TEMPLATES:
        few.append(f"at least {MIN_TEMPLATES} templates instead of {num_templates}")
    if few:
        return Generalised(None, f"an interval needs {' and '.join(few)}")
    if terms.variance == 0:
        return Generalised(None, "the value does not vary with the term, so the effect of other terms is unknown")
    if influences.noise is not None:
        terms = terms.of_squares()
    in_cells = cell_variance(influences)
    half = terms.half_width(confidence_level) if over != "templates" else 0.0
    if over != "terms":
        of_templates = templates.half_width(confidence_level)
        beyond = math.sqrt(max(1 - in_cells / templates.variance, 0.0)) if templates.variance else 0.0
        half = max(math.hypot(half, beyond * of_templates), of_templates)
    half = max(half, quantile(confidence_level) * math.sqrt(in_cells))
    if half == 0 or influences.value == 0:  # without differences between replies, the influences are rounding errors
        return Generalised(None, "the value is the same in all templates, so the effect of other templates is unknown")
    if influences.noise is None:
        return Generalised(share_bounds(influences.value, half))
    low, high = square_bounds(influences.value, half)
    return Generalised((low - influences.noise, max(high - influences.noise, 0.0)))  # no true value is below 0


def cell_variance(influences: Influences) -> float:
    """Computes V_cells, from the deviations of cells from the means of their term, and of their template and axis."""
    axes, (num_templates, num_terms) = joined_strata(influences.axes), influences.cells.shape
    known = ~np.isnan(influences.cells)
    cells = np.nan_to_num(influences.cells)
    for axis in np.unique(axes):
        members = axes == axis
        number = np.maximum(known[:, members].sum(axis=1, keepdims=True), 1)
        cells[:, members] -= cells[:, members].sum(axis=1, keepdims=True) / number
    cells = np.where(known, cells, 0.0)
    factor = num_terms / max(num_terms - len(np.unique(axes)), 1) * num_templates / max(num_templates - 1, 1)
    return factor * float(((cells - cells.mean(axis=0)) ** 2).sum())


def gen_bias_influences(means: np.ndarray, noise: np.ndarray, axes: np.ndarray) -> Influences:
    """Computes the influences on the debiased Full Gen Bias, with a ddof of 0 and without scaling.

    Args:
        means: [templates, terms, styles] The mean style vector of each cell, or NaN for cells without replies.
        noise: [templates, terms] The variance of these means, summed over styles, or NaN for cells without replies.
        axes: [terms] The code of each term's axis.
    """
    known = ~np.isnan(noise)
    noise = np.nan_to_num(noise)
    number = known.sum(axis=1, keepdims=True)
    centres = np.nan_to_num(means).sum(axis=1, keepdims=True) / number[..., None]
    squares = np.where(known, ((np.nan_to_num(means) - centres) ** 2).sum(axis=2), 0.0)
    plain, total = squares.sum(axis=1, keepdims=True), noise.sum(axis=1, keepdims=True)
    # Proportional to the sum of a term's squared distances to all other terms, without noise.
    cells = (number * squares + plain - (number - 2) * noise - total) / number**2 / len(means)
    of_templates = (plain - (1 - 1 / number) * total) / number / len(means)
    floor = float(((1 - 1 / number) * total / number).mean())
    cells = np.where(known, cells, np.nan)
    return Influences(float((plain / number).mean()), floor, cells, of_templates[:, 0], axes, known.sum(axis=0))


def share_influences(hits: np.ndarray, sizes: np.ndarray, axes: np.ndarray) -> Influences:
    share = float(hits.sum() / sizes.sum())
    cells = (hits - share * sizes) / sizes.sum()
    return Influences(share, None, cells, cells.sum(axis=1), axes, sizes.sum(axis=0))


def pair_share_influences(
    templates: np.ndarray, firsts: np.ndarray, seconds: np.ndarray, significant: np.ndarray, axes: np.ndarray
) -> Influences:
    """Computes the influences on the share of significant tests. This share is a U-statistic over the terms.

    Args:
        templates: [tests] The code of each test's template.
        firsts: [tests] The code of each test's first term.
        seconds: [tests] The code of each test's second term, on the same axis.
        significant: [tests] Whether each test is significant.
        axes: [terms] The code of each term's axis.
    """
    share = float(significant.mean())
    shape = int(templates.max()) + 1, len(axes)
    of_tests = np.unique(axes[firsts], return_inverse=True)[1]
    means = np.bincount(of_tests, significant) / np.bincount(of_tests)
    apart = (significant - means[of_tests]) / len(firsts)
    cells = np.zeros(shape)
    for terms in (firsts, seconds):
        np.add.at(cells, (templates, terms), apart)
    of_templates = np.bincount(templates, significant - share, shape[0]) / len(firsts)
    return Influences(share, None, cells, of_templates, axes, np.ones(len(axes)))
