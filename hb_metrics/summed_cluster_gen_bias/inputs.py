"""What the modules of this toolkit take: columns with a value for each row, and settings. All else is refused.

What would be read as something else than was meant is refused here: a string is a sequence of letters, a set has no
order, "false" is true, and NumPy forgets on the way which values were masked.
"""

from collections.abc import Mapping, Sized
from collections.abc import Set as AbstractSet
from numbers import Integral, Real
from typing import Any

import numpy as np

NO_COLUMN_ERROR = "{name}: {what} was given; give a list, or another sequence, with one value for each row"
MASKED_ERROR = "{name} has masked values ({count} rows, the first is {row}); leave these rows out of all columns"
NOT_NUMBERS_ERROR = "{name} cannot be read as numbers ({error}); give one number for each row"
FLAG_ERROR = "{name} is {value!r}; give True or False"


def check_column(name: str, column: Any) -> None:
    """Refuses what is no column.

    Args:
        name: What errors call it.
        column: A value for each row.

    Raises:
        ValueError: It is a single value, has no order, or has masked values.
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


def number_column(name: str, column: Any) -> np.ndarray:
    """A column of numbers in float64; what is missing (`None`) is NaN.

    Raises:
        ValueError: As `check_column`; or it holds text, dates or other things that are no real numbers.
    """
    check_column(name, column)
    try:
        return as_numbers(np.asarray(column)).astype(float)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise ValueError(NOT_NUMBERS_ERROR.format(name=name, error=error)) from error


def as_numbers(values: np.ndarray) -> np.ndarray:
    """The array, if NumPy does not have to read text, dates or complex numbers to take it for numbers.

    Raises:
        TypeError: It has to, or there is something else in it.
        ValueError: Likewise.
    """
    if values.dtype.kind == "O":
        if any(isinstance(value, str | bytes) for value in values.flat):
            raise TypeError("text is among them")
        return values.astype(float)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"type {values.dtype}")
    return values


def check_flag(name: str, value: Any) -> bool:
    """A setting that is on or off.

    Raises:
        ValueError: It is something that only counts as true or false.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(FLAG_ERROR.format(name=name, value=value))
    return bool(value)


def is_number(value: Any) -> bool:
    """Whether a setting is a real number, of Python or NumPy; truth values are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether a setting is a whole number, likewise; 1.0 is none."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def as_python(value: Any) -> Any:
    """The setting as a Python value, which JSON knows."""
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
