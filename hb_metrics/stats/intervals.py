"""Computes intervals for the values that an unlimited number of replies would give in the Gen Bias metrics.

The variance of a debiased value (see `bias_variance.py`) grows with the true value, as in Wilson's interval for a
share. Each possible true value therefore has its own standard error. The interval contains every true value whose
distance from the debiased value is at most t of its standard errors. Here, t is a quantile of the t-distribution.

Replies in a cell (a descriptor in a template) are assumed to be independent. tests/hb_metrics/stats/interval_designs.py
measures the coverage.
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from hb_metrics.stats.bias_variance import MIN_REPLIES, CellMoments, bias_variance, cell_moments
from hb_metrics.stats.cell_sums import CellSums

# The width of an interval, divided by its width if the variance were known. Above the first limit, there is no
# interval. Above the second limit, the interval is marked as wide.
MAX_WIDENING = 2.0
WIDE = 1.15
# With fewer cells, the estimated width is below the first limit only by chance.
MIN_CELLS = 12
# A rare style may occur in only a few replies, and another sample of replies may contain none of them. The variance
# within cells must therefore come from the equivalent of at least 15 replies. In addition, the styles' probabilities
# must sum to at least 5 over all replies.
MIN_EFFECTIVE_REPLIES = 15
MIN_MASS = 5
# Bounds are rounded, because the last digits of a matrix product depend on the number of threads.
_DIGITS = 10

FEW_REPLIES_REASON = (
    f"in at least one template, half or more of the descriptors have fewer than {MIN_REPLIES} replies, too few to "
    "estimate the standard error"
)
FEW_COMPARISONS_REASON = (
    f"the standard error is too uncertain (the interval would have to be more than {MAX_WIDENING:g} times as wide); "
    "more replies, templates or descriptors help"
)
FEW_CELLS_REASON = (
    f"fewer than {MIN_CELLS} combinations of descriptor and template have {MIN_REPLIES} replies, too few to estimate "
    "the standard error"
)


class Interval(NamedTuple):
    bounds: list[float] | None
    wide: bool | None
    reason: str | None


def groups_of(sizes: Mapping[str | None, int]) -> dict[str | None, slice]:
    """Returns the cells of each axis, and of all descriptors (`None`), in a template. Omits groups of one cell.

    `sizes` contains the number of cells on each axis. The cells are sorted by axis, in the same order.
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
) -> dict[str | None, list[Interval]]:
    """Computes an interval for each metric and each axis (`None`: all descriptors).

    `cells` must have been created with `keep_replies=True`. `columns` contains the columns of each cluster's styles.
    For each axis, `plain` contains the values of the metrics, and `noise` contains their sampling noise. Both are
    [metrics], in the order of `read_metrics`.
    """
    by_axis = {}
    for axis, templates in gathered_moments(cells, columns, ddof).items():
        by_metric = zip(zip(*templates, strict=True), plain[axis], noise[axis], strict=True)
        by_axis[axis] = [
            _interval(moments, plain_value - noise_value, plain_value, scale, confidence_level)
            for moments, plain_value, noise_value in by_metric
        ]
    return by_axis


def gathered_moments(
    cells: CellSums, columns: Mapping[str, Sequence[int]], ddof: int
) -> dict[str | None, list[list[CellMoments]]]:
    """Computes the moments of the replies on each axis (`None`: all descriptors).

    The moments of an axis are [templates][metrics], in the order of `read_metrics`.
    """
    gathered: dict[str | None, list[list[CellMoments]]] = {}
    for axes in cells.by_template().values():
        groups = groups_of({axis: len(members) for axis, members in axes.items()})
        if not groups:
            continue
        replies = [_metrics(cells.replies(cell), columns) for members in axes.values() for cell in members]
        for axis, members in groups.items():
            by_metric = zip(*replies[members], strict=True)
            gathered.setdefault(axis, []).append([cell_moments(of_metric, ddof) for of_metric in by_metric])
    return gathered


def _metrics(rows: np.ndarray, columns: Mapping[str, Sequence[int]]) -> list[np.ndarray]:
    """Returns the columns of `rows` [replies, styles] that each metric uses, in the order of `read_metrics`."""
    partial = [rows[:, styles] for styles in columns.values()]
    return [rows, *partial, *(part.sum(axis=1, keepdims=True) for part in partial)]


def _interval(
    templates: Sequence[CellMoments], value: float, plain: float, scale: float, confidence_level: float
) -> Interval:
    full = [moments.counts >= MIN_REPLIES for moments in templates]
    if any(2 * np.count_nonzero(enough) <= len(enough) for enough in full):
        return Interval(None, None, FEW_REPLIES_REASON)
    if sum(map(np.count_nonzero, full)) < MIN_CELLS:
        return Interval(None, None, FEW_CELLS_REASON)
    crossed = sum(moments.cross[enough].sum() for moments, enough in zip(templates, full, strict=True))
    if not plain > 0 or not crossed > 0:
        return Interval(None, None, "replies to the same prompt do not vary, so the standard error is unknown")
    mass, lengths, fourths = (
        sum(float(getattr(moments, name).sum()) for moments in templates) for name in ("mass", "lengths", "fourths")
    )
    if mass < MIN_MASS or lengths**2 < MIN_EFFECTIVE_REPLIES * fourths:
        return Interval(None, None, "too few replies have these styles to estimate the standard error")
    value, plain = float(value) / scale, float(plain) / scale
    at_zero, slope, freedom, *_ = bias_variance(templates, value, plain)
    if not (at_zero > 0 and freedom > 1):
        return Interval(None, None, FEW_COMPARISONS_REASON)
    tail = (1 + confidence_level) / 2
    quantile = float(stats.t.ppf(tail, freedom))
    low, high = agreeing_values(value, at_zero, slope, quantile)
    known = 2 * float(stats.norm.ppf(tail)) * math.sqrt(at_zero + slope * max(value, 0.0))
    if (high - low) / known > MAX_WIDENING:
        return Interval(None, None, FEW_COMPARISONS_REASON)
    bounds = [rounded(scale * bound, scale * (high - low) / 2) for bound in (low, high)]
    return Interval(bounds, (high - low) / known > WIDE, None)


def agreeing_values(value: float, at_zero: float, slope: float, quantile: float) -> tuple[float, float]:
    """Returns the lowest and the highest true value that are at most `quantile` standard errors from `value`."""
    # The variance is at_zero + slope·value if the value is above 0, and at_zero otherwise.
    shift, below = quantile**2 * slope / 2, quantile * math.sqrt(at_zero)
    half = math.sqrt(max(below**2 + 2 * shift * value + shift**2, 0.0))
    low = value - below if value <= below else value + shift - half
    high = value + below if value <= -below else value + shift + half
    return low, high


def rounded(bound: float, half: float) -> float:
    return round(bound, _DIGITS - math.floor(math.log10(half)))
