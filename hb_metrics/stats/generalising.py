"""Computes intervals that generalise to other terms, to other templates, or to both.

The terms of each axis, or the templates, are treated as a random sample from a population (random effects). Miller
(2024, https://arxiv.org/abs/2411.00640) clusters questions in the same way.

A cell is a term in a template, and a figure is an average over cells. The influence of a cell is the first-order change
in the figure when the cell changes (for U-statistics, the projection). The influence includes the chance error of the
cell's replies. Let e be the influences minus their mean over the terms of an axis. For D terms on A axes and T
templates, the variances over terms and over templates are

    V_terms = D/(D − A) Σ_d (Σ_t e_td)²      V_templates = T/(T − 1) Σ_t (e_t − ē)²

Both contain the variance V_cells of single cells. If terms and templates are both drawn again, the variance is
therefore V_terms + V_templates − V_cells (Owen, 2007, https://doi.org/10.1214/07-AOAS122).

A variance that is estimated from few terms is uncertain, especially if some terms are far from the rest. The interval
therefore uses a t-quantile. An estimate from D influences with kurtosis k has about 2D / (k − 1) degrees of freedom.
For Gen Bias, there is a second estimate of the variance, from products of different terms. The second estimate is
better if the terms have normal effects. The larger of the two estimates is used. No variance is set below V_cells,
which contains the variance between replies.

Gen Bias is a sum of squares, so its plain value is treated as a multiple of a χ² variable. The degrees of freedom
follow from the variance. The sampling noise is subtracted from the bounds. A share gets Jeffreys's interval, as if it
were a share of independent replies with the same variance.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from scipy import stats

Over = Literal["terms", "templates", "both"]
Bounds = tuple[float, float]

# The minimum degrees of freedom between terms. With fewer terms, intervals contain the true value too rarely.
MIN_FREEDOM = 11
MIN_TEMPLATES = 4
# The minimum number of terms, divided by the kurtosis of their influences.
MIN_EQUAL_TERMS = 3


class Influences(NamedTuple):
    """A figure, and the influence of each cell on it.

    Attributes:
        value: The figure. Gen Bias still contains its sampling noise.
        noise: The sampling noise of Gen Bias, or `None` for a share.
        cells: [templates, terms] The influence of each cell, or NaN for a missing cell.
        axes: [terms] The code of each term's axis.
        least: A lower bound on the variance over terms, valid if the effects of terms are normally distributed.
    """

    value: float
    noise: float | None
    cells: np.ndarray
    templates: np.ndarray
    axes: np.ndarray
    least: float = 0.0


class Generalised(NamedTuple):
    interval: Bounds | None
    reason: str | None = None


class TermSpread(NamedTuple):
    """The variance of a figure over terms (V_terms), and the part of it that comes from single cells (V_cells).

    `peakedness` is the kurtosis of the terms' influences. All axes with only one term count as one axis.
    """

    terms: float
    in_cells: float
    peakedness: float
    num_axes: int


def term_spread(influences: Influences) -> TermSpread:
    num_templates, num_terms = influences.cells.shape
    axes = strata(influences.axes)
    num_axes = len(np.unique(axes))
    centred = _centred(influences.cells, axes)
    of_terms = centred.sum(axis=0)
    by_term = num_terms / max(num_terms - num_axes, 1)
    by_template = num_templates / max(num_templates - 1, 1)
    in_cells = by_term * by_template * float(((centred - of_terms / num_templates) ** 2).sum())
    return TermSpread(by_term * float((of_terms**2).sum()), in_cells, kurtosis(of_terms), num_axes)


def generalised(influences: Influences, over: Over, confidence_level: float) -> Generalised:
    num_templates, num_terms = influences.cells.shape
    terms, in_cells, peakedness, num_axes = term_spread(influences)
    few = []
    if over != "templates" and num_terms - num_axes < MIN_FREEDOM:
        few.append(f"at least {MIN_FREEDOM + num_axes} terms on the same axes instead of {num_terms}")
    if over != "terms" and num_templates < MIN_TEMPLATES:
        few.append(f"at least {MIN_TEMPLATES} templates instead of {num_templates}")
    if few:
        return Generalised(None, f"an interval needs {' and '.join(few)}")
    if terms == 0:
        return Generalised(None, "the value does not vary with the term, so the effect of other terms is unknown")
    if over != "templates" and num_terms < MIN_EQUAL_TERMS * peakedness:
        return Generalised(
            None,
            f"a few of the {num_terms} terms account for most of the variance, so the value may be very different for "
            f"other terms; an interval needs at least {math.ceil(MIN_EQUAL_TERMS * peakedness)} such terms",
        )
    by_template = num_templates / max(num_templates - 1, 1)
    normal = float(stats.norm.ppf((1 + confidence_level) / 2))

    def widened(freedom: float) -> float:
        return (float(stats.t.ppf((1 + confidence_level) / 2, freedom)) / normal) ** 2

    terms *= widened(min(num_terms - num_axes, 2 * num_terms / (peakedness - 1)))
    variance = 0.0
    if over != "templates":
        variance = max(terms, influences.least)
    if over != "terms":
        apart = influences.templates - influences.templates.mean()
        freedom = min(num_templates - 1, 2 * num_templates / (kurtosis(apart) - 1))
        templates = by_template * float((apart**2).sum())
        if over == "both":
            variance += max(templates - in_cells, 0.0) * widened(freedom)
        variance = max(variance, templates * widened(freedom))
    variance = max(variance, in_cells)  # V_cells contains the variance between replies
    if variance == 0:
        return Generalised(None, "the value is the same in all templates, so the effect of other templates is unknown")
    if influences.noise is None:
        return Generalised(share_bounds(influences.value, variance, confidence_level))
    return Generalised(_variance_interval(influences.value, influences.noise, variance, confidence_level))


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
    centred = np.where(known[..., None], means - centres, 0.0)
    squares = (centred**2).sum(axis=2)
    plain, total = squares.sum(axis=1, keepdims=True), noise.sum(axis=1, keepdims=True)
    # Proportional to the sum of a term's squared distances to all other terms, without noise.
    cells = (number * squares + plain - (number - 2) * noise - total) / number**2 / len(means)
    of_templates = (plain - (1 - 1 / number) * total) / number / len(means)
    floor = float(((1 - 1 / number) * total / number).mean())
    least = 0.0
    if len(np.unique(axes)) == 1:
        least = _normal_variance(centred / np.sqrt(len(means)))
    cells = np.where(known, cells, np.nan)
    return Influences(float((plain / number).mean()), floor, cells, of_templates[:, 0], axes, least)


def share_influences(hits: np.ndarray, sizes: np.ndarray, axes: np.ndarray) -> Influences:
    share = float(hits.sum() / sizes.sum())
    cells = (hits - share * sizes) / sizes.sum()
    return Influences(share, None, cells, cells.sum(axis=1), axes)


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
    apart = np.zeros(len(firsts))
    for axis in np.unique(axes[firsts]):
        tests = axes[firsts] == axis
        apart[tests] = significant[tests] - significant[tests].mean()
    apart /= len(firsts)
    cells = np.zeros(shape)
    for terms in (firsts, seconds):
        np.add.at(cells, (templates, terms), apart)
    of_templates = np.bincount(templates, significant - share, shape[0]) / len(firsts)
    return Influences(share, None, cells, of_templates, axes)


def strata(axes: np.ndarray) -> np.ndarray:
    """Returns the codes of axes. A single term shows no spread, so all axes with only one term get the code -1."""
    codes, counts = np.unique(axes, return_counts=True)
    return np.where(np.isin(axes, codes[counts == 1]), -1, axes)


def _centred(cells: np.ndarray, axes: np.ndarray) -> np.ndarray:
    known = ~np.isnan(cells)
    centred = np.nan_to_num(cells)
    for axis in np.unique(axes):
        members = axes == axis
        number = np.maximum(known[:, members].sum(axis=1, keepdims=True), 1)
        centred[:, members] -= centred[:, members].sum(axis=1, keepdims=True) / number
    return np.where(known, centred, 0.0)


def kurtosis(values: np.ndarray) -> float:
    """Computes the kurtosis about a mean of 0 (3 for a normal distribution). The minimum is slightly above 1."""
    squares = values**2
    return max(float(len(values) * (squares**2).sum() / squares.sum() ** 2), 1 + 1e-9) if squares.any() else 3.0


def _normal_variance(centred: np.ndarray) -> float:
    """Estimates the variance of Gen Bias if terms have normal effects: 2 tr(Ω²) (D − 1) / D².

    Ω is the covariance matrix of the terms' style vectors. `centred` contains the mean style vectors minus the mean
    over terms: [templates, terms, styles].
    """
    number = centred.shape[1]
    flat = centred.transpose(1, 0, 2).reshape(number, -1)
    products = flat @ flat.T
    freedom = number - 1
    # An unbiased estimate of tr(Ω²), up to the factor in the next line.
    squares = float((products**2).sum()) / freedom**2 - (float(np.trace(products)) / freedom) ** 2 / freedom
    return 2 * max(squares * freedom**2 / ((freedom - 1) * (freedom + 2)), 0.0) * freedom / number**2


def _variance_interval(plain: float, noise: float, variance: float, confidence_level: float) -> Bounds:
    freedom = 2 * plain**2 / variance
    low, high = stats.chi2.ppf([(1 + confidence_level) / 2, (1 - confidence_level) / 2], freedom)
    return plain * freedom / float(low) - noise, plain * freedom / float(high) - noise


def share_bounds(share: float, variance: float, confidence_level: float) -> Bounds:
    """Computes Jeffreys's interval for a share, from the variance of the estimate."""
    number = share * (1 - share) / variance
    tails = [(1 - confidence_level) / 2, (1 + confidence_level) / 2]
    low, high = stats.beta.ppf(tails, share * number + 0.5, (1 - share) * number + 0.5)
    return float(low), float(high)
