"""How the replies of one template's cells spread: unbiased moments of their covariance matrices.

Σ_d is the covariance of one reply of cell d, ε a reply less its expectation, S_d the covariance in N_d replies.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

# Replies that the U-statistics of the fourth moments need.
MIN_REPLIES = 4


class ReplySpread(NamedTuple):
    """Moments of the cells of one template: [cells], NaN for cells with too few replies, where not stated otherwise.

    Attributes:
        counts: N_d.
        means: [cells, columns] m̂_d.
        traces: tr S_d; from two replies on.
        frobenius: tr(S_d²), which exceeds tr(Σ_d²) on average.
        squares: tr(Σ_d²) without bias (Himeno and Yamada, 2014, equation 2.4); from four replies on.
        excess: E‖ε‖⁴ − (tr Σ_d)² − 2 tr(Σ_d²) without bias, 0 for a normal distribution; from four replies on.
        cross: tr(S_dS̄), S̄ the mean over the template's other cells of two replies and more.
        residuals: [replies, columns] replies less the mean of their cell, cell after cell.
        lengths: [replies] their squared lengths.
        starts: [cells] the first row of each cell.
        pooled: [columns, columns] the sum over cells of S_d.
    """

    counts: np.ndarray
    means: np.ndarray
    traces: np.ndarray
    frobenius: np.ndarray
    squares: np.ndarray
    excess: np.ndarray
    cross: np.ndarray
    residuals: np.ndarray
    lengths: np.ndarray
    starts: np.ndarray
    pooled: np.ndarray


def reply_spread(cells: Sequence[np.ndarray]) -> ReplySpread:
    """Computes the moments of one template's cells.

    Args:
        cells: The replies of each cell, [replies, columns].
    """
    counts = np.array([len(replies) for replies in cells], dtype=float)
    rows = np.concatenate(cells)
    starts = np.append(0, np.cumsum(counts)[:-1]).astype(int)
    # Differences from the cell's first reply, so that without variation they are exactly 0, not rounding errors.
    sizes = counts.astype(int)
    residuals = np.subtract(rows, np.repeat(rows[starts], sizes, axis=0), dtype=float)
    shifts = np.add.reduceat(residuals, starts) / counts[:, None]
    residuals -= np.repeat(shifts, sizes, axis=0)
    means = rows[starts] + shifts
    lengths = np.einsum("ij,ij->i", residuals, residuals)
    with np.errstate(divide="ignore", invalid="ignore"):
        freedom = np.where(counts > 1, counts - 1, np.nan)
        traces = np.add.reduceat(lengths, starts) / freedom
        fourth = np.add.reduceat(lengths**2, starts) / freedom
        frobenius = _frobenius(residuals, starts, counts) / freedom**2
        number = np.where(counts >= MIN_REPLIES, counts, np.nan)
        squares = (number - 1) / (number * (number - 2) * (number - 3))
        squares *= (number - 1) * (number - 2) * frobenius + traces**2 - number * fourth
        # (tr Σ_d)² and the excess from E[(tr S)²] and E[tr(S²)], once tr(Σ_d²) is known.
        trace_squares = (number - 1) / (number - 2) * (traces**2 - frobenius) + squares
        excess = number * (traces**2 - 2 * squares / (number - 1) - trace_squares)
    weights = np.repeat(np.where(counts > 1, 1 / np.maximum(counts - 1, 1), 0), counts.astype(int))
    pooled = (residuals * weights[:, None]).T @ residuals
    others = max(np.count_nonzero(counts > 1) - 1, 1)
    cross = (trace_products(residuals, starts, counts, pooled) - frobenius) / others
    return ReplySpread(counts, means, traces, frobenius, squares, excess, cross, residuals, lengths, starts, pooled)


def trace_products(residuals: np.ndarray, starts: np.ndarray, counts: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """tr(S_d·matrix) for each cell: [cells], NaN for cells of one reply."""
    sums = np.add.reduceat(np.einsum("ij,ij->i", residuals @ matrix, residuals), starts)
    return sums / np.where(counts > 1, counts - 1, np.nan)


def _frobenius(residuals: np.ndarray, starts: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """‖Σ_i r_i r_i'‖² for each cell, through whichever product is smaller; cells of equal size in one batch."""
    norms = np.empty(len(counts))
    for number in np.unique(counts).astype(int):
        chosen = np.flatnonzero(counts == number)
        blocks = residuals[starts[chosen][:, None] + np.arange(number)]
        transposed = blocks.transpose(0, 2, 1)
        products = blocks @ transposed if number <= residuals.shape[1] else transposed @ blocks
        norms[chosen] = np.einsum("dij,dij->d", products, products)
    return norms
