"""Reads tables of texts: CSV, JSON Lines and Parquet files, and text files with one text per line.

The texts may be offensive, so errors state columns, and lines (or rows of Parquet files), but never quote a text.
"""

import csv
import io
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from numbers import Number
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

SUFFIXES = (".parquet", ".jsonl", ".csv")
MAX_BYTES = 2**31  # the maximum size of a file, after decompression
_COMPRESSIONS = (".gz", ".bz2", ".zst")
_NUMBER = re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?")


def read_table(
    path: Path,
    *needed: tuple[str, ...],
    strict: bool = True,
    is_kept: Callable[[str, Mapping[str, object]], bool] = lambda place, row: True,
) -> list[tuple[str, dict[str, Any]]]:
    """Reads the rows of a table. Each row comes with its file and its line or row number, for errors.

    The suffix determines the format. Each item of `needed` lists the possible names of one required column. If the file
    has several of these columns, only the first name in the list is required, and all rows must have this column. Only
    rows for which `is_kept` is true are checked and returned. A text file has only the column `text`. Unless `strict`
    is true, CSV files may be in Latin-1 instead of UTF-8.
    """
    inner = path.with_suffix("") if path.suffix in _COMPRESSIONS else path
    suffix = inner.suffix.lower()
    if suffix == ".parquet":
        columns, table = _parquet_rows(path)
        rows = [*enumerate(table, start=1)]
    elif suffix == ".csv":
        columns, rows = _csv_rows(path, strict=strict)
    elif suffix == ".jsonl":
        rows = [*json_lines(path)]
        columns = list(dict.fromkeys(name for _, row in rows for name in row))
    elif suffix == ".txt":
        columns, rows = ["text"], [(n, {"text": line}) for n, line in enumerate(_lines(path, strict=strict), start=1)]
    else:
        raise ValueError(f"'{path}' does not end in one of {', '.join(SUFFIXES)}; save it in one of these formats")
    unit = "row" if suffix == ".parquet" else "line"
    placed = [(place, row) for number, row in rows if is_kept(place := f"'{path}', {unit} {number}", row)]
    for names in needed:
        name = column_of(names, columns)
        if name is None:
            raise column_error(path, names, columns)
        for place, row in placed:
            if name not in row:
                raise ValueError(f"{place}: {name} is missing; write the value, or null if there is none")
    return placed


def column_of(names: Iterable[str], columns: Collection[str]) -> str | None:
    return next((name for name in names if name in columns), None)


def text_in(place: str, row: Mapping[str, object], column: str) -> str | None:
    """Returns a text, or `None` if the cell is blank. A number is the text that CSV files have: "70" or "0.5"."""
    value = row.get(column)
    if isinstance(value, Number) and not isinstance(value, bool):
        value = None if value != value else str(value).removesuffix(".0")
    if value is not None and not isinstance(value, str):
        raise invalid(place, row, column, "a text")
    if value is not None and any("\ud800" <= letter <= "\udfff" for letter in value):
        raise invalid(place, row, column, "a text without unpaired surrogates")
    return value if value and value.strip() else None


def filled_text_in(place: str, row: Mapping[str, object], column: str) -> str:
    value = text_in(place, row, column)
    if value is None:
        raise ValueError(f"{place}: {column} is blank; write the text, or remove the row")
    return value


def number_in(place: str, row: Mapping[str, object], column: str, allowed: str = "a finite number") -> float | None:
    """Returns a number, or `None` if the cell is empty, which is NaN in columns of pandas.

    A text may contain a number, such as "-5.2e3". `float` would also accept underscores and digits of other scripts.
    """
    value: Any = row.get(column)
    if value is None or value != value or (isinstance(value, str) and not value.strip()):
        return None
    try:
        is_number = _NUMBER.fullmatch(value.strip()) if isinstance(value, str) else not isinstance(value, bool)
        number = float(value) if is_number else math.nan
    except (TypeError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise invalid(place, row, column, allowed)
    return number


def invalid(place: str, row: Mapping[str, object], column: str, allowed: str) -> ValueError:
    value = row.get(column)
    shown = "a text" if isinstance(value, str) else repr(value) if isinstance(value, int | float | None) else "…"
    return ValueError(f"{place}: {column} is {shown}; pass {allowed}")


def json_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yields the number of each line that is not blank, counted from 1, and its JSON object."""
    # Lines are split only at line feeds, because a text may contain other line separators.
    for number, line in enumerate(io.BytesIO(_content(path)), start=1):
        if not line.strip():
            continue
        try:
            row = parse_json(line.decode().removeprefix("\ufeff"))
            if not isinstance(row, dict):
                raise ValueError("it is not an object")
        except ValueError as error:
            message = f"'{path}', line {number} is not a JSON object in UTF-8 ({error}); write one JSON object per line"
            raise ValueError(message) from None
        yield number, row


def parse_json(text: str) -> Any:
    """Parses JSON. Raises `ValueError` for a repeated key, because one of its values would be lost."""
    try:
        return json.loads(text, object_pairs_hook=_with_unique_keys)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, object]:
    content = dict(pairs)
    if len(content) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {repeated!r} occurs twice; remove one of the two")
    return content


def read_lines(path: Path) -> list[str]:
    return [line for line in _lines(path) if line.strip()]


def read_header(path: Path) -> list[str]:
    return next(_csv_cells(path), (1, []))[1]


def column_error(path: Path, missing: Iterable[str], columns: Iterable[str]) -> ValueError:
    """Creates the error for a file that lacks a required column.

    If the file has no header, its first row may be a hateful comment. Unlikely column names are therefore shown as "…".
    """
    names = [name if re.fullmatch(r"\w{1,40}", name) else "…" for name in columns]
    return ValueError(
        f"'{path}' has no column {' or '.join(missing)}; add such a column (the columns are: "
        f"{', '.join(names) or 'none'})"
    )


def _content(path: Path) -> bytes:
    """Reads a file, and decompresses it if its suffix names a compression."""
    parts = []
    size = 0
    try:
        with pa.input_stream(str(path)) as file:
            while part := file.read(2**24):
                size += len(part)
                _check_size(path, size)
                parts.append(part)
    except OSError as error:
        if error.errno is not None:
            raise
        raise ValueError(f"'{path}' cannot be read ({error}); save it again") from error
    return b"".join(parts)


def _text(path: Path, *, strict: bool) -> str:
    content = _content(path)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if strict:
            raise ValueError(f"'{path}' is not UTF-8 ({error.reason}); save it again in UTF-8") from None
        return content.decode("latin-1")


def _lines(path: Path, *, strict: bool = False) -> list[str]:
    return _text(path, strict=strict).replace("\r\n", "\n").removesuffix("\n").split("\n")


def _csv_cells(path: Path, *, strict: bool = False) -> Iterator[tuple[int, list[str]]]:
    """Yields the header and then the rows, each with the number of its first line.

    Other separators, and unclosed quotes, are rejected, because they would hide columns and later rows.
    """
    csv.field_size_limit(2**31 - 1)  # thoughts may be longer than the default limit
    text = _text(path, strict=strict)
    header = text.lstrip("\r\n").partition("\n")[0]
    for sign, named in ((";", "semicolons"), ("\t", "tabs")):
        if sign in header and "," not in header:
            raise ValueError(f"'{path}' separates its columns by {named}; save it with commas")
    reader, line = csv.reader(io.StringIO(text, newline=""), strict=True), 1
    try:
        for cells in reader:
            if cells:
                yield line, cells
            line = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(f"'{path}' line {reader.line_num} is not CSV: {error}; correct the line") from error


def _csv_rows(path: Path, *, strict: bool) -> tuple[list[str], list[tuple[int, dict[str, Any]]]]:
    lines = _csv_cells(path, strict=strict)
    _, columns = next(lines, (1, []))
    _check_unique(path, filter(None, columns))
    rows: list[tuple[int, dict[str, Any]]] = []
    for number, cells in lines:
        if len(cells) != len(columns):
            raise ValueError(
                f"'{path}', line {number} has {len(cells)} cells, but the header has {len(columns)}; put quotes around "
                "texts with commas or line breaks"
            )
        rows.append((number, dict(zip(columns, cells, strict=True))))
    return columns, rows


def _parquet_rows(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    size = 0
    rows = []
    try:
        with pq.ParquetFile(path) as file:
            columns = file.schema_arrow.names
            _check_unique(path, columns)
            for batch in file.iter_batches():
                size += batch.nbytes
                _check_size(path, size)
                rows += batch.to_pylist()
    except pa.ArrowException as error:
        raise ValueError(f"'{path}' cannot be read as Parquet ({str(error).splitlines()[0]}); save it again") from error
    return columns, rows


def _check_unique(path: Path, columns: Iterable[str]) -> None:
    if max(Counter(columns).values(), default=1) > 1:
        raise ValueError(f"'{path}' has two columns with the same name; keep only one of them")


def _check_size(path: Path, size: int) -> None:
    if size > MAX_BYTES:
        raise ValueError(f"'{path}' is larger than the limit of {MAX_BYTES >> 20:,} MiB; remove rows and columns")
