"""Computes the change in debiased Full Gen Bias over the turns of the same conversations.

V_t is the value in turn t. A change over turns is a weighted sum Σ_t w_t V_t, with weights that sum to 0. The change
equals L − E. L = Σ_{w_t>0} w_t V_t covers the late turns, and E = Σ_{w_t<0} |w_t| V_t covers the early turns.

Because Full Gen Bias is a sum of variances over styles, E is the Full Gen Bias of concatenated vectors: the style
vectors of all early turns, each multiplied by √|w_t|. The same is true of L and the late turns. E and L come from the
same conversations, so their covariance can be computed like the covariance of two runs with the same prompts (see
`gen_bias_covariance.py`).
"""

from collections.abc import Mapping, Sequence

import numpy as np

from hb_metrics.paired_changes.gen_bias_covariance import CellReplies, gen_bias_change, gen_bias_covariances
from hb_metrics.paired_changes.paired_change import PairedChange

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
