"""What holds of vocabularies, variations and intersections for any input. `-m long` tries many more."""

import copy
import itertools
import re
import shutil
from collections import Counter
from dataclasses import fields

import pyarrow as pa
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_dataset import VocabularyError, read_vocabulary
from hb_dataset.intersections import all_intersections, sample_intersections
from hb_dataset.noun_phrases import agrees, noun_phrase, plural_noun_phrase
from hb_dataset.prompt_table import descriptor_noun_spans, intersection_table, prompt_table
from hb_dataset.variations import VARIATIONS, mixed_variations, vary_prompts
from hb_dataset.versions import NEXT, read_version
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


def depths(quick, deep):
    """A test's settings, with so many examples: always the same ones, or (`-m long`) many of each time."""
    always = settings(max_examples=quick, derandomize=True, deadline=None, database=None)
    thorough = settings(max_examples=deep, deadline=None)
    return pytest.mark.parametrize("depth", [always, pytest.param(thorough, marks=pytest.mark.long)], ids=["", "deep"])


def write_files(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return folder


# --- reading vocabularies ---------------------------------------------------------------------------------------------


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


@depths(150, 5000)
def test_any_bytes_are_read_or_reported(depth, tmp_path):
    letters = st.sampled_from([*b"axis: terms\n  -'\"{}[]&*!|>%@`#,?:\t\r\0", 0xE9, 0xEF, 0xBB, 0xBF, 0xC2, 0x85, 0xFF])
    content = st.one_of(st.binary(max_size=60), st.lists(letters, max_size=80).map(bytes))

    @depth
    @given(st.sampled_from(sorted(FILES)), content)
    def check(name, content):
        read_or_faults(tmp_path / "v", {**FILES, name: content})

    check()


@depths(250, 4000)
def test_a_vocabulary_with_a_slip_is_read_or_reported(depth, tmp_path):
    signs = "&a |*a|!!int |null|- |? |---\n|terms:|term: |<<: |\u00a0|\u2028|\\u2028|\x85"
    pieces = st.sampled_from(
        [b"", *(bytes([byte]) for byte in b"\n -:'\"\t{}[]|\x00\xff"), *map(str.encode, signs.split("|"))]
    )
    slips = st.lists(st.tuples(st.integers(0, 80), st.integers(0, 6), pieces), min_size=1, max_size=3)

    @depth
    @given(st.sampled_from(sorted(FILES)), slips)
    def check(name, slips):
        content = FILES[name]
        for start, length, piece in slips:
            content = content[:start] + piece + content[start + length :]
        read_or_faults(tmp_path / "v", {**FILES, name: content})

    check()


@depths(200, 5000)
def test_any_tree_of_lists_and_mappings_is_read_or_reported(depth, tmp_path):
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

    @depth
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


@depths(60, 1500)
def test_what_yaml_cannot_read_is_reported_at_its_line(depth, tmp_path):
    breaks = st.sampled_from([b"\n", b"\r\n", b"\r"])
    wrong = st.sampled_from(["\x07", "\x00", "\x85", "\u2028", "\ufffe", "\xff"])

    @depth
    @given(breaks, st.integers(0, 30), st.sampled_from(["calm", "é", "🙂"]), wrong, st.booleans())
    def check(line_break, number, said, character, ends):
        wrong = b"\xff" if character == "\xff" else character.encode()
        lines = [b"axis: mood", b"terms:", *[f"# {said}".encode()] * number, b"  - term: a" + wrong + b"b"]
        content = line_break.join([*lines, *[b""] * ends])
        with pytest.raises(VocabularyError) as error:
            read_vocabulary(write_files(tmp_path / "v", {**FILES, "mood.yaml": content}))
        assert ("mood.yaml", len(lines)) in {(fault.file, fault.line) for fault in error.value.faults}

    check()


words = st.text("abcdefghijklmnopqrstuvwxyzABCDEFåéñ'1", min_size=1, max_size=7).filter(
    lambda word: word.strip("'") == word
)
phrases = (
    st.lists(words, min_size=1, max_size=3)
    .map(" ".join)
    .filter(lambda text: not re.match(r"(a|an|the|with|without|in|on|who|who's)\b", text, re.IGNORECASE))
)
key_names = st.text("abcdefgh_", min_size=1, max_size=8).filter(lambda name: name[0] != "_")
remarks = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S", "Zs"]), min_size=1, max_size=20).filter(
    lambda text: text.strip() and not re.search("[\u115f\u1160\u3164\uffa0]", text)
)


def distinct_by(key, entries, **sizes):
    return st.lists(entries, unique_by=lambda entry: entry[key].casefold(), **sizes)


def with_some(entries, **optional):
    """Entries with some of the keys that may be left out."""
    return st.builds(lambda entry, more: {**entry, **more}, entries, st.fixed_dictionaries({}, optional=optional))


@st.composite
def vocabularies(draw, most_axes=3):
    """A vocabulary without a fault: file → content, as people may write it."""
    plain = {"note": remarks, "source": remarks}
    nouns = draw(
        distinct_by(
            "noun", with_some(st.fixed_dictionaries({"noun": words, "plural": words}), **plain), min_size=1, max_size=3
        )
    )
    for noun, gender in zip(nouns, draw(st.permutations(["female", "male", "non-binary", None])), strict=False):
        noun |= {} if gender is None else {"gender": gender}
    genders = sorted({noun["gender"] for noun in nouns if "gender" in noun})
    files = {NOUNS_FILE: {"nouns": nouns}}
    axes = draw(st.lists(key_names, min_size=1, max_size=most_axes, unique=True))
    for axis in axes:
        more = {
            **plain,
            "article": st.sampled_from(["a", "an"]),
            "preference": st.sampled_from(["reviewed", "polarizing"]),
        }
        if genders:
            more["gender"] = st.sampled_from(genders)
        before = with_some(st.fixed_dictionaries({"term": phrases}), **more)
        after = with_some(
            st.builds(
                lambda start, rest, plural: {
                    "term": f"{start} {rest}",
                    "plural": f"{start} {plural}",
                    "bucket": AFTER_THE_NOUN,
                },
                st.sampled_from(["with", "in", "who loves"]),
                phrases,
                phrases,
            ),
            **plain,
        )
        bucket = draw(st.none() | key_names.filter(AFTER_THE_NOUN.__ne__))
        if bucket is not None:
            before = before.map(lambda entry, bucket=bucket: {**entry, "bucket": bucket})
        # Most terms of an axis stand before the noun, so that it either has buckets or not.
        entries = draw(distinct_by("term", before, min_size=1, max_size=3))
        entries += draw(distinct_by("term", after, max_size=2))
        files[f"{axis}.yaml"] = {"axis": axis, "terms": draw(st.permutations(entries))}
    slots = st.sampled_from(["{noun_phrase}", "{plural_noun_phrase}"])
    templates = with_some(
        st.builds(
            lambda start, slot, end: {"template": f"{start} {slot}{end}"}, phrases, slots, st.sampled_from(".!?")
        ),
        small=st.booleans(),
        **plain,
    )
    files[TEMPLATES_FILE] = {"templates": draw(distinct_by("template", templates, min_size=1, max_size=3))}
    files[ADJECTIVE_ORDER_FILE] = {
        "classes": [{"name": draw(st.sampled_from(["size", "origin"])), "axis": axis} for axis in axes]
    }
    style = draw(st.sampled_from([{}, {"default_flow_style": True}, {"default_style": '"'}, {"sort_keys": False}]))
    return files, {
        name: yaml.safe_dump(content, allow_unicode=True, **style).encode() for name, content in files.items()
    }


def as_written(entry, keys):
    """The keys of an entry that it has a value for."""
    return {key: getattr(entry, key) for key in keys if getattr(entry, key)}


@depths(40, 400)
def test_what_is_written_is_what_is_read(depth, tmp_path):
    @depth
    @given(vocabularies())
    def check(drawn):
        files, contents = drawn
        vocabulary = read_vocabulary(write_files(tmp_path / "v", contents))
        axes = sorted(name.removesuffix(".yaml") for name, content in files.items() if "axis" in content)
        assert list(vocabulary.axes) == axes
        expected = {
            "descriptors": [{"axis": axis, **entry} for axis in axes for entry in files[f"{axis}.yaml"]["terms"]],
            "nouns": files[NOUNS_FILE]["nouns"],
            "templates": files[TEMPLATES_FILE]["templates"],
        }
        for part, entries in expected.items():
            read = getattr(vocabulary, part)
            assert len(read) == len(entries)
            for found, entry in zip(read, entries, strict=True):
                assert as_written(found, vars(found)) == {key: value for key, value in entry.items() if value}
        assert read_vocabulary(write_files(tmp_path / "v", contents)).digest == vocabulary.digest
        other = copy.deepcopy(files)
        other[NOUNS_FILE]["nouns"][0]["plural"] += "x"
        changed = {name: yaml.safe_dump(content, allow_unicode=True).encode() for name, content in other.items()}
        assert read_vocabulary(write_files(tmp_path / "v", changed)).digest != vocabulary.digest

    check()


# --- intersections ----------------------------------------------------------------------------------------------------


def check_phrase(pair, noun):
    """Both terms, the noun and nothing else, single spaces, and the article of the first word."""
    for phrase, said, forms in (
        (noun_phrase(pair, noun), noun.noun, (pair.first.term, pair.second.term)),
        (
            plural_noun_phrase(pair, noun),
            noun.plural,
            (pair.first.plural or pair.first.term, pair.second.plural or pair.second.term),
        ),
    ):
        assert phrase == " ".join(phrase.split())
        for form in forms:
            assert re.search(rf"(?<![\w-]){re.escape(form)}(?![\w-])", phrase), (form, phrase)
        singular = said == noun.noun and phrase == noun_phrase(pair, noun)
        article, rest = phrase.split(" ", 1) if singular else ("", phrase)
        left = Counter(rest.split(" "))
        left.subtract(f"{said} {' '.join(forms)}".split(" "))
        assert +left in (Counter(), Counter(["and"])), phrase
        assert not -left, phrase
        if singular:
            # A term may be the beginning of another.
            firsts = [
                term for term in (pair.first, pair.second) if term.before and f"{rest} ".startswith(f"{term.before} ")
            ]
            articles = [each.article for each in firsts] or [noun.article]
            by_letter = "an" if rest[0].lower() in "aeiou" else "a"
            assert article in [own or by_letter for own in articles], phrase


@pytest.fixture(scope="module")
def pairs():
    return list(all_intersections(read_version(NEXT)))


@depths(150, 5000)
def test_pairs_of_the_next_version_make_phrases(depth, pairs):
    nouns = read_version(NEXT).nouns

    @depth
    @given(st.integers(0, len(pairs) - 1), st.sampled_from(nouns))
    def check(index, noun):
        if agrees(pairs[index], noun):
            check_phrase(pairs[index], noun)

    check()


@depths(30, 300)
def test_pairs_of_any_vocabulary_make_phrases(depth, tmp_path):
    @depth
    @given(vocabularies(), st.integers(1, 4), st.integers(0, 99))
    def check(drawn, number, seed):
        vocabulary = read_vocabulary(write_files(tmp_path / "v", drawn[1]))
        left_out = Counter()
        pairs = list(all_intersections(vocabulary, left_out))
        for pair, noun in itertools.product(pairs, vocabulary.nouns):
            if agrees(pair, noun):
                check_phrase(pair, noun)
        of_axis = Counter(descriptor.axis for descriptor in vocabulary.descriptors)
        possible = sum(of_axis[one] * of_axis[other] for one, other in itertools.combinations(of_axis, 2))
        assert len(pairs) + sum(left_out.values()) == possible
        sample = sample_intersections(vocabulary, pairs_per_axis_pair=number, seed=seed)
        assert sample == [pair for pair in pairs if pair in sample]
        wanted = {axes: min(number, count) for axes, count in Counter(pair.axis for pair in pairs).items()}
        assert Counter(pair.axis for pair in sample) == wanted
        if len({(pair.before, pair.after) for pair in pairs}) == len(pairs):  # or they differ in gender alone
            check_table(intersection_table(pairs, vocabulary.nouns, vocabulary.templates))

    check()


# --- prompts and variations -------------------------------------------------------------------------------------------


def check_table(table):
    for row in table.to_pylist():
        phrase = row["noun_phrase"]
        assert "  " not in row["text"]
        assert row["text"].casefold().count(phrase.casefold()) >= 1


@depths(30, 400)
def test_prompts_of_any_vocabulary_hold_their_noun_phrase_and_its_span(depth, tmp_path):
    @depth
    @given(vocabularies())
    def check(drawn):
        vocabulary = read_vocabulary(write_files(tmp_path / "v", drawn[1]))
        table = prompt_table(vocabulary.descriptors, vocabulary.nouns, vocabulary.templates)
        check_table(table)
        for row, (start, end) in zip(table.to_pylist(), descriptor_noun_spans(table).tolist(), strict=True):
            phrase = row["noun_phrase"] if row["plural"] else row["noun_phrase"].split(" ", 1)[1]
            assert row["text"][start:end].casefold() == phrase.casefold()
        assert len(set(table["id"].to_pylist())) == table.num_rows
        varied = mixed_variations(table, seed=1)
        check_variations(table, varied.flags, varied)

    check()


def check_variations(table, flags, varied):
    """Against plain Python, a row at a time."""
    for index, row in enumerate(table.to_pylist()):
        phrase = row["noun_phrase"]
        phrase = phrase.lower() if flags["lowercase"][index] else phrase
        phrase = phrase.replace("-", " ") if flags["no_hyphens"][index] else phrase
        text = re.sub(r"\{(plural_)?noun_phrase\}", lambda _: phrase, row["template"])  # noqa: B023
        if flags["expanded_contraction"][index]:
            text = re.sub(r"\bI'm\b", "I am", text, flags=re.ASCII)
        if flags["no_final_period"][index]:
            text = text.removesuffix(".")
        assert (varied.texts[index].as_py(), varied.noun_phrases[index].as_py()) == (text, phrase)


# Letters whose lower case is one letter everywhere; the slot's own braces make no text.
free_text = st.text(st.characters(codec="utf-8", max_codepoint=0x24F, exclude_characters="{}\u0130"), max_size=12)


@depths(100, 3000)
def test_variations_of_any_text_are_what_plain_python_makes(depth):
    bits = st.tuples(*[st.booleans()] * 4)
    starts = st.one_of(free_text, st.sampled_from(["", "I'm ", "Hi! I'm ", "xI'm ", "I'm", "I'mé "]))
    ends = st.one_of(free_text, st.sampled_from(["", ".", "..", "!", ".\n", " who I'm."]))
    rows = st.lists(
        st.tuples(starts, st.sampled_from(["{noun_phrase}", "{plural_noun_phrase}"]), ends, free_text, bits),
        min_size=1,
        max_size=6,
    )

    @depth
    @given(rows)
    def check(rows):
        columns = {
            "id": [str(index) for index in range(len(rows))],
            "template": [start + slot + end for start, slot, end, _, _ in rows],
            "noun_phrase": [phrase for _, _, _, phrase, _ in rows],
            "text": [start + phrase + end for start, _, end, phrase, _ in rows],
        }
        table = pa.table(columns)
        flags = {name: [row[-1][index] for row in rows] for index, name in enumerate(VARIATIONS)}
        check_variations(table, flags, vary_prompts(table, **flags))
        nothing = vary_prompts(table)
        assert nothing.texts.to_pylist() == columns["text"]

    check()
