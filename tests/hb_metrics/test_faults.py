"""What befalls a run folder: full disks, read-only folders, damaged shards, other runs. Nothing there is ever lost."""

import errno
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from hb_dataset.whole_files import remove_leftovers, write_text
from hb_metrics import measure
from hb_metrics.inference import shards
from hb_metrics.inference.engines import local
from hb_metrics.inference.scoring import scoring_shards
from hb_metrics.inference.shards import Shard, fill_shards, plan_row_shards
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.dialogue.work import DIALOGUE
from hb_metrics.measurements.offensiveness.work import OFFENSIVENESS
from hb_metrics.report.changes import comparable_figures
from hb_metrics.report.layout.terminal import figure_lines
from hb_metrics.runs.finished_run import StyleShards, read_prompts, read_run, read_stored_replies
from hb_metrics.runs.run_folder import (
    BIAS_VALUES_FILE,
    LOCK_FILE,
    PERPLEXITIES,
    PROMPTS_FILE,
    REPLIES,
    REPORT_FILE,
    RESULTS_FILE,
    RUN_FILE,
    SHARD_RUN,
    STYLE_MEANS_FILE,
    STYLES,
    hold_folder,
)
from tests.hb_metrics.pages import check_sound, read_page

ROOT = Path(__file__).parents[2]
VOCABULARY = {
    "age.yaml": {"axis": "age", "terms": [{"term": term, "bucket": "b"} for term in ("young", "old", "adult")]},
    "ability.yaml": {"axis": "ability", "terms": [{"term": term} for term in ("deaf", "blind")]},
    "nouns.yaml": {"nouns": [{"noun": noun, "plural": f"{noun}s"} for noun in ("kid", "parent", "friend")]},
    "templates.yaml": {"templates": [{"template": "I'm {noun_phrase}."}, {"template": "I love {plural_noun_phrase}."}]},
}
# One file of each kind that a run writes, in the order it does.
WRITTEN = (
    RUN_FILE,
    PROMPTS_FILE,
    f"{PERPLEXITIES}/00001-of-00003.parquet",
    f"{REPLIES}/00000-of-00001.parquet",
    f"{STYLES}/00000-of-00001.parquet",
    STYLE_MEANS_FILE,
    BIAS_VALUES_FILE,
    f"{OFFENSIVENESS}/replies/00000-of-00001.parquet",
    f"{DIALOGUE}/00000-of-00001.parquet",
    RESULTS_FILE,
    REPORT_FILE,
)
SHARDS = [name for name in WRITTEN if "/" in name]
SCHEMA = pa.schema([("id", pa.string()), ("words", pa.list_(pa.string())), ("number", pa.float64())])
HOLD = """
import sys, time
from pathlib import Path
from hb_metrics.runs.run_folder import hold_folder

with hold_folder(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(600)
"""


@pytest.fixture(scope="module")
def options(tmp_path_factory, get_small_model):
    folder = tmp_path_factory.mktemp("inputs")
    for made in get_small_model("llama"):  # the model, and its tokenizer
        made.save_pretrained(folder / "model")
    (folder / "vocabulary").mkdir()
    for name, content in VOCABULARY.items():
        (folder / "vocabulary" / name).write_text(yaml.safe_dump(content))
    rows = [{"prompt": f"Do you like number {n}?", "reply": f"I love number {n}."} for n in range(20)]
    (folder / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    options = ["--model", folder / "model", "--vocabulary_dir", folder / "vocabulary"]
    options += ["--measurements", "likelihood,generation,offensiveness,dialogue", "--replies_per_cell", 1]
    options += ["--max_new_tokens", 10]
    options += ["--dialogue_file", folder / "pairs.jsonl", "--dialogue_replies", 10]
    return list(map(str, options))


@pytest.fixture(scope="module", autouse=True)
def several_shards():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scoring_shards, "UNITS_PER_SHARD", 4)
        patch.setattr(local, "MAX_POSITIONS", 16)
        yield


class Before(NamedTuple):
    """What there is when a measurement begins: the files of the run, and all that was printed."""

    files: dict[str, bytes]
    printed: str


@pytest.fixture(scope="module")
def watched(options, tmp_path_factory):
    """A run that nothing befell, and what there was before each of its measurements."""
    folder, printed, before = tmp_path_factory.mktemp("whole") / "run", io.StringIO(), {}
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        for measurement in MEASUREMENTS:

            def watch(task, *rest, name=measurement.name, work=measurement.measure):
                before[name] = Before(contents(task.folder), printed.getvalue())
                return work(task, *rest)

            patch.setattr(measurement, "measure", watch)
        run(options, folder)
    assert set(WRITTEN) <= contents(folder).keys()
    return folder, before, printed.getvalue()


@pytest.fixture(scope="module")
def whole(watched):
    return watched[0]


@pytest.fixture
def copy(whole, tmp_path):
    return shutil.copytree(whole, tmp_path / "run")


def run(options, folder):
    measure.main([*options, "--output_dir", str(folder)])


def refusal(options, folder):
    """The one line that a run ends with."""
    with pytest.raises(SystemExit) as end:
        run(options, folder)
    assert str(end.value).startswith("measure.py: ")
    return str(end.value).removeprefix("measure.py: ")


def contents(folder):
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    return {name: path.read_bytes() for name, path in files.items() if name != LOCK_FILE}


@contextmanager
def mounted(disk, *arguments):
    """A file system at a folder; skips where that is not allowed."""
    if sys.platform != "linux" or os.geteuid():
        pytest.skip("only root on Linux may mount file systems")
    done = subprocess.run(["mount", *arguments, str(disk)], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"mounting is not allowed here: {done.stderr.strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_each_measurement_is_printed_and_reported_before_the_next_begins(watched, tmp_path):
    folder, before, printed = watched
    assert REPORT_FILE not in before["likelihood"].files
    reports = []
    for name, to_come in (
        ("generation", "Generation bias, Offensiveness, Dialogue perplexity"),
        ("offensiveness", "Offensiveness, Dialogue perplexity"),
        ("dialogue", "Dialogue perplexity"),
    ):
        assert RESULTS_FILE not in before[name].files  # of finished runs only
        (tmp_path / REPORT_FILE).write_bytes(before[name].files[REPORT_FILE])
        page = read_page(tmp_path / REPORT_FILE)
        check_sound(page)
        assert f"Not complete yet. Still to come: {to_come}. Reload this page" in page.text
        assert "All numbers will be in results.json at the end of the run" in page.text
        assert f"report so far: {folder / REPORT_FILE}\nstill to come: {to_come}\n" in before[name].printed
        reports.append(set(page.ids))
    assert reports[0] < reports[1] < reports[2]
    results = json.loads((folder / RESULTS_FILE).read_text())
    summary = "\n".join(figure_lines(comparable_figures([MEASUREMENTS[0].figures(results)])[0]))
    assert "Likelihood Bias" in summary
    assert f"1 of 4: Likelihood Bias\nprompts scored in 0 s\n\n{summary}\n" in before["generation"].printed
    assert printed.count(summary) == 1
    page = read_page(folder / REPORT_FILE)
    assert "Not complete" not in page.text
    assert "All numbers are in results.json, the prompts" in page.text


@pytest.mark.parametrize(
    "files",
    [
        pytest.param((SHARDS[1], STYLE_MEANS_FILE, RESULTS_FILE), id="some"),
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
            message = refusal(options, out)
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


def test_a_folder_that_may_not_be_written_is_named_and_left_alone(options, whole, copy):
    (copy / RESULTS_FILE).unlink()
    if os.geteuid():
        copy.chmod(0o555)
        message = refusal(options, copy)
        copy.chmod(0o755)
    else:
        with mounted(copy, "--bind", "-o", "ro", str(copy)):
            message = refusal(options, copy)
            new = refusal(options, copy / "new" / "run")
        assert f"Read-only file system: '{copy / 'new'}'" in new
    assert f"'{copy / LOCK_FILE}'" in message
    assert contents(copy) == {name: content for name, content in contents(whole).items() if name != RESULTS_FILE}


def test_damaged_shards_of_every_stage_are_kept_aside_and_made_again(options, whole, copy, capsys):
    expected, damaged = contents(whole), {}
    for number, name in enumerate(SHARDS):
        path, content = copy / name, bytearray(expected[name])
        if number == 0:
            path.write_bytes(content[: len(content) // 2])
        elif number == 1:
            path.write_bytes(b"")
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
        fault = {2: "holds other rows than it should", 3: "holds other columns than it should"}.get(
            number, "is damaged"
        )
        kept = Path(name).with_name(f".{Path(name).name}.1.aside")
        assert f"{copy / name} {fault}" in printed
        assert f"its rows are computed again, and it is kept as {kept.name}" in printed
        assert files.pop(str(kept)) == damaged[name]
    assert f"{unknown} is not of this run; it is kept as .{unknown.name}.1.aside" in printed
    assert files.pop(f"{REPLIES}/.{unknown.name}.1.aside") == expected[SHARDS[0]]
    assert files == expected


def test_shards_of_another_run_are_kept_aside_named_and_made_again(options, whole, copy, tmp_path, capsys):
    """Of the same prompts, the same columns and the same ids: all that could be mistaken for this run's."""
    expected, other = contents(whole), tmp_path / "other"
    run([*options, "--top_p", "0.8"], other)
    foreign = contents(other)
    for name in SHARDS:
        (copy / name).write_bytes(foreign[name])
        assert foreign[name] != expected[name]
    run(options, copy)
    printed = capsys.readouterr().out
    files = contents(copy)
    for name in SHARDS:
        assert f"{copy / name} is of another run; its rows are computed again" in printed
        assert files.pop(str(Path(name).with_name(f".{Path(name).name}.1.aside"))) == foreign[name]
    assert files == expected


def test_a_finished_run_with_files_of_another_is_not_read(whole, copy):
    assert read_stored_replies(copy) is not None
    for name, read in (
        (PROMPTS_FILE, lambda: read_prompts(copy)),
        (f"{REPLIES}/00000-of-00001.parquet", lambda: read_stored_replies(copy)),
        (f"{STYLES}/00000-of-00001.parquet", lambda: StyleShards(copy / STYLES)),
    ):
        table = pq.read_table(copy / name)
        pq.write_table(table.replace_schema_metadata({SHARD_RUN: b"0" * 64}), copy / name)
        with pytest.raises(ValueError, match="is of another run than the one that is recorded beside it"):
            read()
        pq.write_table(table.replace_schema_metadata(None), copy / name)  # as those of earlier releases
        read()


def test_what_follows_from_shards_is_computed_again_from_them(options, whole, copy, monkeypatch):
    monkeypatch.setattr(measure, "_report_so_far", pytest.fail)  # the report of all of it is there
    for name in (STYLE_MEANS_FILE, BIAS_VALUES_FILE, PROMPTS_FILE):
        (copy / name).write_bytes(b"of somebody else")
    run(options, copy)
    assert contents(copy) == contents(whole)


def test_a_run_of_an_earlier_layout_is_named_and_left_alone(options, copy):
    record = json.loads((copy / RUN_FILE).read_text())
    del record["layout"]
    write_text(copy / RUN_FILE, json.dumps(record))
    before = contents(copy)
    message = refusal(options, copy)
    assert message.startswith(f"'{copy}' holds a run of another release, with another layout of its files (layout")
    assert "measure again in a new folder, or use the release of that run: " in message
    assert contents(copy) == before


def test_rows_are_of_the_texts_they_were_made_from(tmp_path, capsys):
    """Of the styles of a reply, say, that is another one by now."""
    ids = ["a", "b", "c", "d"]
    parts = plan_row_shards(4, 2, tmp_path)
    calls = []

    def fill_from(inputs):
        calls.clear()

        def compute(mine, advance):
            for index in mine:
                calls.append(index)
                rows = parts[index].rows
                numbers = [float(len(inputs[row])) for row in rows]
                yield pa.table(
                    {"id": [ids[row] for row in rows], "words": [None] * 2, "number": numbers}, schema=SCHEMA
                )

        arguments = {"label": "test", "unit": "row", "inputs": inputs, "progress": False}
        return fill_shards(parts, ids, SCHEMA, compute, **arguments)["number"].to_pylist()

    assert fill_from(["one", "seven", "two", "four"]) == [3, 5, 3, 4]
    assert fill_from(["one", "seven", "two", "four"]) == [3, 5, 3, 4]
    assert not calls
    assert fill_from(["one", "seven", "two", "eleven"]) == [3, 5, 3, 6]
    assert calls == [1]
    assert f"{parts[1].path} was made from other texts than are there now; its rows" in capsys.readouterr().out
    assert [path.name for path in tmp_path.glob(".*.aside")] == [f".{parts[1].path.name}.1.aside"]
    write_text(tmp_path / RUN_FILE, '{"settings": 1}')
    assert fill_from(["one", "seven", "two", "eleven"]) == [3, 5, 3, 6]
    assert calls == [0, 1]
    write_text(tmp_path / RUN_FILE, '{ "settings":1 }')
    fill_from(["one", "seven", "two", "eleven"])
    assert not calls


STEPS = [pytest.param(17, id="some"), pytest.param(1, id="all", marks=pytest.mark.long)]


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


def fill(parts, ids, table):
    def compute(mine, advance):
        for index in mine:
            yield table.take(pa.array(parts[index].rows))

    return fill_shards(parts, ids, SCHEMA, compute, label="test", unit="row", progress=False)


def test_what_is_kept_aside_is_not_overwritten_by_the_next(tmp_path):
    ids = ["a", "b"]
    table = pa.table({"id": ids, "words": [[], None], "number": [1.0, 2.0]}, schema=SCHEMA)
    parts = plan_row_shards(2, 2, tmp_path)
    for content in (b"first", b"second"):
        parts[0].path.write_bytes(content)
        assert fill(parts, ids, table).equals(table)
    kept = [tmp_path / f".{parts[0].path.name}.{number}.aside" for number in (1, 2)]
    assert [path.read_bytes() for path in kept] == [b"first", b"second"]
    assert pq.read_table(tmp_path).num_rows == 2  # what reads folders does not see them


def test_a_shard_that_may_not_be_read_is_not_taken_for_damaged(tmp_path, monkeypatch):
    parts = [Shard(np.array([0]), tmp_path / "00000-of-00001.parquet")]
    parts[0].path.write_bytes(b"mine")

    def denied(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(shards, "_read", denied)  # root may read everything
    with pytest.raises(PermissionError):
        fill(parts, ["a"], None)
    assert contents(tmp_path) == {parts[0].path.name: b"mine"}


def test_what_waits_to_be_computed_is_dropped_when_a_write_fails(tmp_path, monkeypatch):
    """Else the process would go on computing before it ends, since threads are waited for."""
    parts = plan_row_shards(3, 1, tmp_path)
    ended = []

    def compute(mine, advance):
        try:
            for index in mine:
                yield pa.table({"id": [str(index)], "words": [None], "number": [0.5]}, schema=SCHEMA)
        finally:
            ended.append(True)

    def full(scratch, target):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(OSError, match="No space left") as error:
        fill_shards(parts, ["0", "1", "2"], SCHEMA, compute, label="test", unit="row", progress=False)
    assert ended == [True]
    assert error.value.filename == str(parts[0].path)


def test_a_disk_that_says_late_that_it_is_full_changes_no_file(tmp_path, monkeypatch):
    """As network file systems do, when what was written leaves this machine."""
    path = tmp_path / "file.txt"
    path.write_text("old")

    def full(_):
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="quota") as error:
        write_text(path, "new")
    assert error.value.filename == str(path)
    assert contents(tmp_path) == {"file.txt": b"old"}


def test_a_run_of_another_version_is_named_and_left_alone(options, whole, copy):
    record = json.loads((copy / RUN_FILE).read_text())
    record["versions"]["torch"] = "1.0"
    write_text(copy / RUN_FILE, json.dumps(record))
    before = contents(copy)
    message = refusal(options, copy)
    assert f"output_dir '{copy}' holds a run with other settings:\n  versions.torch is '1.0' there and '" in message
    assert contents(copy) == before


def test_a_folder_that_is_no_run_is_left_alone(options, tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    assert (
        refusal(options, tmp_path)
        == f"output_dir '{tmp_path}' has files in it and no {RUN_FILE}; pass an empty or a new folder"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_in_use_is_refused_until_its_process_is_gone_however_it_ends(options, whole, copy):
    (copy / RESULTS_FILE).unlink()
    before = contents(copy)
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(copy)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert holder.stdout.readline() == "held\n"
    assert f"output_dir '{copy}' is in use by a run" in refusal(options, copy)
    assert contents(copy) == before
    with pytest.raises(ValueError, match="is in use by a run"), hold_folder(copy):
        pass
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    run(options, copy)
    assert contents(copy) == contents(whole)


def test_a_finished_run_is_read_while_another_process_holds_it(copy):
    with hold_folder(copy):
        assert read_run(copy).results["run"]["model"]["kind"] == "causal"


def test_a_file_system_without_locks_is_said_and_used(tmp_path, monkeypatch, capsys):
    fcntl = pytest.importorskip("fcntl")

    def refuse(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with hold_folder(tmp_path / "run"):
        assert capsys.readouterr().out.startswith(f"the file system of '{tmp_path / 'run'}' has no locks")


def test_only_our_own_leftovers_are_cleared_away(tmp_path):
    for name in (".run.json.123.tmp", "replies/.00000-of-00001.parquet.4.tmp"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    kept = {"notes.tmp", ".swap.tmp", ".12.tmp", "results.json.123.tmp", ".00000-of-00001.parquet.1.aside"}
    for name in kept:
        (tmp_path / name).touch()
    remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.rglob("*") if path.is_file()} == kept
