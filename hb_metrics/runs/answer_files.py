"""Reads files of replies and log-probabilities for the exported prompts, from any engine or from people.

The suffix sets the format: Parquet, JSON lines or CSV. Unknown columns are ignored, so answers can be added to the
exported rows. The reader rejects a row that would bias a figure, and the error names the row's number.
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
    """A row of a file of replies. Rows and turns count from 1. `None` marks a value that the file does not state."""

    row: int
    id: str
    text: str | None
    reply: str
    num_tokens: int | None
    truncated: bool | None
    turn: int
    reasoning: str | None


class GivenLogProbability(NamedTuple):
    """A row of a file of log-probabilities: the natural logarithm of the text's probability, summed over its tokens."""

    row: int
    id: str
    text: str | None
    log_probability: float
    num_tokens: int


def read_replies_file(path: str | Path) -> list[GivenReply]:
    """Reads a file of replies, with columns `id`, `reply`, and optionally those of `GivenReply`."""
    given = []
    for number, row in enumerate(_rows(Path(path), ("id", "reply")), start=1):
        place = f"'{path}', row {number}"
        truncated = {"true": True, "false": False}.get(str(row.get("truncated")).lower())
        if truncated is None and row.get("truncated") not in (None, ""):
            raise _invalid(place, row, "truncated", "true or false")
        given.append(
            GivenReply(
                number,
                _text(place, row, "id") or "",
                _text(place, row, "text"),
                (_text(place, row, "reply") or "").strip(),
                None if row.get("num_tokens") in (None, "") else _whole_number(place, row, "num_tokens", 0),
                truncated,
                1 if row.get("turn") in (None, "") else _whole_number(place, row, "turn", 1),
                (_text(place, row, "reasoning") or "").strip() or None,
            )
        )
    if not any(reply.reply for reply in given):
        raise ValueError(f"all replies in '{path}' are empty, so there is nothing to measure; pass a file with replies")
    return given


def read_log_probabilities_file(path: str | Path) -> list[GivenLogProbability]:
    """Reads a file of log-probabilities: columns `id`, `log_probability`, `num_tokens`, and optionally `text`."""
    given = []
    allowed = "the summed natural logarithm, a finite number of 0 or less, and above -700 per token"
    for number, row in enumerate(_rows(Path(path), ("id", "log_probability", "num_tokens")), start=1):
        place = f"'{path}', row {number}"
        tokens = _whole_number(place, row, "num_tokens", 1)
        value = _number(place, row, "log_probability", allowed)
        if not 0 <= -value / tokens <= 700:  # exp of more is infinite
            raise _invalid(place, row, "log_probability", allowed)
        given.append(
            GivenLogProbability(number, _text(place, row, "id") or "", _text(place, row, "text"), value, tokens)
        )
    identifier, number = Counter(row.id for row in given).most_common(1)[0]
    if number > 1:
        raise ValueError(f"'{path}' contains the id {identifier} {number} times; pass one log-probability per prompt")
    if len(given) > 1 and len({row.log_probability for row in given}) == 1:
        raise ValueError(
            f"all log-probabilities in '{path}' are {given[0].log_probability:g}, which no model assigns to "
            "different texts; pass the model's own values"
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
    """Raises `ValueError` unless the rows answer all prompts of the run, and no others; `what` names an answer."""
    text_of = dict(zip(ids, texts, strict=True))
    for row in given:
        if row.id not in text_of:
            raise ValueError(
                f"'{path}', row {row.row}: the id '{row.id}' is not an id of this run's prompts; set the options that "
                "the prompts were exported with, or delete the rows of other prompts"
            )
        if row.text is not None and row.text != text_of[row.id]:
            raise ValueError(
                f"'{path}', row {row.row}: its text is not the text of prompt {row.id}; export the prompts with this "
                "run's options, and answer those"
            )
    there = {row.id for row in given}
    if missing := [identifier for identifier in ids if identifier not in there]:
        raise ValueError(
            f"'{path}' has no {what} for {len(missing):,} of {len(ids):,} prompts, such as {missing[0]}; add them (an "
            "empty reply counts as one), or limit the run to prompts in the file (--sample, --axes)"
        )


def check_turns(path: str, given: Iterable[GivenReply], turns: int) -> None:
    """Raises `ValueError` unless the file has replies of exactly the turns 1 to `turns`."""
    there = sorted({reply.turn for reply in given})
    if there != list(range(1, turns + 1)):
        raise ValueError(
            f"'{path}' has replies of turn {', '.join(map(str, there))}, but turns is {turns}; add the missing replies "
            "(export-prompts --after exports the next turn), or set --turns to the number of turns in the file"
        )


def replies_by_prompt(given: Iterable[GivenReply], *, greedy: bool) -> tuple[dict[str, list[GivenReply]], int]:
    """Groups replies by prompt, in any order of the file; returns id → replies, and the number of copies left out.

    Identical replies to a prompt count once with greedy decoding, and if no prompt has two different replies.
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
    with Path(path).open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _invalid(place: str, row: Mapping[str, Any], column: str, allowed: str) -> ValueError:
    value = row.get(column)
    shown = value if not isinstance(value, str) or len(value) <= 40 else "(a text)"
    return ValueError(f"{place}: {column} is {shown!r}; pass {allowed}")


def _text(place: str, row: Mapping[str, Any], column: str) -> str | None:
    value = row.get(column)
    if value is not None and not isinstance(value, str):
        raise _invalid(place, row, column, "a text")
    if value is not None and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise _invalid(place, row, column, "a text without unpaired surrogates")
    return value


def _number(place: str, row: Mapping[str, Any], column: str, allowed: str) -> float:
    value = row.get(column)
    try:
        number = math.nan if value is None or isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise _invalid(place, row, column, allowed)
    return number


def _whole_number(place: str, row: Mapping[str, Any], column: str, least: int) -> int:
    allowed = f"a whole number of {least} or more"
    value = _number(place, row, column, allowed)
    if value != int(value) or value < least:
        raise _invalid(place, row, column, allowed)
    return int(value)


def _rows(path: Path, needed: Sequence[str]) -> list[dict[str, Any]]:
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise ValueError(
            f"'{path}' does not end in one of {', '.join(SUFFIXES)}; save the file in one of these formats"
        )
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
        reason = str(error).partition("\n")[0]
        raise ValueError(f"'{path}' cannot be read as {suffix[1:]} ({reason}); save it again, as UTF-8") from error
    if not rows:
        raise ValueError(f"'{path}' has no rows; pass one for each exported prompt")
    for column in needed:
        if names.count(column) != 1:
            raise ValueError(
                f"'{path}' has {names.count(column) or 'no'} columns '{column}'; pass a file with each of the "
                f"columns {', '.join(needed)} once; the columns of this file are {', '.join(map(str, names))}"
            )
    return rows


def _csv_rows(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Reads the columns and rows. Rejects a row of another length, which an unquoted comma in a text produces."""
    csv.field_size_limit(2**31 - 1)  # thoughts are longer than the default
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = [cells for cells in csv.reader(file, strict=True) if cells]
    names = lines[0] if lines else []
    for number, cells in enumerate(lines[1:], start=1):
        if len(cells) != len(names):
            raise ValueError(
                f"'{path}', row {number}: it has {len(cells)} cells, but the header has {len(names)} columns; put "
                "quotes around texts that contain commas or line breaks"
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
                raise ValueError(f"'{path}', line {number} is not a JSON object; write one JSON object per line")
            rows.append(row)
    return rows
