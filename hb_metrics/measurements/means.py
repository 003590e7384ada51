"""Means of replies, such as words per reply: by axis, by group of names, between terms, and as figures.

Their changes between runs are in `paired_change.py`, and their intervals for other terms in `shares.py`.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hb_dataset.names import has_names
from hb_metrics.layout.figure import Figure, Number, pair
from hb_metrics.layout.numbers import axis_label, count
from hb_metrics.measurements.shares import LargestDifference, group_sums, of_groups
from hb_metrics.run.replies import RatedReplies
from hb_metrics.stats.bias_values import descriptor_codes
from hb_metrics.stats.cell_sums import CellSums
from hb_metrics.stats.clusters import Estimate, mean_of_replies, reply_strata
from hb_metrics.stats.gen_bias import ByMetric, GenBias, plain_and_debiased
from hb_metrics.stats.inputs import text_codes

SPREAD = "spread between terms"


@dataclass(frozen=True)
class Mean:
    """The mean of replies.

    Attributes:
        spread: The standard deviation between the terms' means in a template, without sampling noise. Its value is
            `None` if the noise is unknown.
    """

    mean: Estimate
    spread: Estimate
    num_replies: int


@dataclass(frozen=True)
class GroupMean:
    mean: float
    num_replies: int


@dataclass(frozen=True)
class GroupMeans:
    """The means of groups of names. `largest` is `None` if there is only one group."""

    by_group: dict[str, GroupMean]
    largest: LargestDifference | None


@dataclass(frozen=True)
class Means(Mean):
    """The mean of all replies, and the means by axis. `groups` is `None` if people are not names."""

    by_axis: dict[str, Mean]
    groups: GroupMeans | None
    confidence_level: float


def reply_means(rated: RatedReplies, prompts: pa.Table, confidence_level: float) -> Means:
    """Computes means of values above 0. Intervals are for other replies to the same terms and templates."""
    replies, values = rated
    terms, templates = descriptor_codes(replies.descriptors, replies.axes)[0], text_codes("", replies.templates)[0]
    spreads, axes = _spreads(rated, confidence_level), np.array(replies.axes)

    def summary(axis: str | None) -> Mean:
        members = np.ones(len(values), bool) if axis is None else axes == axis
        strata = reply_strata(terms[members], templates[members])
        mean = mean_of_replies(values[members], strata, confidence_level)
        return Mean(mean, spreads[axis], int(members.sum()))

    by_axis = {axis: summary(axis) for axis in sorted(set(replies.axes))}
    groups = _group_means(rated, prompts, confidence_level) if has_names(prompts) else None
    return Means(**vars(summary(None)), by_axis=by_axis, groups=groups, confidence_level=confidence_level)


def _spreads(rated: RatedReplies, confidence_level: float) -> dict[str | None, Estimate]:
    """Computes the standard deviation between terms by axis (`None`: all axes).

    It is a Gen Bias value: if the values are divided by the largest one, a reply has a share of the largest value, and
    a share without it. Both shares vary equally between terms, so the variance of the values is half of Gen Bias.
    """
    replies, largest = rated.replies, float(rated.values.max())
    shares, cells = rated.values / largest, CellSums(keep_replies=True)
    cells.add(np.stack([shares, 1 - shares], axis=1), replies.descriptors, replies.templates, replies.axes)
    plain, debiased = plain_and_debiased(cells, confidence_level)

    def deviation(variance: float) -> float:
        return largest * math.sqrt(max(variance, 0.0) / plain.scale / 2)

    def of_axis(axis: str | None) -> Estimate:
        value, bounds, reason = (_at(part, axis) for part in (debiased, plain.intervals, plain.no_intervals))
        interval = None if bounds is None else (deviation(bounds[0]), deviation(bounds[1]))
        return Estimate(None if value is None else deviation(value), interval, reason)

    return {axis: of_axis(axis) for axis in (None, *replies.axes)}


def _at(values: GenBias | ByMetric[Any] | None, axis: str | None) -> Any:
    if values is None:
        return None
    return values.full_gen_bias if axis is None else (values.by_axis or {}).get(axis)


def _group_means(rated: RatedReplies, prompts: pa.Table, confidence_level: float) -> GroupMeans:
    most = float(rated.values.max())
    sums, largest = group_sums(rated._replace(values=rated.values / most), prompts, confidence_level)
    if largest is not None:
        bounds = largest.interval and (most * largest.interval[0], most * largest.interval[1])
        largest = replace(largest, value=most * largest.value, interval=bounds)
    by_group = {group: GroupMean(most * total / number, number) for group, (total, number) in sums.items()}
    return GroupMeans(by_group, largest)


def mean_figures(name: str, means: Means, meaning: str) -> list[Figure]:
    """Lists the mean, the spread between terms, the means by axis from the highest to the lowest, and by group."""
    level = means.confidence_level
    whole = _figure(name, means.mean, level)._replace(meaning=meaning, detail=f"{count(means.num_replies)} replies")
    between = _figure(f"Spread of {name[0].lower()}{name[1:]} between terms", means.spread, level)._replace(
        meaning="The standard deviation between the means of terms in the same sentence, without sampling noise.",
        higher_is_better=False,
    )
    rows = []
    for axis, of_axis in sorted(means.by_axis.items(), key=lambda item: (-(item[1].mean.value or 0.0), item[0])):
        row = _figure(f"{name}, {axis_label(axis)}", of_axis.mean, level)
        beside = {SPREAD: Number(of_axis.spread.value, "mean", pair(of_axis.spread.interval))}
        detail = f"{count(of_axis.num_replies)} replies"
        rows.append(row._replace(part_of=f"{name} by axis", is_main=False, beside=beside, detail=detail))
    if means.groups is not None:
        of_names = [
            Figure(group, mean.mean, "mean", detail=f"{count(mean.num_replies)} replies", higher_is_better=None)
            for group, mean in means.groups.by_group.items()
        ]
        rows += of_groups(name, of_names, means.groups.largest, "mean", level)
    return [whole, between, *rows]


def _figure(name: str, estimate: Estimate, confidence_level: float) -> Figure:
    return Figure(
        name,
        estimate.value,
        "mean",
        interval=pair(estimate.interval),
        no_interval=estimate.reason,
        confidence_level=confidence_level,
        higher_is_better=None,
    )
