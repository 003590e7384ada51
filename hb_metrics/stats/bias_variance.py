"""Estimates the variance of a debiased Gen Bias value from the replies.

In a template with D descriptors, the N_d replies to descriptor d have the expectation m_d and the covariance matrix
Σ_d. Let μ_d = m_d − (mean of m over descriptors), c = 1 / (D − ddof) and P = 1 − 1/D. The debiased value of the
template is a U-statistic and has the variance

    c² [ 4 Σ_d μ_d'Σ_dμ_d / N_d  +  2 P² Σ_d tr(Σ_d²) / (N_d (N_d − 1))  +  2/D² Σ_{d≠e} tr(Σ_dΣ_e) / (N_d N_e) ]

Templates are independent. A cell is a descriptor in a template.

If the true value is 0, the variance is the total of the second and the third sum. In the third sum, tr(Σ_dΣ_e) is
estimated by the trace of the product of two sample covariance matrices. In the second sum, tr(Σ_d²) is estimated in two
steps. First, the cell's sample covariance matrix is multiplied by the mean matrix of the template's other cells. Then,
the trace of this product is multiplied by a ratio, which is determined by the cells with four or more replies. A cell
with two or three replies gets the mean over the cells with four or more replies, because the debiased value already
subtracts the cell's own variance.

The first sum is called the linear term, because it is proportional to the value. The plug-in estimate of this sum
replaces m_d and Σ_d by the sample means and covariances. Two corrected estimates are combined, because each has a
weakness:

* The first estimate is the plug-in minus its noise. It is unbiased. With few replies, however, its error is larger than
  the term.
* The second estimate is the plug-in, multiplied by the debiased value and divided by the plain value. It is precise,
  but it makes an assumption: replies vary as much in the directions in which descriptors truly differ as in the
  directions in which their sample means differ. If the assumption is false, the estimate is biased (by 20 to 35 % on
  axes with very varied replies).

The degrees of freedom account for chance errors, but not for a bias. The second estimate therefore gets the larger
weight only if the error of the first estimate is several times as large as the term.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np

# The number of replies that unbiased fourth moments require.
MIN_REPLIES = 4
# The relative error at which both estimates of the linear term have the same weight. It is the standard error of the
# first estimate, divided by the second estimate. The value comes from simulations.
_EVEN_RATIO = 2.0


class BiasVariance(NamedTuple):
    """The variance of a debiased value.

    Attributes:
        at_zero: The variance if the true value is 0. With few replies, the estimate can be negative.
        slope: The increase in the variance per unit of the value.
        freedom: The degrees of freedom of the estimated variance (Satterthwaite).
        zero_error: The squared standard error of `at_zero`.
        linear_error: The squared standard error of `slope` × value.
    """

    at_zero: float
    slope: float
    freedom: float
    zero_error: float
    linear_error: float


@dataclass(frozen=True)
class CellMoments:
    """Moments of the cells of one template, or of several joined templates. Each array is [cells].

    A moment is NaN if the cell has too few replies. S_d is the sample covariance matrix of cell d, and ε is a reply
    minus its expectation. The module's docstring explains the other symbols.

    Attributes:
        mass: The sum of probabilities over the cell's replies and columns.
        lengths: The sum of ‖r‖² over the cell's replies, where r is a reply minus the mean of its cell.
        fourths: The sum of ‖r‖⁴ over the cell's replies.
        weights: c² P². For joined templates, this product is divided by the square of the number of templates.
        traces: tr S_d minus its mean over the template, for cells with two or more replies.
        squares: tr(Σ_d²), unbiased (Himeno and Yamada, 2014, equation 2.4), for cells with four or more replies.
        excess: E‖ε‖⁴ − (tr Σ_d)² − 2 tr(Σ_d²), unbiased, for cells with four or more replies. It is 0 for a normal
            distribution.
        cross: tr(S_dS̄), where S̄ is the mean over the template's other cells with two or more replies.
        plug_in: v'S_dv, where v is the cell's mean minus the mean of the other cells. It is μ_d'Σ_dμ_d / P² plus noise.
        plug_in_others: Like `plug_in`, with S̄ in place of S_d.
        skew: N_d / 2 times the noise in `plug_in` that comes from the third moment.
        others: The noise in `plug_in` that comes from the means of the other cells.
        rest: The third sum, plus the noise that comes from the assumed variance of cells with one reply. The total is
            multiplied by c² and divided equally among the cells.
    """

    counts: np.ndarray
    mass: np.ndarray
    lengths: np.ndarray
    fourths: np.ndarray
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


def cell_moments(cells: Sequence[np.ndarray], ddof: int) -> CellMoments:
    """Computes the moments of one template from the replies [replies, columns] in each of two or more cells."""
    counts = np.array([len(replies) for replies in cells], dtype=float)
    sizes, number, single = counts.astype(int), len(counts), counts == 1
    starts = np.append(0, np.cumsum(sizes)[:-1])
    rows = np.concatenate(cells)
    # The cell's first reply is subtracted from all of its replies. If the replies do not vary, the differences are
    # therefore exactly 0.
    residuals = np.subtract(rows, np.repeat(rows[starts], sizes, axis=0), dtype=float)
    shifts = np.add.reduceat(residuals, starts) / counts[:, None]
    residuals -= np.repeat(shifts, sizes, axis=0)
    means = rows[starts] + shifts
    lengths = np.einsum("ij,ij->i", residuals, residuals)

    repeated = np.where(single, np.nan, counts)
    of_cell, fourths = np.add.reduceat(lengths, starts), np.add.reduceat(lengths**2, starts)
    traces = of_cell / (repeated - 1)
    frobenius = _frobenius(residuals, starts, counts) / (repeated - 1) ** 2
    full = np.where(counts >= MIN_REPLIES, counts, np.nan)
    squares = (full - 1) / (full * (full - 2) * (full - 3))
    squares *= (full - 1) * (full - 2) * frobenius + traces**2 - full * fourths / (repeated - 1)
    # Once tr(Σ_d²) is known, (tr Σ_d)² and the excess follow from E[(tr S)²] and E[tr(S²)].
    trace_squares = (full - 1) / (full - 2) * (traces**2 - frobenius) + squares
    excess = full * (traces**2 - 2 * squares / (full - 1) - trace_squares)

    pooled = _weighted_products(residuals, sizes, 1 / (repeated - 1))
    num_repeated = np.count_nonzero(~single)
    num_others = max(num_repeated - 1, 1)
    cross = (_trace_products(residuals, starts, repeated, pooled) - frobenius) / num_others

    # The sum of the covariances of the means, S_d / N_d. A cell with one reply gets the mean S_d of the other cells.
    guess = pooled / max(num_repeated, 1)
    of_means = _weighted_products(residuals, sizes, 1 / (repeated * (repeated - 1))) + np.count_nonzero(single) * guess
    squared = np.where(single, np.sum(guess**2), frobenius / counts**2)
    rest = max(2 / number**2 * (np.sum(of_means**2) - squared.sum()), 0.0)

    share = 1 - 1 / number
    centred = means - means.mean(axis=0)
    apart = centred / share
    along = np.einsum("ij,ij->i", residuals, np.repeat(apart, sizes, axis=0))
    plug_in = np.add.reduceat(along**2, starts) / (repeated - 1)
    skew_factor = _skew_factor(counts)
    if single.any() and num_repeated > 1:
        # The error of the variance that is assumed for cells with one reply.
        rest += (share * np.count_nonzero(single)) ** 2 * np.nanvar(traces, ddof=1) / num_repeated
        # If replies are skewed, the length of a single reply is correlated with its direction.
        third = np.add.reduceat(residuals * lengths[:, None], starts) * skew_factor[:, None]
        if (counts > 2).any():
            rest += 4 * share * float(centred[single].sum(axis=0) @ np.nanmean(third, axis=0))
    scale = 1 / (number - ddof)
    return CellMoments(
        counts=counts,
        mass=counts * means.sum(axis=1),
        lengths=of_cell,
        fourths=fourths,
        weights=np.full(number, (scale * share) ** 2),
        traces=traces - (np.nanmean(traces) if num_repeated else 0),
        squares=squares,
        excess=excess,
        cross=cross,
        plug_in=plug_in,
        plug_in_others=(np.einsum("di,ij,dj->d", apart, pooled, apart) - plug_in) / num_others,
        skew=skew_factor * np.add.reduceat(along * lengths, starts),
        others=(_trace_products(residuals, starts, repeated, of_means) - frobenius / counts) / (number - 1) ** 2,
        rest=np.full(number, scale**2 * rest / number),
    )


def bias_variance(templates: Sequence[CellMoments], value: float, plain: float) -> BiasVariance:
    """Computes the variance of one debiased value, which is the mean over the templates.

    In each template, more than half of the cells must have `MIN_REPLIES` or more replies. A cell with fewer replies
    gets the mean moments of the other cells. The plain value must be above 0.
    """
    cells = _joined(templates)
    counts, cross, full, single = cells.counts, cells.cross, cells.counts >= MIN_REPLIES, cells.counts == 1
    # The ratios of tr(Σ_d²) and of the excess to `cross`. Cells with more replies have more weight.
    trust = (counts - MIN_REPLIES + 1)[full]
    total = trust @ cross[full]
    ratio, excess_ratio = trust @ cells.squares[full] / total, trust @ cells.excess[full] / total
    squares = ratio * np.where(full, cross, cross[full].mean())
    excess = excess_ratio * np.where(full, cross, cross[full].mean())
    factors = 2 * cells.weights / (counts * np.where(single, np.inf, counts - 1))
    single_weight = float(cells.weights[single].sum())
    at_zero = float(factors @ squares + cells.rest.sum()) + single_weight * _single_variance(cells, squares, excess)

    # The errors of `at_zero`, by cell. Differences in variance between cells also count as errors.
    at_full = factors[full] + factors[~full].sum() / len(trust)
    by_square = (at_full @ cross[full]) / total * trust
    by_cross = ratio * (at_full - by_square + (at_full - by_square).mean()) + 2 * cells.rest.sum() / cross[full].sum()
    zero_errors = by_square * _from_mean(cells.squares[full]) + by_cross * _from_mean(cross[full])
    of_singles = cells.excess + 2 * cells.squares + cells.traces**2
    zero_errors += single_weight / len(trust) * _from_mean(of_singles[full])
    unlike = float(np.sum(factors[~full] ** 2) * np.var(squares[full], ddof=1))

    by_cell = 4 * cells.weights / counts
    linear = cells.plug_in - squares / counts + excess / counts**2 - 2 * cells.skew / counts - cells.others
    elsewhere = cells.plug_in_others - cross / counts - cells.others
    errors = (by_cell * (linear - elsewhere))[full]
    unbiased = float(by_cell @ np.where(full, linear, linear[full].mean()))
    plug_in = float(by_cell @ np.where(single, cells.plug_in[~single].mean(), cells.plug_in))
    share = max(value, 0.0) / plain
    biased = share * plug_in
    factor = cells.plug_in[full].sum() / cells.plug_in_others[full].sum()
    biased_errors = share * (by_cell * (cells.plug_in - factor * cells.plug_in_others))[full]

    even = (_EVEN_RATIO * biased) ** 2
    weight = even / (even + _sum_variance(errors)) if even > 0 else 0.0
    combined = max(weight * unbiased + (1 - weight) * biased, 0.0)
    slope = combined / value if value > 0 else plug_in / plain
    zero_error = _sum_variance(zero_errors) + unlike
    linear_error = _sum_variance(weight * errors + (1 - weight) * biased_errors)
    uncertainty = zero_error + linear_error
    freedom = 2 * (at_zero + combined) ** 2 / uncertainty if uncertainty > 0 else np.inf
    return BiasVariance(at_zero, slope, freedom, zero_error, linear_error)


def _sum_variance(errors: np.ndarray) -> float:
    return len(errors) / max(len(errors) - 1, 1) * float(errors @ errors)


def _from_mean(values: np.ndarray) -> np.ndarray:
    return values - values.mean()


def _single_variance(cells: CellMoments, squares: np.ndarray, excess: np.ndarray) -> float:
    """Computes the variance of ‖ε‖², both within cells and between cells."""
    repeated = cells.counts > 1
    counts, squares, excess = cells.counts[repeated], squares[repeated], excess[repeated]
    among = np.mean(cells.traces[repeated] ** 2) - np.mean(excess / counts + 2 * squares / (counts - 1))
    return float(np.mean(excess + 2 * squares) + max(among, 0))


def _skew_factor(counts: np.ndarray) -> np.ndarray:
    """Returns the factor that turns a sum of cubed residuals into an unbiased estimate of the third moment."""
    known = np.where(counts > 2, counts, np.nan)
    return known / ((known - 1) * (known - 2))


def _joined(templates: Sequence[CellMoments]) -> CellMoments:
    joined = {}
    for field in fields(CellMoments):
        joined[field.name] = np.concatenate([getattr(moments, field.name) for moments in templates])
    for name in ("weights", "rest"):
        joined[name] = joined[name] / len(templates) ** 2
    return CellMoments(**joined)


def _weighted_products(residuals: np.ndarray, sizes: np.ndarray, weights: np.ndarray) -> np.ndarray:
    by_row = np.repeat(np.nan_to_num(weights), sizes)
    return (residuals * by_row[:, None]).T @ residuals


def _trace_products(residuals: np.ndarray, starts: np.ndarray, repeated: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """Computes tr(S_d·matrix): [cells]. Cells with one reply are NaN."""
    return np.add.reduceat(np.einsum("ij,ij->i", residuals @ matrix, residuals), starts) / (repeated - 1)


def _frobenius(residuals: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Computes ‖Σ_i r_i r_i'‖² for each cell: [cells].

    If a cell has fewer replies than columns, the matrix of the products r_i'r_j is used, which is smaller and has the
    same norm.
    """
    norms = np.empty(len(counts))
    for number in np.unique(counts).astype(int):
        chosen = np.flatnonzero(counts == number)
        blocks = residuals[starts[chosen][:, None] + np.arange(number)]
        transposed = blocks.transpose(0, 2, 1)
        products = blocks @ transposed if number <= residuals.shape[1] else transposed @ blocks
        norms[chosen] = np.einsum("dij,dij->d", products, products)
    return norms
