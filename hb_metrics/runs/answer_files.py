"""Files of what was answered elsewhere, by any engine or by people: replies and log-probabilities, by the prompt's id.

Parquet, JSON lines or CSV, by the suffix. Columns that are not named here are passed over, so that rows of the exported
prompts with answers added will do. Whatever would bias a figure is refused, with the row that it was found in.
"""

import csv
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

SUFFIXES = (".parquet", ".jsonl", ".csv")


class GivenReply(NamedTuple):
    """A row of a file of replies.

    Attributes:
        row: Its number in the file, from 1.
        id: The prompt's id.
        text: The prompt's text, if the file has it.
        reply: The reply without white space around it; empty: there is none.
        num_tokens: Its number of tokens; `None`: not known.
        truncated: Whether it was cut at its greatest length; `None`: not known.
        reasoning: What was thought before it; `None`: nothing.
    """

    row: int
    id: str
    text: str | None
    reply: str
    num_tokens: int | None
    truncated: bool | None
    reasoning: str | None


class GivenLogProbability(NamedTuple):
    """A row of a file of log-probabilities.

    Attributes:
        row: Its number in the file, from 1.
        id: The prompt's id.
        text: The prompt's text, if the file has it.
        log_probability: Summed over its tokens, natural logarithm.
        num_tokens: Over how many tokens.
    """

    row: int
    id: str
    text: str | None
    log_probability: float
    num_tokens: int


def read_replies_file(path: str | Path) -> list[GivenReply]:
    """Reads a file of replies: columns `id` and `reply`, and if there `text`, `num_tokens`, `truncated`, `reasoning`.

    Raises:
        ValueError: The file or a row is not valid.
        OSError: There is no such file.
    """
    given = []
    for number, row in enumerate(_rows(Path(path), ("id", "reply")), start=1):
        cell = _Cells(path, number, row)
        given.append(
            GivenReply(
                number,
                cell.id(),
                cell.text("text"),
                (cell.text("reply") or "").strip(),
                cell.whole_number("num_tokens", 0),
                cell.truth("truncated"),
                (cell.text("reasoning") or "").strip() or None,
            )
        )
    if not any(reply.reply for reply in given):
        raise ValueError(f"all replies in '{path}' are empty, so there is nothing to measure; give a file with replies")
    return given


def read_log_probabilities_file(path: str | Path) -> list[GivenLogProbability]:
    """Reads a file of log-probabilities: columns `id`, `log_probability` and `num_tokens`, and `text` if it is there.

    Raises:
        ValueError: The file or a row is not valid, an id is there twice, or all values are the same.
        OSError: There is no such file.
    """
    given = []
    for number, row in enumerate(_rows(Path(path), ("id", "log_probability", "num_tokens")), start=1):
        cell = _Cells(path, number, row)
        tokens = cell.whole_number("num_tokens", 1)
        if tokens is None:
            raise cell.error("num_tokens", "a whole number of 1 or more")
        value = cell.number("log_probability", "the summed natural logarithm, a finite number of 0 or less")
        if value > 0 or not math.isfinite(value):
            raise cell.error("log_probability", "the summed natural logarithm, a finite number of 0 or less")
        if -value / tokens > 700:  # exp of more is infinite
            raise cell.error("log_probability", "a sum with less than 700 a token: this perplexity would be infinite")
        given.append(GivenLogProbability(number, cell.id(), cell.text("text"), value, tokens))
    if twice := sorted(identifier for identifier, number in Counter(row.id for row in given).items() if number > 1):
        raise ValueError(
            f"'{path}' has {len(twice):,} ids more than once, such as {twice[0]}; give one log-probability per prompt"
        )
    if len(given) > 1 and len({row.log_probability for row in given}) == 1:
        raise ValueError(
            f"all log-probabilities in '{path}' are {given[0].log_probability:g}, which those of different texts never "
            "are; give those of the model"
        )
    return given


def check_ids(
    path: str | Path,
    given: Sequence[GivenReply] | Sequence[GivenLogProbability],
    ids: Sequence[str],
    texts: Sequence[str],
    *,
    what: str,
) -> None:
    """Checks that rows are about the prompts that are asked for, and about all of them.

    Args:
        path: The file.
        given: Its rows.
        ids: [prompts] the ids asked for.
        texts: [prompts] their texts.
        what: What the file has for each, for the message.

    Raises:
        ValueError: Rows are about other prompts, or prompts have none.
    """
    text_of = dict(zip(ids, texts, strict=True))
    foreign = [row.id for row in given if row.id not in text_of]
    if foreign:
        raise ValueError(
            f"{len(foreign):,} rows of '{path}' have ids that this run does not ask for, such as '{foreign[0]}'; give "
            "the options that the prompts were exported with, or leave these rows out"
        )
    for row in given:
        if row.text is not None and row.text != text_of[row.id]:
            raise ValueError(
                f"'{path}', row {row.row}: its text is not the text of prompt {row.id}; give answers to the prompts of "
                "this run, as export-prompts writes them with the same options"
            )
    there = {row.id for row in given}
    if missing := [identifier for identifier in ids if identifier not in there]:
        raise ValueError(
            f"'{path}' has no {what} for {len(missing):,} of {len(ids):,} prompts, such as {missing[0]}; add them (an "
            "empty reply counts as one), or measure a --sample or --axes that the file has"
        )


def replies_by_prompt(given: Iterable[GivenReply], *, greedy: bool) -> tuple[dict[str, list[GivenReply]], int]:
    """The replies to each prompt, whatever their order in the file.

    Greedy decoding gives one reply to a prompt, however often it is asked, so identical replies are then one reply. The
    same holds where all replies to every prompt are one text.

    Args:
        given: The rows of the file.
        greedy: Whether greedy replies were asked for.

    Returns:
        Id → replies, in the order of their texts; and how many were left out as copies of another one.
    """
    by_prompt: dict[str, list[GivenReply]] = {}
    for row in given:
        by_prompt.setdefault(row.id, []).append(row)
    for rows in by_prompt.values():
        rows.sort(key=lambda row: (row.reply, row.reasoning or "", row.num_tokens or 0, bool(row.truncated)))
    num_copies = 0
    if greedy or all(len({row.reply for row in rows}) == 1 for rows in by_prompt.values()):
        for identifier, rows in by_prompt.items():
            distinct = list({row.reply: row for row in reversed(rows)}.values())[::-1]
            num_copies += len(rows) - len(distinct)
            by_prompt[identifier] = distinct
    return by_prompt, num_copies


def file_digest(path: str | Path) -> str:
    """SHA-256 (hex) of a file."""
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class _Cells:
    """The cells of a row, each checked as it is asked for."""

    def __init__(self, path: str | Path, number: int, row: Mapping[str, Any]) -> None:
        self._path, self._number, self._row = path, number, row

    def error(self, column: str, allowed: str) -> ValueError:
        value = self._row.get(column)
        shown = value if not isinstance(value, str) or len(value) <= 40 else "(a text)"
        return ValueError(f"'{self._path}', row {self._number}: {column} is {shown!r}; give {allowed}")

    def id(self) -> str:
        value = self._row.get("id")
        if not isinstance(value, str) or not value:
            raise self.error("id", "the id of an exported prompt")
        return value

    def text(self, column: str) -> str | None:
        value = self._row.get(column)
        if value is not None and not isinstance(value, str):
            raise self.error(column, "a text")
        if value is not None and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise self.error(column, "a text of whole characters; this one has half of a surrogate pair")
        return value

    def number(self, column: str, allowed: str) -> float:
        value = self._row.get(column)
        if isinstance(value, str):
            try:
                return float(value)
            except ValueError as error:
                raise self.error(column, allowed) from error
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(column, allowed)
        try:
            return float(value)
        except OverflowError as error:
            raise self.error(column, allowed) from error

    def whole_number(self, column: str, least: int) -> int | None:
        if self._row.get(column) in (None, ""):
            return None
        allowed = f"a whole number of {least} or more"
        value = self.number(column, allowed)
        if not math.isfinite(value) or value != int(value) or value < least:
            raise self.error(column, allowed)
        return int(value)

    def truth(self, column: str) -> bool | None:
        value = self._row.get(column)
        if value in (None, ""):
            return None
        known = {"true": True, "false": False}.get(str(value).lower())
        if known is None:
            raise self.error(column, "true or false")
        return known


def _rows(path: Path, needed: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a file by its suffix; raises a ValueError if a needed column is not there."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(f"'{path}' ends in none of {', '.join(SUFFIXES)}; save the file as one of these")
    try:
        if suffix == ".parquet":
            table = pq.read_table(path)
            names, rows = table.column_names, table.to_pylist()
        elif suffix == ".csv":
            names, rows = _csv_rows(path)
        else:
            rows = _json_lines(path)
            names = list(dict.fromkeys(name for row in rows for name in row))
    except (pa.ArrowException, csv.Error, UnicodeDecodeError) as error:
        first_line = str(error).partition("\n")[0]
        how = ", as UTF-8" if isinstance(error, UnicodeDecodeError) else ""
        raise ValueError(f"'{path}' cannot be read as {suffix[1:]} ({first_line}); save it again{how}") from error
    if not rows:
        raise ValueError(f"'{path}' has no rows; give one for each exported prompt")
    for column in needed:
        if column not in names:
            raise ValueError(
                f"'{path}' has no column '{column}'; it needs {', '.join(needed)}; it has {', '.join(map(str, names))}"
            )
        if names.count(column) > 1:
            raise ValueError(f"'{path}' has the column '{column}' twice; leave one of them out")
    return rows


def _csv_rows(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """The columns and rows; raises a ValueError for a row of another length, as a comma in a bare text makes it."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = [cells for cells in csv.reader(file, strict=True) if cells]
    names = lines[0] if lines else []
    for number, cells in enumerate(lines[1:], start=1):
        if len(cells) != len(names):
            raise ValueError(
                f"'{path}', row {number}: it has {len(cells)} cells, and the first line names {len(names)} columns; "
                "put quotes around texts that have commas or line breaks"
            )
    return names, [dict(zip(names, cells, strict=True)) for cells in lines[1:]]


def _json_lines(path: Path) -> list[dict[str, Any]]:
    rows = []
    with path.open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                row = None
            if not isinstance(row, dict):
                raise ValueError(f"'{path}', line {number} is no JSON object; write one JSON object per line")
            rows.append(row)
    return rows
