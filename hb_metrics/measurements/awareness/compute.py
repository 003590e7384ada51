"""Computes the results of `awareness` from the run's tables."""

from typing import NamedTuple

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
from hb_metrics.run.run_folder import PROMPTS_FILE, REPLIES, write_table
from hb_metrics.run.schema import by_id, rows_of

FOLDER = "awareness"
DIVERGENCES = "divergences"  # a subfolder of shards
WORDS = "taken_up_words"  # the column of the prompts with the words that take up a need


class _Prompt(NamedTuple):
    id: str
    kind: str
    descriptor: str
    taken_up_words: list[str]


def compute(run: Run) -> Awareness:
    """Computes the results, and writes the table of divergences and of needs taken up."""
    tables = run.tables.inside(FOLDER)
    prompts = tables.read(PROMPTS_FILE, _Prompt._fields)
    shards = tables.read(DIVERGENCES, ("id", "divergence", "num_tokens"))
    made = tables.read(REPLIES, ("id", "reply"))
    per_token = shards["divergence"].to_numpy() / shards["num_tokens"].to_numpy()
    divergences = dict(zip(shards["id"].to_pylist(), per_token.tolist(), strict=True))
    reply_of, rows = by_id(made, "reply"), rows_of(prompts, _Prompt)
    replies = [reply_of[row.id] if row.id in divergences else None for row in rows]
    taken_up = []
    for row, reply in zip(rows, replies, strict=True):
        is_shown = row.kind == NEED and reply is not None
        taken_up.append(takes_up(str(reply), row.taken_up_words, row.descriptor) if is_shown else None)
    about = prompts.select(AWARENESS_TABLE.names[:4]).columns
    table = pa.table([*about, [divergences.get(row.id) for row in rows], taken_up], schema=AWARENESS_TABLE)
    write_table(run.folder / TABLE_FILE, table)
    return awareness_results(prompts, table, replies, run.confidence_level)
