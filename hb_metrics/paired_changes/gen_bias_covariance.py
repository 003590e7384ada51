"""Computes changes in debiased Gen Bias between two runs, or between two turns, from the replies of both.

V_t is the value in turn t of the same conversations. A change over turns is a weighted sum Σ_t w_t V_t, with weights
that sum to 0. The change equals L − E. L = Σ_{w_t>0} w_t V_t covers the late turns, and E = Σ_{w_t<0} |w_t| V_t covers
the early turns.

Because Full Gen Bias is a sum of variances over styles, E is the Full Gen Bias of concatenated vectors: the style
vectors of all early turns, each multiplied by √|w_t|. The same is true of L and the late turns. E and L come from the
same conversations, so their covariance can be computed like the covariance of two runs with the same prompts.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from hb_metrics.paired_changes.paired_change import PairedChange, change_from_covariance
from hb_metrics.stats.u_statistic import Covariance, Paired, mean_covariance, template_covariances


class CellReplies(NamedTuple):
    """A run's style vectors by cell.

    Attributes:
        vectors: [replies, styles]
        ids: [replies] The ids of the prompts. The same prompt has the same id in both runs.
        cells: The rows of each cell: a template, an axis and a descriptor.
    """

    vectors: np.ndarray
    ids: np.ndarray
    cells: Mapping[tuple[str, str | None, str], Sequence[int]]


def gen_bias_covariances(
    before: CellReplies, after: CellReplies, columns: Mapping[str, Sequence[int]]
) -> dict[str | None, list[Covariance]]:
    """Computes the covariance matrices of two runs' debiased Gen Bias values, without scaling the values.

    Replies to the same prompt are paired. Prompts that only one run answered add independent parts. `columns` contains
    the columns of each cluster's styles.

    Returns:
        The matrices of the metrics for all descriptors (key `None`), in the order of `read_metrics`, and the matrix of
        Full Gen Bias for each axis.
    """
    gathered = template_covariances(_templates(before, after), columns)
    return {
        axis: [mean_covariance(of_metric) for of_metric in zip(*templates, strict=True)]
        for axis, templates in gathered.items()
    }


def gen_bias_change(
    first: float, second: float, covariance: Covariance, scale: float, confidence_level: float
) -> PairedChange:
    """Computes the change in a debiased value, which is multiplied by `scale`."""
    matrix, freedom = covariance.matrix * scale**2, covariance.freedom((-1, 1))
    return change_from_covariance(first, second, matrix, freedom, confidence_level)


def _templates(before: CellReplies, after: CellReplies) -> Iterator[tuple[Counter[str | None], list[Paired]]]:
    keys = sorted(before.cells.keys() & after.cells.keys(), key=lambda key: (key[0], key[1] or "", key[2]))
    for _, members in groupby(keys, key=lambda key: key[0]):
        cells = list(members)
        first, second = ([np.asarray(run.cells[key]) for key in cells] for run in (before, after))
        shared, other_shared = [], []
        for rows, other_rows in zip(first, second, strict=True):
            _, places, other_places = np.intersect1d(before.ids[rows], after.ids[other_rows], return_indices=True)
            shared.append(rows[places])
            other_shared.append(other_rows[other_places])
        one, other = _vectors(before, first), _vectors(after, second)
        both = Paired(_vectors(before, shared), _vectors(after, other_shared), _counts(shared))
        yield (
            Counter(axis for _, axis, _ in cells),
            [Paired(one, one, _counts(first)), both, Paired(other, other, _counts(second))],
        )


def _vectors(run: CellReplies, rows: Sequence[np.ndarray]) -> np.ndarray:
    return run.vectors[np.concatenate(rows)].astype(float)


def _counts(rows: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([len(of_cell) for of_cell in rows])


SCALE = 1000  # the same as for Gen Bias


def turn_changes(
    vectors: Sequence[np.ndarray],
    cells: Sequence[tuple[str, str | None, str]],
    values: Mapping[str | None, Sequence[float]],
    confidence_level: float,
) -> list[dict[str | None, PairedChange]]:
    """Computes the changes in debiased Full Gen Bias over turns, with intervals.

    Args:
        vectors: For each turn, the style vectors of the replies: [conversations, styles].
        cells: [conversations] The template, axis and descriptor of each conversation.
        values: The debiased Full Gen Bias (×1000) of each turn, by axis. The key `None` stands for all descriptors.
        confidence_level: The confidence level of the intervals.

    Returns:
        Two dicts by axis: the change from the first turn to the last, and the slope per turn of a least-squares line.
        For the slope, `first` is E and `second` is L. The key `None` stands for all descriptors.
    """
    turns = np.arange(len(vectors)) - (len(vectors) - 1) / 2
    ends = np.zeros(len(vectors))
    ends[[0, -1]] = -1, 1
    return [
        _weighted_change(vectors, cells, values, weights, confidence_level)
        for weights in (ends, turns / float(turns @ turns))
    ]


def _weighted_change(
    vectors: Sequence[np.ndarray],
    cells: Sequence[tuple[str, str | None, str]],
    values: Mapping[str | None, Sequence[float]],
    weights: np.ndarray,
    confidence_level: float,
) -> dict[str | None, PairedChange]:
    sides = np.maximum(-weights, 0), np.maximum(weights, 0)
    scaled: list[list[np.ndarray]] = [[], []]
    for of_side, weights_of_side in zip(scaled, sides, strict=True):
        for weight, of_turn in zip(weights_of_side, vectors, strict=True):
            if weight > 0:
                of_side.append(np.sqrt(weight) * of_turn.astype(float))
    rows: dict[tuple[str, str | None, str], list[int]] = {}
    for row, key in enumerate(cells):
        rows.setdefault(key, []).append(row)
    early, late = (CellReplies(np.concatenate(of_side, axis=1), np.arange(len(cells)), rows) for of_side in scaled)
    changes = {}
    for axis, (covariance,) in gen_bias_covariances(early, late, {}).items():
        first, second = (float(side @ np.asarray(values[axis])) for side in sides)
        changes[axis] = gen_bias_change(first, second, covariance, SCALE, confidence_level)
    return changes
