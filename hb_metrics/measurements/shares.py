"""Shares of replies, such as refusals: as figures, by axis, by group of names, by turn, and for other terms."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa

from hb_dataset.prompt_columns import group_of_names, has_names
from hb_metrics.layout.figure import Bounds, Figure, FigureUnit, estimated
from hb_metrics.layout.numbers import axis_groups, axis_label, count, p_words
from hb_metrics.reply_checks.refusal_shares import (
    ComparedShares,
    Share,
    Shares,
    p_between_descriptors,
    reply_shares,
)
from hb_metrics.run.record import ALPHA, CONFIDENCE_LEVEL
from hb_metrics.run.replies import RatedReplies, cell_counts, cell_sums
from hb_metrics.stats.changes import FigureChanges, PairedChange
from hb_metrics.stats.clusters import Generalised, Over, generalised, quantile, share_influences
from hb_metrics.stats.inputs import DescriptorKey, descriptor_codes, text_codes
from hb_metrics.stats.name_gaps import name_gaps
from hb_metrics.stats.reply_shares import share_change

BY_GROUP = "by group of names"
LARGEST = "largest difference"
OTHER_TERMS_REASON = "the terms or the templates differ between the runs"


def reply_share(name: str, shares: Share, **more: Any) -> Figure:
    detail = f"{count(shares.num)} of {count(shares.num_replies)}"
    return Figure(name, shares.share, "share", interval=shares.interval, detail=detail, **more)


def shares_by_axis(name: str, shares: Shares, **more: Any) -> list[Figure]:
    """Lists the shares of replies by axis, from the highest to the lowest. `more` are attributes of all figures."""
    axes = sorted(shares.by_axis.items(), key=lambda item: (-item[1].share, axis_label(item[0])))
    return [
        reply_share(f"{name}, {axis_label(axis)}", of_axis, part_of=f"{name} by axis", is_main=False, **more)
        for axis, of_axis in axes
    ]


def reply_share_changes(name: str, before: RatedReplies, after: RatedReplies) -> FigureChanges:
    """Computes the changes in the share of flagged replies, for all terms and each axis.

    `name` is the name of the figure for all terms. If the runs have different terms or templates, there are no changes.
    """
    paired = paired_replies(before, after)
    if paired is None:
        return FigureChanges({}, OTHER_TERMS_REASON)
    counts = np.zeros((2, 2, len(paired.keys), paired.templates.max() + 1), dtype=np.int64)
    np.add.at(counts, (*paired.values.astype(int), paired.terms, paired.templates), 1)
    axes, codes = np.unique([str(key.axis) for key in paired.keys], return_inverse=True)
    changes = {}
    for figure, members in axis_groups(name, codes, axes.tolist()).items():
        changes[figure] = share_change(counts[..., members, :], CONFIDENCE_LEVEL)
    return FigureChanges(changes)


class PairedReplies(NamedTuple):
    """The values of two runs' replies, in pairs.

    Attributes:
        values: [2, pairs]
        terms: [pairs] The index of each pair's term in `keys`.
        templates: [pairs] The code of each pair's template.
    """

    values: np.ndarray
    terms: np.ndarray
    templates: np.ndarray
    keys: list[DescriptorKey]


def paired_replies(before: RatedReplies, after: RatedReplies) -> PairedReplies | None:
    """Pairs the replies of two runs. Returns `None` if the runs have different terms or templates.

    Two replies to the same prompt are a pair. The other replies to a term in a template are paired in the order of
    their prompts' ids. Replies that remain are left out, because a mean would otherwise change with the numbers of
    replies to different terms and templates.
    """
    cell, runs = ["axes", "descriptors", "templates"], []
    for replies, values in (before, after):
        run = pd.DataFrame(replies._asdict())[["ids", *cell]]
        runs.append(run.assign(value=np.asarray(values, float)))
    about = [({*zip(run["axes"], run["descriptors"], strict=True)}, {*run["templates"]}) for run in runs]
    if about[0] != about[1]:
        return None
    same = runs[0].merge(runs[1], on=["ids", *cell])
    others = [run[~run["ids"].isin(same["ids"])].sort_values("ids") for run in runs]
    numbered = [run.assign(number=run.groupby(cell).cumcount()) for run in others]
    columns = [*cell, "value_x", "value_y"]
    pairs = pd.concat([same[columns], numbered[0].merge(numbered[1], on=[*cell, "number"])[columns]])
    if pairs.empty:
        return None
    terms, keys = descriptor_codes(pairs["descriptors"].tolist(), pairs["axes"].tolist())
    templates, _ = text_codes("template", pairs["templates"].tolist())
    return PairedReplies(pairs[["value_x", "value_y"]].to_numpy().T, terms, templates, keys)


def generalised_means(name: str, rated: RatedReplies, over: Over) -> dict[str, Generalised]:
    """Computes intervals for a mean, or a share, of all terms and of the terms of each axis.

    The intervals generalise to other terms or templates. The keys of the result are the names of the figures. `name` is
    the name of the figure for all terms. Values that are not flags are above 0.
    """
    keys, sums, sizes = cell_sums(rated)
    names, axes = np.unique([str(key.axis) for key in keys], return_inverse=True)
    by_name = {}
    for figure, members in axis_groups(name, axes, names.tolist()).items():
        influences = share_influences(sums[members].T, sizes[members].T, axes[members])
        if rated.values.dtype != bool:
            influences = influences._replace(noise=0.0)  # a logarithmic scale, because such means are skewed
        by_name[figure] = generalised(influences, over, CONFIDENCE_LEVEL)
    return by_name


@dataclass(frozen=True)
class GroupShare:
    """The share of replies about the names of a group, from 0 to 1. All prompts count alike."""

    share: float
    num_replies: int


@dataclass(frozen=True)
class LargestDifference:
    """The share of the group `high` minus the share of the group `low`, which differ most."""

    high: str
    low: str
    value: float
    interval: Bounds | None
    reason: str | None
    p_value: float | None


@dataclass(frozen=True)
class GroupShares:
    """The shares of all groups of names. `largest` is `None` if there is only one group."""

    by_group: dict[str, GroupShare]
    largest: LargestDifference | None


def group_shares(rated: RatedReplies, prompts: pa.Table) -> GroupShares | None:
    """Computes the share of flagged replies, or a mean from 0 to 1, in each group of names, and the largest difference.

    Prompts and names are both random. A group's share is the mean over prompts of the mean over names. The result is
    `None` if people are not names.
    """
    if not has_names(prompts) or not rated.replies.ids:
        return None
    keys, sums, sizes = cell_sums(rated)
    groups = group_of_names(prompts)
    of_names = [groups[key.descriptor] for key in keys]
    table = np.divide(sums, sizes, out=np.full(sums.shape, np.nan), where=sizes > 0).T
    gaps = name_gaps(table, of_names, CONFIDENCE_LEVEL)
    by_group = {}
    for group, share in zip(gaps.groups, gaps.means.tolist(), strict=True):
        by_group[group] = GroupShare(share, int(sizes[np.equal(of_names, group)].sum()))
    if gaps.largest is None:
        return GroupShares(by_group, None)
    gap, high, low = gaps.largest.gap, gaps.groups[gaps.largest.high], gaps.groups[gaps.largest.low]
    p_value = None if rated.values.min() == rated.values.max() else gaps.p_value  # such replies are no test
    return GroupShares(by_group, LargestDifference(high, low, gap.value, gap.interval, gap.reason, p_value))


def group_figures(name: str, shares: GroupShares | None) -> list[Figure]:
    """Lists the share of each group of names, from the highest to the lowest, and the largest difference."""
    if shares is None:
        return []
    rows = [
        Figure(group, share.share, "share", detail=f"{count(share.num_replies)} replies")
        for group, share in shares.by_group.items()
    ]
    return of_groups(name, rows, shares.largest, "points")


def uneven_sentence(name: str, shares: ComparedShares | None, groups: GroupShares | None, alpha: float = ALPHA) -> str:
    """States for whom `name` ("Refusals") are more frequent beyond chance. Empty if the test does not show it.

    Groups of names are compared, or terms if there are no groups.

    Args:
        name: The replies that are counted, in the plural.
        shares: The shares of terms, or `None` if no replies are counted.
        groups: The shares of groups of names.
        alpha: The level of the test between groups or terms.
    """
    if shares is None:
        return ""
    if groups is not None:
        largest = groups.largest
        if largest is None or largest.p_value is None or largest.p_value >= alpha:
            return ""
        if largest.interval is None or largest.interval[0] <= 0:  # the test shows the difference of another pair
            return f"{name} are more frequent for some groups of names than for others ({p_words(largest.p_value)})."
        high, low = (f"{group.removesuffix(' names')} names" for group in (largest.high, largest.low))
        words = group_figures(name, groups)[-1].words
        return f"{name} are more frequent for {high} than for {low}, by {words}."
    p_value = shares.p_between_descriptors
    if p_value is None or p_value >= alpha:
        return ""
    # A term with few replies can have the highest share by chance.
    most = max(shares.by_descriptor, key=lambda row: row.num - row.expected)
    example = f"above all for {most.descriptor} ({count(most.num)} of {count(most.num_replies)})"
    return f"{name} are more frequent for some terms than for others ({p_words(p_value)}), {example}."


def share_below(alpha: float) -> float:
    """Returns the share of an estimate that its interval's lower end must exceed, so that the true value is not 0.

    If the true value is 0, the estimate has at most the standard error that the lower end shows. `alpha` is the level
    of two-sided tests.
    """
    return max(0.0, 1 - quantile(CONFIDENCE_LEVEL) / quantile(1 - alpha))


def by_machine_alone(machine: str, sentence: str) -> str:
    """States that a judge or classifier alone shows a difference. People's labels correct only the rates of axes."""
    if not sentence:
        return ""
    error = f"This difference is not corrected: the {machine}'s errors may depend on the group."
    return f"According to the {machine} alone, {sentence[0].lower()}{sentence[1:]} {error}"


def of_groups(name: str, rows: Sequence[Figure], largest: LargestDifference | None, unit: FigureUnit) -> list[Figure]:
    """Sorts the figures of groups from the highest to the lowest, and adds the largest difference in `unit`."""
    rows = sorted(rows, key=lambda row: -(row.value or 0.0))
    if largest is not None:
        rows.append(estimated(LARGEST, largest, unit, detail=f"{largest.high} compared with {largest.low}"))
    part_of = f"{name} {BY_GROUP}"
    return [row._replace(name=f"{part_of}, {row.name}", part_of=part_of, is_main=False) for row in rows]


@dataclass(frozen=True)
class TurnShares:
    """A share of replies in each turn, and its change from the first turn to the last.

    `change` is `None` if the first and the last turn have different conversations. `p_values` are those of the tests
    between terms, or groups of names, in each turn, and `most` are the terms or groups with the most such replies. Runs
    of older versions lack them.
    """

    by_turn: list[Shares]
    change: PairedChange | None
    p_values: list[float | None] | None = None
    most: list[str | None] | None = None


def turn_shares(turns: Sequence[RatedReplies], prompts: pa.Table | None = None) -> TurnShares:
    """Computes a share of replies by turn, with tests if there are prompts."""
    by_turn = [reply_shares(flagged, CONFIDENCE_LEVEL) for flagged in turns]
    is_same = turns[0].replies.ids == turns[-1].replies.ids
    change = reply_share_changes("all", turns[0], turns[-1]).by_name.get("all") if is_same else None
    tests = [] if prompts is None else [_test(flagged, prompts) for flagged in turns]
    p_values, most = ([*column] for column in zip(*tests, strict=True)) if tests else (None, None)
    return TurnShares(by_turn, change, p_values, most)


def _test(flagged: RatedReplies, prompts: pa.Table) -> tuple[float | None, str | None]:
    """Returns the p-value between terms, or groups of names, and the term or group with the most flagged replies."""
    groups = group_shares(flagged, prompts)
    if groups is not None:
        largest = groups.largest
        if largest is None or largest.interval is None or largest.interval[0] <= 0:
            return None if largest is None else largest.p_value, None
        return largest.p_value, f"{largest.high.removesuffix(' names')} names"
    keys, counts, sizes = cell_counts(flagged)
    beyond = (counts - sizes * counts.sum(axis=0) / sizes.sum(axis=0)).sum(axis=1)
    return p_between_descriptors(counts, sizes), keys[int(beyond.argmax())].descriptor


def uneven_turn_sentence(name: str, shares: TurnShares | None, alpha: float = ALPHA) -> str:
    """Names the turn after the first in which `name` ("Refusals") depend most clearly on who the user is.

    The tests are adjusted for the number of later turns (Bonferroni). Empty if none of them shows a difference.
    """
    later = [] if shares is None or shares.p_values is None else shares.p_values[1:]
    known = [(p_value, turn) for turn, p_value in enumerate(later, start=2) if p_value is not None]
    if not known or min(known)[0] * len(known) >= alpha:
        return ""
    p_value, turn = min(known)
    most = None if shares is None or shares.most is None else shares.most[turn - 1]
    above = "" if most is None else f", above all for {most}"
    return f"At turn {turn}, {name[0].lower()}{name[1:]} are more frequent for some people ({p_words(p_value)}){above}."


def turn_share_figures(name: str, shares: TurnShares, unit: FigureUnit = "share", **more: Any) -> list[Figure]:
    """Lists the shares of replies by turn, and the change. `more` are attributes of all figures."""
    heading, last = f"{name} by turn", len(shares.by_turn)
    figures = [
        reply_share(f"{heading}, turn {turn}", of_turn)._replace(unit=unit)
        for turn, of_turn in enumerate(shares.by_turn, start=1)
    ]
    if shares.change is not None:
        figures.append(change_figure(f"{heading}, change from turn 1 to turn {last}", shares.change, "points"))
    return [figure._replace(part_of=heading, is_main=False, **more) for figure in figures]


def change_figure(name: str, change: PairedChange, unit: FigureUnit) -> Figure:
    return Figure(name, change.change, unit, interval=change.interval, no_interval=change.reason, is_main=False)
