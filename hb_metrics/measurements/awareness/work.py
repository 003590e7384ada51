from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from hb_dataset.awareness import NEED, AwarenessItem, awareness_prompts, read_awareness
from hb_metrics.inference.engines.engine import Plan
from hb_metrics.inference.models.layout import Layout
from hb_metrics.inference.scoring.divergence import divergences_into_shards
from hb_metrics.measurements.awareness.options import AwarenessOptions
from hb_metrics.measurements.awareness.results import AWARENESS_TABLE, TABLE_FILE, awareness_results, takes_up
from hb_metrics.measurements.measurement import Task
from hb_metrics.measurements.reply_requests import request_replies
from hb_metrics.runs.replies import is_empty, no_replies
from hb_metrics.runs.run_folder import table_digest, write_table

FOLDER = "awareness"
MAX_TOKENS = 48  # the maximum length of a reply


class AwarenessWork(NamedTuple):
    items: list[AwarenessItem]
    prompts: pa.Table
    layout: Layout
    plan: Plan


def plan(task: Task, files: None) -> AwarenessWork:
    shared, items = task.settings.run, read_awareness()
    number = task.settings.of(AwarenessOptions).awareness_prompts
    prompts = awareness_prompts(items, number, seed=shared.seed, axes=shared.axes)
    requests, layout, _ = request_replies(prompts, task.engine, shared, "greedy", {"max_new_tokens": MAX_TOKENS})
    return AwarenessWork(items, prompts, layout, task.engine.plan_replies(requests, layout))


def describe(work: AwarenessWork) -> dict[str, Any]:
    described = work.plan.description()
    words = pa.table({"taken_up": [list(item.taken_up) for item in work.items]})
    digests = {"prompts_digest": table_digest(work.prompts), "words_digest": table_digest(words)}
    return {"awareness": {**described, **digests}}


def measure(task: Task, work: AwarenessWork, results: Mapping[str, Any]) -> dict[str, Any]:
    folder: Path = task.folder / FOLDER
    made = task.engine.reply(work.plan, folder / "replies", batch_size=task.settings.run.batch_size)
    by_id = dict(zip(made["id"].to_pylist(), made["reply"].to_pylist(), strict=True))
    rows = work.prompts.to_pylist()
    replied = [row for row in rows if not is_empty(by_id[row["id"]])]
    if not replied:
        raise no_replies(made, work.plan.description()["max_reasoning_tokens"])
    found = divergences_into_shards(
        [row["id"] for row in replied],
        [row["text"] for row in replied],
        [row["text_without"] for row in replied],
        [by_id[row["id"]] for row in replied],
        task.loaded,
        work.layout,
        folder / "divergences",
    )
    if found is None:
        return {}
    per_token = found["divergence"].to_numpy() / found["num_tokens"].to_numpy()
    divergences = dict(zip(found["id"].to_pylist(), per_token.tolist(), strict=True))
    replies = [by_id[row["id"]] if row["id"] in divergences else None for row in rows]
    for row, reply in zip(rows, replies, strict=True):
        row["divergence"] = divergences.get(row["id"])
        row["taken_up"] = None
        if row["kind"] == NEED and reply is not None:
            row["taken_up"] = takes_up(reply, work.items[row["item"]], row["descriptor"])
    table = pa.Table.from_pylist([{name: row[name] for name in AWARENESS_TABLE.names} for row in rows], AWARENESS_TABLE)
    write_table(task.folder / TABLE_FILE, table)
    return awareness_results(work.prompts, table, replies, task.settings.run.confidence_level)
