"""The variance of a debiased bias value, from the replies that it was computed from.

In a template, descriptor d has N_d replies, whose expectation is m_d and whose covariance is Σ_d. With D descriptors,
c = 1 / (D − ddof), P = 1 − 1/D and μ_d = m_d − mean of m, the template's debiased value has the variance

    c² [ 4 Σ_d μ_d'Σ_dμ_d / N_d  +  2 P² Σ_d tr(Σ_d²) / (N_d (N_d − 1))  +  2/D² Σ_{d≠e} tr(Σ_dΣ_e) / (N_d N_e) ]

(that of a U-statistic), and templates are independent. Each term is estimated without the bias that its own sampling
noise would add: tr(Σ_dΣ_e) by the product of two cells' covariances; tr(Σ_d²) by that of the cell and the mean of its
template's others, times the ratio of the two, which is estimated from cells of four or more replies; the linear term by
the plug-in less its noise, with the covariance of the template's other cells, times a factor estimated in the same way.
For cells of fewer than four replies, whose fourth moments are unknown, the average of the group's other cells is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

from hb_metrics.statistics.reply_spread import MIN_REPLIES, ReplySpread, trace_products


class BiasVariance(NamedTuple):
    """The variance of a debiased value.

    Attributes:
        variance: The variance at the value that was measured; not above 0 if the replies do not vary.
        slope: How much the variance grows per unit of the value.
        freedom: Degrees of freedom of a χ² that is as uncertain as this variance (Satterthwaite).
    """

    variance: float
    slope: float
    freedom: float


class LinearFactor(NamedTuple):
    """The result of `linear_factor`.

    Attributes:
        value: The factor.
        variance: The variance of its estimate.
    """

    value: float
    variance: float


@dataclass(frozen=True)
class VarianceTerms:
    """The parts of the variance that cells add, before the ratios that are estimated from all templates together.

    Every field is an array over cells.

    Attributes:
        counts: N_d.
        weights: c² P², divided by the square of the number of templates once these are joined.
        traces: tr S_d less the mean over the template.
        squares: As in `ReplySpread`.
        excess: As in `ReplySpread`.
        cross: As in `ReplySpread`.
        plug_in: v'S_dv, with v the cell's mean less that of the group's other cells: μ_d'Σ_dμ_d / P² and noise.
        plug_in_others: `plug_in` with the mean of the template's other S in place of S_d.
        skew: N_d times the noise that comes with the third moment, halved.
        others: The noise that comes with the other cells' means.
        rest: The third sum, and what the estimated noise of single replies adds; c² times, in equal parts over the
            cells.
    """

    counts: np.ndarray
    weights: np.ndarray
    traces: np.ndarray
    squares: np.ndarray
    excess: np.ndarray
    cross: np.ndarray
    plug_in: np.ndarray
    plug_in_others: np.ndarray
    skew: np.ndarray
    others: np.ndarray
    rest: np.ndarray


def variance_terms(spread: ReplySpread, members: slice, ddof: int) -> VarianceTerms:
    """The terms of a group of descriptors in one template.

    Args:
        spread: The moments of all cells of the template.
        members: The cells of the group; two or more.
        ddof: The variance over D descriptors divides by D − ddof.
    """
    counts, own = spread.counts[members], spread.frobenius[members]
    number, single = len(counts), counts == 1
    share = 1 - 1 / number
    sizes = counts.astype(int)
    first = spread.starts[members.start]
    rows, starts = slice(first, first + sizes.sum()), spread.starts[members] - first
    residuals, lengths = spread.residuals[rows], spread.lengths[rows]
    repeated = np.where(single, np.nan, counts)

    # From the sum of S_d / N_d. For single replies the mean of the template's S_d is used, as in the noise floor.
    num_known = np.count_nonzero(spread.counts > 1)
    guess = spread.pooled / max(num_known, 1)
    by_row = np.repeat(np.nan_to_num(1 / (repeated * (repeated - 1))), sizes)
    of_means = (residuals * by_row[:, None]).T @ residuals + np.count_nonzero(single) * guess
    squared = np.where(single, np.sum(guess**2), own / counts**2)
    rest = max(2 / number**2 * (np.sum(of_means**2) - squared.sum()), 0.0)

    centred = spread.means[members] - spread.means[members].mean(axis=0)
    apart = centred / share
    along = np.einsum("ij,ij->i", residuals, np.repeat(apart, sizes, axis=0))
    plug_in = np.add.reduceat(along**2, starts) / (repeated - 1)
    skew_factor = _skew_factor(counts)
    if single.any() and num_known > 1:
        # The error of using the mean for single replies,
        rest += (share * np.count_nonzero(single)) ** 2 * np.nanvar(spread.traces, ddof=1) / num_known
        # and the correlation of a single reply's length with its direction, where replies are skewed.
        third = np.add.reduceat(residuals * lengths[:, None], starts) * skew_factor[:, None]
        if (counts > 2).any():
            rest += 4 * share * float(centred[single].sum(axis=0) @ np.nanmean(third, axis=0))
    scale = 1 / (number - ddof)
    return VarianceTerms(
        counts=counts,
        weights=np.full(number, (scale * share) ** 2),
        traces=spread.traces[members] - (np.nanmean(spread.traces) if num_known else 0),
        squares=spread.squares[members],
        excess=spread.excess[members],
        cross=spread.cross[members],
        plug_in=plug_in,
        plug_in_others=(np.einsum("di,ij,dj->d", apart, spread.pooled, apart) - plug_in) / max(num_known - 1, 1),
        skew=skew_factor * np.add.reduceat(along * lengths, starts),
        others=(trace_products(residuals, starts, counts, of_means) - own / counts) / (number - 1) ** 2,
        rest=np.full(number, scale**2 * rest / number),
    )


def linear_factor(templates: Sequence[VarianceTerms]) -> LinearFactor:
    """The ratio of the linear terms with a cell's own covariance to those with the covariance of its template's others.

    A descriptor that moves the mean of a style moves its variance too. A single cell hardly shows that, all cells
    together do, and an axis uses their factor.

    Args:
        templates: The terms of all descriptors in each template.
    """
    pooled = _pooled(templates)
    full = pooled.full
    by_cell = (4 * pooled.terms.weights / pooled.terms.counts)[full]
    linear, elsewhere = pooled.linear[full], pooled.elsewhere[full]
    own, others = by_cell @ linear, by_cell @ elsewhere
    # If descriptors hardly differ, both sums are noise, and the factor goes to 1.
    noise = _sum_variance(by_cell * (linear - elsewhere))
    if not others**2 + noise > 0:
        return LinearFactor(1.0, np.inf)
    factor = max((own * others + noise) / (others**2 + noise), 0.0)
    return LinearFactor(factor, _sum_variance(by_cell * (linear - factor * elsewhere)) / (others**2 + noise))


def bias_variance(templates: Sequence[VarianceTerms], plain: float, factor: LinearFactor | None = None) -> BiasVariance:
    """The variance of one debiased value.

    Args:
        templates: The terms of each template, in which more than half of the cells have `MIN_REPLIES` replies.
        plain: The plain value, above 0.
        factor: The factor estimated from all descriptors, where `templates` holds the terms of some of them; `None`:
            the cells' own linear terms are used.
    """
    pooled = _pooled(templates)
    terms, full = pooled.terms, pooled.full
    single = terms.counts == 1
    by_cell = 4 * terms.weights / terms.counts
    elsewhere = np.where(full, pooled.elsewhere, pooled.elsewhere[full].mean())
    if factor is None:
        linear = float(by_cell @ np.where(full, pooled.linear, pooled.linear[full].mean()))
        # What the cells' own directions add to the linear terms depends on the value, and is part of the slope.
        linear_variance = _sum_variance((by_cell * (pooled.linear - pooled.elsewhere))[full])
    else:
        linear = factor.value * float(by_cell @ elsewhere)
        linear_variance = float(by_cell @ elsewhere) ** 2 * factor.variance
    plug_in = np.where(single, terms.plug_in[~single].mean(), terms.plug_in)
    diagonal = np.where(single, _single_variance(pooled), pooled.diagonal)
    variance = linear + float(terms.weights @ diagonal + terms.rest.sum())
    slope = float(by_cell @ plug_in) / plain
    of_ratio = np.nansum(terms.weights * pooled.diagonal / pooled.ratio) ** 2 * pooled.ratio_variance
    uncertainty = linear_variance + of_ratio
    return BiasVariance(variance, slope, 2 * variance**2 / uncertainty if uncertainty > 0 else np.inf)


def _sum_variance(errors: np.ndarray) -> float:
    """The variance of a sum, from the errors that are its summands."""
    return len(errors) / max(len(errors) - 1, 1) * float(errors @ errors)


class _Pooled(NamedTuple):
    """The terms of all templates with the ratios that are estimated from all of them; [cells] except for the ratio.

    `linear` uses the cell's own covariance, `elsewhere` that of its template's other cells; `diagonal` is NaN for
    single replies.
    """

    terms: VarianceTerms
    full: np.ndarray
    ratio: float
    ratio_variance: float
    squares: np.ndarray
    excess: np.ndarray
    linear: np.ndarray
    elsewhere: np.ndarray
    diagonal: np.ndarray


def _pooled(templates: Sequence[VarianceTerms]) -> _Pooled:
    terms = _joined(templates)
    counts, cross = terms.counts, terms.cross
    full = counts >= MIN_REPLIES
    # tr(Σ_d²) and the excess as multiples of `cross`, with more weight for cells of more replies.
    trust = (counts - MIN_REPLIES + 1)[full]
    total = trust @ cross[full]
    ratio, excess_ratio = trust @ terms.squares[full] / total, trust @ terms.excess[full] / total
    squares, excess = ratio * cross, excess_ratio * cross
    errors = trust * (terms.squares - squares)[full] / total
    linear = terms.plug_in - squares / counts + excess / counts**2 - 2 * terms.skew / counts - terms.others
    elsewhere = terms.plug_in_others - cross / counts - terms.others
    diagonal = 2 * squares / (counts * np.where(counts > 1, counts - 1, np.nan))
    return _Pooled(terms, full, float(ratio), _sum_variance(errors), squares, excess, linear, elsewhere, diagonal)


def _single_variance(pooled: _Pooled) -> float:
    """The variance of ‖ε‖² over cells and replies: within cells, and between cells of different spread."""
    repeated = pooled.terms.counts > 1
    counts, squares, excess = pooled.terms.counts[repeated], pooled.squares[repeated], pooled.excess[repeated]
    among = np.mean(pooled.terms.traces[repeated] ** 2) - np.mean(excess / counts + 2 * squares / (counts - 1))
    return float(np.mean(excess + 2 * squares) + max(among, 0))


def _skew_factor(counts: np.ndarray) -> np.ndarray:
    """The factor that makes a sum of third powers of residuals an unbiased third moment; NaN below three replies."""
    known = np.where(counts > 2, counts, np.nan)
    return known / ((known - 1) * (known - 2))


def _joined(templates: Sequence[VarianceTerms]) -> VarianceTerms:
    """The terms of all templates as those of the mean over templates."""
    joined = {
        field.name: np.concatenate([getattr(terms, field.name) for terms in templates])
        for field in fields(VarianceTerms)
    }
    for name in ("weights", "rest"):
        joined[name] = joined[name] / len(templates) ** 2
    return VarianceTerms(**joined)
