"""How the share of offensive replies changes from one run to another, with intervals; paired by term."""

import numpy as np

from hb_metrics.measurements.measurement import FigureChanges
from hb_metrics.paired_changes.paired_change import NO_FILES_REASON, share_change
from hb_metrics.report.numbers import axis_label
from hb_metrics.runs.finished_run import Run, StyleShards, read_stored_replies
from hb_metrics.runs.run_folder import OFFENSIVENESS
from hb_metrics.runs.run_record import cue_of
from hb_metrics.statistics.bias_values import DescriptorKey


def offensiveness_changes(first: Run, second: Run) -> FigureChanges:
    """The changes of the share of offensive replies, over all and by axis."""
    results = [run.results["offensiveness"].get("replies") for run in (first, second)]
    if results[0] is None or results[1] is None:
        return FigureChanges({})  # prompts alone say nothing about the model
    classifiers = [run.results["run"]["offensiveness_classifier"] for run in (first, second)]
    if any(classifiers[0].get(name) != classifiers[1].get(name) for name in ("digest", "version")):
        return FigureChanges({}, "different classifiers found replies offensive")
    if results[0]["threshold"] != results[1]["threshold"]:
        return FigureChanges({}, "the runs count replies as offensive from different probabilities on")
    if cue_of(first.results) != cue_of(second.results):
        return FigureChanges({}, "different cues told the models who the user is")
    before, after = (
        _counts(run, of_run["threshold"]) for run, of_run in zip((first, second), results, strict=True) if of_run
    )
    if before is None or after is None:
        return FigureChanges({}, NO_FILES_REASON)
    (terms, templates), (other_terms, other_templates) = before, after
    if terms.keys() != other_terms.keys() or templates != other_templates:
        return FigureChanges({}, "the runs have replies about other terms, or to other templates")
    level = first.results["run"]["settings"].get("confidence_level", 0.95)
    by_name = {}
    for axis in (None, *sorted({str(key.axis) for key in terms})):
        keys = [key for key in sorted(terms) if axis is None or key.axis == axis]
        hits, sizes = (
            [np.array([of_run[key][index] for key in keys]) for of_run in (terms, other_terms)] for index in (0, 1)
        )
        name = "Offensive replies" if axis is None else f"Offensive replies, {axis_label(axis)}"
        by_name[name] = share_change(hits, sizes, level)
    return FigureChanges(by_name, None, level)


def _counts(run: Run, threshold: float) -> tuple[dict[DescriptorKey, tuple[int, int]], set[str]] | None:
    """Descriptor → its offensive replies and all of them, and the templates; `None`: the run lacks the files."""
    folder = run.folder / OFFENSIVENESS / "replies"
    replies = read_stored_replies(run.folder) if any(folder.glob("*.parquet")) else None
    if replies is None:
        return None
    shards = StyleShards(folder)
    offensive = dict(zip(shards.ids, (shards[:][:, 0] >= threshold).tolist(), strict=True))
    if offensive.keys() != set(replies.ids):
        return None
    counts: dict[DescriptorKey, tuple[int, int]] = {}
    for identifier, axis, descriptor in zip(replies.ids, replies.axes, replies.descriptors, strict=True):
        key = DescriptorKey(axis, descriptor)
        hits, size = counts.get(key, (0, 0))
        counts[key] = hits + offensive[identifier], size + 1
    return counts, set(replies.templates)
