"""Converts dataclasses and NamedTuples to JSON objects and back. Their fields are the keys of the objects.

A field of a dataclass with the default `None` is left out of the JSON object if its value is `None`.
"""

import json
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


class Excerpt:
    """The base class of dataclasses for a part of an object. The other keys of the object are ignored."""

    __pydantic_config__: ClassVar[dict[str, object]] = {"strict": True, "allow_inf_nan": False, "extra": "ignore"}


def to_json(value: Any) -> Any:
    """Makes an object for `json.dumps` from results, which may be in dictionaries and lists."""
    if is_dataclass(value):
        left_out = {field.name for field in fields(value) if field.default is None}
        content = vars(value).items()
        return {name: to_json(item) for name, item in content if item is not None or name not in left_out}
    if isinstance(value, tuple) and type(value) is not tuple:
        value = value._asdict()  # type: ignore[attr-defined]  # a NamedTuple
    if isinstance(value, dict):
        return {key: to_json(item) for key, item in value.items()}
    return [to_json(item) for item in value] if isinstance(value, (list, tuple)) else value


def from_json(kind: type[T], content: Any, place: str = "results") -> T:
    """Makes an instance of `kind`, any type of a field, from content that `to_json` has written.

    Raises:
        ValueError: A key is missing or unknown, or a value has another type. The message names the key.
    """
    from pydantic import ValidationError

    whole: Any = kind
    try:
        (value,) = _adapter(whole).validate_json(json.dumps([content]))
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        keys = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in fault["loc"][1:])
        given = "" if fault["type"].startswith("missing") else f" is {fault['input']!r:.60}"  # a part may be long
        raise ValueError(f"{place}{keys}{given} ({fault['msg']}); analyse or measure again") from error
    return value


@cache
def _adapter(kind: Any) -> "TypeAdapter[list[Any]]":
    from pydantic import ConfigDict, TypeAdapter  # takes too long for `--help`

    # In a list, because a dataclass alone accepts no config.
    return TypeAdapter(list[kind], config=ConfigDict(strict=True, allow_inf_nan=False, extra="forbid"))
