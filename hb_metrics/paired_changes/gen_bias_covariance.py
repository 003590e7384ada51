"""The covariance of two runs' debiased Gen Bias, which replies to the same prompts bring about.

In a template, a_i and b_i are the two runs' style vectors of a reply to prompt i, and G_d is their covariance in cell d,
estimated from its n_d prompts that both replied to; A has N_d replies there and B has M_d, and w_d = n_d / (N_d M_d).
With D descriptors, c = 1 / D, P = 1 − 1/D, and μ and ν the means of the cells less their mean over cells, the two debiased
values of the template have the covariance

    c² [ 4 Σ_d w_d μ_d'G_dν_d  +  2 P² Σ_d w_d² tr(G_dG_d')  +  2/D² Σ_{d≠e} w_d w_e tr(G_dG_e') ]

as U-statistics have, and templates are independent. The estimated means put into the first sum bring noise with them
that is on average twice the other two. So the covariance is that sum less *once* the other two, in which products of
two different cells stand for tr(G_dG_d') too: those of a cell with itself are too large by their sampling noise.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from hb_metrics.full_gen_bias.intervals import groups_of
from hb_metrics.full_gen_bias.style_clusters import cluster_sums


class PairedCell:
    """A cell of two runs.

    Attributes:
        means: Two [styles] mean style vectors, of all replies of either run.
        counts: The numbers of replies of either run.
        pairs: Two [prompts, styles] style vectors of the replies to prompts that both replied to, in one order.
    """

    def __init__(self, first: np.ndarray, second: np.ndarray, shared: tuple[np.ndarray, np.ndarray]) -> None:
        """Takes the rows of either run, [replies, styles], and which of them are replies to the same prompts."""
        self.means = first.mean(axis=0), second.mean(axis=0)
        self.counts = len(first), len(second)
        self.pairs = first[shared[0]], second[shared[1]]


def gen_bias_covariances(
    templates: Sequence[Mapping[str, Sequence[PairedCell]]], columns: Mapping[str, Sequence[int]]
) -> dict[str | None, np.ndarray]:
    """The covariances of two runs' debiased values, not multiplied by any scale.

    Args:
        templates: [templates] axis → its cells, those of both runs.
        columns: Cluster → indices of its styles.

    Returns:
        Axis (`None`: all descriptors) → [metrics], in the order of `read_metrics`: Full Gen Bias, Partial of each
        cluster, Summed-Cluster of each.
    """
    sums: dict[str | None, np.ndarray] = {}
    number: dict[str | None, int] = {}
    for axes in templates:
        cells = [cell for members in axes.values() for cell in members]
        for axis, members in groups_of({axis: len(group) for axis, group in axes.items()}).items():
            values = [_covariance(group) for group in _by_metric(cells[members], columns)]
            sums[axis] = sums.get(axis, 0.0) + np.array(values)
            number[axis] = number.get(axis, 0) + 1
    return {axis: values / number[axis] ** 2 for axis, values in sums.items()}


def _by_metric(cells: Sequence[PairedCell], columns: Mapping[str, Sequence[int]]) -> list[list[PairedCell]]:
    """The cells with the columns that each metric is computed from."""
    pickers = [lambda rows: rows]
    pickers += [lambda rows, styles=list(styles): rows[..., styles] for styles in columns.values()]
    pickers += [
        lambda rows, styles=list(styles): rows[..., styles].sum(axis=-1, keepdims=True) for styles in columns.values()
    ]
    return [[_picked(cell, picker) for cell in cells] for picker in pickers]


def _picked(cell, picker):
    picked = PairedCell.__new__(PairedCell)
    picked.means = tuple(map(picker, cell.means))
    picked.counts = cell.counts
    picked.pairs = tuple(map(picker, cell.pairs))
    return picked


def _covariance(cells: Sequence[PairedCell]) -> float:
    """The covariance of one template's values of one metric."""
    number = len(cells)
    share = 1 - 1 / number
    centred = [np.array([cell.means[run] for cell in cells]) for run in (0, 1)]
    centred = [means - means.mean(axis=0) for means in centred]
    linear, known = 0.0, []
    width = centred[0].shape[1]
    total, weighted = np.zeros((width, width)), np.zeros((width, width))
    for cell, first, second in zip(cells, *centred, strict=True):
        pairs = len(cell.pairs[0])
        if pairs < 2:
            continue
        a, b = (rows - rows.mean(axis=0) for rows in cell.pairs)
        weight = pairs / (cell.counts[0] * cell.counts[1])
        linear += weight * float((a @ first) @ (b @ second)) / (pairs - 1)
        matrix = a.T @ b / (pairs - 1)
        total += matrix
        weighted += weight * matrix
        known.append((weight, a, b))
    if not known:
        return 0.0
    weights = np.array([weight for weight, _, _ in known])
    own = np.array([np.sum((a @ a.T) * (b @ b.T)) / (len(a) - 1) ** 2 for _, a, b in known])
    cross = np.array([np.sum((a @ total) * b) / (len(a) - 1) for _, a, b in known])
    others = (cross - own) / max(len(known) - 1, 1)
    between = float(np.sum(weighted**2) - weights**2 @ own)
    second = 2 * share**2 * float(weights**2 @ others) + 2 / number**2 * between
    return (4 * linear - second) / number**2
