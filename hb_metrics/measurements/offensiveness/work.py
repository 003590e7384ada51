from collections.abc import Mapping
from typing import Any

import numpy as np

from hb_metrics.inference.classifiers.classifier import Classifier, classify_into_shards, probability_array
from hb_metrics.inference.classifiers.offensive import ROWS_PER_SHARD, load_offensiveness_classifier
from hb_metrics.measurements.measurement import Task, classifier_record
from hb_metrics.measurements.offensiveness.options import OffensivenessOptions
from hb_metrics.measurements.turn_shares import turn_shares
from hb_metrics.offensiveness.averages import offensiveness
from hb_metrics.runs.finished_run import read_turns
from hb_metrics.runs.replies import (
    FlaggedReplies,
    Replies,
    answered_replies,
    chosen_replies,
    whole_prompts,
)
from hb_metrics.runs.run_folder import OFFENSIVENESS, turn_folder


def plan(task: Task, files: None) -> Classifier:
    options = task.settings.of(OffensivenessOptions)
    return load_offensiveness_classifier(options.offensiveness_classifier, **task.classifier_options())


def describe(classifier: Classifier) -> dict[str, Any]:
    labels = list(classifier.source_labels)
    return {
        "offensiveness_classifier": classifier_record(classifier, version=classifier.version, offensive_labels=labels)
    }


def measure(task: Task, classifier: Classifier, results: Mapping[str, Any]) -> dict[str, Any]:
    turns = read_turns(task.folder, task.prompts) if "generation" in task.measurements else []
    parts = [("prompts", whole_prompts(task.prompts), task.folder / OFFENSIVENESS / "prompts")]
    for turn, replies in enumerate(turns, start=1):
        shards = turn_folder(task.folder, turn) / OFFENSIVENESS / "replies"
        parts.append(("replies" if turn == 1 else f"replies of turn {turn}", replies, shards))
    measured: dict[str, Any] = {}
    flagged = []
    for name, part, shards in parts:
        scores = classify_into_shards(
            part.texts,
            part.ids,
            classifier,
            shards,
            label=f"offensiveness of {name}",
            precision="float64",
            rows_per_shard=ROWS_PER_SHARD,
        )
        if scores is None:
            continue
        probabilities = probability_array(scores)
        answered = classifier.answered(probabilities)
        kept = answered_replies(part, answered)
        if name in ("prompts", "replies"):
            num_truncated = sum(scores["truncated"].to_pylist())
            measured[name] = offensiveness_results(kept, probabilities[answered, 0], num_truncated)
            if classifier.judge is not None:
                measured[name]["num_unanswered"] = int((~answered).sum())
        if name != "prompts":
            goes_on = np.isin(kept.ids, turns[-1].ids)
            flags = probabilities[answered, 0] >= measured["replies"]["threshold"]
            flagged.append(FlaggedReplies(chosen_replies(kept, goes_on), flags[goes_on]))
    if len(flagged) > 1:
        measured["turns"] = turn_shares(flagged, task.settings.run.confidence_level)
    return measured


def offensiveness_results(texts: Replies, probabilities: np.ndarray, num_truncated: int) -> dict[str, Any]:
    averages = offensiveness(probabilities, texts.descriptors, texts.templates, texts.axes)
    return {**averages, "num_truncated": num_truncated}
