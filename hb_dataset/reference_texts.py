"""Reads texts written by people.

A model's perplexity on these texts shows how well the model predicts ordinary language (LMP).
"""

import hashlib
import json
from pathlib import Path
from typing import NamedTuple

from hb_dataset.dialogue_pairs import one_line, read_dialogue
from hb_dataset.table_files import read_columns

NUM_REFERENCE_TEXTS = 500  # drawn from the chit-chat dataset


class ReferenceTexts(NamedTuple):
    """Reference texts, one line each. `num_blank` counts the dropped rows without text.

    An id consists of the conversation and the turn. For texts from a file, the id is the row number, counted from 0.
    """

    ids: list[str]
    texts: list[str]
    source: str
    num_blank: int

    def description(self) -> dict[str, object]:
        digest = hashlib.sha256(json.dumps(self[:2]).encode()).hexdigest()
        return {"source": self.source, "digest": digest, "num_texts": len(self.ids)}


def read_reference_texts(path: Path | None = None, *, seed: int = 0) -> ReferenceTexts:
    """Reads a .txt file with one text per line, or the column `text` or `reply` of a CSV, JSONL or Parquet file.

    Without a `path`, reads 500 replies from the chit-chat dataset, at most one per person.
    """
    if path is None:
        dialogue = read_dialogue(None, num_replies=NUM_REFERENCE_TEXTS, seed=seed)
        return ReferenceTexts(dialogue.ids, dialogue.replies, dialogue.source, 0)
    (column,) = read_columns(path, ("text", "reply"))
    lines = [one_line(text or "") for text in column]
    rows = [row for row, text in enumerate(lines) if text]
    if not rows:
        raise ValueError(
            f"{path.name} has no texts; write one text per line (.txt), or put the texts in a column named 'text'"
        )
    return ReferenceTexts([str(row) for row in rows], [lines[row] for row in rows], path.name, len(lines) - len(rows))
