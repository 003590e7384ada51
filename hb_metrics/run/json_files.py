"""Reads the JSON files of runs, which may be forged or damaged. Errors name the file and the key."""

import math
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hb_dataset.table_files import parse_json

_FAULTS = (LookupError, TypeError, AttributeError, ArithmeticError, ValueError, RecursionError)
_REMEDY = "measure again in a new folder"


class MissingKeyError(KeyError, ValueError):
    def __str__(self) -> str:
        return str(self.args[0])


class Part(dict[str, Any]):
    """An object in a JSON file. `last_read` is the place of the value that was read last, in any file."""

    last_read = ""
    place = ""

    def __getitem__(self, key: str) -> Any:
        Part.last_read = f"{self.place}.{key}"
        return super().__getitem__(key)

    def __missing__(self, key: str) -> Any:
        raise MissingKeyError(f"{Part.last_read} is missing; {_REMEDY}")

    def get(self, key: str, default: Any = None) -> Any:
        Part.last_read = f"{self.place}.{key}"
        return super().get(key, default)


def read_json(path: Path) -> Part:
    try:
        content = parse_json(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise ValueError("it contains no JSON object")
        part: Part = _placed(content, f"'{path}': {path.stem}")
        return part
    except (ValueError, RecursionError) as error:
        raise ValueError(f"'{path}' cannot be read ({error}); move it away, or {_REMEDY}") from error


@contextmanager
def json_faults() -> Iterator[None]:
    """Converts an unexplained error in code that uses JSON files to a `ValueError` that names the file and the key."""
    try:
        yield
    except _FAULTS as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        if not Part.last_read or (isinstance(error, ValueError) and (last.line or "").startswith("raise")):
            raise
        raise ValueError(f"{Part.last_read}, or a value near it, is invalid ({error}); {_REMEDY}") from error


def _placed(value: Any, place: str) -> Any:
    if isinstance(value, dict):
        part = Part({key: _placed(item, f"{place}.{key}") for key, item in value.items()})
        part.place = place
        return part
    if isinstance(value, list):
        return [_placed(item, f"{place}[{index}]") for index, item in enumerate(value)]
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place} is {value}, which no run writes")
    return value
