from functools import partial

import pyarrow as pa

from hb_dataset.awareness import awareness_prompts, read_awareness
from hb_metrics.collect.engines.engine import Plan
from hb_metrics.collect.scoring.reply_scoring import divergences_into_shards
from hb_metrics.measurements.awareness.compute import AWARENESS_FOLDER, DIVERGENCES, WORDS
from hb_metrics.measurements.measurement import Planned, Task
from hb_metrics.measurements.reply_requests import request_replies
from hb_metrics.models.layout import Layout
from hb_metrics.run.plurals import table_digest
from hb_metrics.run.replies import is_empty, no_replies
from hb_metrics.run.run_folder import PROMPTS_FILE, REPLIES, write_table
from hb_metrics.run.schema import by_id

NUM_PROMPTS = 500  # of each kind; fewer with --sample
MAX_TOKENS = 48  # the maximum length of a reply


def plan(task: Task) -> Planned:
    shared, items = task.settings.run, read_awareness()
    number = NUM_PROMPTS if shared.sample is None else min(shared.sample, NUM_PROMPTS)
    prompts = awareness_prompts(items, number, seed=shared.seed, axes=shared.axes)
    requests, _ = request_replies(prompts, task.engine, shared, "greedy", {"max_new_tokens": MAX_TOKENS})
    replies = task.engine.plan_replies(requests)
    taken_up = [list(item.taken_up) for item in items]
    words = pa.table({"taken_up": taken_up})
    digests = {"prompts_digest": table_digest(prompts), "words_digest": table_digest(words)}
    of_prompts = pa.array([taken_up[item] for item in prompts["item"].to_pylist()])
    written = prompts.append_column(WORDS, of_prompts)
    return Planned(
        {"awareness": {**replies.description(), **digests}}, partial(collect, task, written, requests.layout, replies)
    )


def collect(task: Task, prompts: pa.Table, layout: Layout, plan: Plan) -> None:
    folder = task.folder / AWARENESS_FOLDER
    replies = task.engine.reply(plan, folder / REPLIES)
    reply_of = by_id(replies, "reply")
    replied = prompts.filter(pa.array([not is_empty(reply_of[identifier]) for identifier in prompts["id"].to_pylist()]))
    if not len(replied):
        raise no_replies(replies, plan.description()["max_reasoning_tokens"])
    ids, texts, texts_without = (replied[name].to_pylist() for name in ("id", "text", "text_without"))
    said = [reply_of[identifier] for identifier in ids]
    divergences_into_shards(ids, texts, texts_without, said, task.loaded, layout, folder / DIVERGENCES)
    if task.state.is_main_process:
        write_table(folder / PROMPTS_FILE, prompts)
