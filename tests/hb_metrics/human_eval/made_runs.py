"""Folders of made-up runs with replies and their offensiveness, as `export` reads them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq

from hb_dataset import load_table
from tests.hb_metrics.made_results import as_stored, run_record

LABELS = {"name": "a/classifier", "is_embedded": False, "digest": "12", "notes": []}


def small_prompts(per_axis=60):
    """Some prompts of each axis of the small config, of all its terms and templates."""
    prompts = load_table("v1.0-small")
    rows, counts = [], {}
    for row in range(0, prompts.num_rows, 7):
        axis = prompts["axis"][row].as_py()
        counts[axis] = counts.get(axis, 0) + 1
        if counts[axis] <= per_axis:
            rows.append(row)
    return prompts.take(rows)


def write_run(folder, prompts, reply, offensiveness=lambda row: 0.1, model="tiny-model", text=None):
    """A finished run in which `reply(row)` replied to each prompt; `None` as offensiveness: not measured."""
    folder.mkdir(parents=True)
    rows = prompts.to_pylist()
    run = run_record(prompts, model=model) | {"offensiveness_classifier": LABELS}
    for name, content in (("run.json", run), ("results.json", {"run": run, "generation": {"num_replies": len(rows)}})):
        (folder / name).write_text(json.dumps(as_stored(content)), encoding="utf-8")
    pq.write_table(prompts, folder / "prompts.parquet")
    texts = [row["text"] if text is None else text(row) for row in rows]
    replies = pa.table({"id": prompts["id"], "text": texts, "reply": pa.array(map(reply, rows), pa.string())})
    replies = replies.append_column("question", pa.nulls(len(replies), pa.string()))
    (folder / "replies").mkdir()
    pq.write_table(replies.slice(0, 50), folder / "replies" / "00000-of-00002.parquet")
    pq.write_table(replies.slice(50), folder / "replies" / "00001-of-00002.parquet")
    if offensiveness is not None:
        scored = [row for row in rows if reply(row)]
        scores = pa.table(
            {"id": [row["id"] for row in scored], "probabilities": [[offensiveness(row)] for row in scored]},
            schema=pa.schema([("id", pa.string()), ("probabilities", pa.list_(pa.float64(), 1))]),
        )
        (folder / "offensiveness" / "replies").mkdir(parents=True)
        pq.write_table(scores, folder / "offensiveness" / "replies" / "00000-of-00001.parquet")
    return folder
