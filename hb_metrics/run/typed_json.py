"""Converts dataclasses to JSON objects and back. Their fields are the keys, so results have one definition."""

from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from hb_metrics.run.json_files import Part

T = TypeVar("T")
_SIMPLE: dict[Any, Any] = {float: (float, int), int: int, str: str, bool: bool}


def to_json(value: Any) -> Any:
    """Makes an object of `json` from dataclasses, which may be in dictionaries and lists."""
    if is_dataclass(value):
        return {name: to_json(content) for name, content in vars(value).items()}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def from_json(kind: type[T], content: Any, place: str = "results") -> T:
    """Makes a dataclass from an object that `to_json` has written.

    Raises:
        ValueError: A key is missing or unknown, or a value has another type. The message names the key.
    """
    place = content.place if isinstance(content, Part) else place
    known = _types(kind)
    if not isinstance(content, dict) or content.keys() != known.keys():
        given = sorted(content) if isinstance(content, dict) else type(content).__name__
        raise ValueError(f"{place} should have the keys {sorted(known)}, but has {given}; measure again")
    return kind(**{name: _value(known[name], value, f"{place}.{name}") for name, value in content.items()})


def _value(kind: Any, value: Any, place: str) -> Any:
    if kind in _SIMPLE:
        if not isinstance(value, _SIMPLE[kind]) or (kind is not bool and isinstance(value, bool)):
            raise ValueError(f"{place} is {value!r}, but should be of the type {kind.__name__}; measure again")
        return value
    if is_dataclass(kind):
        return from_json(kind, value, place)  # type: ignore[arg-type]  # a class, not an instance
    origin, inner = get_origin(kind), get_args(kind)
    if origin is UnionType:
        other = next(part for part in inner if part is not NoneType)
        return None if value is None else _value(other, value, place)
    if origin is Literal:
        if value not in inner:
            raise ValueError(f"{place} is {value!r}, but should be one of {', '.join(map(repr, inner))}; measure again")
        return value
    if origin in (list, tuple, dict) and not isinstance(value, dict if origin is dict else (list, tuple)):
        raise ValueError(f"{place} is {value!r}, but should be of the type {origin.__name__}; measure again")
    if origin is dict:
        return {key: _value(inner[1], item, f"{place}.{key}") for key, item in value.items()}
    if origin is list:
        return [_value(inner[0], item, f"{place}[{number}]") for number, item in enumerate(value)]
    if origin is tuple:
        if len(value) != len(inner):
            raise ValueError(f"{place} has {len(value)} values, but should have {len(inner)}; measure again")
        return tuple(_value(part, item, place) for part, item in zip(inner, value, strict=True))
    return value


@cache
def _types(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}
