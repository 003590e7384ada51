import csv
import gzip
import io
import json
import re
import sys
import unicodedata
from functools import lru_cache
from pathlib import Path

import datasets
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_dataset import frequency, read_vocabulary
from hb_dataset.frequency import BATCH_CHARACTERS, count_descriptors, main
from hb_dataset.versions import read_version

READ_ONCE = lru_cache(read_vocabulary)
DESCRIPTORS = READ_ONCE(None).descriptors
TERMS = [descriptor.term for descriptor in DESCRIPTORS]
COLUMNS = ["axis", "descriptor", "count", "num_examples", "per_million", "one_word"]
APOSTROPHES, HYPHENS = "'‘’‛ʼ＇", "-‐‑‒–−﹣－"


@lru_cache(maxsize=1000)
def regex_of(term):
    """As a reader of the docstring would write it: overlapping usages are all counted, by the lookahead."""
    inner = re.sub(r"\\? ", lambda _: r"\s+", re.escape(term))
    return re.compile(rf"(?<!\w)(?={inner}(?!\w))", re.IGNORECASE)


def reference_counts(texts, terms):
    plain = str.maketrans(dict.fromkeys(APOSTROPHES, "'") | dict.fromkeys(HYPHENS, "-") | {"\u00ad": None})
    joined = "\0".join(unicodedata.normalize("NFC", text).translate(plain) for text in texts)
    return [sum(1 for _ in pattern.finditer(joined)) for pattern in map(regex_of, terms)]


def counts_of(examples, terms):
    return count_descriptors(examples, terms).counts.tolist()


@pytest.mark.parametrize(
    ("text", "term", "expected"),
    [
        ("a blackboard, boot-black_", "Black", 0),
        ("black2 2black blacké éblack _black", "Black", 0),
        ("an 85‑year–old man", "85-year-old", 1),
        ("with a bachelor’s degree", "with a bachelor's degree", 1),
        ("a BAHÁ'Í, a Bahá’í and a Baha\u0301ʼi\u0301", "Bahá'í", 3),
        ("hard\nof \t hearing; hard\xa0of\u2003hearing", "hard of hearing", 2),
        ("left\u00adhanded", "handed", 0),
        ("trans\u00adgender", "transgender", 1),
        ("İgay gayİ", "gay", 0),
        ("FİLİPİNO fılıpıno", "Filipino", 2),
        ("ſTRONG ſtrong", "strong", 2),
        ("de\ud800af \ud83ddeaf", "deaf", 1),
        ("deaf 😀deaf😀 deaf", "deaf", 3),
        ("deaf\0deaf", "deaf", 2),
        ("hard of\0hearing", "hard of hearing", 0),
        ("", "deaf", 0),
    ],
)
def test_what_a_usage_is(text, term, expected):
    assert counts_of([text], [term]) == [expected]


def test_each_typographic_sign_and_each_white_space():
    signs = [f"an 85{sign}year-old" for sign in HYPHENS] + [f"with a master{sign}s degree" for sign in APOSTROPHES]
    spaces = [f"with{c}{c}a{c}stutter" for c in map(chr, range(sys.maxunicode + 1)) if c.isspace()]

    counts = counts_of(signs + spaces, ["85-year-old", "with a master's degree", "with a stutter"])

    assert counts == [len(HYPHENS), len(APOSTROPHES), len(spaces)]
    assert len(spaces) > 20


def test_each_character_beside_a_term():
    characters = [chr(code) for code in range(0x11000) if not 0xD800 <= code < 0xE000]
    for texts in ([f"{c}deaf" for c in characters], [f"deaf{c}" for c in characters]):
        assert counts_of(texts, ["deaf"]) == reference_counts(texts, ["deaf"])


def test_a_term_inside_a_longer_one_and_one_that_laps_over_it_count_too():
    counts = counts_of(["an American Indian Chief", "AMERICAN indian"], ["American", "American Indian", "Indian Chief"])

    assert counts == [2, 2, 1]


WORDS = sorted({word for term in TERMS for word in term.split()})
PIECES = st.one_of(
    st.sampled_from(TERMS),
    st.sampled_from(WORDS),
    st.sampled_from(WORDS).map(str.upper),
    st.sampled_from(
        ["a", "s", "_", "7", "é", "ß", "İ", "ı", "ſ", "K", "ﬁ", "ŉ", "ʻ", "ǰ", "Σ", "\u0301", "\u0307", "א"]
    ),
    st.sampled_from(
        [" ", "  ", "\n", "\r\n", "\x1f", "\x85", "\xa0", "\u2009", "\u200b", "\u3000", "\0", "-", ".", "😀"]
    ),
    st.sampled_from([*APOSTROPHES, *HYPHENS, "\u00ad", "—", "`"]),
    st.text(max_size=3),
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@given(st.lists(TEXTS, max_size=6))
@settings(max_examples=60, deadline=None)
def test_any_texts_against_re(texts):
    assert counts_of(texts, TERMS) == reference_counts(texts, TERMS)


@given(st.lists(st.one_of(st.none(), TEXTS, st.lists(st.one_of(st.none(), TEXTS), max_size=3)), max_size=8))
@settings(max_examples=50, deadline=None)
def test_examples_of_several_texts_and_of_none(examples):
    texts = [[e] if isinstance(e, str) else [text for text in e or [] if text is not None] for e in examples]

    counted = count_descriptors(iter(examples), TERMS)

    assert counted.counts.tolist() == counts_of([text for example in texts for text in example], TERMS)
    assert counted.num_examples == len(examples)
    assert counted.num_without_text == sum(not any(example) for example in texts)


def test_more_text_than_fits_a_batch():
    long = "deaf " * BATCH_CHARACTERS
    short = ["a deaf man and a blind one"] * (BATCH_CHARACTERS // 10)

    counted = count_descriptors([long, *short, long], ["deaf", "blind"])

    assert counted.counts.tolist() == [2 * BATCH_CHARACTERS + len(short), len(short)]


@pytest.mark.parametrize(
    ("examples", "terms", "error", "message"),
    [
        ("a deaf man", ["deaf"], TypeError, "examples is one string"),
        (["a deaf man"], "deaf", TypeError, "terms is one string"),
        (["a", 5], ["deaf"], TypeError, r"example 1 \(counted from 0\) has 5; pass"),
        ([{"text": "a deaf man"}], ["deaf"], TypeError, "has {'text': 'a deaf man'}; pass"),
        (["a", ["b", 5]], ["deaf"], TypeError, r"example 1 \(counted from 0\) has 5, which is not text"),
        (["a"], ["deaf", ""], ValueError, "term '' has no words"),
        (["a"], ["de\0af"], ValueError, "NUL"),
    ],
)
def test_wrong_input(examples, terms, error, message):
    with pytest.raises(error, match=message):
        count_descriptors(examples, terms)


ROWS = [
    {"prompt": "Are you Deaf?", "reply": "No, I'm blind.", "tags": ["deaf", None], "n": 1},
    {"prompt": "a blackboard\nBlack\nand \"white\"", "reply": None, "tags": [], "n": 2},
    {"prompt": None, "reply": "", "tags": None, "n": 3},
    {"prompt": "deaf, Black", "reply": "an 85-year-old", "tags": ["white"], "n": 4},
]  # fmt: skip


@pytest.fixture(autouse=True)
def quickly_and_in_its_own_cache(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(datasets.config, "TORCH_AVAILABLE", False)  # a stream would import it: seconds
    monkeypatch.setattr(frequency, "read_vocabulary", READ_ONCE)


def write_lines(path, rows):
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)
    return path


def write_rows(path, rows=ROWS):
    """The rows in the format that the name tells; only JSON and Parquet hold lists."""
    frame = pd.DataFrame(rows)
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        write_lines(path, rows)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    elif path.suffix == ".parquet":
        datasets.Dataset.from_list(rows).to_parquet(path)
    else:
        frame.drop(columns="tags").to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


def run(capsys, *arguments):
    """Runs the command; the counts above 0, the number of examples and what stands on stderr."""
    main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    return *parsed(printed.out), printed.err


def parsed(text):
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["descriptor"] for row in rows] == TERMS
    (num_examples,) = {int(row["num_examples"]) for row in rows}
    for row in rows:
        assert list(row) == COLUMNS
        assert float(row["per_million"]) == pytest.approx(int(row["count"]) / num_examples * 1e6)
        assert row["one_word"] == str(" " not in row["descriptor"])
    return {row["descriptor"]: int(row["count"]) for row in rows if row["count"] != "0"}, num_examples


def fails(capsys, *arguments):
    with pytest.raises(SystemExit) as stopped:
        main([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert printed.out == ""
    assert stopped.value.code == 1
    last = printed.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert "Traceback" not in printed.err
    return last.removeprefix("error: ")


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "a.json", "a.csv", "a.tsv", "a.parquet"])
def test_file_formats(name, tmp_path, capsys):
    path = write_rows(tmp_path / name)

    prompts, num_examples, _ = run(capsys, path, "--columns", "prompt")
    both, _, stderr = run(capsys, path, "--columns", "prompt", "reply")
    everything, _, _ = run(capsys, path)

    assert num_examples == 4
    assert prompts == {"Deaf": 2, "Black": 2, "white": 1}
    assert both == prompts | {"blind": 1, "85-year-old": 1, "old": 1}
    has_lists = not name.endswith(("csv", "tsv"))
    assert everything == (both | {"Deaf": 3, "white": 2} if has_lists else both)
    assert "4 examples (1 without text) in" in stderr
    assert stderr.endswith(" examples/s); 588 of 594 terms never occurred\n")


MESSAGES = [
    {"messages": [{"role": "user", "content": "Are you deaf?"}, {"role": "blind", "content": None}], "meta.x": "white"},
    {"messages": [{"role": "user", "content": "Deaf\nor Black"}], "meta.x": "hot"},
    {"messages": [], "meta.x": None},
    {"messages": None, "meta.x": None},
]


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet"])
def test_nested_columns(suffix, tmp_path, capsys):
    path = write_rows(tmp_path / f"a{suffix}", MESSAGES)

    assert run(capsys, path, "--columns", "messages.content")[:2] == ({"Deaf": 2, "Black": 1}, 4)
    assert run(capsys, path, "--columns", "messages.role", "meta.x")[0] == {"blind": 1, "white": 1, "hot": 1}
    assert "did you mean 'messages'? the columns are: messages, meta.x" in fails(
        capsys, path, "--columns", "mesages.role"
    )
    assert "none of the 4 examples" in fails(capsys, path, "--columns", "messages.rle")
    assert "cannot write --output" in fails(capsys, path, "--output", tmp_path / "nowhere" / "a.csv")
    assert "cannot write --output" in fails(capsys, path, "--output", tmp_path)


def test_a_folder_and_its_splits(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("csv")  # also the name of a reader of `datasets`
    folder.mkdir()
    for name, rows in (("train-0.jsonl", ROWS), ("train-1.jsonl", ROWS), ("test.jsonl", ROWS[:1])):
        write_rows(folder / name, rows)

    assert run(capsys, folder)[1] == 8
    assert run(capsys, folder, "--split", "test")[:2] == ({"Deaf": 2, "blind": 1}, 1)
    assert "train" in fails(capsys, folder, "--split", "valid")
    write_rows(folder / "more.csv")
    assert "several formats (csv, json)" in fails(capsys, folder)
    assert "does not exist; pass files" in fails(capsys, "none.csv")
    assert "known format" in fails(capsys, Path(__file__))


def test_a_random_subset(tmp_path, capsys):
    rows = [{"text": "deaf" if row < 1500 else "blind"} for row in range(3000)]
    path = write_lines(tmp_path / "a.jsonl", rows)

    def counted(*more):
        counts, num_examples, _ = run(capsys, path, *more)
        assert sum(counts.values()) == num_examples
        return counts["Deaf"], num_examples

    assert counted("--max_examples", 3000, "--seed", 3) == (1500, 3000)
    samples = [counted("--max_examples", 200, "--seed", seed) for seed in (1, 2, 3, 4, 1)]
    assert {num_examples for _, num_examples in samples} == {200}
    assert samples[0] == samples[-1]
    deaf = [count for count, _ in samples[:4]]
    assert len(set(deaf)) > 1
    assert all(70 < count < 130 for count in deaf)  # four standard deviations


def test_the_frequencies_that_are_shipped_are_of_every_descriptor_of_the_authors():
    folder = Path(frequency.__file__).parent / "frequencies"
    shipped = frequency.read_frequencies(folder / "chitchat.csv")

    terms = [(term.axis, term.term) for version in ("v1.0", "v1.1") for term in read_version(version).descriptors]
    assert list(shipped) == list(dict.fromkeys(terms))
    assert shipped["ability", "Deaf"]["per_million"] == pytest.approx(33 / 258_145 * 1e6)
