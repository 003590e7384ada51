"""Obedience: how far a run's replies go in the directions of bias that other replies gave, such as those labelled.

A model tuned on labels is to make replies with lower bias values when it is asked with "no_bias". The bias value of a
reply is one number, where Full Gen Bias is a variance over all styles, so that as many replies show a smaller change of
it. Directions come from other replies than those that are measured: along its own directions every run goes far, by
chance alone.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import stats

from hb_metrics.bias_values import BATCH_SIZE, DescriptorKey, StyleRows, descriptor_codes
from hb_metrics.finished_run import (
    Run,
    StyleShards,
    read_reply_table,
    read_style_means,
    read_styles,
    recorded_run,
)
from hb_metrics.full_gen_bias.inputs import check_lengths, text_codes
from hb_metrics.reply_checks.style_change import RunStyles
from hb_metrics.run_folder import STYLE_MEANS_FILE, STYLES, run_digest

SCALE = 1000
# With fewer descriptors, the error of a mean over them is known too roughly.
MIN_DESCRIPTORS = 10

NO_DIRECTIONS_ERROR = "'{folder}' has no {file}; give the folder of a run with replies, or one of labels"
NO_STYLES_REASON = "there are no style vectors beside its replies"
OTHER_STYLES_REASON = "its styles are others than those of the directions; classify both with one classifier"
NONE_IN_COMMON_REASON = "none of its terms has a direction"


class ValuesAlong(NamedTuple):
    """Mean bias values along given directions.

    Attributes:
        values: Descriptor → the mean over its templates of the mean bias value in each.
        num_replies: Replies with a direction.
        num_without: Replies without: to descriptors that the directions do not have.
        is_own: Whether the directions are those of the same replies, so that each reply was left out of its own.
    """

    values: dict[DescriptorKey, float]
    num_replies: int
    num_without: int
    is_own: bool


class Mean(NamedTuple):
    """A mean over descriptors, ×1000.

    Attributes:
        value: The mean.
        interval: Its lowest and highest value, descriptors drawn anew; `None`: there are fewer than `MIN_DESCRIPTORS`.
        num_descriptors: The number of descriptors.
    """

    value: float
    interval: tuple[float, float] | None
    num_descriptors: int


def values_along(
    style_probabilities: np.ndarray | StyleRows,
    descriptors: Sequence[str],
    templates: Sequence[str],
    axes: Sequence[str],
    directions: RunStyles,
    *,
    is_own: bool = False,
    batch_size: int = BATCH_SIZE,
) -> ValuesAlong:
    """Mean bias values (α = 0) of replies along directions: (p − m̄)·(m_d − m̄), with m of other replies.

    Args:
        style_probabilities: [replies, styles] style vectors, also in files: read in blocks, twice if `is_own`.
        descriptors: [replies] the descriptor in each reply's prompt.
        templates: [replies] the template of its prompt.
        axes: [replies] its axis.
        directions: The m_d of other replies; their mean over descriptors is m̄.
        is_own: Whether the directions are those of these very replies. Each is then left out of m_d and m̄ before its
            own value is computed.
        batch_size: Replies in a block.

    Returns:
        The mean of each descriptor that the directions have. A reply whose descriptor has no other reply has no
        direction either.

    Raises:
        ValueError: Lengths differ, or the directions have another number of styles.
    """
    check_lengths(style_probabilities=style_probabilities, descriptors=descriptors, templates=templates, axes=axes)
    codes, keys = descriptor_codes(descriptors, axes)
    template_codes, _ = text_codes("template", templates)
    rows_of = {key: row for row, key in enumerate(directions.descriptors)}
    means = np.asarray(directions.descriptor_means, dtype=np.float64)
    overall = means.mean(axis=0)
    direction = np.array([rows_of.get(key, -1) for key in keys])[codes]
    cells, members, sizes = np.unique(
        codes * (template_codes.max() + 1) + template_codes, return_inverse=True, return_counts=True
    )
    cell_codes = cells // (template_codes.max() + 1)
    num_templates = np.bincount(cell_codes, minlength=len(keys))
    cell_means = _cell_means(style_probabilities, members, sizes, batch_size) if is_own else None
    sums, counts = np.zeros(len(cells)), np.zeros(len(cells), np.int64)
    for first in range(0, len(codes), batch_size):
        part = slice(first, min(first + batch_size, len(codes)))
        known = direction[part] >= 0
        rows = np.asarray(style_probabilities[part], dtype=np.float64)[known]
        own, cell = direction[part][known], members[part][known]
        ends, middles = means[own], np.broadcast_to(overall, rows.shape)
        if cell_means is not None:
            templates_of, size = num_templates[cell_codes[cell]], sizes[cell]
            alone = size == 1
            # Without the reply its cell's mean moves; without its only reply a cell leaves the descriptor's mean.
            moves = np.where(alone[:, None], ends, cell_means[cell]) - rows
            moves /= np.where(alone, templates_of - 1, (size - 1) * templates_of).clip(1)[:, None]
            ends, middles = ends + moves, middles + moves / len(means)
            left = ~(alone & (templates_of == 1))
            rows, ends, middles, cell = rows[left], ends[left], middles[left], cell[left]
        along = np.einsum("ij,ij->i", rows - middles, ends - middles)
        np.add.at(sums, cell, along)
        np.add.at(counts, cell, 1)
    used = counts > 0
    by_cell = sums[used] / counts[used]
    totals = np.bincount(cell_codes[used], by_cell, minlength=len(keys))
    numbers = np.bincount(cell_codes[used], minlength=len(keys))
    values = {key: float(totals[row] / numbers[row]) for row, key in enumerate(keys) if numbers[row]}
    return ValuesAlong(values, int(counts.sum()), len(codes) - int(counts.sum()), is_own)


def mean_value(along: ValuesAlong, confidence_level: float = 0.95) -> Mean:
    """The mean bias value over descriptors, ×1000, with its interval."""
    return _mean(np.array(list(along.values.values())), confidence_level)


def mean_change(before: ValuesAlong, after: ValuesAlong, confidence_level: float = 0.95) -> Mean:
    """The change of the mean bias value, over the descriptors of both runs and paired by them: after less before."""
    both = [key for key in before.values if key in after.values]
    return _mean(np.array([after.values[key] - before.values[key] for key in both]), confidence_level)


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
        change: From the first run; `None` for the first.
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
    if not path.is_file():
        raise ValueError(NO_DIRECTIONS_ERROR.format(folder=folder, file=STYLE_MEANS_FILE))
    return Directions(read_style_means(path), recorded_run(path))


def obedience(runs: Sequence[Run], directions: Directions, confidence_level: float = 0.95) -> list[ObedienceRow]:
    """How far the replies of runs go along directions, and how that differs from the first run.

    The replies that the directions are made of are known by the digest of their run; each is left out of its own.
    """
    rows: list[ObedienceRow] = []
    for run in runs:
        along = run_values_along(run, directions)
        if isinstance(along, str):
            rows.append(ObedienceRow(None, None, None, along))
            continue
        first = rows[0].along if rows else None
        change = None if first is None else mean_change(first, along, confidence_level)
        rows.append(ObedienceRow(along, mean_value(along, confidence_level), change, None))
    return rows


def run_values_along(run: Run, directions: Directions) -> ValuesAlong | str:
    """`values_along` of the replies of a finished run; a string: why there are none."""
    own = read_styles(run)
    if own is None or not any((run.folder / STYLES).glob("*.parquet")):
        return NO_STYLES_REASON
    if list(own.labels) != list(directions.means.labels):
        return OTHER_STYLES_REASON
    styles = StyleShards(run.folder / STYLES)
    replies = read_reply_table(run.folder)
    rows = None if replies is None else pc.index_in(pa.array(styles.ids), replies["id"])
    if replies is None or rows is None or rows.null_count:
        return NO_STYLES_REASON
    about = replies.select(["descriptor", "template", "axis"]).take(rows)
    descriptors, templates, axes = (about[name].to_pylist() for name in ("descriptor", "template", "axis"))
    is_own = directions.run == run_digest(run.folder)
    along = values_along(styles, descriptors, templates, axes, directions.means, is_own=is_own)
    return along if along.values else NONE_IN_COMMON_REASON


def _cell_means(styles: np.ndarray | StyleRows, members: np.ndarray, sizes: np.ndarray, batch_size: int) -> np.ndarray:
    """[cells, styles] the mean style vector of each cell."""
    means = np.zeros((len(sizes), styles.shape[1]))
    for first in range(0, len(members), batch_size):
        part = slice(first, min(first + batch_size, len(members)))
        np.add.at(means, members[part], np.asarray(styles[part], dtype=np.float64))
    return means / sizes[:, None]


def _mean(values: np.ndarray, confidence_level: float) -> Mean:
    """The mean of descriptors' values (×1000), with a t-interval."""
    number = len(values)
    value = SCALE * float(values.mean()) if number else math.nan
    if number < MIN_DESCRIPTORS:
        return Mean(value, None, number)
    error = SCALE * float(values.std(ddof=1)) / math.sqrt(number)
    half = float(stats.t.ppf((1 + confidence_level) / 2, number - 1)) * error
    return Mean(value, (value - half, value + half), number)
