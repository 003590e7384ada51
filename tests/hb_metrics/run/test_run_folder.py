import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hb_dataset.whole_files import write_atomically
from hb_metrics.run.record import Record
from hb_metrics.run.run_folder import LAYOUT, RUN_FILE, open_run, read_json, write_json, write_once
from hb_metrics.run.tables import Tables

RUN = {
    "layout": {"version": LAYOUT},
    "settings": {"model": "gpt2", "alpha": 0.05, "revision": None, "include_gendered": True},
    "data": {"digest": "00ff", "num_prompts": 12},
}


@pytest.fixture
def used(tmp_path):
    """The folder of a run that was started."""
    folder = tmp_path / "run"
    open_run(folder, RUN)
    return folder


def content(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_write_that_fails_leaves_everything_as_it_was(tmp_path, failure):
    path = tmp_path / "file.txt"
    path.write_text("old")
    untouched = content(tmp_path)

    def write_half(scratch):
        scratch.write_text("half a file")
        raise failure

    with pytest.raises(type(failure)):
        write_atomically(path, write_half)
    assert content(tmp_path) == untouched


DAMAGED = (b"", b"\xff\xfe", b"[]", b'{"settings": {"mod', b'{"a": {"b": 1, "b": 1}}', b'{"a":' * 100_000)


@pytest.mark.parametrize("wrong", DAMAGED, ids=range(len(DAMAGED)))
def test_an_unreadable_run_file_is_named_and_kept(used, wrong):
    (used / RUN_FILE).write_bytes(wrong)

    with pytest.raises(ValueError, match=re.escape(f"'{used / RUN_FILE}' ")):
        open_run(used, RUN)
    assert content(used) == {RUN_FILE: wrong}


def test_a_run_starts_in_a_new_or_empty_folder(tmp_path):
    open_run(tmp_path / "runs" / "gpt2", RUN)
    assert read_json(tmp_path / "runs" / "gpt2" / RUN_FILE) == RUN
    (tmp_path / "runs" / ".hidden").touch()
    with pytest.raises(ValueError, match="contains files"):
        open_run(tmp_path / "runs", RUN)
    assert [path.name for path in (tmp_path / "runs" / "gpt2").iterdir()] == [RUN_FILE]
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "file.json", {"deep": [{"down": float("nan")}]})


def test_a_folder_that_cannot_be_is_named_and_nothing_is_made(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for name, existing in (("file", "file"), ("file/run", "file"), ("link", "link"), ("link/run", "link")):
        with pytest.raises(ValueError, match=f"'{tmp_path / existing}' is not a folder to which you can write"):
            open_run(tmp_path / name, RUN)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link"]


OTHER_RUNS = [
    ({"data": {**RUN["data"], "seed": 7}}, ["data.seed is not recorded there and 7 here"]),
    (
        {"settings": {**RUN["settings"], "model": "bert"}, "data": {"digest": "11"}},
        [
            "settings.model is 'gpt2' there and 'bert' here",
            "data.digest is '00ff' there and '11' here",
            "data.num_prompts is 12 there and not recorded here",
        ],
    ),
]


@pytest.mark.parametrize(("changes", "differences"), OTHER_RUNS)
def test_each_setting_that_differs_is_named(used, changes, differences):
    before = content(used)
    with pytest.raises(ValueError, match="contains a run with other settings") as error:
        open_run(used, {**RUN, **changes})
    assert str(error.value).splitlines()[1:-1] == [f"  {difference}" for difference in differences]
    assert content(used) == before


@pytest.mark.parametrize("earlier", [{}, {"layout": {"version": 1}}, {"layout": {"version": LAYOUT + 1}}])
def test_a_run_of_another_layout_is_named_and_left_alone(tmp_path, earlier):
    record = {**{name: value for name, value in RUN.items() if name != "layout"}, **earlier}
    write_json(tmp_path / RUN_FILE, {**record, "versions": {"holistic-bias": "0.0.9"}})
    before = content(tmp_path)

    layout = earlier.get("layout", {"version": 1})["version"]
    with pytest.raises(ValueError, match=rf"layout {layout}, but .* only the layout {LAYOUT}; .*: 0\.0\.9$"):
        open_run(tmp_path, RUN)
    assert content(tmp_path) == before


def test_a_section_that_a_record_lacks_is_named():
    with pytest.raises(ValueError, match=r"run\.json has no section 'generation'.*measure again"):
        Record({}).generation  # noqa: B018
    with pytest.raises(AttributeError):
        Record({}).nothing  # noqa: B018


def changed_page(content):
    return content[:40] + bytes([content[40] ^ 1]) + content[41:]


def changed_footer(content):
    """A footer whose metadata cannot be parsed, for which pyarrow raises OSError."""
    return content[:-30] + bytes(byte ^ 255 for byte in content[-30:-8]) + content[-8:]


@pytest.mark.parametrize("damage", [None, lambda _: b"", lambda _: b"PAR1 and no more", changed_page, changed_footer])
def test_a_table_is_made_once_unless_it_is_damaged(damage, used):
    path, made = used / "leakage" / "moves.parquet", []

    def make():
        made.append(1)
        return pa.table({"move": [0.5]})

    write_once(path, make)
    if damage is not None:
        path.write_bytes(damage(path.read_bytes()))
        with pytest.raises(ValueError, match=r"damaged.*run the same `measure` command again"):
            Tables(used).read("leakage/moves.parquet")
    write_once(path, make)
    assert len(made) == (1 if damage is None else 2)
    assert pq.read_table(path)["move"].to_pylist() == [0.5]
