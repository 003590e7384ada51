"""Folders of made-up runs with replies and their offensiveness, as `export` reads them."""

import json

import numpy as np
import pyarrow.parquet as pq

from hb_dataset import load_table
from tests.hb_metrics.made_results import as_stored, run_record, write_replies, write_vectors

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
    for name, content in (("run.json", run), ("results.json", {"run": run})):
        (folder / name).write_text(json.dumps(as_stored(content)), encoding="utf-8")
    pq.write_table(prompts, folder / "prompts.parquet")
    texts = [row["text"] if text is None else text(row) for row in rows]
    write_replies(folder, prompts["id"], texts, [reply(row) for row in rows])
    if offensiveness is not None:
        scored = [row for row in rows if reply(row)]
        chances = np.array([[offensiveness(row)] for row in scored])
        write_vectors(folder / "offensiveness" / "replies", [row["id"] for row in scored], chances)
    return folder
