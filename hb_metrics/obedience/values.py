"""Obedience: how far a run's replies go in the directions of bias that other replies gave, such as those labelled.

A model tuned on labels is to make replies with lower bias values when it is asked with "no_bias". The bias value of a
reply is one number, where Full Gen Bias is a variance over all styles, so that as many replies show a smaller change of
it. Directions come from other replies than those that are measured: along its own directions every run goes far, by
chance alone. Intervals are for other replies to the same descriptors and templates along the same directions; a run's
own directions are those of other replies too.
"""

import math
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_metrics.obedience.errors import RepliesOf, Sum, half_width, shared_noise
from hb_metrics.reply_checks.style_change import RunStyles
from hb_metrics.runs.finished_run import (
    Run,
    StyleShards,
    read_reply_table,
    read_style_means,
    read_styles,
    recorded_run,
)
from hb_metrics.runs.run_folder import STYLE_MEANS_FILE, STYLES, run_digest
from hb_metrics.statistics.bias_values import BATCH_SIZE, DescriptorKey, StyleRows, descriptor_codes
from hb_metrics.statistics.inputs import check_lengths, text_codes

SCALE = 1000
# In a tuned model's folder; a folder of its own is no part of the digest of the model.
DIRECTIONS_FOLDER = "directions"

NO_DIRECTIONS_ERROR = "'{folder}' has no {file}; give the folder of a run with replies, or one of labels"
NO_STYLES_REASON = "it has no style vectors, or others than those of its replies"
OTHER_STYLES_REASON = "its styles are others than those of the directions; classify both with one classifier"
OTHER_CLASSIFIER_REASON = "its styles were classified by another classifier than those of the first run"
NONE_IN_COMMON_REASON = "none of its terms has a direction"


class ValuesAlong(NamedTuple):
    """Mean bias values along given directions.

    Attributes:
        values: Descriptor → the mean over its templates of the mean bias value in each.
        num_without: Descriptors of the replies that have no direction.
        is_own: Whether the directions are those of the same replies, so that each was left out of its own.
        shifts: [descriptors, styles] m_d less their mean, in the order of the values.
        ways: [descriptors, styles] the directions n_d less their mean.
        replies: The replies, for intervals; `None`: not known.
        sources: The replies that gave the directions, if other ones might have; `None`: the directions are given.
    """

    values: dict[DescriptorKey, float]
    num_without: int
    is_own: bool
    shifts: np.ndarray
    ways: np.ndarray
    replies: RepliesOf | None
    sources: RepliesOf | None = None


class Mean(NamedTuple):
    """A mean over descriptors, ×1000.

    Attributes:
        value: The mean.
        interval: Its lowest and highest value with other replies; `None`: the replies are not known, or too few.
        num_descriptors: The number of descriptors.
    """

    value: float
    interval: tuple[float, float] | None
    num_descriptors: int


def values_along(means: RunStyles, directions: RunStyles, replies: RepliesOf | None = None) -> ValuesAlong:
    """Mean bias values (α = 0) of replies along the directions of other replies.

    The value of a reply is (p − m̄)·(n_d − n̄), with n of the other replies and m̄ of the replies themselves: a shift
    that is the same for every descriptor is no bias. As it is linear in p, its mean needs no more than m_d.

    Args:
        means: The m_d of the replies.
        directions: The n_d of others.
        replies: The replies, for intervals.

    Returns:
        The mean of each descriptor that both have; m̄ is over these.
    """
    rows = {key: row for row, key in enumerate(directions.descriptors)}
    both = [row for row, key in enumerate(means.descriptors) if key in rows]
    keys = [means.descriptors[row] for row in both]
    if not both:
        none = np.zeros((0, len(means.labels)))
        return ValuesAlong({}, len(means.descriptors), False, none, none, replies)
    others = np.asarray(directions.descriptor_means, dtype=np.float64)
    ways = others[[rows[key] for key in keys]] - others.mean(axis=0)
    own = np.asarray(means.descriptor_means, dtype=np.float64)[both]
    shifts = own - own.mean(axis=0)
    along = np.einsum("ds,ds->d", shifts, ways)
    values = dict(zip(keys, along.tolist(), strict=True))
    return ValuesAlong(values, len(means.descriptors) - len(both), False, shifts, ways, replies)


def own_values(
    style_probabilities: np.ndarray | StyleRows,
    descriptors: Sequence[str],
    templates: Sequence[str],
    axes: Sequence[str],
    *,
    ids: Sequence[str] | None = None,
    batch_size: int = BATCH_SIZE,
) -> ValuesAlong:
    """Mean bias values (α = 0) of replies along their own directions, each reply left out of m_d and m̄ for its own.

    Args:
        style_probabilities: [replies, styles] style vectors, also in files: read in blocks, twice.
        descriptors: [replies] the descriptor in each reply's prompt.
        templates: [replies] the template of its prompt.
        axes: [replies] its axis.
        ids: [replies] their ids, which pair them with other runs'; `None`: they are not paired.
        batch_size: Replies in a block.

    Returns:
        The mean of each descriptor, but of those with a single reply, which without it have no direction.

    Raises:
        ValueError: Lengths differ.
    """
    check_lengths(style_probabilities=style_probabilities, descriptors=descriptors, templates=templates, axes=axes)
    codes, keys = descriptor_codes(descriptors, axes)
    template_codes, _ = text_codes("template", templates)
    width = template_codes.max() + 1
    cells, members, sizes = np.unique(codes * width + template_codes, return_inverse=True, return_counts=True)
    owners = cells // width  # [cells] their descriptors
    num_templates = np.bincount(owners, minlength=len(keys))
    cell_means = _cell_means(style_probabilities, members, sizes, batch_size)
    means = np.zeros((len(keys), cell_means.shape[1]))
    np.add.at(means, owners, cell_means / num_templates[owners, None])
    overall = means.mean(axis=0)
    sums = np.zeros(len(cells))
    for first in range(0, len(codes), batch_size):
        part = slice(first, min(first + batch_size, len(codes)))
        rows, cell, code = np.asarray(style_probabilities[part], dtype=np.float64), members[part], codes[part]
        # Without the reply its cell's mean moves; without its only reply a cell leaves the descriptor's mean.
        alone, size, number = sizes[cell] == 1, sizes[cell], num_templates[code]
        moves = np.where(alone[:, None], means[code], cell_means[cell]) - rows
        moves /= np.where(alone, number - 1, (size - 1) * number).clip(1)[:, None]
        middles = overall + moves / len(keys)
        np.add.at(sums, cell, np.einsum("ij,ij->i", rows - middles, means[code] + moves - middles))
    has_others = np.bincount(codes, minlength=len(keys)) > 1
    by_descriptor = np.bincount(owners, sums / sizes, minlength=len(keys)) / num_templates
    values = {key: float(by_descriptor[row]) for row, key in enumerate(keys) if has_others[row]}
    shifts = (means - overall)[has_others]
    names = [f"own {row}" for row in range(len(codes))] if ids is None else ids
    replies = RepliesOf(style_probabilities, names, [keys[code] for code in codes], templates)
    return ValuesAlong(values, int((~has_others).sum()), True, shifts, shifts, replies, replies)


def less_shared_noise(along: ValuesAlong, others: RepliesOf) -> ValuesAlong:
    """The values less what replies to the same prompts have in common by chance with those that gave the directions.

    Args:
        along: The values along the directions.
        others: The replies that gave them; intervals are then for other directions too.
    """
    if along.replies is None or not along.values:
        return along
    noise = shared_noise(along.replies, others)
    known = {key: noise.get(key, 0.0) for key in along.values}
    number = len(known)
    # Of (m_d − m̄)·(n_d − n̄), where m̄ and n̄ have it too.
    mean = sum(known.values()) / number
    values = {key: value - (1 - 2 / number) * known[key] - mean / number for key, value in along.values.items()}
    return along._replace(values=values, sources=others)


def mean_value(
    along: ValuesAlong, confidence_level: float = 0.95, among: Collection[DescriptorKey] | None = None
) -> Mean:
    """The mean bias value over descriptors, ×1000, with its interval.

    Args:
        along: The values.
        confidence_level: Of the interval.
        among: Those of the descriptors that the mean is over; `None`: all.
    """
    keys = [key for key in along.values if among is None or key in among]
    if not keys:
        return Mean(math.nan, None, 0)
    return _mean([along.values[key] for key in keys], [(along, 1)], keys, confidence_level)


def mean_change(before: ValuesAlong, after: ValuesAlong, confidence_level: float = 0.95) -> Mean:
    """The change of the mean bias value, over the descriptors of both runs and paired by them: after less before."""
    both = [key for key in before.values if key in after.values]
    if not both:
        return Mean(math.nan, None, 0)
    differences = [after.values[key] - before.values[key] for key in both]
    return _mean(differences, [(after, 1), (before, -1)], both, confidence_level)


class Directions(NamedTuple):
    """The directions that runs are measured along.

    Attributes:
        means: The m_d that they are made of.
        run: The digest of the run whose replies gave them; `None`: not recorded.
    """

    means: RunStyles
    run: str | None


class ObedienceRow(NamedTuple):
    """One of several runs.

    Attributes:
        along: Its mean bias values; `None`: see `reason`.
        mean: Their mean.
        change: From the first run; `None` for the first, and where no term is in both.
        reason: Why there are no values.
    """

    along: ValuesAlong | None
    mean: Mean | None
    change: Mean | None
    reason: str | None


def read_directions(folder: Path) -> Directions:
    """Reads the directions of a run, or of a folder of labels.

    Raises:
        ValueError: The folder has none.
    """
    path = folder / STYLE_MEANS_FILE
    if not has_directions(folder):
        raise ValueError(NO_DIRECTIONS_ERROR.format(folder=folder, file=STYLE_MEANS_FILE))
    return Directions(read_style_means(path), recorded_run(path))


def has_directions(folder: Path) -> bool:
    """Whether a folder has directions to measure along."""
    return (folder / STYLE_MEANS_FILE).is_file()


def obedience(runs: Sequence[Run], directions: Directions, confidence_level: float = 0.95) -> list[ObedienceRow]:
    """How far the replies of runs go along directions, and how that differs from the first run.

    The replies that the directions are made of are known by the digest of their run; each is left out of its own. What
    other runs' replies to the same prompts have in common with them by chance is subtracted.
    """
    rows: list[ObedienceRow] = []
    values = [run_values_along(run, directions) for run in runs]
    own = next((along.replies for along in values if not isinstance(along, str) and along.is_own), None)
    for run, along in zip(runs, values, strict=True):
        if own is not None and not isinstance(along, str) and not along.is_own:
            along = less_shared_noise(along, own)
        if rows and rows[0].along is not None and _classifier(run) != _classifier(runs[0]):
            along = OTHER_CLASSIFIER_REASON
        if isinstance(along, str):
            rows.append(ObedienceRow(None, None, None, along))
            continue
        first = rows[0].along if rows else None
        paired = first is not None and first.values.keys() & along.values.keys()
        change = mean_change(first, along, confidence_level) if first is not None and paired else None
        rows.append(ObedienceRow(along, mean_value(along, confidence_level), change, None))
    return rows


def _classifier(run: Run) -> list[Any]:
    """What the probabilities of a run's styles depend on."""
    classifier = run.results["run"].get("style_classifier") or {}
    return [classifier.get(name) for name in ("digest", "name", "temperature")]


def run_values_along(run: Run, directions: Directions) -> ValuesAlong | str:
    """The mean bias values of a finished run; a string: why there are none."""
    own = read_styles(run)
    if own is None:
        return NO_STYLES_REASON
    if list(own.labels) != list(directions.means.labels):
        return OTHER_STYLES_REASON
    is_own = directions.run == run_digest(run.folder)
    along = _own_values(run) if is_own else values_along(own, directions.means, _replies(run))
    return along if isinstance(along, str) or along.values else NONE_IN_COMMON_REASON


def _own_values(run: Run) -> ValuesAlong | str:
    replies = _replies(run)
    if replies is None:
        return NO_STYLES_REASON
    axes = [str(key.axis) for key in replies.descriptors]
    return own_values(
        replies.styles, [key.descriptor for key in replies.descriptors], replies.templates, axes, ids=replies.ids
    )


def _replies(run: Run) -> RepliesOf | None:
    """The replies of a run with style vectors; `None`: it lacks some of the files."""
    if not any((run.folder / STYLES).glob("*.parquet")):
        return None
    styles, replies = StyleShards(run.folder / STYLES), read_reply_table(run.folder)
    rows = None if replies is None else pc.index_in(pa.array(styles.ids), replies["id"])
    if replies is None or rows is None or rows.null_count:
        return None
    about = replies.select(["descriptor", "template", "axis"]).take(rows)
    descriptors, templates, axes = (about[name].to_pylist() for name in ("descriptor", "template", "axis"))
    keys = [DescriptorKey(axis, descriptor) for axis, descriptor in zip(axes, descriptors, strict=True)]
    return RepliesOf(styles, styles.ids, keys, templates)


def _cell_means(styles: np.ndarray | StyleRows, members: np.ndarray, sizes: np.ndarray, batch_size: int) -> np.ndarray:
    """[cells, styles] the mean style vector of each cell."""
    means = np.zeros((len(sizes), styles.shape[1]))
    for first in range(0, len(members), batch_size):
        part = slice(first, min(first + batch_size, len(members)))
        np.add.at(means, members[part], np.asarray(styles[part], dtype=np.float64))
    return means / sizes[:, None]


def _mean(
    values: Sequence[float], parts: Sequence[tuple[ValuesAlong, int]], keys: Sequence[DescriptorKey], level: float
) -> Mean:
    """The mean of descriptors' values (×1000) with its interval, from the runs that they are of, with their signs."""
    value = SCALE * float(np.mean(values))
    if any(along.replies is None for along, _ in parts):
        return Mean(value, None, len(values))
    sums: list[Sum] = []
    for along, sign in parts:
        for replies, slope in ((along.replies, along.ways), (along.sources, along.shifts)):
            if replies is not None:
                sums.append(Sum(replies, _vectors(along, keys, sign * slope)))
    half = half_width(sums, level)
    return Mean(value, None if half is None else (value - SCALE * half, value + SCALE * half), len(values))


def _vectors(along: ValuesAlong, keys: Sequence[DescriptorKey], slope: np.ndarray) -> dict[DescriptorKey, np.ndarray]:
    """What the mean over some descriptors grows by with each m_d or n_d; their own mean is over all of them."""
    among = set(keys)
    chosen = np.array([key in among for key in along.values])[:, None] * slope
    return dict(zip(along.values, (chosen - chosen.sum(axis=0) / len(chosen)) / len(keys), strict=True))
