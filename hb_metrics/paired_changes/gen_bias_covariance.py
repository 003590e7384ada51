"""The covariance of two runs' debiased Gen Bias, which replies to the same prompts bring about.

In a template, G_d is the covariance of the two runs' style vectors of a reply to one prompt in cell d, estimated from
the n_d prompts that both replied to; the first run has N_d replies there and the second M_d, and w_d = n_d / (N_d M_d).
With D descriptors, P = 1 − 1/D, and μ_d and ν_d the means of the cells less their mean over cells, the two debiased
values of the template have the covariance

    1/D² [ 4 Σ_d w_d μ_d'G_dν_d  +  2 P² Σ_d w_d² tr(G_dG_d')  +  2/D² Σ_{d≠e} w_d w_e tr(G_dG_e') ]

as U-statistics have, and templates are independent. The estimated means put into the first sum bring noise with them
that is on average twice the other two. So the covariance is that sum less *once* the other two, in which products of
two different cells stand for tr(G_dG_d') too: those of a cell with itself are too large by their sampling noise.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hb_metrics.full_gen_bias.intervals import groups_of


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
    share = 1 - 1 / number
    before, after = (np.array([cell[run].mean(axis=0) for cell in cells]) for run in (0, 1))
    before, after = before - before.mean(axis=0), after - after.mean(axis=0)
    linear, own, weights = np.zeros(number), np.zeros(number), np.zeros(number)
    total, weighted = np.zeros((width, width)), np.zeros((width, width))
    pairs = [(cell.first[cell.shared[0]], cell.second[cell.shared[1]]) for cell in cells]
    pairs = [(first - first.mean(axis=0), second - second.mean(axis=0)) for first, second in pairs if len(first) > 1]
    known = [row for row, cell in enumerate(cells) if cell.shared.shape[1] > 1]
    for row, (first, second) in zip(known, pairs, strict=True):
        freedom = len(first) - 1
        weights[row] = len(first) / (len(cells[row].first) * len(cells[row].second))
        linear[row] = weights[row] * float((first @ before[row]) @ (second @ after[row])) / freedom
        own[row] = float(np.sum((first @ first.T) * (second @ second.T))) / freedom**2
        matrix = first.T @ second / freedom
        total += matrix
        weighted += weights[row] * matrix
    cross = np.zeros(number)
    for row, (first, second) in zip(known, pairs, strict=True):
        cross[row] = (float(np.sum((first @ total) * second)) / (len(first) - 1) - own[row]) / max(len(pairs) - 1, 1)
    between = float(np.sum(weighted**2) - weights**2 @ own)
    by_cell = 4 * linear - 2 * share**2 * weights**2 * cross
    return _Part(by_cell / number**2, -2 / number**4 * between)


def _covariance(templates: Sequence[_Part]) -> Covariance:
    """The covariance of the means over templates."""
    by_cell = np.concatenate([part.by_cell for part in templates]) / len(templates) ** 2
    value = float(by_cell.sum()) + sum(part.rest for part in templates) / len(templates) ** 2
    return Covariance(value, float(len(by_cell) * by_cell.var(ddof=1)))
