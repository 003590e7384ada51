"""Computes the results of `awareness` from the run's tables."""

import pyarrow as pa

from hb_dataset.awareness import NEED
from hb_metrics.measurements.awareness.results import (
    AWARENESS_TABLE,
    TABLE_FILE,
    Awareness,
    awareness_results,
    takes_up,
)
from hb_metrics.measurements.results import Run
from hb_metrics.run.finished_run import stored_shards, stored_table
from hb_metrics.run.run_folder import PROMPTS_FILE, REPLIES, write_table

FOLDER = "awareness"
DIVERGENCES = "divergences"  # a subfolder of shards
WORDS = "taken_up_words"  # the column of the prompts with the words that take up a need


def compute(run: Run) -> Awareness:
    """Computes the results, and writes the table of divergences and of needs taken up."""
    folder = run.folder / FOLDER
    prompts, shards = stored_table(folder / PROMPTS_FILE), stored_shards(folder / DIVERGENCES)
    made = stored_shards(folder / REPLIES, ("id", "reply"))
    per_token = shards["divergence"].to_numpy() / shards["num_tokens"].to_numpy()
    divergences = dict(zip(shards["id"].to_pylist(), per_token.tolist(), strict=True))
    reply_of = dict(zip(made["id"].to_pylist(), made["reply"].to_pylist(), strict=True))
    rows, replies = prompts.to_pylist(), []
    for row in rows:
        reply = reply_of[row["id"]] if row["id"] in divergences else None
        row["divergence"] = divergences.get(row["id"])
        row["taken_up"] = None
        if row["kind"] == NEED and reply is not None:
            row["taken_up"] = takes_up(reply, row[WORDS], row["descriptor"])
        replies.append(reply)
    table = pa.Table.from_pylist([{name: row[name] for name in AWARENESS_TABLE.names} for row in rows], AWARENESS_TABLE)
    write_table(run.folder / TABLE_FILE, table)
    return awareness_results(prompts, table, replies, run.confidence_level)
