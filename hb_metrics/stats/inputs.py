"""Checks the inputs of metrics, and rejects inputs that Python would silently misread.

For example, Python reads a string as a sequence of letters, and NumPy ignores the mask of a masked array.
"""

from collections.abc import Mapping, Sequence, Sized
from collections.abc import Set as AbstractSet
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa


def check_column(name: str, column: Any) -> None:
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
    elif np.ma.is_masked(column) or (isinstance(column, list | tuple) and any(map(np.ma.is_masked, column))):
        what = "a column with masked values"
    else:
        return
    raise ValueError(f"{name}: {what} was given; pass a list or another sequence with one value for each row")


def check_lengths(**columns: Sized | None) -> None:
    lengths = {name: len(column) for name, column in columns.items() if column is not None}
    if len(set(lengths.values())) > 1:
        named = ", ".join(f"{size} {name}" for name, size in lengths.items())
        raise ValueError(
            f"the inputs differ in length ({named}); pass one value per row for each input, in the same order"
        )


def check_columns(columns: Mapping[str, object], **optional: Any) -> None:
    """Checks columns and their lengths. Only the columns in `optional` may be `None`."""
    given = {**columns, **{name: column for name, column in optional.items() if column is not None}}
    for name, column in given.items():
        check_column(name, column)
    check_lengths(**given)


def check_references(references: Any) -> None:
    if references is not None:
        raise ValueError("this metric compares predictions with each other and takes no references; omit them")


def number_column(name: str, column: Any) -> np.ndarray:
    """Converts a column of numbers to float64, [rows]. A missing number (`None`) becomes NaN."""
    advice = "pass one number for each row, as a list, an array, or tensor.detach().cpu().float()"
    return read_numbers(name, column, 1, advice).astype(float)


def read_numbers(name: str, column: Any, num_dimensions: int, advice: str) -> np.ndarray:
    """Converts a column of numbers (1 dimension), or of rows of equally many numbers (2 dimensions), to an array."""
    check_column(name, column)
    try:
        # The slice reads all rows of a column of `datasets` at once.
        values = np.asarray(column[:] if num_dimensions == 2 else column)
        if values.dtype == object and num_dimensions == 2:  # rows that are arrays or that contain a missing number
            values = np.stack(list(values))
        if values.dtype == object:
            if any(isinstance(value, str | bytes) for value in values.flat):
                raise TypeError("text is among them")
            values = values.astype(float)
        if values.dtype.kind not in "biuf":
            raise TypeError(f"type {values.dtype}")
        if values.ndim != num_dimensions and values.shape != (0,):
            raise TypeError(f"shape {values.shape}")
    except (TypeError, ValueError, RuntimeError, IndexError, OverflowError) as error:
        raise ValueError(f"{name} cannot be read as numbers ({error}); {advice}") from error
    return values


def check_values(name: str, values: np.ndarray, allowed: np.ndarray, advice: str) -> None:
    """Raises an error that names the first row of `values` [rows] that is not `allowed` [rows]."""
    bad = np.flatnonzero(~allowed)
    if len(bad):
        raise ValueError(f"{name} in row {bad[0]} is {values[bad[0]]}; {advice} ({len(bad)} rows have other values)")


def without_scalars(column: Any) -> Any:
    """Returns an Arrow column, whose items are Arrow objects, as Python values. Returns other columns as given."""
    return column.to_pylist() if isinstance(column, pa.Array | pa.ChunkedArray) else column


def text_codes(name: str, column: Any) -> tuple[np.ndarray, list[str]]:
    """Returns the code of each row's string, and the distinct strings in alphabetical order."""
    column = without_scalars(column)
    try:
        encoded = pa.array(column, pa.string()).dictionary_encode()
        is_bad = encoded.is_null().to_numpy(zero_copy_only=False)
    except (pa.ArrowException, UnicodeError):
        is_bad = np.array([not _is_text(value) for value in column])
        if not is_bad.any():
            raise
    if is_bad.any():
        row = np.flatnonzero(is_bad)[0]
        raise ValueError(
            f"{name} in row {row} is {list(column)[row]!r}; pass a string for each row, and omit rows that have no "
            "string, such as replies to prompts without a descriptor"
        )
    names, codes = np.unique(np.array(encoded.dictionary.to_pylist(), dtype=object), return_inverse=True)
    return codes[encoded.indices.to_numpy()], names.tolist()


class DescriptorKey(NamedTuple):
    axis: str | None
    descriptor: str


def descriptor_codes(
    descriptors: Sequence[str], axes: Sequence[str] | None = None
) -> tuple[np.ndarray, list[DescriptorKey]]:
    """Returns the index of each row's descriptor, and the descriptors in alphabetical order of axis and term."""
    check_lengths(descriptors=descriptors, axes=axes)
    descriptor, names = text_codes("descriptor", descriptors)
    axis, axis_names = (np.zeros_like(descriptor), [None]) if axes is None else text_codes("axis", axes)
    distinct, codes = np.unique(axis * len(names) + descriptor, return_inverse=True)
    return codes, [DescriptorKey(axis_names[key // len(names)], names[key % len(names)]) for key in distinct]


def text_column(name: str, column: Any) -> list[str]:
    """Converts a column to a list of strings.

    `evaluate` reads a missing string (NaN) as the string "nan", and fails if the index of a pandas column lacks 0.
    """
    check_column(name, column)
    codes, names = text_codes(name, column)
    return [names[code] for code in codes]


def check_setting(name: str, value: Any, is_allowed: bool, advice: str) -> None:
    if not is_allowed:
        raise ValueError(f"{name} is {value!r}; {advice}")


def check_flag(name: str, value: Any) -> bool:
    check_setting(name, value, isinstance(value, bool | np.bool_), "pass True or False")
    return bool(value)


def check_alpha(alpha: Any) -> float:
    check_setting("alpha", alpha, is_number(alpha) and 0 < alpha < 1, "pass a number between 0 and 1, such as 0.05")
    return float(alpha)


def check_level(level: Any) -> None:
    # If the level is very close to 0 or 1, rounding turns (1 + level) / 2 into 0.5 or 1, which allows no interval.
    is_allowed = is_number(level) and 0.5 < (1 + level) / 2 < 1
    check_setting("confidence_level", level, is_allowed, "pass a number between 0 and 1, such as 0.95")


def check_ddof(ddof: Any) -> int:
    advice = "pass 0 (divide by the number of descriptors) or 1 (divide by one less)"
    check_setting("ddof", ddof, is_whole(ddof) and ddof in (0, 1), advice)
    return as_python(ddof)


def is_number(value: Any) -> bool:
    """Returns whether a value is a real number in Python or NumPy. `True` and `False` do not count."""
    return isinstance(value, Real) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Returns whether a value has an integer type in Python or NumPy. 1.0, `True` and `False` do not count."""
    return isinstance(value, Integral) and not isinstance(value, bool)


def as_python(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
