"""Refusals of a run, end to end: a model that refuses to talk with the people of one axis, and nobody else."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest

from hb_metrics.measure import main
from hb_metrics.measurements import GENERATION
from hb_metrics.measurements.generation.page import refusals_answer
from hb_metrics.report.changes import run_changes
from hb_metrics.report.layout.figure import by_part
from hb_metrics.runs.finished_run import read_run
from tests.hb_metrics.chat_models import trained_chat_model, trained_prompts, write_trained_vocabulary
from tests.hb_metrics.inference.conftest import by_label, save_classifier  # noqa: F401
from tests.hb_metrics.made_results import (
    AXES,
    change_results,
    full_run,
    refusals_of,
    replies_to,
    some_prompts,
    write_run,
)
from tests.hb_metrics.pages import check_sound, read_page


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """The folder of a model that refuses, and the options and the folder of its run by rules."""
    folder = tmp_path_factory.mktemp("refusals")
    model, tokenizer = trained_chat_model("qwen3")
    model.save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    options = ["--model", folder / "model", "--vocabulary_dir", write_trained_vocabulary(folder / "vocabulary")]
    options += ["--dataset_config", "v1.0", "--measurements", "generation", "--decoding", "greedy"]
    options = [*map(str, options)]
    main([*options, "--output_dir", str(folder / "run")])
    return folder, options


def test_refusals_of_one_axis_show(run):
    folder, _ = run
    finished = read_run(folder / "run")
    terms = {row["id"]: row["descriptor"] for row in trained_prompts().to_pylist()}
    rows = pq.read_table(finished.folder / "refusals.parquet").to_pylist()
    assert {(terms[row["id"]], row["refusal"], row["disclaimer"]) for row in rows} == {
        ("deaf", True, False),
        ("blind", True, False),
        ("young", False, False),
        ("old", False, True),
    }
    assert len(rows) == 8

    refusals = finished.results["generation"]["refusals"]["refusals"]
    assert (refusals["num"], refusals["share"]) == (4, 0.5)
    assert {axis: row["num"] for axis, row in refusals["by_axis"].items()} == {"ability": 4, "age": 0}
    assert [row["descriptor"] for row in refusals["by_descriptor"]] == ["blind", "deaf"]
    assert all(0 <= low < high <= 1 for low, high in (row["interval"] for row in refusals["by_axis"].values()))
    page = read_page(folder / "run" / "report.html")
    check_sound(page)
    table = {row[0]: [row[1], row[3].rstrip("*")] for row in page.table("Refusals by axis")[1:]}
    assert table == {"Ability": ["100.0%", "4 of 4"], "Age": ["0.0%", "0 of 4"]}
    assert "4 of 8 replies (50.0%;" in page.text
    parts = by_part(GENERATION.figures(finished.results))
    for p_value, named in ((0.2, False), (None, False), (0.01, True)):
        found = {"refusals": {"refusals": {**refusals, "p_between_axes": p_value}}}
        assert refusals_answer(found, parts).endswith("most in ability (100.0%).") == named


def refusing(replies, axis):
    """The replies, those of an axis refusing."""
    texts = [
        "I can't help with that." if own == axis else text
        for own, text in zip(replies.axes, replies.texts, strict=True)
    ]
    return replies._replace(texts=texts)


def test_two_runs_are_compared(tmp_path):
    base = full_run()
    for name in ("first", "second"):
        write_run(tmp_path / name, base)
    replies = refusing(replies_to(some_prompts()), AXES[1])
    change_results(
        tmp_path / "second",
        lambda results: results["generation"].update(refusals=json.loads(json.dumps(refusals_of(replies)))),
    )
    runs = [read_run(tmp_path / name) for name in ("first", "second")]
    rows = {row.name: row.change for row in run_changes(*runs, ("a", "b")).rows}
    assert (rows["Refusals"].first, rows["Disclaimers"].second) == (0, 0)
    share = np.mean(np.array(replies.axes) == AXES[1])
    assert rows["Refusals"].second == pytest.approx(share)
    by_axis = {row.label: row.shown for row in by_part(GENERATION.figures(runs[1].results))["Refusals by axis"]}
    assert by_axis == {"Gender and sex": "100.0%", "Ability": "0.0%", "Race and ethnicity": "0.0%"}
    assert GENERATION.warnings({"refusals.rules_digest"}, [])[0].startswith("Different rules found refusals")
