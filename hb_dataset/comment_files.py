"""Files of phrases and their counterfactuals (RedditBias, Barikeri et al. 2021).

Their content is hateful, so errors name rows by number and never show text.
"""

import csv
import io
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path


def read_text(path: Path) -> str:
    """The text of a file in UTF-8 or, if that fails, in Latin-1, which never fails."""
    content = path.read_bytes()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return content.decode("latin-1")


def read_lines(path: Path) -> list[str]:
    """The lines of a file that are not blank."""
    lines = read_text(path).replace("\r\n", "\n").split("\n")
    return [line for line in lines if line.strip()]


def read_header(path: Path) -> list[str]:
    """The columns of a CSV file."""
    return next(_csv_rows(path), [])


def read_csv(path: Path, required: tuple[str, ...] = ()) -> list[dict[str, str]]:
    """The rows of a CSV file.

    Raises:
        ValueError: The file is not CSV, lacks a required column, repeats a column, or has a row of another length.
    """
    lines = _csv_rows(path)
    columns = next(lines, [])
    missing = [name for name in required if name not in columns]
    if missing:
        raise column_error(path, missing, columns)
    if any(name and columns.count(name) > 1 for name in columns):
        raise ValueError(f"'{path}' has two columns of the same name; keep only one")
    rows = []
    for row, cells in enumerate(filter(None, lines)):
        if len(cells) != len(columns):
            raise ValueError(
                f"'{path}' row {row} (counted from 0) has {len(cells)} cells, and the header has {len(columns)}"
            )
        rows.append(dict(zip(columns, cells, strict=True)))
    return rows


def _csv_rows(path: Path) -> Iterator[list[str]]:
    """The header and the rows, read strictly: otherwise an unclosed quote would take all later rows into its cell."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        yield from reader
    except csv.Error as error:
        raise ValueError(f"'{path}' line {reader.line_num} is not CSV: {error}") from error


def column_error(path: Path, missing: Sequence[str], columns: Iterable[str]) -> ValueError:
    """The error of a file without a required column.

    Cells that cannot be names are shown as "…", because in a file without a header they may be its first comment.
    """
    names = [name if re.fullmatch(r"\w{1,40}", name) else "…" for name in columns]
    return ValueError(f"'{path}' has no column {' or '.join(missing)}; there are: {', '.join(names) or 'none'}")


def text_of(cells: Mapping[str, str], name: str, path: Path, row: int) -> str:
    """The text in a cell.

    Raises:
        ValueError: The cell is blank.
    """
    if not cells[name].strip():
        raise ValueError(f"'{path}' row {row} (counted from 0): {name} is blank; write the text, or leave the row out")
    return cells[name]


def number_of(cells: Mapping[str, str], name: str, path: Path, row: int) -> float | None:
    """The number in a cell; `None` if the cell is empty or there is no such column.

    Raises:
        ValueError: The cell does not contain a finite number.
    """
    cell = cells.get(name, "").strip()
    try:
        number = float(cell) if cell else None
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise ValueError(
            f"'{path}' row {row} (counted from 0): {name} is not a finite number; write a number, or leave the cell "
            f"empty"
        )
    return number
