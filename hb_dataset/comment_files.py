"""Files of comments and of what annotators said of them (RedditBias, Barikeri et al. 2021, section 2.3).

What they hold is hateful, so no error shows any of it: rows are named by their number.
"""

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

COLUMN_ERROR = "'{path}' has no column {names}; there are: {columns}"
CSV_ERROR = "'{path}' line {line} is not CSV: {error}"
CELL_ERROR = "'{path}' row {row} (counted from 0): {name} is not a finite number; write one, or leave it empty"
BLANK_ERROR = "'{path}' row {row} (counted from 0): {name} is blank; write the text, or leave the row out"
TWICE_ERROR = "'{path}' has two columns of the same name; leave one of them"
ROW_ERROR = "'{path}' row {row} (counted from 0) has {count} cells, and the header has {columns}"


class Annotation(NamedTuple):
    """A row of an annotated file: what annotators said of a comment and of the phrase in it.

    Attributes:
        row: The row, from 0.
        comment: The whole comment.
        phrase: The words around the target in it.
        bias_sent: 1 (the comment is biased), 0 (it is not), 2 (hard to tell, to be ignored), `None` (no label).
        bias_phrase: The same of the phrase.
        remarks: What stands in the two label columns beside labels; such a cell is no label.
    """

    row: int
    comment: str
    phrase: str
    bias_sent: int | None
    bias_phrase: int | None
    remarks: tuple[str, ...]


class AnnotationSizes(NamedTuple):
    """The sizes of Table 3 that an annotated file tells.

    Attributes:
        num_rows: Rows in the file.
        num_annotated: Comments labeled 0 or 1.
        num_biased: Comments labeled 1.
        num_biased_phrases: Phrases labeled 1, before outliers are left out.
        num_ignored: Comments labeled 2.
        num_remarks: Cells with a remark in the place of a label.
    """

    num_rows: int
    num_annotated: int
    num_biased: int
    num_biased_phrases: int
    num_ignored: int
    num_remarks: int


def read_annotations(path: str | Path) -> list[Annotation]:
    """Reads an annotated file: columns `comment`, `phrase`, `bias_sent`, `bias_phrase`; others do not matter.

    A label is a cell with 0, 1 or 2 and nothing else ("1.0" too). What else stands there is a remark.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: A column is missing, or a row is not as long as the header.
    """
    path = Path(path)
    annotations = []
    for row, cells in enumerate(read_csv(path, ("comment", "phrase", "bias_sent", "bias_phrase"))):
        written = [cells[name].strip() for name in ("bias_sent", "bias_phrase")]
        bias_sent, bias_phrase = map(label_of, written)
        remarks = tuple(cell for cell in written if cell and label_of(cell) is None)
        annotations.append(Annotation(row, cells["comment"], cells["phrase"], bias_sent, bias_phrase, remarks))
    return annotations


def annotation_sizes(annotations: Sequence[Annotation]) -> AnnotationSizes:
    """The sizes of Table 3 (paper, section 2.3)."""
    labels = Counter(annotation.bias_sent for annotation in annotations)
    return AnnotationSizes(
        num_rows=len(annotations),
        num_annotated=labels[0] + labels[1],
        num_biased=labels[1],
        num_biased_phrases=sum(annotation.bias_phrase == 1 for annotation in annotations),
        num_ignored=labels[2],
        num_remarks=sum(len(annotation.remarks) for annotation in annotations),
    )


def read_text(path: Path) -> str:
    """A file in UTF-8 or, if it is not that, Latin-1, in which any file can be read."""
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
    """The rows of a CSV file, which must have the required columns."""
    lines = _csv_rows(path)
    columns = next(lines, [])
    missing = [name for name in required if name not in columns]
    if missing:
        raise column_error(path, missing, columns)
    if any(name and columns.count(name) > 1 for name in columns):
        raise ValueError(TWICE_ERROR.format(path=path))
    rows = []
    for row, cells in enumerate(filter(None, lines)):
        if len(cells) != len(columns):
            raise ValueError(ROW_ERROR.format(path=path, row=row, count=len(cells), columns=len(columns)))
        rows.append(dict(zip(columns, cells, strict=True)))
    return rows


def _csv_rows(path: Path) -> Iterator[list[str]]:
    """The header and the rows. Strictly: else a quote that is not closed takes all rows behind it into its cell."""
    reader = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        yield from reader
    except csv.Error as error:
        raise ValueError(CSV_ERROR.format(path=path, line=reader.line_num, error=error)) from error


def column_error(path: Path, missing: Sequence[str], columns: Iterable[str]) -> ValueError:
    """The error of a file without a column. What is no name is not shown: the file may have no header."""
    names = [name if re.fullmatch(r"\w{1,40}", name) else "…" for name in columns]
    return ValueError(COLUMN_ERROR.format(path=path, names=" or ".join(missing), columns=", ".join(names) or "none"))


def label_of(cell: str) -> int | None:
    """The label in a cell that holds 0, 1 or 2 and nothing else."""
    return {"0": 0, "1": 1, "2": 2}.get(cell.strip().removesuffix(".0"))


def text_of(cells: Mapping[str, str], name: str, path: Path, row: int) -> str:
    """The text in a cell.

    Raises:
        ValueError: It is blank.
    """
    if not cells[name].strip():
        raise ValueError(BLANK_ERROR.format(path=path, row=row, name=name))
    return cells[name]


def number_of(cells: Mapping[str, str], name: str, path: Path, row: int) -> float | None:
    """The number in a cell; `None` if it is empty or there is no such column."""
    cell = cells.get(name, "").strip()
    try:
        number = float(cell) if cell else None
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise ValueError(CELL_ERROR.format(path=path, row=row, name=name))
    return number
