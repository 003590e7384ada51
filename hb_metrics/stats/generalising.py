"""Computes intervals that generalise to other terms, to other templates, or to both.

The terms of each axis, or the templates, are treated as a random sample from a population (random effects). Miller
(2024, https://arxiv.org/abs/2411.00640) clusters questions in the same way.

A cell is a term in a template, and a figure is an average over cells. The influence of a cell is the first-order change
in the figure when the cell changes (for U-statistics, the projection). It includes the chance error of the cell's
replies. The variance over terms, V_terms, and the variance over templates, V_templates, come from the sums of these
influences over the other factor (see `clusters.py`). Both contain the variance V_cells of single cells. If terms and
templates are both drawn again, the variance is therefore V_terms + V_templates − V_cells (Owen, 2007,
https://doi.org/10.1214/07-AOAS122). No variance is set below V_cells, which contains the variance between replies.

The sampling noise of Gen Bias is subtracted from the bounds of its plain value.
"""

import math
from typing import Literal, NamedTuple

import numpy as np

from hb_metrics.stats.clusters import (
    LEAST_FREEDOM,
    Bounds,
    Spread,
    joined_strata,
    quantile,
    share_bounds,
    spread,
    square_bounds,
)

Over = Literal["terms", "templates", "both"]

# The minimum effective number of terms minus the number of axes, and the minimum number of templates. With fewer,
# intervals contain the true value too rarely.
MIN_FREEDOM = 15
MIN_TEMPLATES = 4
# The influences of terms on Gen Bias are squares of their effects, so their tails are twice as heavy, and a sample
# shows even less of them. The degrees of freedom are multiplied by this number.
_OF_SQUARES = 0.7


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
    num_templates, num_terms = influences.cells.shape
    terms, templates = term_spread(influences), spread(influences.templates)
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
        terms = terms._replace(freedom=max(_OF_SQUARES * terms.freedom, LEAST_FREEDOM))
    in_cells = cell_variance(influences)
    half = terms.half_width(confidence_level) if over != "templates" else 0.0
    if over != "terms":
        of_templates = templates.half_width(confidence_level)
        beyond = math.sqrt(max(1 - in_cells / templates.variance, 0.0)) if templates.variance else 0.0
        half = max(math.hypot(half, beyond * of_templates), of_templates)
    half = max(half, quantile(confidence_level) * math.sqrt(in_cells))
    if half == 0:
        return Generalised(None, "the value is the same in all templates, so the effect of other templates is unknown")
    if influences.noise is None:
        return Generalised(share_bounds(influences.value, half))
    low, high = square_bounds(influences.value, half)
    return Generalised((low - influences.noise, high - influences.noise))


def term_spread(influences: Influences) -> Spread:
    return spread(np.nansum(influences.cells, axis=0), influences.axes, influences.weights)


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
    apart = np.zeros(len(firsts))
    for axis in np.unique(axes[firsts]):
        tests = axes[firsts] == axis
        apart[tests] = significant[tests] - significant[tests].mean()
    apart /= len(firsts)
    cells = np.zeros(shape)
    for terms in (firsts, seconds):
        np.add.at(cells, (templates, terms), apart)
    of_templates = np.bincount(templates, significant - share, shape[0]) / len(firsts)
    return Influences(share, None, cells, of_templates, axes, np.ones(len(axes)))
