"""Dataclasses become JSON and come back; a damaged file is an error that names the key."""

import json
from dataclasses import dataclass
from typing import Literal

import pytest

from hb_metrics.run.typed_json import from_json, to_json


@dataclass(frozen=True)
class Part:
    bounds: tuple[float, float] | None
    kind: Literal["a", "b"]


@dataclass(frozen=True)
class Whole:
    parts: dict[str, Part]
    first: Part | None
    names: list[str]
    number: int
    share: float
    known: bool


WHOLE = Whole({"one": Part((0.5, 1), "a"), "two": Part(None, "b")}, None, ["x"], 3, 1, True)


def test_what_is_written_is_read():
    content = json.loads(json.dumps(to_json(WHOLE)))
    assert list(content) == ["parts", "first", "names", "number", "share", "known"]
    assert from_json(Whole, content) == WHOLE
    assert to_json({"a": [WHOLE]}) == {"a": [content]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"parts": {"one": {"bounds": None, "kind": "c"}}}, r"results.parts.one.kind is 'c' .*'a' or 'b'"),
        ({"parts": {"one": {"bounds": [1.0], "kind": "a"}}}, r"results.parts.one.bounds\[1\] .*required"),
        ({"names": ["x", None]}, r"results.names\[1\] is None .*a valid string"),
        ({"number": True}, "results.number is True .*a valid integer"),
        ({"share": float("nan")}, "results.share is nan .*a finite number"),
        ({"more": 1}, "results.more is 1 .*Unexpected"),
        ({"more": ["x" * 50] * 9}, r"results.more is \['x{50}', 'x{4} \(Unexpected"),
    ],
)
def test_a_damaged_value_is_named(change, message):
    content = to_json(WHOLE) | change
    with pytest.raises(ValueError, match=message):
        from_json(Whole, content)
