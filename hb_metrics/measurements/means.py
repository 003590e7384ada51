"""Means of replies, such as words per reply: by axis, by term and by group of names, and their changes between runs.

`shares.py` has the intervals for other terms.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from hb_metrics.layout.figure import Figure, Number, estimated
from hb_metrics.layout.numbers import axis_groups, axis_label, count
from hb_metrics.measurements.shares import (
    OTHER_TERMS_REASON,
    LargestDifference,
    group_shares,
    of_groups,
    paired_replies,
)
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.run.replies import RatedReplies
from hb_metrics.stats.cell_sums import CellSums
from hb_metrics.stats.changes import ROUGH_REASON, FigureChanges, PairedChange, change_from_covariance
from hb_metrics.stats.clusters import (
    MIN_REPLIES_OF_MEAN,
    Estimate,
    cluster_errors,
    mean_of_replies,
    reply_strata,
    uncertainty,
)
from hb_metrics.stats.gen_bias import ByMetric, GenBias, plain_and_debiased
from hb_metrics.stats.inputs import descriptor_codes, text_codes

SPREAD = "spread between terms"
# The variance of a single reply is guessed from other terms, which is wrong if longer replies vary more.
MAX_SINGLE = 0.1


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
class GroupMeans:
    """The means of groups of names. `largest` is `None` if there is only one group."""

    by_group: dict[str, float]
    largest: LargestDifference | None


@dataclass(frozen=True)
class Means(Mean):
    """The mean of all replies, by axis, and by axis and descriptor. `groups` is `None` if people are not names.

    If there are `later` turns, they are listed in their order, and all other attributes describe the first turn.
    """

    by_axis: dict[str, Mean]
    by_descriptor: dict[str, dict[str, float]]
    groups: GroupMeans | None
    later: "list[Means] | None" = None


def reply_means(rated: RatedReplies, prompts: pa.Table) -> Means:
    """Computes means of values above 0. Intervals generalise to other replies to the same terms and templates."""
    replies, values = rated
    terms, keys = descriptor_codes(replies.descriptors, replies.axes)
    templates, axes = text_codes("template", replies.templates)[0], np.array(replies.axes)
    spreads = _spreads(rated)
    by_descriptor: dict[str, dict[str, float]] = {}
    for key, mean in zip(keys, np.bincount(terms, values) / np.bincount(terms), strict=True):
        by_descriptor.setdefault(str(key.axis), {})[key.descriptor] = float(mean)

    def of_members(members: np.ndarray, spread: Estimate) -> Mean:
        strata = reply_strata(terms[members], templates[members])
        return Mean(mean_of_replies(values[members], strata, CONFIDENCE_LEVEL), spread, int(members.sum()))

    return Means(
        **vars(of_members(np.ones(len(values), bool), spreads[None])),
        by_axis={axis: of_members(axes == axis, spreads[axis]) for axis in by_descriptor},
        by_descriptor=by_descriptor,
        groups=_group_means(rated, prompts),
    )


def _spreads(rated: RatedReplies) -> dict[str | None, Estimate]:
    """Computes the standard deviation between terms by axis (`None`: all axes).

    It is a Gen Bias value: if the values are divided by the largest one, a reply has a share of the largest value, and
    a share without it. Both shares vary equally between terms, so the variance of the values is half of Gen Bias.
    """
    replies, largest = rated.replies, float(rated.values.max())
    shares, cells = rated.values / largest, CellSums(keep_replies=True)
    cells.add(np.stack([shares, 1 - shares], axis=1), replies.descriptors, replies.templates, replies.axes)
    plain, debiased = plain_and_debiased(cells, CONFIDENCE_LEVEL)

    def deviation(variance: float) -> float:
        return largest * math.sqrt(max(variance, 0.0) / plain.scale / 2)

    def of_axis(axis: str | None) -> Estimate:
        if plain.num_single_reply_cells > MAX_SINGLE * plain.num_cells:
            return Estimate(None, None, f"more than {MAX_SINGLE:.0%} of terms and templates have a single reply")
        value, bounds, reason = (_at(part, axis) for part in (debiased, plain.intervals, plain.no_intervals))
        interval = None if bounds is None else (deviation(bounds[0]), deviation(bounds[1]))
        return Estimate(None if value is None else deviation(value), interval, reason)

    return {axis: of_axis(axis) for axis in (None, *set(replies.axes))}


def _at(values: GenBias | ByMetric[Any] | None, axis: str | None) -> Any:
    if values is None:
        return None
    return values.full_gen_bias if axis is None else (values.by_axis or {})[axis]


def _group_means(rated: RatedReplies, prompts: pa.Table) -> GroupMeans | None:
    most = float(rated.values.max())
    shares = group_shares(rated._replace(values=rated.values / most), prompts)
    if shares is None:
        return None
    largest = shares.largest
    if largest is not None:
        bounds = largest.interval and (most * largest.interval[0], most * largest.interval[1])
        largest = replace(largest, value=most * largest.value, interval=bounds)
    return GroupMeans({group: most * share.share for group, share in shares.by_group.items()}, largest)


def reply_mean_changes(name: str, before: RatedReplies, after: RatedReplies) -> FigureChanges:
    """Computes the changes in a mean, for all terms and each axis, as `reply_share_changes` does for shares."""
    paired = paired_replies(before, after)
    if paired is None:
        return FigureChanges({}, OTHER_TERMS_REASON)
    axis_names, axes = np.unique([str(key.axis) for key in paired.keys], return_inverse=True)
    changes = {}
    for figure, members in axis_groups(name, axes[paired.terms], axis_names.tolist()).items():
        strata = reply_strata(paired.terms[members], paired.templates[members])
        changes[figure] = mean_change(paired.values[:, members], strata)
    return FigureChanges(changes)


def mean_change(values: np.ndarray, strata: np.ndarray) -> PairedChange:
    """Computes the change in a mean of replies. Intervals cover variation between replies to the same prompts.

    Args:
        values: [2, pairs] The values of both runs' replies.
        strata: [pairs] The code of each pair's stratum (see `reply_strata`).
    """
    influences = values / values.shape[1]
    of_change, errors = uncertainty(influences[1] - influences[0], strata), cluster_errors(influences, strata)
    first, second = influences.sum(axis=1).tolist()
    if of_change.by_weight < MIN_REPLIES_OF_MEAN:
        return PairedChange(first, second, None, None, ROUGH_REASON)
    return change_from_covariance(first, second, errors @ errors.T, of_change.freedom, CONFIDENCE_LEVEL)


def mean_figures(name: str, means: Means, meaning: str) -> list[Figure]:
    """Lists the mean, the spread between terms, the means by axis from the highest to the lowest, and by group."""
    by_axis = sorted(means.by_axis.items(), key=lambda item: -(item[1].mean.value or 0.0))
    whole = _mean(name, means, meaning=meaning)
    between = estimated(
        f"Spread of {name[0].lower()}{name[1:]} between terms",
        means.spread,
        "mean",
        meaning="The standard deviation between the means of terms in the same sentence, without sampling noise.",
    )
    rows = []
    for axis, of_axis in by_axis:
        row = _mean(f"{name}, {axis_label(axis)}", of_axis, part_of=f"{name} by axis", is_main=False)
        rows.append(row._replace(beside={SPREAD: Number(of_axis.spread.value, "mean", of_axis.spread.interval)}))
    if means.groups is not None:
        groups = [Figure(group, mean, "mean", higher_is_better=None) for group, mean in means.groups.by_group.items()]
        rows += of_groups(name, groups, means.groups.largest, "mean")
    return [whole, between, *rows]


def _mean(name: str, mean: Mean, **more: Any) -> Figure:
    detail = f"{count(mean.num_replies)} replies"
    return estimated(name, mean.mean, "mean", detail=detail, higher_is_better=None, **more)
