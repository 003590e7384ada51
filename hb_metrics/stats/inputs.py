"""Checks of what the metrics are given: columns with one value for each row, and settings.

What could be taken for something else than was meant is refused: a string is a sequence of letters, a set has no order,
"false" counts as true, and NumPy forgets which values were masked.
"""

from collections.abc import Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from numbers import Integral, Real
from typing import Any

import numpy as np
import pyarrow as pa

NO_COLUMN_ERROR = "{name}: {what} was given; give a list, or another sequence, with one value for each row"
MASKED_ERROR = "{name} has masked values ({count} rows, the first is {row}); leave these rows out of all columns"
UNEQUAL_LENGTHS_ERROR = "inputs differ in length: {}; give one value of each for every row, in the same order"
SHAPE_ERROR = "{name} has the shape {shape}; give one number for each row"
MISSING_ERROR = "{name} is missing in row {row}; leave out rows without one (the baseline's have no descriptor)"
NOT_TEXT_ERROR = "{name} in row {row} is {value!r}, not a string; give one string for each row"
REFERENCES_ERROR = "references were given; this metric takes none: it compares predictions with each other"
ALPHA_ERROR = "alpha is {alpha!r}; give a number between 0 and 1, such as 0.05"
DDOF_ERROR = "ddof is {ddof!r}; give 0 (divide by the number of descriptors) or 1 (by one less)"


def check_column(name: str, column: Any) -> None:
    """Checks that there is a value for each row, in order.

    Args:
        name: What errors call the column.
        column: A value for each row.

    Raises:
        ValueError: The column is a single value, has no order, or has masked values.
    """
    if column is None:
        what = "nothing"
    elif isinstance(column, str | bytes | bytearray):
        what = "a single string"
    elif isinstance(column, AbstractSet):
        what = f"a {type(column).__name__}, which has no order,"
    elif isinstance(column, Mapping):
        what = "a mapping"
    elif not isinstance(column, Sized) or getattr(column, "ndim", 1) == 0:
        what = f"a single value or an iterator ({type(column).__name__})"
    else:
        _check_unmasked(name, column)
        return
    raise ValueError(NO_COLUMN_ERROR.format(name=name, what=what))


def check_lengths(**columns: Sized | None) -> None:
    """Raises a `ValueError` that states the lengths of the columns if they differ; `None` has no length."""
    lengths = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(lengths.values())) > 1:
        raise ValueError(UNEQUAL_LENGTHS_ERROR.format(", ".join(f"{size} {name}" for name, size in lengths.items())))


def check_references(references: Any) -> None:
    """Raises a `ValueError` if references were given, which `evaluate` would ignore without a word."""
    if references is not None:
        raise ValueError(REFERENCES_ERROR)


def number_column(name: str, column: Any) -> np.ndarray:
    """A column of numbers as float64; a missing one (`None`) is NaN.

    Returns:
        [rows].

    Raises:
        ValueError: As for `check_column`; or the column holds text, dates or other things than real numbers, or several
            numbers for each row.
    """
    check_column(name, column)
    try:
        values = as_numbers(np.asarray(column)).astype(float)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(f"{name} cannot be read as numbers ({error}); give one number for each row") from error
    if values.ndim != 1:
        raise ValueError(SHAPE_ERROR.format(name=name, shape=values.shape))
    return values


def as_numbers(values: np.ndarray) -> np.ndarray:
    """The array, if it holds real numbers: NumPy would also convert text, dates and complex numbers.

    Raises:
        TypeError: The array holds something else.
        ValueError: It holds objects that are not numbers.
    """
    if values.dtype.kind == "O":
        if any(isinstance(value, str | bytes) for value in values.flat):
            raise TypeError("text is among them")
        return values.astype(float)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"type {values.dtype}")
    return values


def check_text(name: str, column: Sequence[Any]) -> None:
    """Raises a `ValueError` that names the first row whose value is missing or not a string."""
    for row, value in enumerate(column):
        if value is None:
            raise ValueError(MISSING_ERROR.format(name=name, row=row))
        if not isinstance(value, str):
            raise ValueError(NOT_TEXT_ERROR.format(name=name, row=row, value=value))


def text_codes(name: str, column: Any) -> tuple[np.ndarray, list[str]]:
    """The distinct strings of a column, and which of them each row has.

    Args:
        name: What errors call a value.
        column: [rows] strings.

    Returns:
        [rows] codes, and the strings that they stand for, in alphabetical order.

    Raises:
        ValueError: A value is missing or not a string.
    """
    try:
        encoded = pa.array(column, pa.string()).dictionary_encode()
    except (pa.ArrowException, UnicodeError) as error:
        check_text(name, column)  # names the row
        raise ValueError(f"{name} cannot be read as text ({error}); give one string for each row") from error
    if encoded.null_count:
        row = np.flatnonzero(encoded.is_null().to_numpy(zero_copy_only=False))[0]
        raise ValueError(MISSING_ERROR.format(name=name, row=row))
    names = encoded.dictionary.to_pylist()
    alphabetical = sorted(range(len(names)), key=names.__getitem__)
    codes = np.empty(len(names), dtype=np.int64)
    codes[alphabetical] = np.arange(len(names))
    return codes[encoded.indices.to_numpy()], [names[index] for index in alphabetical]


def check_flag(name: str, value: Any) -> bool:
    """A setting that is on or off.

    Raises:
        ValueError: The value is not `True` or `False`, though Python may take it for one of them.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {value!r}; give True or False")
    return bool(value)


def check_alpha(alpha: Any) -> float:
    """A significance level.

    Raises:
        ValueError: It is not a number between 0 and 1.
    """
    if not is_number(alpha) or not 0 < alpha < 1:
        raise ValueError(ALPHA_ERROR.format(alpha=alpha))
    return float(alpha)


def check_ddof(ddof: Any) -> int:
    """What is subtracted from the number of descriptors in the divisor of a variance.

    Raises:
        ValueError: It is not 0 or 1.
    """
    if not is_whole(ddof) or ddof not in (0, 1):
        raise ValueError(DDOF_ERROR.format(ddof=ddof))
    return as_python(ddof)


def is_number(value: Any) -> bool:
    """Whether a setting is a real number of Python or NumPy; `True` and `False` are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether a setting is a whole number of Python or NumPy; 1.0, `True` and `False` are not."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def as_python(value: Any) -> Any:
    """The setting as a Python value, which JSON can hold."""
    return value.item() if isinstance(value, np.generic) else value


def _check_unmasked(name: str, column: Any) -> None:
    if isinstance(column, np.ma.MaskedArray):
        masked = np.ma.getmaskarray(column).reshape(len(column), -1).any(axis=1) if len(column) else np.zeros(0)
    elif isinstance(column, list | tuple):
        masked = np.array([isinstance(row, np.ma.MaskedArray) and np.ma.is_masked(row) for row in column], bool)
    else:
        return
    rows = np.flatnonzero(masked)
    if len(rows):
        raise ValueError(MASKED_ERROR.format(name=name, count=len(rows), row=rows[0]))
