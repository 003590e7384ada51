"""Any file of a vocabulary is read or reported."""

import re
import shutil
from dataclasses import fields

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_dataset import VocabularyError, read_vocabulary
from hb_dataset.vocabulary_entries import (
    ADJECTIVE_ORDER_FILE,
    AFTER_THE_NOUN,
    LEFT_OUT_FILE,
    LEFT_OUT_NOUNS_FILE,
    NOUNS_FILE,
    SEAT_TEMPLATES_FILE,
    TEMPLATES_FILE,
    AdjectiveClass,
    Descriptor,
    LeftOutNoun,
    LeftOutPair,
    PersonNoun,
    Template,
)

FILES = {
    "mood.yaml": b"axis: mood\nsource: Doe (2024)\nterms:\n  - term: cheerful\n    note: |\n      a\n      b\n",
    "way.yaml": b'axis: way\nterms:\n- {term: "with a hat", plural: with hats, bucket: after_the_noun}\n',
    NOUNS_FILE: b"nouns:\n  - noun: woman\n    plural: women\n    gender: female\n  - noun: kid\n    plural: kids\n",
    TEMPLATES_FILE: b'templates:\n  - template: "I know {noun_phrase}."\n    small: true\n',
    SEAT_TEMPLATES_FILE: b'templates:\n  - template: "{plural_noun_phrase} are here."\n',
    ADJECTIVE_ORDER_FILE: b"classes:\n  - name: opinion\n    axis: mood\n",
    LEFT_OUT_FILE: b"pairs:\n  - axis: mood\n    because: same\n    terms: [cheerful]\n    other_axis: way\n",
    LEFT_OUT_NOUNS_FILE: b"combinations:\n  - axis: mood\n    terms: [cheerful]\n    nouns: [kid]\n    because: same\n",
}
ALWAYS = settings(max_examples=200, derandomize=True, deadline=None, database=None)


def write_files(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


def read_or_faults(folder, files):
    """Reads a vocabulary, which either has no fault or tells all of them, of its files and at lines that they have."""
    write_files(folder, files)
    try:
        read_vocabulary(folder)
    except VocabularyError as error:
        check_faults(str(error), error.faults, files)


def check_faults(message, faults, files):
    assert faults
    assert faults == sorted(faults)
    for fault in faults:
        assert fault.file in (*files, "<axis>.yaml")
        lines = re.split(rb"\r\n|\r|\n", files.get(fault.file, b""))  # as an editor counts them
        assert 1 <= fault.line <= len(lines)
        assert len(fault.message.splitlines()) == 1
    assert message.splitlines()[1:] == [f"  {fault.file}:{fault.line}: {fault.message}" for fault in faults]


def test_a_vocabulary_with_a_slip_is_read_or_reported(tmp_path):
    signs = "&a |*a|!!int |null|- |? |---\n|terms:|term: |<<: |\u00a0|\u2028|\\u2028|\x85"
    pieces = st.sampled_from(
        [b"", *(bytes([byte]) for byte in b"\n -:'\"\t{}[]|\x00\xff"), *map(str.encode, signs.split("|"))]
    )
    slips = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 6), pieces), min_size=1, max_size=3)

    @ALWAYS
    @given(st.sampled_from(sorted(FILES)), slips)
    def check(name, slips):
        content = FILES[name]
        for start, length, piece in slips:
            content = content[:start] + piece + content[start + length :]
        read_or_faults(tmp_path / "v", {**FILES, name: content})

    check()


def test_any_tree_of_lists_and_mappings_is_read_or_reported(tmp_path):
    kinds = (Descriptor, PersonNoun, Template, AdjectiveClass, LeftOutPair, LeftOutNoun)
    names = {field.name for kind in kinds for field in fields(kind)}
    keys = st.sampled_from(sorted(names | {"nouns", "templates", "classes", "pairs", "combinations", ""}))
    leaves = st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.floats(),
        st.dates(),
        st.sampled_from(["mood", "cheerful", "calm", "{noun_phrase}", "female", "an", "same", AFTER_THE_NOUN]),
        st.text(max_size=8),
    )
    trees = st.recursive(
        leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
    )
    lists = {"terms": "mood.yaml", "nouns": NOUNS_FILE, "templates": TEMPLATES_FILE, "classes": ADJECTIVE_ORDER_FILE}
    lists |= {"pairs": LEFT_OUT_FILE, "combinations": LEFT_OUT_NOUNS_FILE}

    @ALWAYS
    @given(
        st.sampled_from(sorted(lists)), st.lists(st.dictionaries(keys, trees, max_size=4) | trees, max_size=4), trees
    )
    def check(key, entries, other):
        tree = other if isinstance(other, list) else {"axis": "mood", key: entries, "source": other}
        if key != "terms":
            tree = {name: value for name, value in tree.items() if name != "axis"} if isinstance(tree, dict) else tree
        try:
            content = yaml.safe_dump(tree, allow_unicode=True).encode()
        except UnicodeEncodeError:
            return
        read_or_faults(tmp_path / "v", {**FILES, lists[key]: content})

    check()
