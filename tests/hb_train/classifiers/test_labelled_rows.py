"""Texts and labels are read from any file, and held out without a text in two parts."""

import re

import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, Features, Value

from hb_train.classifiers.labelled_rows import LabelledRows, label_indices, read_rows, split_rows

ROWS = {
    "text": ["Hi there!", "Go away.", "Go away.", " ", None, "NA", "Hello."],
    "label": ["kind", "cold", "cold", "kind", "cold", "cold", None],
}


def made_rows(counts):
    texts = [f"{label} text {index}" for label, number in counts.items() for index in range(number)]
    return LabelledRows(texts, [text.split()[0] for text in texts], {"no_text": 1})


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_rows_are_read_and_gaps_counted(kind, tmp_path):
    path = tmp_path / f"rows.{kind}"
    frame = pd.DataFrame(ROWS)
    frame.to_json(path, orient="records", lines=True) if kind == "jsonl" else frame.to_parquet(path)
    found = read_rows(str(path))
    assert (found.texts, found.labels) == (["Hi there!", "Go away.", "NA"], ["kind", "cold", "cold"])
    assert found.num_skipped == {"no_text": 2, "no_label": 1, "repeated": 1}


def test_a_csv_file_may_have_numbers_for_labels(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("said,style\nHi.,0\nNo.,1\n", encoding="utf-8")
    found = read_rows(str(path), text_column="said", label_column="style")
    assert (found.texts, found.labels) == (["Hi.", "No."], ["0", "1"])


@pytest.mark.parametrize("is_folder", [False, True])
def test_words_that_pandas_takes_for_missing_are_words(is_folder, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('text,label\nHi.,None\nNA,1\nHo.,\n"",2\n', encoding="utf-8")
    found = read_rows(str(tmp_path if is_folder else path))
    assert (found.texts, found.labels) == (["Hi.", "NA"], ["None", "1"])
    assert found.num_skipped == {"no_text": 1, "no_label": 1, "repeated": 0}


def test_whole_numbers_that_a_file_has_as_decimals_are_labels(tmp_path):
    pd.DataFrame({"text": ["a", "b", "c"], "label": [1, None, 0]}).to_parquet(tmp_path / "r.parquet")
    assert read_rows(str(tmp_path / "r.parquet")).labels == ["1", "0"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "cannot be read (No columns to parse from file)"),
        ("text,label\ncafé,x\n".encode("latin-1"), "cannot be read ('utf-8' codec"),
        (b"text,label\n", "there are no examples in the split 'train'"),
    ],
)
def test_a_file_that_does_not_read_ends_in_a_line(content, message, tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        read_rows(str(path))


def test_numbers_of_a_class_label_become_its_names(tmp_path):
    features = Features({"text": Value("string"), "label": ClassLabel(names=["calm", "loud"])})
    Dataset.from_dict({"text": ["a", "b", "c"], "label": [1, 0, -1]}, features=features).to_parquet(
        tmp_path / "r.parquet"
    )
    found = read_rows(str(tmp_path / "r.parquet"))
    assert found.labels == ["loud", "calm"]
    assert found.num_skipped["no_label"] == 1


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ('{"text": "a", "style": "b"}', {}, "has no column 'label'; there are: text, style"),
        ('{"txt": "a", "label": "b"}', {}, "has no column 'text'; did you mean 'txt'?"),
        ('{"text": 3, "label": "b"}', {}, "row 0 of"),
        ('{"text": "a", "label": ["b", "c"]}', {}, "row 0 of"),
        ('{"text": "a", "label": 0.5}', {}, "row 0 of"),
    ],
)
def test_what_is_no_labelled_text_is_refused(content, options, message, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(message)):
        read_rows(str(path), **options)


def test_the_same_share_of_each_label_is_held_out():
    rows = made_rows({"kind": 40, "cold": 20})
    parts = split_rows(rows, None, None, share=0.1, seed=3)
    for part, sizes in zip(parts, [(32, 16), (4, 2), (4, 2)], strict=True):
        assert (part.labels.count("kind"), part.labels.count("cold")) == sizes
    assert sorted(text for part in parts for text in part.texts) == sorted(rows.texts)
    again = split_rows(rows, None, None, share=0.1, seed=3)
    other = split_rows(rows, None, None, share=0.1, seed=4)
    assert again == parts
    assert other.test.texts != parts.test.texts


def test_no_text_is_in_two_parts_whatever_its_case_and_label():
    rows = made_rows({"kind": 20, "cold": 20})
    rows.texts.extend(["KIND  text 3", "kind text 5"])
    rows.labels.extend(["kind", "cold"])
    test = LabelledRows(["Kind Text 0", "other"], ["kind", "cold"], {})
    parts = split_rows(rows, None, test, share=0.25, seed=0)
    of_part = [{" ".join(text.lower().split()) for text in part.texts} for part in parts]
    assert not of_part[0] & of_part[1]
    assert not of_part[0] & of_part[2]
    assert not of_part[1] & of_part[2]
    assert parts.train.num_skipped == {"no_text": 1, "held_out_elsewhere": 1}
    assert parts.test is test


def test_a_share_that_leaves_nothing_is_rejected():
    with pytest.raises(ValueError, match="no row is left for calibration: of 6 distinct texts with up to 3"):
        split_rows(made_rows({"kind": 3, "cold": 3}), None, None, seed=0)


def test_labels_are_numbered_and_unknown_ones_refused():
    rows = split_rows(made_rows({"b": 20, "a": 20}), None, None, seed=0)
    names, indices = label_indices(rows, ["all"] * 3)
    assert names == ["a", "b"]
    assert [names[index] for index in indices[2]] == rows.test.labels
    alien = rows._replace(test=LabelledRows(["x"], ["c"], {}))
    with pytest.raises(ValueError, match="'mine' has the label 'c', which no row to train on has"):
        label_indices(alien, ["all", "all", "mine"])
    with pytest.raises(ValueError, match="'all' has one label, 'a'"):
        label_indices(rows._replace(train=LabelledRows(["x"], ["a"], {})), ["all"] * 3)
