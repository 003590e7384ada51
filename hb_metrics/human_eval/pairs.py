"""Pairs of replies: what two runs replied to the same prompt, without what raters are not to be shown."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_dataset.hints import did_you_mean
from hb_metrics.human_eval.questions import INFLAMMATORY_PREFERENCE, INFLAMMATORY_TEMPLATES
from hb_metrics.inference.classifiers.censoring import UNSAFE_MARK
from hb_metrics.offensiveness.averages import THRESHOLD
from hb_metrics.runs.finished_run import Run, read_reply_table, read_shards
from hb_metrics.runs.replies import is_empty, questions_of, with_questions
from hb_metrics.runs.run_folder import OFFENSIVENESS

_COLUMNS = ("id", "axis", "descriptor", "template", "preference", "reply")

# Why a prompt has no pair: key in files → words. A prompt is counted under the first that applies.
REASONS = {
    "one_run": "only one of the runs replied to the prompt",
    "other_prompt": "the runs were given the prompt in other words (another seed or other variations)",
    "empty": "a reply is empty",
    "template": "the template is inflammatory",
    "term": "the term is inflammatory",
    "offensive": "a reply is offensive by the run's classifier, or its model marked it as unsafe",
    "identical": "both replies are the same",
}

NO_REPLIES_ERROR = "'{folder}' has no replies; measure with --measurements generation first"
NO_OFFENSIVENESS_ERROR = (
    "'{folder}' has no offensiveness of its replies, by which those that would hurt raters are left out; measure it "
    "with --measurements generation,offensiveness, or give --keep_offensive"
)
OTHER_OFFENSIVENESS_ERROR = (
    "'{folder}' has offensiveness of other replies than its own; measure again in a new folder, or give "
    "--keep_offensive"
)
UNKNOWN_ERROR = "{what} '{name}' is in none of the prompts; {hint}give one that is, or leave it out"


class Pair(NamedTuple):
    """Two replies to a prompt.

    Attributes:
        id: The id of the prompt, with the number of the reply where a prompt has several.
        axis: The axis of its descriptor.
        descriptor: Its descriptor.
        template: Its template.
        prompt: The prompt as the models were given it.
        replies: The replies of the first and of the second run.
    """

    id: str
    axis: str
    descriptor: str
    template: str
    prompt: str
    replies: tuple[str, str]


class Pairs(NamedTuple):
    """The pairs that two runs have.

    Attributes:
        pairs: Those that raters can be shown, in the order of the prompts.
        left_out: Reason (a key of `REASONS`) → the number of prompts without a pair.
        axes: All axes of the prompts, also those without a pair.
    """

    pairs: list[Pair]
    left_out: dict[str, int]
    axes: list[str]


class Filters(NamedTuple):
    """What raters are not shown.

    Attributes:
        keep_inflammatory: Whether the inflammatory templates and terms of `questions.py` are shown.
        keep_offensive: Whether replies that the run's classifier found offensive are shown.
        templates: Templates to leave out beside these.
        terms: Descriptors to leave out beside these.
    """

    keep_inflammatory: bool = False
    keep_offensive: bool = False
    templates: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()


def pairs_of_runs(first: Run, second: Run, filters: Filters) -> Pairs:
    """What two runs replied to the same prompts.

    Raises:
        ValueError: A run has no replies, or no offensiveness of them, or a name to leave out is in no prompt.
    """
    tables = [_replies(run) for run in (first, second)]
    offensive = [set() if filters.keep_offensive else _offensive_ids(run) for run in (first, second)]
    for what, column, names in (("template", "template", filters.templates), ("term", "descriptor", filters.terms)):
        _check_known(what, names, {row[column] for table in tables for row in table.values()})
    templates = {*filters.templates, *(() if filters.keep_inflammatory else INFLAMMATORY_TEMPLATES)}
    left_out: Counter[str] = Counter({"one_run": len(tables[0].keys() ^ tables[1].keys())})
    pairs = []
    for id, row in tables[0].items():
        if id not in tables[1]:
            continue
        other = tables[1][id]
        replies = row["reply"], other["reply"]
        if row["prompt"] != other["prompt"]:
            left_out["other_prompt"] += 1
        elif is_empty(replies[0]) or is_empty(replies[1]):
            left_out["empty"] += 1
        elif row["template"] in templates:
            left_out["template"] += 1
        elif row["descriptor"] in filters.terms or (not filters.keep_inflammatory and _is_inflammatory(row)):
            left_out["term"] += 1
        elif id in offensive[0] or id in offensive[1] or (not filters.keep_offensive and any(map(_is_marked, replies))):
            left_out["offensive"] += 1
        elif replies[0].split() == replies[1].split():
            left_out["identical"] += 1
        else:
            shown = _without_mark(replies[0]), _without_mark(replies[1])
            pairs.append(Pair(id, row["axis"], row["descriptor"], row["template"], row["prompt"], shown))
    axes = sorted({row["axis"] for table in tables for row in table.values()})
    return Pairs(pairs, {reason: left_out[reason] for reason in REASONS}, axes)


def _is_inflammatory(row: dict[str, str]) -> bool:
    return row.get("preference") == INFLAMMATORY_PREFERENCE


def _is_marked(reply: str) -> bool:
    return UNSAFE_MARK in reply


def _without_mark(reply: str) -> str:
    return reply.replace(UNSAFE_MARK, "")


def _replies(run: Run) -> dict[str, dict[str, str]]:
    """A run's replies with their prompts, by id."""
    table = read_reply_table(run.folder)
    if table is None:
        raise ValueError(NO_REPLIES_ERROR.format(folder=run.folder))
    prompts = with_questions(table["text"].to_pylist(), questions_of(table))
    names = [name for name in _COLUMNS if name in table.column_names]  # runs of earlier releases have no preference
    table = table.select(names).append_column("prompt", pa.array(prompts, pa.string()))
    return {row["id"]: row for row in table.to_pylist()}


def _offensive_ids(run: Run) -> set[str]:
    """The ids of the replies that the run's classifier found offensive."""
    scores = read_shards(run, f"{OFFENSIVENESS}/replies", ["id", "probabilities"])
    if scores is None:
        raise ValueError(NO_OFFENSIVENESS_ERROR.format(folder=run.folder))
    probabilities = np.array([row[0] for row in scores["probabilities"].to_pylist()])
    ids = np.array(scores["id"].to_pylist(), dtype=object)
    return set(ids[probabilities >= THRESHOLD])


def _check_known(what: str, names: Sequence[str], known: set[str]) -> None:
    for name in names:
        if name not in known:
            raise ValueError(UNKNOWN_ERROR.format(what=what, name=name, hint=did_you_mean(name, known)))
