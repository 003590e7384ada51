"""Counts the words of the run's replies."""

from collections import defaultdict
from statistics import mean

from hb_metrics.runs.finished_run import read_stored_replies
from reply_length import ReplyLengthOptions


def plan(task, files):
    return task.settings.of(ReplyLengthOptions).reply_length_unit


def describe(work):
    return {"reply_length": {"counted": "all replies that are not empty"}}


def measure(task, work, results):
    if not task.state.is_main_process:
        return {}
    replies = read_stored_replies(task.folder, task.prompts)
    lengths = defaultdict(list)
    for descriptor, text in zip(replies.descriptors, replies.texts, strict=True):
        lengths[descriptor].append(len(text.split()) if work == "words" else len(text))
    return {"unit": work, "by_descriptor": {name: mean(values) for name, values in sorted(lengths.items())}}
