"""Computes mean bias values of a run's replies along directions of bias that come from other replies.

The other replies may be the replies on which a model was tuned, for example. A bias value is one number per reply,
whereas Full Gen Bias is a variance over all styles. With the same number of replies, bias values therefore reveal
smaller changes.

By chance alone, a run has high bias values along directions that come from its own replies, so the part due to chance
is subtracted. The intervals describe how the values would vary with new replies to the same descriptors and templates.
They account for errors in the directions only if the directions come from one of the compared runs.
"""

import math
from collections.abc import Collection, Sequence
from itertools import compress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hb_metrics.obedience.errors import Part, RepliesOf, half_width, shared_noise
from hb_metrics.runs.finished_run import (
    Run,
    read_reply_table,
    read_style_means,
    read_styles,
    read_vectors,
    recorded_run,
)
from hb_metrics.runs.run_folder import STYLE_MEANS_FILE, STYLES, run_digest
from hb_metrics.stats.bias_values import DescriptorKey, RunStyles

SCALE = 1000
# A subfolder of a tuned model's folder. It is not part of the model's digest.
DIRECTIONS_FOLDER = "directions"

NO_STYLES_REASON = "it has no style vectors, or they do not match its replies"
OTHER_CLASSIFIER_REASON = "a different classifier classified the styles of the first run"
SINGLE_REPLIES_REASON = (
    "at least half of its cells have only one reply, so it is unknown how much replies and directions agree by chance"
)


class ValuesAlong(NamedTuple):
    """Mean bias values along directions of bias.

    Attributes:
        values: The mean bias value of each descriptor, first averaged within each template and then over templates.
        num_without: The number of descriptors that occur in the replies but have no direction.
        is_own: Whether the directions come from the same replies.
        shifts: [descriptors, styles] The mean style vectors m_d minus their mean.
        ways: [descriptors, styles] The directions.
        sources: The replies from which the directions come, or `None` if the directions are fixed.
    """

    values: dict[DescriptorKey, float]
    num_without: int
    is_own: bool
    shifts: np.ndarray
    ways: np.ndarray
    replies: RepliesOf | None
    sources: RepliesOf | None = None


class Mean(NamedTuple):
    """A mean over descriptors (×1000). Its interval covers variation between replies to the same prompts."""

    value: float
    interval: tuple[float, float] | None
    num_descriptors: int


def values_along(means: RunStyles, directions: RunStyles, replies: RepliesOf | None = None) -> ValuesAlong:
    """Computes mean bias values (α = 0) of replies along directions that come from other replies.

    The bias value of a reply is (p − m̄)·(n_d − n̄), where p is the reply's style vector. n_d and n̄ are the other
    replies' means for descriptor d and overall. m̄ is the overall mean of the measured replies, because a shift that is
    the same for all descriptors is not bias. Only descriptors in both sets of replies have a value, and m̄ is the mean
    over these descriptors.
    """
    rows = {key: row for row, key in enumerate(directions.descriptors)}
    both = [row for row, key in enumerate(means.descriptors) if key in rows]
    keys = [means.descriptors[row] for row in both]
    if len(both) < 2:  # m̄ would be the mean of the only term, whose value would be 0
        none = np.zeros((0, len(means.labels)))
        return ValuesAlong({}, len(means.descriptors), False, none, none, replies)
    others = np.asarray(directions.descriptor_means, dtype=np.float64)
    ways = others[[rows[key] for key in keys]] - others.mean(axis=0)
    own = np.asarray(means.descriptor_means, dtype=np.float64)[both]
    shifts = own - own.mean(axis=0)
    along = np.einsum("ds,ds->d", shifts, ways)
    values = dict(zip(keys, along.tolist(), strict=True))
    return ValuesAlong(values, len(means.descriptors) - len(both), False, shifts, ways, replies)


def less_shared_noise(along: ValuesAlong, others: RepliesOf) -> ValuesAlong | str:
    """Subtracts the part of bias values that arises by chance because replies and directions share prompts.

    `others` are the replies from which the directions come. Intervals that are computed from the result account for
    errors in the directions. If the part due to chance is unknown, the reason is returned instead.
    """
    if along.replies is None or not along.values:
        return along
    noise = shared_noise(along.replies, others)
    if noise is None:
        return SINGLE_REPLIES_REASON
    known = {key: noise.get(key, 0.0) for key in along.values}
    number = len(known)
    # This part is also in m̄ and n̄, which the bias value (m_d − m̄)·(n_d − n̄) subtracts.
    mean = sum(known.values()) / number
    values = {key: value - (1 - 2 / number) * known[key] - mean / number for key, value in along.values.items()}
    return along._replace(values=values, sources=others)


def over_terms(along: ValuesAlong, keys: Collection[DescriptorKey]) -> ValuesAlong:
    """Restricts values to the descriptors `keys`. m̄ is then the mean over these descriptors only."""
    chosen = [key in keys for key in along.values]
    if all(chosen):
        return along
    shifts, ways = along.shifts[chosen] - along.shifts[chosen].mean(axis=0), along.ways[chosen]
    values = dict(zip(compress(along.values, chosen), np.einsum("ds,ds->d", shifts, ways).tolist(), strict=True))
    restricted = along._replace(values=values, shifts=shifts, ways=ways)
    if along.sources is None:
        return restricted
    corrected = less_shared_noise(restricted, along.sources)
    assert not isinstance(corrected, str)  # the shared part of all values is known
    return corrected


def mean_value(along: ValuesAlong, confidence_level: float = 0.95) -> Mean:
    """Computes the mean bias value over descriptors, times 1000, with its interval."""
    if not along.values:
        return Mean(math.nan, None, 0)
    return _mean(list(along.values.values()), [(along, 1)], confidence_level)


def mean_change(before: ValuesAlong, after: ValuesAlong, confidence_level: float = 0.95) -> Mean:
    """Computes the change (after minus before) in the mean bias value, over the descriptors that both runs have."""
    before, after = over_terms(before, after.values), over_terms(after, before.values)
    if not before.values:
        return Mean(math.nan, None, 0)
    differences = [after.values[key] - value for key, value in before.values.items()]
    return _mean(differences, [(after, 1), (before, -1)], confidence_level)


class Directions(NamedTuple):
    """The mean style vectors that define directions of bias, and the digest of their run."""

    means: RunStyles
    run: str | None


class ObedienceRow(NamedTuple):
    along: ValuesAlong | None
    mean: Mean | None
    change: Mean | None
    reason: str | None


def read_directions(folder: Path) -> Directions:
    path = folder / STYLE_MEANS_FILE
    if not has_directions(folder):
        raise ValueError(
            f"'{folder}' has no {STYLE_MEANS_FILE}; pass a folder of labels, or the folder of a run with replies"
        )
    return Directions(read_style_means(path), recorded_run(path))


def has_directions(folder: Path) -> bool:
    return (folder / STYLE_MEANS_FILE).is_file()


def obedience(runs: Sequence[Run], directions: Directions, confidence_level: float = 0.95) -> list[ObedienceRow]:
    """Computes the mean bias values of runs along directions, and their changes from the first run.

    If the directions come from one of the runs, the part of the values that is due to chance is subtracted (see
    `less_shared_noise`).
    """
    rows: list[ObedienceRow] = []
    values = [run_values_along(run, directions) for run in runs]
    own = next((along.replies for along in values if not isinstance(along, str) and along.is_own), None)
    for run, along in zip(runs, values, strict=True):
        if own is not None and not isinstance(along, str):
            along = less_shared_noise(along, own)
        if rows and rows[0].along is not None and _classifier(run) != _classifier(runs[0]):
            along = OTHER_CLASSIFIER_REASON
        if isinstance(along, str):
            rows.append(ObedienceRow(None, None, None, along))
            continue
        first = rows[0].along if rows else None
        paired = first is not None and len(first.values.keys() & along.values.keys()) > 1
        change = mean_change(first, along, confidence_level) if first is not None and paired else None
        rows.append(ObedienceRow(along, mean_value(along, confidence_level), change, None))
    return rows


def _classifier(run: Run) -> list[Any]:
    classifier = run.results["run"].get("style_classifier") or {}
    return [classifier.get(name) for name in ("digest", "name", "temperature")]


def run_values_along(run: Run, directions: Directions) -> ValuesAlong | str:
    own = read_styles(run)
    if own is None:
        return NO_STYLES_REASON
    if list(own.labels) != list(directions.means.labels):
        return "its styles differ from the styles of the directions; classify both with the same classifier"
    replies = _replies(run)
    is_own = directions.run == run_digest(run.folder)
    if is_own and replies is None:
        return NO_STYLES_REASON
    along = values_along(own, directions.means, replies)._replace(is_own=is_own)
    return along if along.values else "fewer than two of its terms have a direction"


def _replies(run: Run) -> RepliesOf | None:
    if not any((run.folder / STYLES).glob("*.parquet")):
        return None
    styles, replies = read_vectors(run.folder / STYLES), read_reply_table(run.folder)
    rows = None if replies is None else pc.index_in(pa.array(styles.ids), replies["id"])
    if replies is None or rows is None or rows.null_count:
        return None
    about = replies.select(["descriptor", "template", "axis"]).take(rows)
    descriptors, templates, axes = (about[name].to_pylist() for name in ("descriptor", "template", "axis"))
    keys = [DescriptorKey(axis, descriptor) for axis, descriptor in zip(axes, descriptors, strict=True)]
    return RepliesOf(styles.values, styles.ids, keys, templates)


def _mean(values: Sequence[float], parts: Sequence[tuple[ValuesAlong, int]], level: float) -> Mean:
    """Computes the mean of descriptors' values (×1000) with its interval.

    `parts` contains the runs from which the values come, and the sign of each run (1 or −1). All runs have the same
    descriptors.
    """
    value = SCALE * float(np.mean(values))
    if any(along.replies is None for along, _ in parts):
        return Mean(value, None, len(values))
    errors = [
        Part(
            along.replies,
            _vectors(along, sign * along.ways),
            along.sources,
            _vectors(along, sign * along.shifts),
            sign,
        )
        for along, sign in parts
        if along.replies is not None
    ]
    half = half_width(errors, level)
    return Mean(value, None if half is None else (value - SCALE * half, value + SCALE * half), len(values))


def _vectors(along: ValuesAlong, slope: np.ndarray) -> dict[DescriptorKey, np.ndarray]:
    """Returns the gradient of the mean with respect to each descriptor's m_d or n_d.

    `slope` contains the gradient of each descriptor's own value. The mean over all descriptors is subtracted from m_d
    and n_d.
    """
    return dict(zip(along.values, (slope - slope.mean(axis=0)) / len(slope), strict=True))
