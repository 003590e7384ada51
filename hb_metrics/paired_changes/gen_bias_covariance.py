"""Estimates the variance of the change in debiased Gen Bias between two runs, from the replies of both runs.

A cell is a descriptor d in a template. In this cell, the first run has N_d replies, the second run has M_d replies, and
n_d prompts have replies from both runs. G_d is the covariance matrix of the two runs' style vectors for the same
prompt. μ_d and ν_d are the cell's mean style vectors in the two runs, minus their mean over the template's cells. There
are D descriptors, and

    P = 1 − 1/D      w_d = n_d / (N_d M_d)      q_d = n_d (n_d − 1) / (N_d (N_d − 1) M_d (M_d − 1))

The template's debiased values in the two runs are U-statistics and have the covariance

    1/D² [ 4 Σ_d w_d μ_d'G_dν_d  +  2 P² Σ_d q_d tr(G_dG_d')  +  2/D² Σ_{d≠e} w_d w_e tr(G_dG_e') ]

Templates are independent. The variance of the change is the sum of both runs' variances minus twice their covariance.
The variance of a run is its covariance with itself, so all three terms come from the same formula. If the two runs have
the same reply to a prompt, its contributions to the three terms therefore cancel exactly.

μ_d'G_dν_d and tr(G_dG_d') are estimated by averages over four different prompts of a cell. These estimates are unbiased
for any distribution of replies. This property is necessary because style vectors are far from normal, and their
covariances depend on their means. The means of the other cells add noise to the first sum. This noise is twice the
third sum, so the third sum is subtracted and not added.

For a cell with a single reply, Gen Bias subtracts the mean variance of other cells. The variance of the squared length
of the reply's error is therefore added.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hb_metrics.stats.intervals import groups_of

# The averages require this number of different prompts in a cell.
MIN_PROMPTS = 4


class PairedCell(NamedTuple):
    """A descriptor in a template, in two runs.

    Attributes:
        first: [replies, styles] The style vectors of the first run.
        second: [replies, styles] The style vectors of the second run.
        shared: [2, prompts] For each prompt to which both runs replied, the row of the reply in `first` and in
            `second`.
    """

    first: np.ndarray
    second: np.ndarray
    shared: np.ndarray


class Covariance(NamedTuple):
    """The covariance matrix [2, 2] of a value in two runs.

    The matrix is NaN if, in half or more of the cells, one of the runs has fewer than `MIN_PROMPTS` replies. `freedom`
    contains the degrees of freedom (Satterthwaite) for the variance of the change.
    """

    matrix: np.ndarray
    freedom: float


class _Part(NamedTuple):
    """The part of a covariance matrix that comes from one template.

    Attributes:
        by_cell: [cells, 2, 2] The part of each cell, or NaN if a run has fewer than `MIN_PROMPTS` replies.
        of_single: [cells, 2, 2] The part that each cell would have if it had a single reply in each run.
        traces: [cells, 2] The variance of a reply in each run, in the value's unit.
        sizes: [cells, 2] The number of replies in each run.
        rest: [2, 2] The part that comes from pairs of cells.
    """

    by_cell: np.ndarray
    of_single: np.ndarray
    traces: np.ndarray
    sizes: np.ndarray
    rest: np.ndarray


def gen_bias_covariances(
    templates: Iterable[Mapping[str | None, Sequence[PairedCell]]], columns: Mapping[str, Sequence[int]]
) -> dict[str | None, list[Covariance]]:
    """Computes the covariance matrices of two runs' debiased values, without scaling the values.

    `templates` contains, for each template, the cells of each axis. `columns` contains the columns of each cluster's
    styles.

    Returns:
        The matrices for all descriptors (key `None`) and for each axis. For all descriptors, they are in the order of
        `read_metrics`: Full Gen Bias, Partial Gen Bias of each cluster, and Summed-Cluster Gen Bias of each cluster.
        For an axis, there is only the matrix of Full Gen Bias.
    """
    parts: dict[str | None, list[list[_Part]]] = {}
    for axes in templates:
        by_metric = _by_metric([cell for members in axes.values() for cell in members], columns)
        for axis, members in groups_of({axis: len(group) for axis, group in axes.items()}).items():
            of_group = by_metric if axis is None else by_metric[:1]
            parts.setdefault(axis, []).append([_part(cells[members]) for cells in of_group])
    return {
        axis: [_covariance(of_metric) for of_metric in zip(*of_templates, strict=True)]
        for axis, of_templates in parts.items()
    }


def _by_metric(cells: Sequence[PairedCell], columns: Mapping[str, Sequence[int]]) -> list[list[PairedCell]]:
    partial = [
        [PairedCell(cell.first[:, styles], cell.second[:, styles], cell.shared) for cell in cells]
        for styles in map(list, columns.values())
    ]
    summed = [
        [
            PairedCell(cell.first.sum(axis=1, keepdims=True), cell.second.sum(axis=1, keepdims=True), cell.shared)
            for cell in of_cluster
        ]
        for of_cluster in partial
    ]
    return [list(cells), *partial, *summed]


def _part(cells: Sequence[PairedCell]) -> _Part:
    number = len(cells)
    sizes = np.array([[len(cell.first), len(cell.second)] for cell in cells])
    means = np.array([[rows.mean(axis=0) for rows in cell[:2]] for cell in cells])
    of_others = (means.sum(axis=0) - means) / (number - 1)
    by_cell, of_single = np.zeros((number, 2, 2)), np.zeros((number, 2, 2))
    traces, between = np.full((number, 2), np.nan), np.zeros((2, 2))
    for one, other in ((0, 0), (0, 1), (1, 1)):
        prompts = [cell.shared if one != other else np.arange(len(cell[one]))[None].repeat(2, axis=0) for cell in cells]
        counts = np.array([rows.shape[1] for rows in prompts])
        weighted, squares = np.zeros((means.shape[2],) * 2), 0.0
        for count in np.unique(counts[counts >= MIN_PROMPTS]):
            members = np.flatnonzero(counts == count)
            x, y = (
                np.stack([cells[row][run][prompts[row][index]] for row in members.tolist()])
                - of_others[members, run, None]
                for index, run in enumerate((one, other))
            )
            linear, square = _moments(x @ x.swapaxes(1, 2), y @ y.swapaxes(1, 2))
            first, second = sizes[members, one], sizes[members, other]
            weights = count / (first * second)
            both = weights * (count - 1) / ((first - 1) * (second - 1))
            by_cell[members, one, other] = (1 - 1 / number) ** 2 * (4 * weights * linear + 2 * both * square)
            lengths, other_lengths = np.sum(x**2, axis=2), np.sum(y**2, axis=2)
            apart = (lengths - lengths.mean(axis=1, keepdims=True)) * other_lengths
            of_single[members, one, other] = (1 - 1 / number) ** 2 * apart.sum(axis=1) / (count - 1)
            x -= x.mean(axis=1, keepdims=True)
            y -= y.mean(axis=1, keepdims=True)
            if one == other:
                traces[members, one] = (1 - 1 / number) * np.sum(x**2, axis=(1, 2)) / (count - 1)
            norms = np.sum((x @ x.swapaxes(1, 2)) * (y @ y.swapaxes(1, 2)), axis=(1, 2))
            squares += float(norms @ (weights / (count - 1)) ** 2)
            x *= (weights / (count - 1))[:, None, None]
            weighted += x.reshape(-1, x.shape[2]).T @ y.reshape(-1, y.shape[2])
        between[one, other] = float(np.sum(weighted**2)) - squares
    for matrix in (*by_cell, *of_single, between):
        matrix[1, 0] = matrix[0, 1]
    by_cell[sizes.min(axis=1) < MIN_PROMPTS] = np.nan
    return _Part(by_cell / number**2, of_single / number**2, traces / number, sizes, -2 / number**4 * between)


def _moments(products: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes unbiased estimates of m'Gn and tr(GG') for two runs' replies to the same prompts.

    m and n are the means of the two runs, and G is their covariance matrix. `products` (a) contains the inner products
    of one run's replies with each other. `others` (b) contains the same products for the other run. Both are [cells,
    prompts, prompts], and their diagonals are overwritten. m'Gn is the mean of a_ki b_il − a_ki b_jl, and tr(GG') is
    the mean of a_ik b_ik − 2 a_ik b_il + a_ik b_jl, over different prompts i, j, k and l.
    """
    count = products.shape[1]
    for matrices in (products, others):
        matrices[:, np.arange(count), np.arange(count)] = 0
    rows, other_rows = products.sum(axis=2), others.sum(axis=2)
    same = np.sum(products * others, axis=(1, 2))
    chained = np.sum(rows * other_rows, axis=1) - same
    apart = rows.sum(axis=1) * other_rows.sum(axis=1) - 4 * chained - 2 * same
    two = same / (count * (count - 1))
    three = chained / (count * (count - 1) * (count - 2))
    four = apart / (count * (count - 1) * (count - 2) * (count - 3))
    return three - four, two - 2 * three + four


def _covariance(templates: Sequence[_Part]) -> Covariance:
    by_cell, of_single, traces, sizes = (
        np.concatenate([getattr(part, name) for part in templates])
        for name in ("by_cell", "of_single", "traces", "sizes")
    )
    number = len(templates)
    known, single = ~np.isnan(by_cell).any(axis=(1, 2)), sizes.min(axis=1) == 1
    num_known, num_single = np.count_nonzero(known), np.count_nonzero(single)
    if 2 * num_known <= len(known):
        return Covariance(np.full((2, 2), np.nan), np.nan)
    # A cell with two or three replies gets the mean part of the other cells, scaled in inverse proportion to its number
    # of replies.
    few = sizes.sum(axis=1)[~known & ~single]
    share = 1 + (1 / few).sum() * sizes.sum(axis=1)[known].mean() / num_known
    added = (share * by_cell + num_single / num_known * of_single)[known] / number**2
    matrix = added.sum(axis=0) + np.sum([part.rest for part in templates], axis=0) / number**2
    # A cell with a single reply is assumed to have the mean variance of the other cells. Here, the error of this
    # assumption is added.
    matrix += (num_single + num_single**2 / num_known) * np.cov(traces[known].T) / number**2
    of_change = added @ (-1, 1) @ (-1, 1)
    uncertainty = len(of_change) * float(of_change.var(ddof=1))
    change = float(matrix[0, 0] + matrix[1, 1] - 2 * matrix[0, 1])
    return Covariance(matrix, 2 * change**2 / uncertainty if uncertainty > 0 else np.inf)
