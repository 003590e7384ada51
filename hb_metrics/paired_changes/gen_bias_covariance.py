"""The covariance of two runs' debiased Gen Bias, which replies to the same prompts bring about.

In a template, G_d is the covariance of the two runs' style vectors of a reply to one prompt in cell d, to n_d prompts
that both replied to; the first run has N_d replies there and the second M_d, w_d = n_d / (N_d M_d) and q_d =
n_d (n_d − 1) / (N_d (N_d − 1) M_d (M_d − 1)). With D descriptors, P = 1 − 1/D, and μ_d and ν_d the means of the cells
less their mean over cells, the two debiased values of the template have the covariance

    1/D² [ 4 Σ_d w_d μ_d'G_dν_d  +  2 P² Σ_d q_d tr(G_dG_d')  +  2/D² Σ_{d≠e} w_d w_e tr(G_dG_e') ]

as U-statistics have, and templates are independent. μ_d'G_dν_d and tr(G_dG_d') are estimated by averages over four
different prompts of a cell, which are without bias whatever the replies are like: style vectors are far from normal,
and their means and covariances go together. The means of the other cells bring noise into the first sum, twice the
third.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hb_metrics.statistics.intervals import groups_of

# Different prompts that the averages need; a cell that shares fewer counts as sharing none.
MIN_SHARED = 4


class PairedCell(NamedTuple):
    """A descriptor in a template, in two runs.

    Attributes:
        first: [replies, styles] style vectors of the first run.
        second: [replies, styles] of the second.
        shared: [2, prompts] rows of either run's replies to the prompts that both replied to, in one order.
    """

    first: np.ndarray
    second: np.ndarray
    shared: np.ndarray


class Covariance(NamedTuple):
    """An estimated covariance.

    Attributes:
        value: The covariance.
        variance: Of the estimate.
    """

    value: float
    variance: float


class _Part(NamedTuple):
    """One template's part of a covariance: what each cell adds to it."""

    by_cell: np.ndarray
    rest: float


def gen_bias_covariances(
    templates: Iterable[Mapping[str | None, Sequence[PairedCell]]], columns: Mapping[str, Sequence[int]]
) -> dict[str | None, list[Covariance]]:
    """The covariances of two runs' debiased values, not multiplied by any scale.

    Args:
        templates: Of each template, axis → its cells.
        columns: Cluster → indices of its styles.

    Returns:
        Axis (`None`: all descriptors) → [metrics], in the order of `read_metrics`: Full Gen Bias, Partial of each
        cluster, Summed-Cluster of each.
    """
    parts: dict[str | None, list[list[_Part]]] = {}
    for axes in templates:
        by_metric = _by_metric([cell for members in axes.values() for cell in members], columns)
        for axis, members in groups_of({axis: len(group) for axis, group in axes.items()}).items():
            parts.setdefault(axis, []).append([_part(cells[members]) for cells in by_metric])
    return {
        axis: [_covariance(of_metric) for of_metric in zip(*of_templates, strict=True)]
        for axis, of_templates in parts.items()
    }


def _by_metric(cells: Sequence[PairedCell], columns: Mapping[str, Sequence[int]]) -> list[list[PairedCell]]:
    """The cells with the columns that each metric is computed from, in the order of `read_metrics`."""
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
    number, width = len(cells), cells[0].first.shape[1]
    means = np.array([[rows.mean(axis=0) for rows in cell[:2]] for cell in cells])
    of_others = (means.sum(axis=0) - means) / (number - 1)
    by_cell, squares = np.zeros(number), 0.0
    weighted = np.zeros((width, width))
    for row, (first, second, shared) in enumerate(cells):
        count = shared.shape[1]
        if count < MIN_SHARED:
            continue
        one, other = first[shared[0]] - of_others[row, 0], second[shared[1]] - of_others[row, 1]
        linear, square = _moments(one, other)
        weight = count / (len(first) * len(second))
        both = weight * (count - 1) / ((len(first) - 1) * (len(second) - 1))
        by_cell[row] = (1 - 1 / number) ** 2 * (4 * weight * linear + 2 * both * square)
        matrix = weight / (count - 1) * (one - one.mean(axis=0)).T @ (other - other.mean(axis=0))
        weighted += matrix
        squares += float(np.sum(matrix**2))
    between = float(np.sum(weighted**2)) - squares
    return _Part(by_cell / number**2, -2 / number**4 * between)


def _moments(one: np.ndarray, other: np.ndarray) -> tuple[float, float]:
    """Of [prompts, styles] of two runs with means m and n and covariance G: m'Gn and tr(GG'), without bias.

    By the inner products a of one run's replies and b of the other's, over different prompts i, j, k, l:
    m'Gn is the mean of a_ki b_il − a_ki b_jl, and tr(GG') that of a_ik b_ik − 2 a_ik b_il + a_ik b_jl.
    """
    count = len(one)
    products, others = one @ one.T, other @ other.T
    np.fill_diagonal(products, 0)
    np.fill_diagonal(others, 0)
    same = float(np.sum(products * others))
    chained = float(products.sum(axis=0) @ others.sum(axis=0)) - same
    apart = float(products.sum() * others.sum()) - 4 * chained - 2 * same
    two = same / (count * (count - 1))
    three = chained / (count * (count - 1) * (count - 2))
    four = apart / (count * (count - 1) * (count - 2) * (count - 3))
    return three - four, two - 2 * three + four


def _covariance(templates: Sequence[_Part]) -> Covariance:
    """The covariance of the means over templates."""
    by_cell = np.concatenate([part.by_cell for part in templates]) / len(templates) ** 2
    value = float(by_cell.sum()) + sum(part.rest for part in templates) / len(templates) ** 2
    return Covariance(value, float(len(by_cell) * by_cell.var(ddof=1)))
