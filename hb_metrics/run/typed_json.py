"""Converts dataclasses and NamedTuples to JSON objects and back. Their fields are the keys of the objects.

A field of a dataclass with the default `None` is left out of the JSON object if its value is `None`.
"""

import math
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
_SIMPLE: dict[Any, Any] = {float: (float, int), int: int, str: str, bool: bool}


class Excerpt:
    """The base class of dataclasses for a part of an object. The other keys of the object are ignored."""


class _Fields(NamedTuple):
    """The types of fields, the fields that may be missing, and those that are left out if they are `None`."""

    types: dict[str, object]
    optional: frozenset[str]
    left_out: frozenset[str]


def to_json(value: Any) -> Any:
    """Makes an object for `json.dumps` from results, which may be in dictionaries and lists."""
    if is_dataclass(value) or _is_named(type(value)):
        kind: Any = type(value)
        left_out = _fields(kind).left_out
        content = vars(value) if is_dataclass(value) else value._asdict()
        return {key: to_json(item) for key, item in content.items() if item is not None or key not in left_out}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def from_json(kind: type[T], content: Any, place: str = "results") -> T:
    """Makes an instance of `kind` from an object that `to_json` has written.

    Raises:
        ValueError: A key is missing or unknown, or a value has another type. The message names the key.
    """
    whole: Any = kind
    types, optional, _ = _fields(whole)
    if not isinstance(content, dict):
        raise _fault(place, content, "an object")
    unknown = () if issubclass(get_origin(whole) or whole, Excerpt) else content.keys() - types.keys()
    for name in [*types.keys() - content.keys() - optional, *unknown]:
        raise ValueError(f"{place}.{name} is {'missing' if name in types else 'unknown'}; analyse or measure again")
    known = {name: value for name, value in content.items() if name in types}
    return kind(**{name: value_from_json(types[name], value, f"{place}.{name}") for name, value in known.items()})


def value_from_json(kind: Any, value: Any, place: str) -> Any:
    """Checks a value that may be of any type that fields have, as `from_json` does, and returns it as this type."""
    if kind in _SIMPLE:
        is_kind = isinstance(value, _SIMPLE[kind]) and (kind is bool) == isinstance(value, bool)
        if not is_kind or (kind is float and not math.isfinite(value)):
            raise _fault(place, value, f"of the type {kind.__name__}")
        return value
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(origin or kind) or _is_named(origin or kind):
        return from_json(kind, value, place)
    if origin in (Union, UnionType):
        other = next(part for part in inner if part is not NoneType)
        return None if value is None else value_from_json(other, value, place)
    if origin is Literal:
        if value not in inner:
            raise _fault(place, value, f"one of {', '.join(map(repr, inner))}")
        return value
    if origin in (list, tuple, dict) and not isinstance(value, dict if origin is dict else (list, tuple)):
        raise _fault(place, value, f"of the type {origin.__name__}")
    if origin is dict:
        return {key: value_from_json(inner[1], item, f"{place}.{key}") for key, item in value.items()}
    if origin is list:
        return [value_from_json(inner[0], item, f"{place}[{number}]") for number, item in enumerate(value)]
    if origin is tuple:
        if len(value) != len(inner):
            raise _fault(place, value, f"{len(inner)} values")
        return tuple(value_from_json(part, item, place) for part, item in zip(inner, value, strict=True))
    return value


def _fault(place: str, value: Any, expected: str) -> ValueError:
    return ValueError(f"{place} is {value!r}, but should be {expected}; analyse or measure again")


def _is_named(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and kind is not tuple


@cache
def _fields(kind: Any) -> _Fields:
    whole = get_origin(kind) or kind
    types = get_type_hints(whole)
    if inner := get_args(kind):  # those of a generic class, such as `ByMetric[float]`
        types = {name: _with_type(hint, inner) for name, hint in types.items()}
    if not is_dataclass(whole):
        return _Fields(types, frozenset(), frozenset())
    optional = [field for field in fields(whole) if (field.default, field.default_factory) != (MISSING, MISSING)]
    left_out = frozenset(field.name for field in optional if field.default is None)
    of_fields = {field.name: types[field.name] for field in fields(whole)}
    return _Fields(of_fields, frozenset(field.name for field in optional), left_out)


def _with_type(hint: Any, inner: tuple[Any, ...]) -> Any:
    if isinstance(hint, TypeVar):
        return inner[0]
    return hint if isinstance(hint, type) or not hint.__parameters__ else hint[inner]
