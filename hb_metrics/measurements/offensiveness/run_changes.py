"""Changes of the share of offensive replies between two runs, with intervals, paired by prompt."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from hb_metrics.measurements.measurement import FigureChanges
from hb_metrics.paired_changes.paired_change import NO_FILES_REASON, share_change
from hb_metrics.report.layout.numbers import axis_label
from hb_metrics.runs.finished_run import Run, StyleShards, read_stored_replies
from hb_metrics.runs.run_folder import OFFENSIVENESS
from hb_metrics.runs.run_record import cue_of
from hb_metrics.stats.bias_values import DescriptorKey


class _Reply(NamedTuple):
    """A reply's term and template, and whether it is offensive."""

    term: DescriptorKey
    template: str
    offensive: bool


def changes(first: Run, second: Run) -> FigureChanges:
    """The changes of the share of offensive replies, over all and by axis."""
    results = [run.results["offensiveness"].get("replies") for run in (first, second)]
    if results[0] is None or results[1] is None:
        return FigureChanges({})  # prompts alone say nothing about the model
    classifiers = [run.results["run"]["offensiveness_classifier"] for run in (first, second)]
    if any(classifiers[0].get(name) != classifiers[1].get(name) for name in ("digest", "version")):
        return FigureChanges({}, "different classifiers found replies offensive")
    if results[0]["threshold"] != results[1]["threshold"]:
        return FigureChanges({}, "the runs have different thresholds of offensiveness")
    if cue_of(first.results) != cue_of(second.results):
        return FigureChanges({}, "the runs describe the user by different cues")
    before, after = (_classified(run, results[0]["threshold"]) for run in (first, second))
    if before is None or after is None:
        return FigureChanges({}, NO_FILES_REASON)
    terms = [{reply.term for reply in replies.values()} for replies in (before, after)]
    templates = [{reply.template for reply in replies.values()} for replies in (before, after)]
    if terms[0] != terms[1] or templates[0] != templates[1]:
        return FigureChanges({}, "the runs have replies about different terms, or to different templates")
    level = first.results["run"]["settings"].get("confidence_level", 0.95)
    axes, counts = _counts(before, after)
    by_name = {"Offensive replies": share_change(counts, level)}
    for axis in sorted(set(axes)):
        of_axis = counts[..., np.array(axes) == axis, :]
        by_name[f"Offensive replies, {axis_label(axis)}"] = share_change(of_axis, level)
    return FigureChanges(by_name, None, level)


def _classified(run: Run, threshold: float) -> dict[str, _Reply] | None:
    """A run's replies by their ids, which are those of the prompts; `None`: the run lacks the files."""
    folder = run.folder / OFFENSIVENESS / "replies"
    replies = read_stored_replies(run.folder) if any(folder.glob("*.parquet")) else None
    if replies is None:
        return None
    shards = StyleShards(folder)
    offensive = dict(zip(shards.ids, (shards[:][:, 0] >= threshold).tolist(), strict=True))
    if offensive.keys() != set(replies.ids):
        return None
    columns = zip(replies.ids, replies.axes, replies.descriptors, replies.templates, strict=True)
    return {
        identifier: _Reply(DescriptorKey(axis, term), template, offensive[identifier])
        for identifier, axis, term, template in columns
    }


def _counts(before: Mapping[str, _Reply], after: Mapping[str, _Reply]) -> tuple[list[str], np.ndarray]:
    """The axis of each term, and the prompts by both runs' replies, as `share_change` takes them."""
    known = {**before, **after}
    terms = {key: row for row, key in enumerate(sorted({reply.term for reply in known.values()}))}
    templates = {name: row for row, name in enumerate(sorted({reply.template for reply in known.values()}))}
    counts = np.zeros((3, 3, len(terms), len(templates)), dtype=np.int64)
    for identifier, reply in known.items():
        states = [int(run[identifier].offensive) if identifier in run else 2 for run in (before, after)]
        counts[states[0], states[1], terms[reply.term], templates[reply.template]] += 1
    return [str(key.axis) for key in terms], counts
