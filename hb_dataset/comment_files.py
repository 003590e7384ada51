"""Reads files of potentially offensive texts. Errors state row numbers, but never quote a text."""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path


def read_text(path: Path, *, strict: bool = False) -> str:
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if strict:
            raise ValueError(f"'{path}' is not UTF-8 ({error.reason}); save it again in UTF-8") from None
        return content.decode("latin-1")


def read_lines(path: Path) -> list[str]:
    lines = read_text(path).replace("\r\n", "\n").split("\n")
    return [line for line in lines if line.strip()]


def read_header(path: Path) -> list[str]:
    return next(_csv_rows(path), [])


def read_csv(path: Path, required: Sequence[str] = (), *, strict: bool = False) -> list[dict[str, str]]:
    lines = _csv_rows(path, strict=strict)
    columns = next(lines, [])
    missing = [name for name in required if name not in columns]
    if missing:
        raise column_error(path, missing, columns)
    if any(name and columns.count(name) > 1 for name in columns):
        raise ValueError(f"'{path}' has two columns with the same name; keep only one of them")
    rows = []
    for row, cells in enumerate(filter(None, lines)):
        if len(cells) != len(columns):
            raise ValueError(
                f"'{path}' row {row} (counted from 0) has {len(cells)} cells, but the header has {len(columns)}; "
                "correct the row, and put quotes around texts that contain commas or line breaks"
            )
        rows.append(dict(zip(columns, cells, strict=True)))
    return rows


def _csv_rows(path: Path, *, strict: bool = False) -> Iterator[list[str]]:
    """Yields the header and then the rows. Strict parsing rejects unclosed quotes, which would hide later rows."""
    csv.field_size_limit(2**31 - 1)  # thoughts may be longer than the default limit
    reader = csv.reader(io.StringIO(read_text(path, strict=strict), newline=""), strict=True)
    try:
        yield from reader
    except csv.Error as error:
        raise ValueError(f"'{path}' line {reader.line_num} is not CSV: {error}; correct the line") from error


def column_error(path: Path, missing: Sequence[str], columns: Iterable[str]) -> ValueError:
    """Creates the error for a file that lacks a required column.

    If the file has no header, its first row may be a hateful comment. Unlikely column names are therefore shown as "…".
    """
    names = [name if re.fullmatch(r"\w{1,40}", name) else "…" for name in columns]
    return ValueError(
        f"'{path}' has no column {' or '.join(missing)}; add such a column (the columns are: "
        f"{', '.join(names) or 'none'})"
    )


def text_of(cells: Mapping[str, str], name: str, path: Path, row: int) -> str:
    if not cells[name].strip():
        raise ValueError(f"'{path}' row {row} (counted from 0): {name} is blank; write the text, or remove the row")
    return cells[name]


def number_of(cells: Mapping[str, str], name: str, path: Path, row: int) -> float | None:
    cell = cells.get(name, "").strip()
    try:
        number = float(cell) if cell else None
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise ValueError(
            f"'{path}' row {row} (counted from 0): {name} is not a finite number; write a finite number, or leave "
            "the cell empty"
        )
    return number
