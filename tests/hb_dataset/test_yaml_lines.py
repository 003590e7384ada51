import time
from itertools import pairwise

import pytest

from hb_dataset.yaml_lines import MAX_BYTES, MAX_DEPTH, FaultsError, load_values, load_with_lines

LAUGHS = "a: &a [x]\n" + "".join(f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n" for a, b in pairwise("abcdefghi"))
DEEP = "[" * MAX_DEPTH + "x" + "]" * MAX_DEPTH
# Name → (the text, its line, what is said of it).
REFUSED = {
    "ten lines of aliases": (LAUGHS, 1, "or has more than 200,000 values"),
    "deep keys": ("? " * 100_000, 1, "nesting"),
    "one deeper than allowed": (
        "[" * (MAX_DEPTH + 1) + "x" + "]" * (MAX_DEPTH + 1),
        1,
        f"more than {MAX_DEPTH} levels deep",
    ),
    "too large": ("- a\n" * (MAX_BYTES // 4 + 1), 1, f"is larger than the limit of {MAX_BYTES:,} bytes"),
    "not UTF-8": ("a: b\nc: \udce9\n", 2, "is not UTF-8 here; save"),
    "a control character": ("a: b\nc: d\x07\n", 2, "has a control character or an unusual line break (U+0007)"),
    "another line break": ("a: b\nc: d\u2028\n", 2, "an unusual line break (U+2028)"),
    "a key twice": ("a:\n  b: c\n  d: e\n  b: f\n", 4, "key 'b' occurs twice; remove one"),
}


@pytest.mark.parametrize(("text", "line", "message"), REFUSED.values(), ids=REFUSED)
def test_what_could_grow_or_get_lost_is_refused(tmp_path, text, line, message):
    path = tmp_path / "mood.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogateescape")
    start = time.process_time()
    with pytest.raises(FaultsError) as caught:
        load_with_lines(path)
    (fault,) = caught.value.faults
    assert time.process_time() - start < 2
    assert (fault.file, fault.line) == ("mood.yaml", line)
    assert message in fault.message
    assert len(fault.message) < 200


def test_what_is_just_allowed_is_read(tmp_path):
    for text in (DEEP, "a: '&b *c !d'\ne: f & g*h!\n", "a: !!bool no"):
        path = tmp_path / "mood.yaml"
        path.write_text(text, encoding="utf-8")
        document, lines = load_with_lines(path)
        assert document
        assert lines[()] == 1


@pytest.mark.parametrize(("line", "problem"), [("a: !x b", "for the tag '!x'"), ("[c]: d\n", "found unhashable key")])
def test_a_fault_of_a_tag_or_a_key_is_one_sentence_with_its_line(tmp_path, line, problem):
    path = tmp_path / "settings.yaml"
    path.write_text(f"e: f\n{line}", encoding="utf-8")
    with pytest.raises(ValueError, match=rf"^line 2 of '\S+settings\.yaml' is not valid YAML .*{problem}") as caught:
        load_values(path)
    assert "\n" not in str(caught.value)
