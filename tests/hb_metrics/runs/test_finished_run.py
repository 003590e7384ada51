"""What a finished run left, read back: replies in the order of their prompts, style vectors a slice at a time."""

import json
import re
import shutil
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_dataset import load_table
from hb_dataset.prompts import config_vocabulary
from hb_metrics.inference.classifiers.classifier import probability_schema
from hb_metrics.inference.replies.requests import REPLY_SCHEMA
from hb_metrics.runs.finished_run import (
    StyleShards,
    read_prompts,
    read_reply_table,
    read_run,
    read_stored_replies,
    read_styles,
)
from hb_metrics.runs.run_folder import (
    LAYOUT,
    OTHER_LAYOUT_ERROR,
    PROMPTS_FILE,
    RUN_FILE,
    SHARD_RUN,
    run_digest,
    with_plurals,
    write_prompts,
)
from hb_metrics.stats.bias_values import DescriptorKey, bias_values

SIZES = (5, 1, 7, 0, 4)  # of shards; one is empty


def exactly(message):
    return f"^{re.escape(message)}$"


def write_shards(folder, values, sizes, precision="float32"):
    """Style vectors in shards as `classify_into_shards` writes them."""
    folder.mkdir()
    schema, first = probability_schema(values.shape[1], precision), 0
    for index, size in enumerate(sizes):
        part = values[first : first + size].astype(precision)
        column = pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), values.shape[1])
        ids = [f"id {first + row}" for row in range(size)]
        table = pa.table({"id": ids, "probabilities": column, "truncated": [False] * size}, schema=schema)
        pq.write_table(table, folder / f"{index:05d}-of-{len(sizes):05d}.parquet", compression="zstd")
        first += size
    assert first == len(values)
    return folder


@pytest.fixture(scope="module")
def values():
    return np.random.default_rng(0).dirichlet(np.ones(6), sum(SIZES)).astype(np.float32)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, values):
    return write_shards(tmp_path_factory.mktemp("styles") / "shards", values, SIZES)


bounds = st.none() | st.integers(-20, 20)


@given(slices=st.lists(st.builds(slice, bounds, bounds), min_size=1, max_size=8))
@settings(max_examples=40, deadline=None)
def test_slices_are_those_of_the_whole_array_in_any_order(slices, folder, values):
    shards = StyleShards(folder)
    for rows in slices:
        block = shards[rows]
        assert (block.dtype, block.shape) == (values.dtype, values[rows].shape)
        assert np.array_equal(block, values[rows])


def test_its_ids_shape_and_length(folder, values):
    shards = StyleShards(folder)
    assert shards.ids == [f"id {row}" for row in range(len(values))]
    assert (shards.shape, len(shards)) == (values.shape, len(values))


def test_a_slice_is_a_copy(folder, values):
    shards = StyleShards(folder)
    shards[0:3][:] = 9
    assert np.array_equal(shards[0:3], values[0:3])


@pytest.mark.parametrize("rows", [slice(0, 8, 2), slice(None, None, -1)])
def test_a_slice_with_a_step_is_refused_rather_than_read_without_it(rows, folder):
    with pytest.raises(ValueError, match=f"step 1, not {rows.step}"):
        StyleShards(folder)[rows]


def test_not_more_than_a_shard_is_kept(tmp_path):
    values = np.random.default_rng(1).random((40_000, 50), dtype=np.float32)
    shards = StyleShards(write_shards(tmp_path / "s", values, [4000] * 10))
    shard, before = 4000 * 50 * 4, pa.total_allocated_bytes()
    for start in range(0, 40_000, 3000):  # across their borders too
        assert np.array_equal(shards[start : start + 3000], values[start : start + 3000])
        deadline = time.monotonic() + 10
        while pa.total_allocated_bytes() - before > shard and time.monotonic() < deadline:
            time.sleep(0.01)  # what Arrow's threads read with is freed a little later
        assert pa.total_allocated_bytes() - before <= shard


@pytest.mark.parametrize("alpha", [0, 1, 2])
@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("batch_size", [3, 7, 1000])
def test_bias_values_are_those_of_the_array(alpha, precision, batch_size, tmp_path):
    rng = np.random.default_rng(2)
    values = rng.dirichlet(np.ones(9), 60).astype(precision)
    columns = [rng.choice(list(letters), 60).tolist() for letters in ("abcde", "tuv", "xy")]
    shards = StyleShards(write_shards(tmp_path / "s", values, (17, 20, 1, 22), precision))

    from_shards = bias_values(shards, *columns, alpha=alpha, batch_size=batch_size)

    assert shards[:].dtype == precision
    for mine, expected in zip(from_shards, bias_values(values, *columns, alpha=alpha), strict=True):
        assert np.array_equal(mine, expected)


def test_a_folder_without_style_vectors_is_told(tmp_path):
    for folder in (tmp_path, tmp_path / "none"):
        with pytest.raises(ValueError, match="has no style vectors"):
            StyleShards(folder)


def test_a_damaged_shard_is_named(tmp_path, values):
    folder = write_shards(tmp_path / "s", values, SIZES)
    path = folder / f"00000-of-{len(SIZES):05d}.parquet"
    content = path.read_bytes()
    path.write_bytes(content[:4] + b"\0" * 200 + content[204:])
    with pytest.raises(ValueError, match=re.escape(f"'{path}' is damaged (")):
        StyleShards(folder)[:]


def test_replies_that_are_in_several_files_are_not_counted_twice(tmp_path, values, run):
    for folder in (write_shards(tmp_path / "s", values, SIZES), run[0].folder / "replies"):
        shutil.copy(next(folder.glob("*.parquet")), folder / "copy.parquet")
        with pytest.raises(ValueError, match="same replies in several files"):
            StyleShards(folder) if folder.name == "s" else read_reply_table(run[0].folder)


def test_a_folder_without_results_is_told(tmp_path):
    with pytest.raises(ValueError, match=re.escape(f"'{tmp_path}' has no results.json")):
        read_run(tmp_path)
    path = tmp_path / "results.json"
    for content in ("[]", "{}", '{"run": 5}', "null"):
        path.write_text(content)
        with pytest.raises(ValueError, match=re.escape(f"'{path}' does not hold the results of a run")):
            read_run(tmp_path)
    path.write_text('{"run": {"model": ')
    with pytest.raises(ValueError, match=re.escape(f"'{path}' cannot be read")):
        read_run(tmp_path)
    record = {"layout": {"version": LAYOUT}, "a": 1}
    path.write_text(json.dumps({"run": record}))
    assert read_run(tmp_path) == (tmp_path, {"run": record})


@pytest.mark.parametrize("versions", [{}, {"versions": {"holistic-bias": "0.0.9"}}])
def test_a_run_of_an_earlier_layout_is_refused_with_what_to_do(versions, tmp_path):
    (tmp_path / "results.json").write_text(json.dumps({"run": {"settings": {}, **versions}}))
    with pytest.raises(ValueError, match="measure again in a new folder, or use the release of that run") as error:
        read_run(tmp_path)
    release = "0.0.9" if versions else "not recorded"
    assert str(error.value) == OTHER_LAYOUT_ERROR.format(folder=tmp_path, other=1, layout=LAYOUT, release=release)


@pytest.fixture
def run(tmp_path):
    """A run with replies to some prompts, in shards of another order than the prompts."""
    prompts = load_table("v1.0-small").take(pa.array([7, 3000, 5, 9000, 6, 1, 2]))
    rows = [prompts.to_pylist()[row] for row in (4, 0, 5, 2, 1, 3)]  # the last has no reply
    replies = [
        {
            **dict.fromkeys(REPLY_SCHEMA.names),
            **{"id": row["id"], "text": row["text"].lower(), "personas": ["I like tea."] * (number % 2)},
            **{"reply": None if number == 2 else f"reply {number}", "num_tokens": number, "truncated": number == 1},
        }
        for number, row in enumerate(rows)
    ]
    record = {"layout": {"version": LAYOUT}}
    (tmp_path / RUN_FILE).write_text(json.dumps(record))
    (tmp_path / "results.json").write_text(json.dumps({"run": record}))
    write_prompts(tmp_path, with_plurals(prompts, config_vocabulary("v1.0-small")))
    (tmp_path / "replies").mkdir()
    mark = {SHARD_RUN: run_digest(tmp_path).encode()}
    for index, part in enumerate((replies[:4], replies[4:])):
        table = pa.Table.from_pylist(part, REPLY_SCHEMA).replace_schema_metadata(mark)
        pq.write_table(table, tmp_path / "replies" / f"{index:05d}-of-00002.parquet")
    return read_run(tmp_path), replies


def test_replies_stand_beside_what_their_prompts_are_about_in_the_order_of_the_prompts(run):
    finished, replies = run
    prompts = read_prompts(finished.folder)
    table = read_reply_table(finished.folder)
    assert set(table.column_names) == {*REPLY_SCHEMA.names, *prompts.column_names}
    by_id = {reply["id"]: reply for reply in replies}
    expected = [{**row, **by_id[row["id"]]} for row in prompts.to_pylist() if row["id"] in by_id]
    assert table.to_pylist() == expected
    assert read_reply_table(finished.folder, prompts).equals(table)

    stored = read_stored_replies(finished.folder)
    nonempty = [row for row in expected if row["reply"] is not None]
    assert len(nonempty) == 5
    for column, name in (
        (stored.ids, "id"),
        (stored.axes, "axis"),
        (stored.descriptors, "descriptor"),
        (stored.templates, "template"),
        (stored.prompts, "text"),
        (stored.texts, "reply"),
    ):
        assert column == [row[name] for row in nonempty]


def test_replies_that_are_gone_are_none_and_those_to_other_prompts_are_refused(run):
    finished, _ = run
    prompts = read_prompts(finished.folder)
    fewer = prompts.slice(2)  # two of the replies are to the first two prompts
    for read in (read_reply_table, read_stored_replies):
        with pytest.raises(ValueError, match=r"2 of the replies .* to none of its prompts"):
            read(finished.folder, fewer)
    shutil.rmtree(finished.folder / "replies")
    assert read_reply_table(finished.folder) is None
    assert read_stored_replies(finished.folder) is None


def test_replies_and_prompts_of_another_run_are_refused(run):
    finished, _ = run
    for path in (finished.folder / PROMPTS_FILE, finished.folder / "replies" / "00001-of-00002.parquet"):
        content, table = path.read_bytes(), pq.read_table(path)
        pq.write_table(table.replace_schema_metadata({SHARD_RUN: b"0" * 64}), path)
        for read in (read_reply_table, read_stored_replies):
            with pytest.raises(ValueError, match=re.escape(str(path)) + ".* is of another run"):
                read(finished.folder)
        path.write_bytes(content)
    assert read_stored_replies(finished.folder) is not None
    (finished.folder / PROMPTS_FILE).unlink()
    message = f"'{finished.folder}' has no {PROMPTS_FILE}; give the folder of a run"
    with pytest.raises(ValueError, match=re.escape(message)):
        read_stored_replies(finished.folder)


def test_mean_styles_are_read(run):
    finished, _ = run
    assert read_styles(finished) is None
    columns = {"axis": ["age", "age"], "descriptor": ["old", "young"], "num": [1, 2]}
    columns |= {"style: Kind": [0.5, 0.25], "style: Cold (Distant)": [0.5, 0.75]}
    pq.write_table(pa.table(columns), finished.folder / "style_means.parquet")
    styles = read_styles(finished)
    assert styles[0] == [DescriptorKey("age", "old"), DescriptorKey("age", "young")]
    assert styles[1].tolist() == [[0.5, 0.5], [0.25, 0.75]]
    assert styles[2] == ["Kind", "Cold (Distant)"]
    table = pq.read_table(finished.folder / "style_means.parquet")
    pq.write_table(table.replace_schema_metadata({SHARD_RUN: b"0" * 64}), finished.folder / "style_means.parquet")
    with pytest.raises(ValueError, match="is of another run than the one that is recorded beside it"):
        read_styles(finished)


@pytest.mark.parametrize("value", [np.nan, np.inf, -0.5, 7.0, None])
def test_what_is_no_probability_is_not_taken_for_one(value, tmp_path):
    rows = pa.array([[0.5, 0.5], None if value is None else [1.0, value]], pa.list_(pa.float32(), 2))
    pq.write_table(pa.table({"id": ["a", "b"], "probabilities": rows}), tmp_path / "0.parquet")
    path = tmp_path / "0.parquet"
    with pytest.raises(ValueError, match=rf"^{re.escape(repr(str(path)))} .*'probabilities'.*damaged"):
        StyleShards(tmp_path)[:]


@pytest.mark.parametrize("column", [pa.array([[1.0]], pa.list_(pa.float32(), 1)), pa.array([[0.5, 0.5]]), None])
def test_shards_of_other_styles_are_refused(column, tmp_path):
    rows = pa.array([[0.5, 0.5]], pa.list_(pa.float32(), 2))
    pq.write_table(pa.table({"id": ["a"], "probabilities": rows}), tmp_path / "0.parquet")
    other = {"id": ["b"]} if column is None else {"id": ["b"], "probabilities": column}
    pq.write_table(pa.table(other), tmp_path / "1.parquet")
    with pytest.raises(ValueError, match=r"1\.parquet' .*'probabilities'"):
        StyleShards(tmp_path)


def test_mean_styles_that_are_no_numbers_are_refused(run):
    finished, _ = run
    path = finished.folder / "style_means.parquet"
    pq.write_table(pa.table({"axis": ["age"], "descriptor": ["old"], "style: Kind": [np.nan]}), path)
    with pytest.raises(
        ValueError, match=exactly(f"'{path}' has nan in column 'style: Kind', which no run writes")[:-1]
    ):
        read_styles(finished)
    pq.write_table(pa.table({"axis": ["age"], "descriptor": ["old"]}), path)
    with pytest.raises(ValueError, match="lacks the columns axis, descriptor and 'style: …' of mean styles"):
        read_styles(finished)
