from inspect import Parameter

import pandas as pd
import pytest

from hb_metrics.space_page.page_inputs import MetricInputs, read_file, read_settings, rows_to_inputs


def setting(name, default):
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default)


STYLES = MetricInputs(
    ("descriptors", "templates", "axes"), frozenset({"axes"}), True, {"clusters": setting("clusters", None)}
)
NUMBERS = MetricInputs(
    ("axes", "descriptors", "templates"),
    frozenset(),
    False,
    {"alpha": setting("alpha", 0.05), "names": setting("names", frozenset({"Latina"}))},
)


def style_rows(**more):
    rows = {"descriptor": ["young", "old"], "template": ["Hi!", "Hi!"], "Happy": ["0.25", 0.5], "Calm": [0.75, "0.5"]}
    return pd.DataFrame({**rows, **more})


def test_rows_with_the_datasets_names_become_inputs():
    inputs, notes = rows_to_inputs(style_rows(id=["a1", "b2"], is_whole=[True, False]), STYLES)
    assert inputs.pop("predictions").tolist() == [[0.25, 0.75], [0.5, 0.5]]
    assert inputs == {"descriptors": ["young", "old"], "templates": ["Hi!", "Hi!"], "labels": ["Happy", "Calm"]}
    assert notes == ["2 rows", "no axes", "2 styles", "columns not used: id, is_whole"]


def test_empty_rows_are_left_out_and_counted():
    rows = pd.DataFrame([["age", "young", "Hi!", 3], ["", " ", None, ""], ["age", "old", "Hi!", "4.5"]])
    inputs, notes = rows_to_inputs(rows.set_axis(["axes", "descriptors", "templates", "predictions"], axis=1), NUMBERS)
    assert inputs["predictions"] == [3.0, 4.5]
    assert notes == ["2 rows", "1 empty rows left out"]


@pytest.mark.parametrize(
    ("rows", "expected", "message"),
    [
        (pd.DataFrame({"descriptors": [""], "Happy": [None]}), STYLES, "there are no rows"),
        (style_rows().drop(columns="template"), STYLES, "column templates is missing; there are: descriptors, Happy"),
        (style_rows().drop(columns=["Happy", "Calm"]), STYLES, "there is no column of numbers"),
        (style_rows(Happy=["0.25", "half"]), STYLES, "Happy is 'half' in row 1"),
        (style_rows(Happy=[0.25, None]), STYLES, "Happy is None in row 1"),
        (style_rows(template=["Hi!", ""]), STYLES, "templates is missing in row 1"),
        (style_rows(axis=["", "age"]), STYLES, "axes is missing in row 0"),
        (style_rows(descriptors=["young", "old"]), STYLES, "two columns named descriptors"),
        (style_rows(axis=["age", "age"]), NUMBERS, "column predictions is missing"),
        (style_rows(axis=["age"] * 2, predictions=[[0.5], [0.5]]), NUMBERS, r"predictions is \[0\.5\] in row 0"),
    ],
)
def test_rows_that_cannot_be_read_are_refused_with_their_row(rows, expected, message):
    with pytest.raises(ValueError, match=message):
        rows_to_inputs(rows, expected)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".CSV"])
def test_files_are_read_as_they_are(tmp_path, suffix):
    rows = pd.DataFrame(
        {
            "axis": ["age", None],
            "descriptor": ["None", "NA"],
            "template": ["007", "1e3"],
            "A, b": [0.1, 0.30000000000000004],
            "é": [0.9, 0.7],
        }
    )
    path = tmp_path / f"rows{suffix}"
    if suffix == ".parquet":
        rows.to_parquet(path)
    else:
        rows.to_csv(path, index=False, encoding="utf-8-sig")  # as Excel writes it
    read = read_file(path, STYLES)
    inputs, _ = rows_to_inputs(read.drop(columns="axis"), STYLES)
    assert (inputs["descriptors"], inputs["templates"]) == (["None", "NA"], ["007", "1e3"])
    assert inputs["labels"] == ["A, b", "é"]
    assert inputs["predictions"].tolist() == [[0.1, 0.9], [pytest.approx(0.3, rel=1e-15), 0.7]]
    assert read["axis"].isna().tolist() == [False, True]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("rows.xlsx", b"", "neither .csv nor .parquet"),
        ("rows.parquet", b"no parquet", "'rows.parquet' cannot be read"),
        ("rows.csv", "é".encode("latin-1"), "'rows.csv' cannot be read"),
        ("rows.csv", b"", "'rows.csv' cannot be read"),
    ],
)
def test_files_that_cannot_be_read_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_file(tmp_path / name, STYLES)


def test_settings_left_empty_keep_their_defaults():
    assert read_settings({"alpha": None, "names": ""}, NUMBERS) == {}
    assert read_settings({"alpha": 0.01, "names": " Latina \n\nLatino"}, NUMBERS) == {
        "alpha": 0.01,
        "names": ["Latina", "Latino"],
    }
    assert read_settings({"clusters": '{"Joy": ["Happy"]}'}, STYLES) == {"clusters": {"Joy": ["Happy"]}}


def test_settings_without_a_default_are_json():
    expected = MetricInputs(
        (), frozenset(), False, {"pairs": setting("pairs", None), "smoothing": setting("smoothing", None)}
    )
    assert read_settings({"pairs": '{"age": ["young", "old"]}', "smoothing": "0.5"}, expected) == {
        "pairs": {"age": ["young", "old"]},
        "smoothing": 0.5,
    }
    assert read_settings({"pairs": "", "smoothing": None}, expected) == {}
    with pytest.raises(ValueError, match=r"^pairs cannot be read"):
        read_settings({"pairs": "young, old"}, expected)


@pytest.mark.parametrize("text", ["Joy: Happy", '["Happy"]', '{"Joy": "Happy"}', '{"Joy": 3}'])
def test_clusters_that_cannot_be_read_are_refused(text):
    with pytest.raises(ValueError, match="the clusters cannot be read"):
        read_settings({"clusters": text}, STYLES)
