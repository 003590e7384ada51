"""Texts and labels are read from any file, and held out without a text in two parts."""

import re

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from hb_train.classifiers.labelled_rows import LabelledRows, read_rows, split_rows

ROWS = {
    "text": ["Hi there!", "Go away.", "Go away.", " ", None, "NA", "Hello."],
    "label": ["kind", "cold", "cold", "kind", "cold", "cold", None],
}


def made_rows(counts):
    texts = [f"{label} text {index}" for label, number in counts.items() for index in range(number)]
    return LabelledRows(texts, [text.split()[0] for text in texts])


def test_rows_are_read_and_gaps_counted(tmp_path):
    pd.DataFrame(ROWS).to_json(tmp_path / "rows.jsonl", orient="records", lines=True)
    rows, skipped = read_rows(str(tmp_path / "rows.jsonl"))
    assert rows == (["Hi there!", "Go away.", "NA"], ["kind", "cold", "cold"])
    assert skipped == {"no_text": 2, "no_label": 1, "repeated": 1}


def test_words_that_pandas_takes_for_missing_are_words(tmp_path):
    (tmp_path / "rows.csv").write_text('said,style\nHi.,None\nNA,1\nHo.,\n"",2\n', encoding="utf-8")
    rows, skipped = read_rows(str(tmp_path), text_column="said", label_column="style")
    assert rows == (["Hi.", "NA"], ["None", "1"])
    assert skipped == {"no_text": 1, "no_label": 1, "repeated": 0}


def test_numbers_of_a_class_label_become_its_names(tmp_path):
    features = Features({"text": Value("string"), "label": ClassLabel(names=["calm", "loud"])})
    content = {"text": ["a", "b", "c"], "label": [1, 0, -1]}
    Dataset.from_dict(content, features=features).to_parquet(tmp_path / "r.parquet")
    rows, skipped = read_rows(str(tmp_path / "r.parquet"))
    assert rows.labels == ["loud", "calm"]
    assert skipped["no_label"] == 1


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.csv", "text,label\ncafé,x\n".encode("latin-1"), "cannot be read ('utf-8' codec"),
        ("rows.csv", b"text,label\n", "the split 'train' has no examples"),
        ("rows.jsonl", b'{"text": "a", "style": "b"}', "has no column 'label'; its columns are: text, style"),
        ("rows.jsonl", b'{"txt": "a", "label": "b"}', "has no column 'text'; did you mean 'txt'?"),
        ("rows.jsonl", b'{"text": 3, "label": "b"}', "row 0 of"),
        ("rows.jsonl", b'{"text": "a", "label": 0.5}', "row 0 of"),
    ],
)
def test_what_is_no_labelled_text_is_refused(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_rows(str(tmp_path / name))


def test_the_same_share_of_each_label_is_held_out():
    rows = made_rows({"kind": 40, "cold": 20})
    parts = split_rows(rows, seed=3)
    for name, sizes in {"train": (32, 16), "calibration": (4, 2), "test": (4, 2)}.items():
        assert (parts[name].labels.count("kind"), parts[name].labels.count("cold")) == sizes
    assert sorted(text for part in parts.values() for text in part.texts) == sorted(rows.texts)
    assert split_rows(rows, seed=3) == parts
    assert split_rows(rows, seed=4)["test"] != parts["test"]


def test_no_text_is_in_two_parts_whatever_its_case_and_label():
    rows = made_rows({"kind": 20, "cold": 20})
    rows.texts.extend([f"KIND  text {number}" for number in range(20)])
    rows.labels.extend(["kind", "cold"] * 10)
    train, calibration, test = (
        {" ".join(text.lower().split()) for text in part.texts}
        for part in split_rows(rows, share=0.25, seed=0).values()
    )
    assert not train & calibration | train & test | calibration & test


@pytest.mark.parametrize("counts", [{"kind": 3, "cold": 3}, {"kind": 40}])
def test_too_few_rows_or_labels_are_rejected(counts):
    with pytest.raises(ValueError, match="are too few; set a dataset with two labels or more"):
        split_rows(made_rows(counts), seed=0)
