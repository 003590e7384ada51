"""How far chance moves a mean bias value: other replies to the same terms and templates.

The mean bias value is a sum over replies, each times a vector that depends on its descriptor; where other replies might
give other directions, it is so of the replies that gave them too, which is exact up to products of errors. So
its variance is that of the sums in the cells, and two runs' replies to the same prompts are paired. Descriptors are
given, as for Gen Bias: few of them have most of the bias, and those of a run say little about others.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import stats

from hb_metrics.statistics.bias_values import BATCH_SIZE, DescriptorKey, StyleRows

# Of the quantile: a variance that is known more roughly is not worth an interval.
MIN_FREEDOM = 5


class RepliesOf(NamedTuple):
    """The replies of a run.

    Attributes:
        styles: [replies, styles] style vectors, also in files.
        ids: [replies] their ids: of two runs the same for the same prompt.
        descriptors: [replies] the descriptor in each reply's prompt.
        templates: [replies] the template of its prompt.
    """

    styles: np.ndarray | StyleRows
    ids: Sequence[str]
    descriptors: Sequence[DescriptorKey]
    templates: Sequence[str]


class Sum(NamedTuple):
    """A sum over replies.

    Attributes:
        replies: The replies.
        vectors: Descriptor → what its mean style vector is multiplied by; the sum is over descriptors.
    """

    replies: RepliesOf
    vectors: Mapping[DescriptorKey, np.ndarray]


class _Cell(NamedTuple):
    """What each reply of a cell adds to a sum."""

    ids: np.ndarray
    amounts: np.ndarray


def half_width(sums: Sequence[Sum], confidence_level: float) -> float | None:
    """Half the width of the interval of a sum of sums, with a t-quantile of Satterthwaite's degrees of freedom.

    Args:
        sums: Of one run or more, whose replies to the same prompts go together.
        confidence_level: Of the interval.

    Returns:
        `None`: half or more of the cells have a single reply, or the variance is known too roughly.
    """
    parts = [_cells(each) for each in _joined(sums)]
    variances, freedoms, num_single = [], [], 0
    for key in {key for part in parts for key in part}:
        cells = [part[key] for part in parts if key in part]
        if min(len(cell.ids) for cell in cells) < 2:
            num_single += 1
            continue
        variance = sum(_covariance(cell.amounts, cell.amounts) for cell in cells)
        for one, other in combinations(cells, 2):
            _, *rows = np.intersect1d(one.ids, other.ids, return_indices=True)
            if len(rows[0]) > 1:
                variance += 2 * _covariance(one.amounts[rows[0]], other.amounts[rows[1]])
        variances.append(max(variance, 0.0))
        freedoms.append(min(len(cell.ids) for cell in cells) - 1)
    if num_single >= len(variances) or not any(variances):
        return None
    known = np.array(variances)
    freedom = known.sum() ** 2 / (known**2 / freedoms).sum()
    if freedom < MIN_FREEDOM:
        return None
    # Cells of a single reply have the variance of the others, times as many replies as those have.
    single = num_single * float((known * (np.array(freedoms) + 1)).mean())
    return float(stats.t.ppf((1 + confidence_level) / 2, freedom)) * float(np.sqrt(known.sum() + single))


def shared_noise(one: RepliesOf, other: RepliesOf) -> dict[DescriptorKey, float]:
    """Descriptor → the covariance of the two runs' m_d, summed over styles, which replies to the same prompts bring."""
    _, *pairs = np.intersect1d(np.asarray(one.ids), np.asarray(other.ids), return_indices=True)
    sizes = [Counter(zip(replies.descriptors, replies.templates, strict=True)) for replies in (one, other)]
    templates = [Counter(descriptor for descriptor, _ in cells) for cells in sizes]
    cells: dict[tuple[DescriptorKey, str], list[tuple[int, int]]] = {}
    for row, other_row in zip(*(rows.tolist() for rows in pairs), strict=True):
        cells.setdefault((one.descriptors[row], one.templates[row]), []).append((row, other_row))
    styles = [np.asarray(replies.styles[0 : len(replies.ids)]) for replies in (one, other)]
    noise: dict[DescriptorKey, float] = {}
    for key, rows in cells.items():
        if len(rows) < 2:
            continue
        first, second = (
            of_run[members].astype(float) for of_run, members in zip(styles, np.transpose(rows), strict=True)
        )
        product = float(np.sum((first - first.mean(axis=0)) * second)) / (len(rows) - 1)
        weight = len(rows) / (sizes[0][key] * sizes[1][key]) / (templates[0][key[0]] * templates[1][key[0]])
        noise[key[0]] = noise.get(key[0], 0.0) + weight * product
    return noise


def _covariance(one: np.ndarray, other: np.ndarray) -> float:
    """Of two sums over the same replies."""
    return len(one) / (len(one) - 1) * float((one - one.mean()) @ (other - other.mean()))


def _joined(sums: Sequence[Sum]) -> list[Sum]:
    """The sums with one for each run's replies."""
    joined: dict[int, Sum] = {}
    for replies, vectors in sums:
        known = dict(joined[id(replies)].vectors) if id(replies) in joined else {}
        for key, vector in vectors.items():
            known[key] = known[key] + vector if key in known else vector
        joined[id(replies)] = Sum(replies, known)
    return list(joined.values())


def _cells(summed: Sum) -> dict[tuple[DescriptorKey, str], _Cell]:
    """The cells whose descriptors are in the sum."""
    replies = summed.replies
    rows: dict[tuple[DescriptorKey, str], list[int]] = {}
    for row, key in enumerate(zip(replies.descriptors, replies.templates, strict=True)):
        if key[0] in summed.vectors:
            rows.setdefault(key, []).append(row)
    templates: dict[DescriptorKey, int] = {}
    for descriptor, _ in rows:
        templates[descriptor] = templates.get(descriptor, 0) + 1
    products = np.zeros(len(replies.ids))
    zero = np.zeros(replies.styles.shape[1])
    for first in range(0, len(products), BATCH_SIZE):
        part = slice(first, min(first + BATCH_SIZE, len(products)))
        vectors = np.stack([summed.vectors.get(key, zero) for key in replies.descriptors[part]])
        products[part] = np.einsum("ij,ij->i", np.asarray(replies.styles[part], dtype=np.float64), vectors)
    ids = np.asarray(replies.ids)
    return {
        key: _Cell(ids[members], products[members] / (len(members) * templates[key[0]]))
        for key, members in rows.items()
    }
