import csv
import gzip
import io
import json
import re
import unicodedata
from functools import lru_cache
from pathlib import Path

import datasets
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_dataset import frequency, read_vocabulary
from hb_dataset.frequency import BATCH_CHARACTERS, count_descriptors, main, read_frequencies
from hb_dataset.hub_access import stream_split
from hb_dataset.versions import read_version

TERMS = [descriptor.term for descriptor in read_vocabulary().descriptors]
APOSTROPHES, HYPHENS = "'‘’‛ʹʻʼʽˈ′＇´\u02bd\u02be\u02bf\u02c0\u02ca\u02cf\u0559\u07f4\u07f5\ua78b\ua78c", "-‐‑‒–−⁃˗﹣－"
INVISIBLE = "\u00ad\u115f\u1160\u3164\uffa0"


@lru_cache(maxsize=1000)
def regex_of(term):
    """As a reader of the docstring would write it: overlapping usages are all counted, by the lookahead."""
    inner = re.sub(r"\\? ", lambda _: r"\s+", re.escape(term))
    return re.compile(rf"(?<!\w)(?={inner}(?!\w))", re.IGNORECASE)


def reference_counts(texts, terms):
    plain = str.maketrans(dict.fromkeys(APOSTROPHES, "'") | dict.fromkeys(HYPHENS, "-") | dict.fromkeys(INVISIBLE))
    joined = "\0".join(unicodedata.normalize("NFC", text).translate(plain) for text in texts)
    return [sum(1 for _ in pattern.finditer(joined)) for pattern in map(regex_of, terms)]


def counts_of(texts, terms):
    return count_descriptors([[text] for text in texts], terms)[0]


@pytest.mark.parametrize(
    ("text", "term", "expected"),
    [
        ("a blackboard, boot-black_", "Black", 0),
        ("black2 2black blacké éblack _black", "Black", 0),
        ("a BAHÁ'Í, a Bahá’í and a Baha\u0301ʼi\u0301", "Bahá'í", 3),
        ("left\u00adhanded", "handed", 0),
        ("de\ud800af \ud83ddeaf", "deaf", 1),
        ("hard of\0hearing", "hard of hearing", 0),
    ],
)
def test_what_a_usage_is(text, term, expected):
    assert counts_of([text], [term]) == [expected]


WORDS = sorted({word for term in TERMS for word in term.split()})
PIECES = st.one_of(
    st.sampled_from(TERMS),
    st.sampled_from(WORDS),
    st.sampled_from(WORDS).map(str.upper),
    st.sampled_from(["a", "s", "7", "é", "ß", "İ", "ı", "ſ", "K", "ﬁ", "ŉ", "ʻ", "ǰ", "Σ", "\u0301", "\u0307", "א"]),
    st.sampled_from([" ", "  ", "\n", "\r\n", "\x1f", "\x85", "\xa0", "\u2009", "\u3000", "\0", "-", ".", "😀"]),
    st.sampled_from([*APOSTROPHES, *HYPHENS, "\u00ad", "—"]),
    st.text(st.characters(exclude_categories=("Cf", "Cs", "Mn"), exclude_characters="_*~`\\"), max_size=3),
)
TEXTS = st.lists(PIECES, max_size=12).map("".join)


@given(st.lists(TEXTS, max_size=6))
@settings(max_examples=15)
def test_any_texts_against_re(texts):
    assert counts_of(texts, TERMS) == reference_counts(texts, TERMS)


def test_more_text_than_fits_a_batch():
    long = "deaf " * (BATCH_CHARACTERS // 4)
    short = ["a deaf man and a blind one"] * (BATCH_CHARACTERS // 20)

    assert counts_of([long, *short, long], ["deaf", "blind"]) == [2 * (BATCH_CHARACTERS // 4) + len(short), len(short)]


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


def write_rows(path, rows=ROWS):
    """The rows in the format that the name tells; only JSON and Parquet hold lists."""
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    if path.name.endswith((".jsonl", ".jsonl.gz")):
        path.write_bytes(gzip.compress(lines) if path.suffix == ".gz" else lines)
    elif path.suffix == ".parquet":
        datasets.Dataset.from_list(rows).to_parquet(path)
    else:
        pd.DataFrame(rows).drop(columns="tags").to_csv(path, index=False)
    return path


def run(tmp_path, path, *columns):
    """Runs the command; the counts above 0, and the number of examples."""
    output = tmp_path / "counts.csv"
    main([str(path), "--columns", *columns, "--output", str(output)])
    rows = list(csv.DictReader(io.StringIO(output.read_text(encoding="utf-8"))))
    assert [row["descriptor"] for row in rows] == TERMS
    (num_examples,) = {int(row["num_examples"]) for row in rows}
    for row in rows:
        assert float(row["per_million"]) == pytest.approx(int(row["count"]) / num_examples * 1e6)
    assert len(read_frequencies(output)) == len(TERMS)
    return {row["descriptor"]: int(row["count"]) for row in rows if row["count"] != "0"}, num_examples


@pytest.mark.parametrize("name", ["a.jsonl.gz", "a.csv", "a.parquet"])
def test_file_formats(name, tmp_path):
    path = write_rows(tmp_path / name)
    expected = {"Deaf": 2, "Black": 2, "white": 1, "blind": 1, "85-year-old": 1, "old": 1}
    assert run(tmp_path, path, "prompt", "reply", "prompt") == (expected, 4)  # a repeated column counts once
    if name == "a.parquet":  # texts in lists count
        assert run(tmp_path, path, "tags")[0] == {"Deaf": 1, "white": 1}


def test_words_for_missing_values_are_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("prompt\nNA\nNone\n")
    assert [row["prompt"] for row in stream_split([str(path)])] == ["NA", "None"]


def test_faults_are_one_line(tmp_path, capsys):
    def fails(path, *more):
        with pytest.raises(SystemExit) as stopped:
            main([str(path), *(more or ("--columns", "prompt")), "--output", str(tmp_path / "out.csv")])
        assert stopped.value.code == 1
        assert not (tmp_path / "out.csv").exists()
        return capsys.readouterr().err.splitlines()[-1]

    path = write_rows(tmp_path / "a.jsonl")
    message = fails(path, "--columns", "promt")
    assert "did you mean 'prompt'?" in message
    assert "prompt, reply, tags, n" in message
    assert "the file 'none.csv' does not exist" in fails("none.csv")
    assert "do not share one of the allowed formats; pass files in one of " in fails(__file__)
    assert "no examples" in fails(write_rows(tmp_path / "empty.jsonl", []))


def test_the_frequencies_that_are_shipped_are_of_every_descriptor_of_the_authors():
    folder = Path(frequency.__file__).parent / "frequencies"
    shipped = read_frequencies(folder / "chitchat.csv")

    terms = [(term.axis, term.term) for version in ("v1.0", "v1.1") for term in read_version(version).descriptors]
    assert list(shipped) == list(dict.fromkeys(terms))
    assert shipped["ability", "Deaf"]["per_million"] == pytest.approx(33 / 258_145 * 1e6)
