"""What befalls a run folder: full disks, read-only folders, damaged shards, other runs. Nothing there is ever lost."""

import errno
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hb_dataset.whole_files import remove_leftovers, write_text
from hb_metrics import measure
from hb_metrics.collect import shards, units
from hb_metrics.collect.scoring import scoring_shards
from hb_metrics.collect.shards import fill_shards, plan_row_shards, read_shards
from hb_metrics.command import measuring
from hb_metrics.measurements.dialogue import work as dialogue_work
from hb_metrics.measurements.results import read_run
from hb_metrics.run.run_folder import (
    BIAS_VALUES_FILE,
    DIALOGUE_FOLDER,
    OFFENSIVE_REPLIES,
    PERPLEXITIES,
    PROMPTS_FILE,
    REPLIES,
    REPORT_FILE,
    RESULTS_FILE,
    RUN_FILE,
    STYLES,
    hold_folder,
)
from tests.hb_metrics.conftest import write_vocabulary
from tests.hb_metrics.run_files import contents
from tests.hb_metrics.runs_here import refusal

ROOT = Path(__file__).parents[2]
# One file of each kind that a run writes, in the order it does.
WRITTEN = (
    RUN_FILE,
    PROMPTS_FILE,
    f"{PERPLEXITIES}/00001-of-00004.parquet",
    f"{REPLIES}/00000-of-00001.parquet",
    f"{STYLES}/00000-of-00001.parquet",
    BIAS_VALUES_FILE,
    f"{OFFENSIVE_REPLIES}/00000-of-00001.parquet",
    f"{DIALOGUE_FOLDER}/00000-of-00001.parquet",
    RESULTS_FILE,
    REPORT_FILE,
)
SHARDS = [name for name in WRITTEN if "/" in name]
SCHEMA = pa.schema([("id", pa.string()), ("words", pa.list_(pa.string())), ("number", pa.float64())])
HOLD = """
import sys, time
from pathlib import Path
from hb_metrics.run.run_folder import hold_folder

with hold_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def options(tmp_path_factory, saved_llama):
    folder = tmp_path_factory.mktemp("inputs")
    few = {"age": ("young", "old"), "ability": ("deaf", "blind"), "nouns": ("kid", "parent", "friend", "guy")}
    vocabulary = write_vocabulary(folder / "vocabulary", **few)
    options = ["--model", saved_llama, "--vocabulary_dir", vocabulary]
    options += ["--measurements", "likelihood,generation,offensiveness,dialogue", "--replies_per_cell", 1]
    options += ["--max_new_tokens", 10]
    return list(map(str, options))


@pytest.fixture(scope="module", autouse=True)
def several_shards():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring_shards, "UNITS_PER_SHARD", 4)
        patch.setattr(units, "MAX_POSITIONS", 16)
        patch.setattr(dialogue_work, "NUM_REPLIES", 10)
        yield


@pytest.fixture(scope="module")
def whole(options, tmp_path_factory):
    """A run that nothing befell."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(options, folder)
    assert set(WRITTEN) <= contents(folder).keys()
    return folder


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def run(options, folder):
    measure.main([*options, "--output_dir", str(folder)])


@pytest.mark.parametrize(
    "files",
    [
        pytest.param((SHARDS[1], BIAS_VALUES_FILE, RESULTS_FILE), id="some"),
        pytest.param(WRITTEN, id="all", marks=pytest.mark.long),
    ],
)
def test_a_full_disk_at_any_write_keeps_what_is_there_and_the_run_goes_on(files, options, whole, tmp_path, monkeypatch):
    """One run that finds the disk full again and again, each time at another kind of file."""
    expected, out, replace = contents(whole), tmp_path / "run", Path.replace
    for name in files:

        def full(scratch, target, last=out / name):
            if target == last:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(scratch))
            return replace(scratch, target)

        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", full)
            message = refusal(*options, "--output_dir", out)
        assert message.startswith("measure.py: ")
        assert "No space left on device" in message
        assert Path(name).name in message
        assert "\n" not in message
        files = contents(out)
        so_far = files.pop(REPORT_FILE, None)
        assert name not in files
        assert files.items() <= expected.items()
        assert so_far is None or b"Not complete yet" in so_far
    run(options, out)
    assert contents(out) == expected


def test_damaged_shards_of_every_stage_are_kept_aside_and_made_again(options, whole, copy, capsys):
    expected, damaged = contents(whole), {}
    for number, name in enumerate(SHARDS):
        path, content = copy / name, bytearray(expected[name])
        if number < 2:
            path.write_bytes(content[: number * len(content) // 2])
        elif number == 2:
            pq.write_table(pq.read_table(path).slice(1), path)
        elif number == 3:
            pq.write_table(pq.read_table(path).drop_columns(["probabilities"]), path)
        else:
            content[-6] ^= 1  # in how long the footer is
            path.write_bytes(content)
        damaged[name] = path.read_bytes()
    unknown = copy / REPLIES / "00000-of-00009.parquet"
    shutil.copyfile(whole / SHARDS[0], unknown)
    run(options, copy)
    printed = capsys.readouterr().out
    files = contents(copy)
    for number, name in enumerate(SHARDS):
        fault = {2: "has unexpected rows", 3: "has unexpected columns"}.get(number, "is damaged")
        kept = Path(name).with_name(f".{Path(name).name}.1.aside")
        assert f"{copy / name} {fault}" in printed
        assert f"its rows are computed again, and the file is kept as {kept.name}" in printed
        assert files.pop(str(kept)) == damaged[name]
    assert f"{unknown} does not belong to this run; the file is kept as .{unknown.name}.1.aside" in printed
    assert files.pop(f"{REPLIES}/.{unknown.name}.1.aside") == expected[SHARDS[0]]
    assert files == expected


def test_what_follows_from_shards_is_computed_again_from_them(options, whole, copy, monkeypatch):
    monkeypatch.setattr(measuring, "_report_so_far", pytest.fail)  # the report of all of it is there
    for name in (BIAS_VALUES_FILE, PROMPTS_FILE):
        (copy / name).write_bytes(b"of somebody else")
    run(options, copy)
    assert contents(copy) == contents(whole)


def test_rows_are_of_the_texts_they_were_made_from(tmp_path, capsys):
    """Of the styles of a reply, say, that is another one by now."""
    ids = ["a", "b", "c", "d"]
    parts = plan_row_shards(4, 2, tmp_path)
    calls = []

    def fill_from(texts):
        calls.clear()
        columns = {"id": ids, "words": [None] * 4, "number": [float(len(text)) for text in texts]}
        return fill(parts, ids, pa.table(columns, schema=SCHEMA), texts, calls)["number"].to_pylist()

    assert fill_from(["one", "seven", "two", "four"]) == [3, 5, 3, 4]
    assert fill_from(["one", "seven", "two", "four"]) == [3, 5, 3, 4]
    assert not calls
    assert fill_from(["one", "seven", "two", "eleven"]) == [3, 5, 3, 6]
    assert calls == [1]
    assert f"{parts[1].path} was computed from texts that have changed since then; its rows" in capsys.readouterr().out
    write_text(tmp_path / RUN_FILE, '{"settings": 1}')
    assert fill_from(["one", "seven", "two", "eleven"]) == [3, 5, 3, 6]
    assert calls == [0, 1]
    kept = {f".{parts[0].path.name}.1.aside", *(f".{parts[1].path.name}.{number}.aside" for number in (1, 2))}
    assert {path.name for path in tmp_path.glob(".*.aside")} == kept
    write_text(tmp_path / RUN_FILE, '{ "settings":1 }')
    fill_from(["one", "seven", "two", "eleven"])
    assert not calls


STEPS = [pytest.param(41, id="some"), pytest.param(1, id="all", marks=pytest.mark.long)]


@pytest.mark.parametrize("step", STEPS)
def test_no_bit_of_a_shard_flips_unnoticed(step, tmp_path, capsys):
    """In whatever part: magic bytes, page headers, pages, the footer and its length."""
    generator = np.random.default_rng(0)
    ids = [f"id{row}" for row in range(30)]
    words = [None if row % 7 == 0 else ["a", f"b{row % 5}"] for row in range(30)]
    table = pa.table({"id": ids, "words": words, "number": generator.random(30)}, schema=SCHEMA)
    parts = plan_row_shards(30, 30, tmp_path)
    assert fill(parts, ids, table).equals(table)
    content = parts[0].path.read_bytes()
    noticed = 0
    for position in range(0, len(content), step):
        flipped = bytearray(content)
        flipped[position] ^= 1 << (position // step % 8)
        parts[0].path.write_bytes(flipped)
        assert fill(parts, ids, table).equals(table), position
        assert parts[0].path.read_bytes() in (content, bytes(flipped))
        noticed += "computed again" in capsys.readouterr().out
        for kept in tmp_path.glob(".*.aside"):
            kept.unlink()
    assert noticed > len(range(0, len(content), step)) / 2  # the rest of the footer says nothing about the values


def fill(parts, ids, table, texts=None, calls=None):
    """Reads shards that `table` fills where they lack rows; `calls` gets the number of each such shard."""

    def compute(mine, advance):
        for index in mine:
            if calls is not None:
                calls.append(index)
            rows = table.take(pa.array(parts[index].rows))
            yield dict(zip(rows.column_names, rows.columns, strict=True))

    fill_shards(parts, ids, SCHEMA, compute, label="test", unit="row", inputs=texts)
    return read_shards(parts, SCHEMA)


def test_a_shard_that_may_not_be_read_is_not_taken_for_damaged(tmp_path, monkeypatch):
    parts = plan_row_shards(1, 1, tmp_path)
    parts[0].path.write_bytes(b"mine")

    def denied(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(shards, "_read", denied)  # root may read everything
    with pytest.raises(PermissionError):
        fill(parts, ["a"], None)
    assert contents(tmp_path) == {parts[0].path.name: b"mine"}


def test_a_folder_in_use_is_refused_until_its_process_is_gone_however_it_ends(options, whole, copy):
    (copy / RESULTS_FILE).unlink()
    before = contents(copy)
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(copy)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    assert f"output_dir '{copy}' is in use by a run" in refusal(*options, "--output_dir", copy)
    assert contents(copy) == before
    with pytest.raises(ValueError, match="is in use by a run"), hold_folder(copy):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    run(options, copy)
    assert contents(copy) == contents(whole)


def test_a_finished_run_is_read_while_another_process_holds_it(copy):
    with hold_folder(copy):
        assert read_run(copy).results.record.model.kind == "causal"


def test_a_file_system_without_locks_is_said_and_used(tmp_path, monkeypatch, capsys):
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with hold_folder(tmp_path / "run"):
        assert capsys.readouterr().out.startswith(f"the file system of '{tmp_path / 'run'}' does not support locks")


def test_only_our_own_leftovers_are_cleared_away(tmp_path):
    for name in (".run.json.123.tmp", "replies/.00000-of-00001.parquet.4.tmp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    kept = {"notes.tmp", ".swap.tmp", ".12.tmp", "results.json.123.tmp", ".00000-of-00001.parquet.1.aside"}
    for name in kept:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == kept
