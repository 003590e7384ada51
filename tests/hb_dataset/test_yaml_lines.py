import time
from itertools import pairwise

import pytest
import yaml

from hb_dataset.yaml_lines import MAX_BYTES, MAX_DEPTH, load_with_lines, unreadable

LAUGHS = "a: &a [x]\n" + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in pairwise("abcdefg"))
# Name → (the text, its line, what is said of it).
REFUSED = {
    "ten lines of aliases": (LAUGHS, 1, "contains the YAML anchor or alias &a; write it out"),
    "one anchor": ("a: b\nc: &d e\n", 2, "contains the YAML anchor or alias &d"),
    "deep keys": ("? " * 100_000, 1, f"more than {MAX_DEPTH} deep"),
    "one deeper than allowed": ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), 1, f"more than {MAX_DEPTH} deep"),
    "400 kB": ("- a\n" * 100_000, 1, f"is larger than the limit of {MAX_BYTES:,} bytes"),
    "a Python object": ("a: !!python/object/apply:os.system [ls]\n", 1, "has the tag tag:yaml.org,2002:python/object"),
    "a tag that would be lost": ("a: b\nc: !wow d\n", 2, "has the tag !wow; remove it, or quote"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_could_grow_is_refused_before_it_is_built(tmp_path, monkeypatch, name):
    text, line, message = REFUSED[name]
    monkeypatch.setattr(yaml, "compose", None)  # builds
    path = tmp_path / "mood.yaml"
    path.write_text(text, encoding="utf-8")
    start = time.process_time()
    with pytest.raises(yaml.YAMLError) as caught:
        load_with_lines(path, [])
    fault = unreadable(path, caught.value)
    assert time.process_time() - start < 1
    assert (fault.file, fault.line) == ("mood.yaml", line)
    assert message in fault.message
    assert len(fault.message) < 200


def test_what_is_just_allowed_is_read(tmp_path):
    deep = "[" * MAX_DEPTH + "x" + "]" * MAX_DEPTH
    for text in (deep, f"a: '{'b' * (MAX_BYTES - 5)}'", "a: '&b *c !d'\ne: f & g*h!\n", "a: !!bool no"):
        path = tmp_path / "mood.yaml"
        path.write_text(text, encoding="utf-8")
        faults = []
        document, lines = load_with_lines(path, faults)
        assert document
        assert (lines[()], faults) == (1, [])


def test_many_line_breaks_of_another_kind_are_reported_once_a_line(tmp_path):
    path = tmp_path / "mood.yaml"
    path.write_text("a: b" + "\u2028" * 80_000 + "\nc: d\x85\x85\u2029\n", encoding="utf-8")
    faults = []
    load_with_lines(path, faults)
    assert [(fault.line, fault.message[:34]) for fault in faults] == [
        (1, "has an unusual line break (U+2028)"),
        (2, "has an unusual line break (U+0085)"),
        (2, "has an unusual line break (U+2029)"),
    ]
