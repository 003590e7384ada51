"""Computes intervals for debiased Gen Bias, and for its changes between two runs or two turns.

An interval is for the value that an unlimited number of replies would give.

The variance of a debiased value (see `u_statistic.py`) grows with the true value, as in Wilson's interval for a share.
Each possible true value therefore has its own standard error. The interval contains every true value whose distance
from the debiased value is at most t of its standard errors. Here, t is a quantile of the t-distribution.

Replies in a cell (a descriptor in a template) are assumed to be independent. docs/coverage.md shows the coverage.

A pilot run predicts the half-width of an interval in a run with more replies, templates or terms. The variance of a
debiased value is the sum of two parts, of which only the first grows with the value. Let a run have N replies per cell,
D terms and T templates. The first part is proportional to 1 / (N D T). If all cells have the same variance, the second
part is proportional to P² / (N (N − 1) D T) + P / (N² D² T), where P = 1 − 1/D.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from hb_metrics.stats.cell_sums import CellSums
from hb_metrics.stats.changes import PairedChange, change_from_covariance
from hb_metrics.stats.clusters import Interval, quantile
from hb_metrics.stats.u_statistic import MIN_REPLIES, Covariance, Paired, mean_covariance, template_covariances

# A rare style may occur in only a few replies, and another sample of replies may contain none of them. The variance
# within cells must therefore come from the equivalent of this number of replies.
MIN_EFFECTIVE_REPLIES = 15
# Bounds are rounded, because the last digits of a matrix product depend on the number of threads.
_DIGITS = 10
SCALE = 1000  # as in the tables of the paper

FEW_REPLIES_REASON = (
    f"in at least one template, no descriptor has {MIN_REPLIES} replies, too few to estimate the standard error"
)
FEW_VARIED_REASON = (
    f"the variance within descriptors comes from the equivalent of fewer than {MIN_EFFECTIVE_REPLIES} replies, too few "
    "to estimate the standard error"
)
ROUGH_REASON = "the standard error is too uncertain; more replies, templates or descriptors help"
NO_VARIATION_REASON = "replies to the same prompt do not vary, so the standard error is unknown"


def intervals(
    cells: CellSums,
    plain: Mapping[str | None, np.ndarray],
    noise: Mapping[str | None, np.ndarray],
    *,
    ddof: int,
    scale: float,
    confidence_level: float,
) -> dict[str | None, list[Interval]]:
    """Computes an interval for each metric and each axis (`None`: all descriptors).

    `cells` must have been created with `keep_replies=True`. For each axis, `plain` contains the values of the metrics,
    and `noise` contains their sampling noise. Both are [metrics], in the order of `read_metrics`.
    """
    by_axis = {}
    for axis, templates in template_covariances(run_templates(cells), cells.columns, ddof).items():
        by_metric = zip(zip(*templates, strict=True), plain[axis], noise[axis], strict=True)
        by_axis[axis] = [
            value_interval(of_metric, plain_value - noise_value, plain_value, confidence_level, scale)
            for of_metric, plain_value, noise_value in by_metric
        ]
    return by_axis


def value_interval(
    templates: Sequence[Covariance], value: float, plain: float, confidence_level: float, scale: float = 1.0
) -> Interval:
    """Computes the interval of a debiased value from its variances in the templates.

    The debiased value and the plain value are multiplied by `scale`.
    """
    if any(of_template.counts.max() < MIN_REPLIES for of_template in templates):
        return Interval(None, FEW_REPLIES_REASON)
    variance = mean_covariance(templates)
    if not (plain > 0 and variance.effective > 0):
        return Interval(None, NO_VARIATION_REASON)
    if variance.effective < MIN_EFFECTIVE_REPLIES:
        return Interval(None, FEW_VARIED_REASON)
    at_zero, freedom = float(variance.at_zero[0, 0]), variance.freedom()
    if not (at_zero > 0 and freedom >= 1):
        return Interval(None, ROUGH_REASON)
    value, plain = float(value) / scale, float(plain) / scale
    slope = variance_slope(variance, value, plain)
    low, high = agreeing_values(value, at_zero, slope, quantile(confidence_level, freedom))
    return Interval(rounded(scale * low, scale * high), None)


def variance_slope(variance: Covariance, value: float, plain: float) -> float:
    """Returns by how much the variance of a value's estimate increases per unit of the true value.

    The unbiased estimate of this increase is useless if the value is near 0. In this case, the plug-in estimate of the
    variance's part that is linear in the value is divided by the plain value, which contains sampling noise. This
    assumes that replies vary as much along the true differences between descriptors as along those between sample
    means.
    """
    by_plug_in = float(variance.plug_in_cells[:, 0, 0].sum()) / plain
    if value <= 0:
        return by_plug_in
    weight = value**2 / (value**2 + 4 * float(variance.at_zero[0, 0]))
    return (1 - weight) * by_plug_in + weight * max(float(variance.linear[0, 0]), 0.0) / value


def agreeing_values(value: float, at_zero: float, slope: float, t: float) -> tuple[float, float]:
    """Returns the lowest and the highest true value that are at most `t` standard errors from `value`."""
    # The variance is at_zero + slope·value if the value is above 0, and at_zero otherwise.
    shift, below = t**2 * slope / 2, t * math.sqrt(_at_least(at_zero, value))
    half = math.sqrt(max(below**2 + 2 * shift * value + shift**2, 0.0))
    low = value - below if value <= below else value + shift - half
    high = value + below if value <= -below else value + shift + half
    return low, high


def _at_least(at_zero: float, value: float) -> float:
    """Returns a variance that is not far too small for an estimate below 0, which is noise: no true value is below 0.

    If few replies differ from all others, their variance may seem to be much smaller.
    """
    return max(at_zero, min(value, 0.0) ** 2 / 2)


def rounded(low: float, high: float) -> list[float]:
    """Rounds the bounds of an interval to the same number of decimal places."""
    largest = max(abs(low), abs(high))
    digits = _DIGITS - math.floor(math.log10(largest)) if largest else 0
    return [round(low, digits), round(high, digits)]


def run_templates(cells: CellSums) -> Iterator[tuple[dict[str | None, int], list[Paired]]]:
    """Yields the sizes of axes, and the replies, of each template, as `template_covariances` takes them."""
    for axes in cells.by_template().values():
        replies = [cells.replies(cell) for members in axes.values() for cell in members]
        sizes = {axis: len(members) for axis, members in axes.items()}
        yield sizes, [Paired(np.concatenate(replies)[None], _counts(replies))]


class Size(NamedTuple):
    replies: float
    templates: int
    terms: int


class ValueVariance(NamedTuple):
    """A run's debiased value, and its variance, which is `at_zero` + `slope` × (the true value, if it is above 0)."""

    value: float
    at_zero: float
    slope: float
    freedom: float
    size: Size


def value_variance(templates: Sequence[Covariance], value: float, plain: float) -> ValueVariance:
    variance, number = mean_covariance(templates), len(templates)
    size = Size(float(variance.counts.mean()), number, round(len(variance.counts) / number))
    slope = variance_slope(variance, value, plain)
    at_zero = _at_least(float(variance.at_zero[0, 0]), value)
    return ValueVariance(value, at_zero, slope, variance.freedom(), size)


def at_size(pilot: ValueVariance, size: Size) -> ValueVariance:
    before = pilot.size
    cells = before.templates * before.terms / (size.templates * size.terms)
    return ValueVariance(
        pilot.value,
        pilot.at_zero * _at_zero(size) / _at_zero(before),
        pilot.slope * cells * before.replies / size.replies,
        pilot.freedom * (size.replies - 1) / (before.replies - 1) / cells,
        size,
    )


def _at_zero(size: Size) -> float:
    replies, templates, terms = size
    share = 1 - 1 / terms
    return (share**2 / (replies * (replies - 1)) + share / replies**2 / terms) / terms / templates


def half_width(run: ValueVariance, confidence_level: float) -> float | None:
    """Computes the half-width of the interval for a run of size `run.size`, or `None` if there is no interval."""
    if run.size.replies < MIN_REPLIES or math.prod(run.size) < MIN_EFFECTIVE_REPLIES or run.freedom < 1:
        return None
    t = quantile(confidence_level, run.freedom)
    low, high = agreeing_values(max(run.value, 0.0), run.at_zero, run.slope, t)
    return (high - low) / 2


def change_half_width(run: ValueVariance, confidence_level: float) -> float | None:
    """As `half_width`, for the change between two such runs with independent replies."""
    if half_width(run, confidence_level) is None:
        return None
    variance = 2 * (run.at_zero + run.slope * max(run.value, 0.0))
    return quantile(confidence_level, 2 * run.freedom) * math.sqrt(variance)


CellKey = tuple[str, str | None, str]  # a template, an axis and a descriptor


class CellReplies(NamedTuple):
    """A run's style vectors by cell.

    Attributes:
        vectors: [replies, styles]
        ids: [replies] The ids of the prompts. The same prompt has the same id in both runs.
        cells: The rows of each cell.
    """

    vectors: np.ndarray
    ids: np.ndarray
    cells: Mapping[CellKey, Sequence[int]]


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
    gathered = template_covariances(_paired_templates(before, after), columns)
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


def _paired_templates(before: CellReplies, after: CellReplies) -> Iterator[tuple[Counter[str | None], list[Paired]]]:
    keys = sorted(before.cells.keys() & after.cells.keys(), key=lambda key: (key[0], key[1] or "", key[2]))
    for _, members in groupby(keys, key=lambda key: key[0]):
        cells = list(members)
        first, second = ([np.asarray(run.cells[key]) for key in cells] for run in (before, after))
        shared, other_shared = [], []
        for rows, other_rows in zip(first, second, strict=True):
            _, places, other_places = np.intersect1d(before.ids[rows], after.ids[other_rows], return_indices=True)
            shared.append(rows[places])
            other_shared.append(other_rows[other_places])
        pairs = [[(before, first)], [(before, shared), (after, other_shared)], [(after, second)]]
        yield Counter(axis for _, axis, _ in cells), [_paired(pair) for pair in pairs]


def _paired(runs: Sequence[tuple[CellReplies, Sequence[np.ndarray]]]) -> Paired:
    vectors = np.stack([run.vectors[np.concatenate(rows)].astype(float) for run, rows in runs])
    return Paired(vectors, _counts(runs[0][1]))


def _counts(rows: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([len(of_cell) for of_cell in rows])


def turn_changes(
    first: np.ndarray,
    last: np.ndarray,
    cells: Sequence[CellKey],
    values: Mapping[str | None, tuple[float, float]],
    confidence_level: float,
) -> dict[str | None, PairedChange]:
    """Computes the changes in debiased Full Gen Bias (×1000) from the first turn to the last, with intervals.

    Replies of the same conversation are paired. The key `None` stands for all descriptors.

    Args:
        first: The style vectors of the replies in the first turn: [conversations, styles].
        last: The same for the last turn.
        cells: [conversations] The template, axis and descriptor of each conversation.
        values: The debiased Full Gen Bias (×1000) of both turns, by axis.
        confidence_level: The confidence level of the intervals.
    """
    rows: dict[CellKey, list[int]] = {}
    for row, key in enumerate(cells):
        rows.setdefault(key, []).append(row)
    before, after = (CellReplies(vectors, np.arange(len(cells)), rows) for vectors in (first, last))
    return {
        axis: gen_bias_change(*values[axis], covariance, SCALE, confidence_level)
        for axis, (covariance,) in gen_bias_covariances(before, after, {}).items()
    }
