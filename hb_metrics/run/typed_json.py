"""Converts dataclasses and NamedTuples to JSON objects and back. Their fields are the keys of the objects.

A field of a dataclass with the default `None` is left out of the JSON object if its value is `None`.
"""

from dataclasses import fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

from hb_metrics.run.json_files import Part

T = TypeVar("T")
_SIMPLE: dict[Any, Any] = {float: (float, int), int: int, str: str, bool: bool}


class _Fields(NamedTuple):
    types: dict[str, Any]
    optional: frozenset[str]


def to_json(value: Any) -> Any:
    """Makes an object for `json.dumps` from results, which may be in dictionaries and lists."""
    if is_dataclass(value) or _is_named(type(value)):
        kind: Any = type(value)
        optional = _fields(kind).optional
        content = vars(value) if is_dataclass(value) else value._asdict()
        return {key: to_json(item) for key, item in content.items() if item is not None or key not in optional}
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def from_json(kind: type[T], content: Any, place: str = "results") -> T:
    """Makes an instance of `kind` from an object that `to_json` has written.

    Raises:
        ValueError: A key is missing or unknown, or a value has another type. The message names the key.
    """
    place = content.place if isinstance(content, Part) else place
    whole: Any = kind
    types, optional = _fields(whole)
    if not isinstance(content, dict):
        raise ValueError(f"{place} is {content!r}, but should be an object; measure again")
    for name in [*types.keys() - content.keys() - optional, *content.keys() - types.keys()]:
        raise ValueError(f"{place}.{name} is {'missing' if name in types else 'unknown'}; measure again")
    return kind(**{name: _value(types[name], value, f"{place}.{name}") for name, value in content.items()})


def _value(kind: Any, value: Any, place: str) -> Any:
    if kind in _SIMPLE:
        if not isinstance(value, _SIMPLE[kind]) or (kind is not bool and isinstance(value, bool)):
            raise ValueError(f"{place} is {value!r}, but should be of the type {kind.__name__}; measure again")
        return value
    origin, inner = get_origin(kind), get_args(kind)
    if is_dataclass(origin or kind) or _is_named(origin or kind):
        return from_json(kind, value, place)
    if origin in (Union, UnionType):
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


def _is_named(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and kind is not tuple


@cache
def _fields(kind: Any) -> _Fields:
    whole = get_origin(kind) or kind
    types = get_type_hints(whole)
    if inner := get_args(kind):  # those of a generic class, such as `ByMetric[float]`
        types = {name: _with_type(hint, inner) for name, hint in types.items()}
    if not is_dataclass(whole):
        return _Fields(types, frozenset())
    optional = frozenset(field.name for field in fields(whole) if field.default is None)
    return _Fields({field.name: types[field.name] for field in fields(whole)}, optional)


def _with_type(hint: Any, inner: tuple[Any, ...]) -> Any:
    if isinstance(hint, TypeVar):
        return inner[0]
    return hint if isinstance(hint, type) or not hint.__parameters__ else hint[inner]
