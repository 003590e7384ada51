"""Reads texts by people, on which to measure a model's perplexity of ordinary language (LMP)."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from hb_dataset.dialogue_pairs import one_line, read_columns, read_dialogue

NUM_REFERENCE_TEXTS = 500  # of the chit-chat dataset


class ReferenceTexts(NamedTuple):
    """Reference texts; lists are [texts].

    Attributes:
        ids: The conversation and turn, or the row in a file (from 0).
        texts: The texts, on one line each, with runs of white space as one space.
        source: The origin of the texts, for the record.
        num_blank: The number of rows without text, which were left out before the draw.
    """

    ids: list[str]
    texts: list[str]
    source: str
    num_blank: int

    def description(self) -> dict[str, Any]:
        """Describes the texts for run.json."""
        digest = hashlib.sha256(json.dumps(self[:2]).encode()).hexdigest()
        return {"source": self.source, "digest": digest, "num_texts": len(self.ids)}


def read_reference_texts(path: Path | None = None, *, seed: int = 0) -> ReferenceTexts:
    """Reads reference texts.

    Args:
        path: A .txt file with one text per line, or a CSV, JSONL or Parquet file with a column `text` or `reply`;
            `None` for 500 replies of the chit-chat dataset, at most one per person.
        seed: The seed that draws the replies.

    Returns:
        The texts, in the order of the source.

    Raises:
        ValueError: The file cannot be read, has no column of text, or has no text.
        FileNotFoundError: There is no such file.
        ModuleNotFoundError: The chit-chat dataset is not installed.
    """
    if path is None:
        dialogue = read_dialogue(None, num_replies=NUM_REFERENCE_TEXTS, seed=seed)
        return ReferenceTexts(dialogue.ids, dialogue.replies, dialogue.source, 0)
    (column,) = read_columns(path, ("text", "reply"))
    lines = [one_line(text or "") for text in column]
    rows = [row for row, text in enumerate(lines) if text]
    if not rows:
        raise ValueError(f"{path.name} has no texts; write one per line (.txt), or in a column text")
    return ReferenceTexts([str(row) for row in rows], [lines[row] for row in rows], path.name, len(lines) - len(rows))
