"""What a finished run left, read back: replies in the order of their prompts, style vectors a slice at a time."""

import json
import re
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hb_dataset import load_table
from hb_dataset.prompts import config_vocabulary
from hb_metrics.measurements.results import Results, Run, read_run
from hb_metrics.run.plurals import with_plurals
from hb_metrics.run.record import Record
from hb_metrics.run.run_folder import LAYOUT, PROMPTS_FILE, REPLIES, RUN_FILE, SHARD_RUN, run_digest, write_table
from hb_metrics.run.schema import REPLY_SCHEMA
from hb_metrics.run.tables import Tables
from tests.hb_metrics.made_results import write_vectors

SIZES = (5, 1, 7, 0, 4)  # of shards; one is empty


def write_shards(folder, values, sizes, precision="float32"):
    first = 0
    for index, size in enumerate(sizes):
        ids = pa.array([f"id {first + row}" for row in range(size)], pa.string())
        part = values[first : first + size].astype(precision)
        write_vectors(folder, ids, part, f"{index:05d}-of-{len(sizes):05d}")
        first += size
    return folder


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(0).dirichlet(np.ones(6), sum(SIZES)).astype(np.float32)


@pytest.mark.parametrize("precision", ["float32", "float16", "float64"])
def test_shards_are_read_as_one_array(precision, tmp_path, values):
    shards = Tables(write_shards(tmp_path / "s", values, SIZES, precision)).vectors("")
    assert shards.ids == [f"id {row}" for row in range(len(values))]
    assert shards.values.dtype == precision
    assert np.array_equal(shards.values, values.astype(precision))


@pytest.mark.parametrize("change", ["missing", "more"])
def test_folders_with_missing_or_more_files_are_rejected(change, tmp_path, values, run):
    for folder in (write_shards(tmp_path / "s", values, SIZES), run[0].folder / "replies"):
        file = max(folder.glob("*.parquet"))
        if change == "missing":
            file.unlink()
        else:
            shutil.copy(file, folder / "copy.parquet")
        with pytest.raises(ValueError, match="is incomplete, or contains files that are not part of the run"):
            Tables(folder).vectors("") if folder.name == "s" else run[0].tables.reply_table()


@pytest.fixture
def run(tmp_path):
    """A run with replies to some prompts, in shards of another order than the prompts."""
    prompts = load_table("v1.0-small").take(pa.array([7, 3000, 5, 9000, 6, 1, 2]))
    rows = [prompts.to_pylist()[row] for row in (4, 0, 5, 2, 1, 3)]  # the last has no reply
    replies = [
        {
            **dict.fromkeys(REPLY_SCHEMA.names),
            **{name: row[name] for name in ("axis", "descriptor", "noun", "template")},
            **{
                "id": row["id"],
                "prompt_id": row["id"],
                "text": row["text"].lower(),
                "personas": ["I like tea."] * (number % 2),
            },
            **{"reply": None if number == 2 else f"reply {number}", "num_tokens": number, "truncated": number == 1},
        }
        for number, row in enumerate(rows)
    ]
    record = {"layout": {"version": LAYOUT, "measurements": []}}
    (tmp_path / RUN_FILE).write_text(json.dumps(record))
    write_table(tmp_path / PROMPTS_FILE, with_plurals(prompts, config_vocabulary("v1.0-small")))
    (tmp_path / "replies").mkdir()
    mark = {SHARD_RUN: run_digest(tmp_path).encode()}
    for index, part in enumerate((replies[:4], replies[4:])):
        table = pa.Table.from_pylist(part, REPLY_SCHEMA).replace_schema_metadata(mark)
        pq.write_table(table, tmp_path / "replies" / f"{index:05d}-of-00002.parquet")
    return Run(Tables(tmp_path), Results(Record(record))), replies


def test_replies_stand_beside_what_their_prompts_are_about_in_the_order_of_the_prompts(run):
    finished, replies = run
    prompts = finished.tables.prompts()
    table = finished.tables.reply_table()
    assert set(table.column_names) == {*REPLY_SCHEMA.names, *prompts.column_names}
    by_id = {reply["id"]: reply for reply in replies}
    expected = [{**row, **by_id[row["id"]]} for row in prompts.to_pylist() if row["id"] in by_id]
    assert table.to_pylist() == expected

    stored = finished.tables.replies()
    nonempty = [row for row in expected if row["reply"] is not None]
    assert len(nonempty) == 5
    columns = stored.ids, stored.axes, stored.descriptors, stored.templates, stored.prompts, stored.texts
    names = "id", "axis", "descriptor", "template", "text", "reply"
    assert list(columns) == [[row[name] for row in nonempty] for name in names]


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.5, 7.0, None])
def test_what_is_no_probability_is_not_taken_for_one(value, tmp_path):
    rows = pa.array([[0.5, 0.5], None if value is None else [1.0, value]], pa.list_(pa.float32(), 2))
    pq.write_table(pa.table({"id": ["a", "b"], "probabilities": rows}), tmp_path / "00000-of-00001.parquet")
    path = tmp_path / "00000-of-00001.parquet"
    with pytest.raises(ValueError, match=rf"{re.escape(repr(str(path)))}.*damaged"):
        Tables(tmp_path).vectors("")


@pytest.mark.parametrize("column", [pa.array([[1.0]], pa.list_(pa.float32(), 1)), pa.array([0.5]), None])
def test_shards_of_other_styles_are_refused(column, tmp_path):
    rows = pa.array([[0.5, 0.5]], pa.list_(pa.float32(), 2))
    pq.write_table(pa.table({"id": ["a"], "probabilities": rows}), tmp_path / "00000-of-00002.parquet")
    other = {"id": ["b"]} if column is None else {"id": ["b"], "probabilities": column}
    pq.write_table(pa.table(other), tmp_path / "00001-of-00002.parquet")
    with pytest.raises(
        ValueError, match=r"00001-of-00002\.parquet' .*'probabilities'|the files in .* have different numbers"
    ):
        Tables(tmp_path).vectors("")


@pytest.mark.parametrize(
    "content",
    ["[]", "{}", '{"run": 5}', "null", '{"run": {"layout": {"version": 3}}, "generation": 3}', '{"run": {"mo'],
)
def test_what_are_no_results_is_rejected(content, tmp_path):
    for wrong in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(ValueError, match=re.escape(f"'{wrong}' has no results.json")):
            read_run(wrong)
    (tmp_path / "results.json").write_text(content)
    with pytest.raises(ValueError, match=re.escape(f"'{tmp_path / 'results.json'}'")):
        read_run(tmp_path)


def test_replies_to_other_prompts_are_rejected(run):
    finished, _ = run
    write_table(finished.folder / PROMPTS_FILE, finished.tables.prompts().slice(2))
    with pytest.raises(ValueError, match=r"2 of the run's replies belong to none of its prompts"):
        finished.tables.reply_table()
    shutil.rmtree(finished.folder / REPLIES)
    with pytest.raises(ValueError, match=f"{re.escape(repr(str(finished.folder)))} has no replies"):
        finished.tables.replies()


@pytest.mark.parametrize("name", [PROMPTS_FILE, f"{REPLIES}/00001-of-00002.parquet"])
def test_files_of_another_run_are_rejected(name, run):
    finished, _ = run
    path = finished.folder / name
    pq.write_table(pq.read_table(path).replace_schema_metadata({SHARD_RUN: b"0" * 64}), path)
    with pytest.raises(ValueError, match=re.escape(f"'{path}' does not belong to the run")):
        finished.tables.reply_table()
    (finished.folder / RUN_FILE).unlink()
    with pytest.raises(ValueError, match=r"has no run\.json; copy the whole folder"):
        finished.tables.reply_table()
