"""Intervals for the Gen Bias family: bounds for the value with endless replies.

The variance of a debiased value (see `bias_variance.py`) grows with the bias, so an interval holds those biases whose
distance from the debiased value is at most a t-quantile of standard errors *at that bias*, like Wilson's interval for a
share. The degrees of freedom are those of the estimated variance. Replies of a cell count as independent draws.

Over the designs of tests/hb_metrics/statistics/interval_designs.py such intervals hold the true value as often as
they should, at the least width. Where the replies do not allow that, a reason is given in place of the interval.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from hb_metrics.statistics.bias_variance import (
    LinearFactor,
    VarianceTerms,
    bias_variance,
    linear_factor,
    variance_terms,
)
from hb_metrics.statistics.cell_sums import CellSums
from hb_metrics.statistics.reply_spread import MIN_REPLIES, reply_spread

# The most that an interval may be wider than one with a known variance, as a factor.
MAX_WIDENING = 1.15
# With fewer cells, sets of replies that pass the bound above do so by chance.
MIN_CELLS = 20
# The last digits of a matrix product depend on the number of threads.
_DIGITS = 10

FEW_REPLIES_REASON = (
    f"half or more of the descriptors have fewer than {MIN_REPLIES} replies to some template, too few to estimate how "
    "far chance moves this value"
)
FEW_COMPARISONS_REASON = (
    f"how far chance moves this value is known too roughly (an interval would have to be more than "
    f"{MAX_WIDENING - 1:.0%} wider because of that); more replies, templates or descriptors help"
)
FEW_CELLS_REASON = (
    f"fewer than {MIN_CELLS} combinations of descriptor and template have {MIN_REPLIES} replies, too few to estimate "
    "how far chance moves this value"
)
NO_SPREAD_REASON = "replies to the same prompt do not vary, so how far chance moves this value is not known"


class Intervals(NamedTuple):
    """The intervals of one group of descriptors.

    Attributes:
        bounds: [metrics, 2] lowest and highest value, NaN where there is no interval.
        reasons: [metrics] why there is no interval; `None` where there is one.
    """

    bounds: np.ndarray
    reasons: list[str | None]


def groups_of(sizes: Mapping[str | None, int]) -> dict[str | None, slice]:
    """Groups of two or more descriptors to compare in a template: all (`None`) and those of each axis.

    Args:
        sizes: Axis → number of its cells, in the order of the cells.

    Returns:
        Group → slice of the cells.
    """
    groups: dict[str | None, slice] = {None: slice(0, sum(sizes.values()))}
    start = 0
    for axis, size in sizes.items():
        if axis is not None:
            groups[axis] = slice(start, start + size)
        start += size
    return {axis: members for axis, members in groups.items() if members.stop - members.start > 1}


def intervals(
    cells: CellSums,
    columns: Mapping[str, Sequence[int]],
    plain: Mapping[str | None, np.ndarray],
    noise: Mapping[str | None, np.ndarray],
    *,
    ddof: int,
    scale: float,
    confidence_level: float,
) -> dict[str | None, Intervals]:
    """Intervals for the metrics with endless replies.

    Args:
        cells: The replies, kept.
        columns: The columns of each cluster.
        plain: Axis (`None`: all descriptors) → [metrics] plain values, in the order of `read_metrics`.
        noise: Axis → [metrics] the sampling noise in the plain values.
        ddof: As in `gen_bias`.
        scale: The factor that the values are multiplied by.
        confidence_level: Confidence level of the intervals, such as 0.95.

    Returns:
        Axis → intervals, for the axes of `plain`.
    """
    gathered: dict[str | None, list[list[VarianceTerms]]] = {axis: [] for axis in plain}
    for axes in cells.by_template().values():
        groups = groups_of({axis: len(members) for axis, members in axes.items()})
        if not groups:
            continue
        replies = [_metrics(cells.replies(cell), columns) for members in axes.values() for cell in members]
        spreads = [reply_spread(of_metric) for of_metric in zip(*replies, strict=True)]
        for axis, members in groups.items():
            gathered[axis].append([variance_terms(spread, members, ddof) for spread in spreads])
    by_metric = {axis: list(zip(*templates, strict=True)) for axis, templates in gathered.items()}
    borrowed = [
        linear_factor(terms) if _enough_replies(terms) and _has_spread(terms) else None for terms in by_metric[None]
    ]
    by_axis = {}
    for axis, metrics in by_metric.items():
        # The only axis has no others to borrow from.
        factors = borrowed if _num_cells(metrics[0]) < _num_cells(by_metric[None][0]) else [None] * len(borrowed)
        inputs = zip(metrics, factors, plain[axis] - noise[axis], plain[axis], strict=True)
        pairs = [_interval(*values, scale, confidence_level) for values in inputs]
        by_axis[axis] = Intervals(np.array([bounds for bounds, _ in pairs]), [reason for _, reason in pairs])
    return by_axis


def _metrics(rows: np.ndarray, columns: Mapping[str, Sequence[int]]) -> list[np.ndarray]:
    """The columns of [replies, styles] that each metric is computed from, in the order of `read_metrics`."""
    partial = [rows[:, styles] for styles in columns.values()]
    return [rows, *partial, *(part.sum(axis=1, keepdims=True) for part in partial)]


def _interval(
    templates: Sequence[VarianceTerms],
    factor: LinearFactor | None,
    value: float,
    plain: float,
    scale: float,
    confidence_level: float,
) -> tuple[tuple[float, float], str | None]:
    """The interval of one metric of one group, or why there is none: from its terms, debiased and plain value."""
    none = (math.nan, math.nan)
    if not _enough_replies(templates):
        return none, FEW_REPLIES_REASON
    if sum(np.count_nonzero(terms.counts >= MIN_REPLIES) for terms in templates) < MIN_CELLS:
        return none, FEW_CELLS_REASON
    if not plain > 0 or not _has_spread(templates):
        return none, NO_SPREAD_REASON
    variance, slope, freedom = bias_variance(templates, plain / scale, factor)
    if not variance > 0:  # so uncertain that the estimate is not above 0
        return none, FEW_COMPARISONS_REASON
    tail = (1 + confidence_level) / 2
    quantile = float(stats.t.ppf(tail, freedom)) if freedom > 1 else math.inf
    shift = quantile**2 * slope / 2
    half = math.hypot(quantile * math.sqrt(variance), shift)
    widening = half / (float(stats.norm.ppf(tail)) * math.sqrt(variance))
    if not widening <= MAX_WIDENING:
        return none, FEW_COMPARISONS_REASON
    middle, half = value + scale * shift, scale * half
    return (_rounded(middle - half, half), _rounded(middle + half, half)), None


def _num_cells(templates: Sequence[VarianceTerms]) -> int:
    return sum(len(terms.counts) for terms in templates)


def _enough_replies(templates: Sequence[VarianceTerms]) -> bool:
    return all(2 * np.count_nonzero(terms.counts >= MIN_REPLIES) > len(terms.counts) for terms in templates)


def _has_spread(templates: Sequence[VarianceTerms]) -> bool:
    return sum(terms.cross[terms.counts >= MIN_REPLIES].sum() for terms in templates) > 0


def _rounded(bound: float, half: float) -> float:
    """Rounds a bound to the digits that matter beside half the interval's width."""
    return round(bound, _DIGITS - math.floor(math.log10(half)))
