"""Converts dataclasses to JSON objects and back. Their fields are the keys, so results have one definition."""

from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

T = TypeVar("T")


def from_json(kind: type[T], content: Any, place: str = "results") -> T:
    """Makes a dataclass from an object that `dataclasses.asdict` has written.

    Raises:
        ValueError: A key is missing or unknown. The message names it.
    """
    known = get_type_hints(kind)
    names = {each.name for each in fields(kind)}  # type: ignore[arg-type]  # T is a dataclass
    if not isinstance(content, dict) or content.keys() != names:
        given = sorted(content) if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"{place} should have the keys {sorted(names)}, but has {given}; measure again")
    return kind(**{name: _value(known[name], value, f"{place}.{name}") for name, value in content.items()})


def _value(kind: Any, value: Any, place: str) -> Any:
    if value is None:
        return None
    if get_origin(kind) is UnionType:
        kind = next(part for part in get_args(kind) if part is not NoneType)
    inner = get_args(kind)
    if is_dataclass(kind):
        return from_json(kind, value, place)  # type: ignore[arg-type]  # a class, not an instance
    if get_origin(kind) is list:
        return [_value(inner[0], item, place) for item in value]
    if get_origin(kind) is dict:
        return {key: _value(inner[1], item, f"{place}.{key}") for key, item in value.items()}
    if get_origin(kind) is tuple:
        return tuple(value)
    return value
