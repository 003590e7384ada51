from typing import NamedTuple

import pyarrow as pa

from hb_dataset.awareness import AwarenessItem, awareness_prompts, read_awareness
from hb_metrics.collect.engines.engine import Plan
from hb_metrics.collect.scoring.reply_scoring import divergences_into_shards
from hb_metrics.measurements.awareness.compute import DIVERGENCES, FOLDER, WORDS
from hb_metrics.measurements.measurement import Task
from hb_metrics.measurements.reply_requests import request_replies
from hb_metrics.models.layout import Layout
from hb_metrics.run.replies import is_empty, no_replies
from hb_metrics.run.run_folder import PROMPTS_FILE, REPLIES, table_digest, write_table
from hb_metrics.run.schema import by_id, rows_of

NUM_PROMPTS = 500  # of each kind; fewer with --sample
MAX_TOKENS = 48  # the maximum length of a reply


class _Prompt(NamedTuple):
    id: str
    text: str
    text_without: str


class AwarenessWork(NamedTuple):
    items: list[AwarenessItem]
    prompts: pa.Table
    layout: Layout
    plan: Plan


def plan(task: Task, files: None) -> AwarenessWork:
    shared, items = task.settings.run, read_awareness()
    number = NUM_PROMPTS if shared.sample is None else min(shared.sample, NUM_PROMPTS)
    prompts = awareness_prompts(items, number, seed=shared.seed, axes=shared.axes)
    requests, layout, _ = request_replies(prompts, task.engine, shared, "greedy", {"max_new_tokens": MAX_TOKENS})
    return AwarenessWork(items, prompts, layout, task.engine.plan_replies(requests, layout))


def describe(work: AwarenessWork) -> dict[str, object]:
    described = work.plan.description()
    words = pa.table({"taken_up": [list(item.taken_up) for item in work.items]})
    digests = {"prompts_digest": table_digest(work.prompts), "words_digest": table_digest(words)}
    return {"awareness": {**described, **digests}}


def collect(task: Task, work: AwarenessWork) -> None:
    folder = task.folder / FOLDER
    replies = task.engine.reply(work.plan, folder / REPLIES)
    reply_of = by_id(replies, "reply")
    replied = [row for row in rows_of(work.prompts, _Prompt) if not is_empty(reply_of[row.id])]
    if not replied:
        raise no_replies(replies, work.plan.description()["max_reasoning_tokens"])
    divergences_into_shards(
        [row.id for row in replied],
        [row.text for row in replied],
        [row.text_without for row in replied],
        [reply_of[row.id] for row in replied],
        task.loaded,
        work.layout,
        folder / DIVERGENCES,
    )
    if task.state.is_main_process:
        words = pa.array([list(work.items[item].taken_up) for item in work.prompts["item"].to_pylist()])
        write_table(folder / PROMPTS_FILE, work.prompts.append_column(WORDS, words))
