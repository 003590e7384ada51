"""Texts that people wrote; a model's perplexity on them (LMP) shows how well it still models language."""

import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

from hb_dataset.dialogue_pairs import one_line, read_columns, read_dialogue
from hb_dataset.seeded_draws import seeded_generator

NUM_REFERENCE_TEXTS = 500  # of the chit-chat dataset


class ReferenceTexts(NamedTuple):
    """Reference texts; lists are [texts].

    Attributes:
        ids: Conversation and turn, or the row in a file (from 0).
        texts: The texts, on one line each, with runs of white space as one space.
        source: Where they come from, for the record.
        num_blank: Rows of a file without text, left out before the draw.
    """

    ids: list[str]
    texts: list[str]
    source: str
    num_blank: int

    def description(self) -> dict[str, Any]:
        """What run.json records of the texts."""
        digest = hashlib.sha256(json.dumps(self[:2]).encode()).hexdigest()
        return {"source": self.source, "digest": digest, "num_texts": len(self.ids)}


def read_reference_texts(path: Path | None = None, *, number: int | None = None, seed: int = 0) -> ReferenceTexts:
    """Reads reference texts, and draws some of them.

    Args:
        path: A .txt file with one text a line, or a CSV, JSONL or Parquet file with a column `text` or `reply`;
            `None`: replies of the chit-chat dataset, at most one of each person.
        number: The number of texts to draw; `None`: 500 of the chit-chat dataset, all of a file.
        seed: The seed of the draw.

    Returns:
        The texts, in the order of the source.

    Raises:
        ValueError: There are fewer texts than asked for, or the file cannot be read or has no column of text.
        FileNotFoundError: There is no such file.
        ModuleNotFoundError: The chit-chat dataset is not installed.
    """
    if path is None:
        num_replies = NUM_REFERENCE_TEXTS if number is None else number
        dialogue = read_dialogue(None, num_replies=num_replies, seed=seed)
        return ReferenceTexts(dialogue.ids, dialogue.replies, dialogue.source, 0)
    (column,) = read_columns(path, ("text", "reply"))
    lines = [one_line(text or "") for text in column]
    rows = [row for row, text in enumerate(lines) if text]
    num_blank = len(lines) - len(rows)
    wanted = max(1, len(rows)) if number is None else number
    if not 1 <= wanted <= len(rows):
        raise ValueError(f"num_reference_texts is {wanted:,}, and {path.name} has {len(rows):,} texts; set no more")
    if number is not None:
        draws = sorted(rows, key=lambda row: (seeded_generator(seed, "reference", str(row)).random(), row))
        rows = sorted(draws[:number])
    return ReferenceTexts([str(row) for row in rows], [lines[row] for row in rows], path.name, num_blank)
