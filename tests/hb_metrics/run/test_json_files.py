"""A forged or damaged JSON file is an error that names the file and the key."""

import json
import re
from pathlib import Path

import jinja2
import pytest

from hb_metrics.measurements.results import read_run
from hb_metrics.run.json_files import json_faults, read_json


@pytest.fixture
def path(tmp_path):
    (tmp_path / "results.json").write_text(json.dumps({"run": {"models": [{"name": "small"}]}, "share": 0.5}))
    return tmp_path / "results.json"


def test_a_missing_key_is_named_with_its_place(path):
    results = read_json(path)
    for read, place in (
        (lambda: results["likelihood"], "results.likelihood"),
        (lambda: results["run"]["models"][0]["kind"], "results.run.models[0].kind"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"'{path}': {place} is missing; measure again")):
            read()
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined)
    assert environment.from_string("{{ run.kind is defined }} {{ run.kind | default(3) }}").render(results) == "False 3"


def test_an_error_in_the_use_of_a_value_names_the_file_and_the_key(path):
    place = re.escape(f"'{path}': results.share, or a value near it, is invalid (")
    for use in (lambda value: value["x"], lambda value: value.x, lambda value: f"{value:d}", lambda value: [][3]):
        with pytest.raises(ValueError, match=place), json_faults():
            use(read_json(path)["share"])
    with pytest.raises(ValueError, match=r"^'nowhere' has no results.json; "), json_faults():
        read_run(Path("nowhere"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": NaN}', r"results\.a is nan, which no run writes"),
        ('{"a": [1, {"b": -Infinity}]}', r"results\.a\[1\]\.b is -inf"),
        ('{"a": 1, "a": 2}', "the key 'a' occurs twice"),
        ('{"a": {"b": 1, "b": 1}}', "the key 'b' occurs twice"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"a": [1', "cannot be read"),
        ("[]", "contains no JSON object"),
    ],
)
def test_a_damaged_file_is_named(text, message, path):
    path.write_text(text)
    with pytest.raises(ValueError, match=f"{re.escape(str(path))}.*{message}"):
        read_json(path)
