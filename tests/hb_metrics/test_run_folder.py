import json
import re
from importlib.metadata import version

import pytest

from hb_dataset.whole_files import write_atomically, write_text
from hb_metrics.run_folder import (
    NOT_A_RUN_ERROR,
    OTHER_SETTINGS_ERROR,
    RUN_FILE,
    open_run,
    package_versions,
    read_json,
    write_json,
)

RUN = {
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


@pytest.mark.parametrize("before", [None, "old"])
@pytest.mark.parametrize("failure", [OSError("disk full"), KeyboardInterrupt()], ids=["error", "interrupt"])
def test_a_write_that_fails_leaves_everything_as_it_was(tmp_path, before, failure):
    path = tmp_path / "file.txt"
    if before is not None:
        path.write_text(before)
    untouched = content(tmp_path)

    def write_half(scratch):
        scratch.write_text("half a file")
        raise failure

    with pytest.raises(type(failure)):
        write_atomically(path, write_half)
    assert content(tmp_path) == untouched


def test_a_write_that_fails_before_it_makes_a_file_tells_its_own_error(tmp_path):
    with pytest.raises(ZeroDivisionError):
        write_atomically(tmp_path / "file.txt", lambda scratch: 1 / 0)


def test_a_file_is_replaced_only_when_the_new_one_is_whole(tmp_path):
    path = tmp_path / "file.txt"
    path.write_text("old")
    seen = []

    def write(scratch):
        for part in ("new", "est"):
            with scratch.open("a") as file:
                file.write(part)
            seen.append(path.read_text())
        assert scratch.parent == path.parent  # a rename is atomic within a file system only

    write_atomically(path, write)

    assert seen == ["old", "old"]
    assert content(tmp_path) == {"file.txt": b"newest"}


def test_text_is_utf_8(tmp_path):
    write_text(tmp_path / "file.txt", "“naïve”\n")

    assert content(tmp_path) == {"file.txt": "“naïve”\n".encode()}


def test_json_comes_back_as_it_was_written(tmp_path):
    written = {"“é”": [1, 0.1, None, True, {"a": 1e-300}], "": "\u2028"}
    write_json(tmp_path / "file.json", written)

    assert read_json(tmp_path / "file.json") == written


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_numbers_that_json_does_not_have_are_refused(tmp_path, value):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "file.json", {"deep": [{"down": value}]})
    assert content(tmp_path) == {}


@pytest.mark.parametrize("wrong", [b"", b'{"settings": {"mod', b"\xff\xfe"], ids=["empty", "cut off", "not UTF-8"])
def test_an_unreadable_run_file_is_named_and_kept(used, wrong):
    (used / RUN_FILE).write_bytes(wrong)

    with pytest.raises(ValueError, match=re.escape(f"'{used / RUN_FILE}' cannot be read")):
        open_run(used, RUN)
    assert content(used) == {RUN_FILE: wrong}


@pytest.mark.parametrize("wrong", ["[]", "null", "3"])
def test_a_run_file_that_holds_no_run_is_named_and_kept(used, wrong):
    (used / RUN_FILE).write_text(wrong)

    with pytest.raises(ValueError, match=re.escape(str(used))):
        open_run(used, RUN)
    assert content(used) == {RUN_FILE: wrong.encode()}


def test_a_new_folder_is_made_with_its_parents(tmp_path):
    folder = tmp_path / "runs" / "gpt2"

    assert open_run(folder, RUN) is False
    assert content(folder).keys() == {RUN_FILE}
    assert json.loads((folder / RUN_FILE).read_text()) == RUN


def test_an_empty_folder_is_taken_even_if_it_has_hidden_files(tmp_path):
    (tmp_path / ".hidden").touch()

    assert open_run(tmp_path, RUN) is False
    assert read_json(tmp_path / RUN_FILE) == RUN


def test_the_same_run_goes_on_and_nothing_changes(used):
    (used / "results.json").write_text("{}")
    before = content(used)

    assert open_run(used, RUN) is True
    assert content(used) == before


OTHER_RUNS = {
    "changed": ({"settings": {**RUN["settings"], "alpha": 0.1}}, ["settings.alpha is 0.05 there and 0.1 here"]),
    "no longer null": (
        {"settings": {**RUN["settings"], "revision": "main"}},
        ["settings.revision is None there and 'main' here"],
    ),
    "switched": (
        {"settings": {**RUN["settings"], "include_gendered": False}},
        ["settings.include_gendered is True there and False here"],
    ),
    "added": ({"data": {**RUN["data"], "seed": 7}}, ["data.seed is not recorded there and 7 here"]),
    "removed": ({"data": {"digest": "00ff"}}, ["data.num_prompts is 12 there and not recorded here"]),
    "several": (
        {"settings": {**RUN["settings"], "model": "bert"}, "data": {"digest": "11", "num_prompts": 13}},
        [
            "settings.model is 'gpt2' there and 'bert' here",
            "data.digest is '00ff' there and '11' here",
            "data.num_prompts is 12 there and 13 here",
        ],
    ),
    "new section": ({"scoring": {"path": "tree"}}, ["scoring.path is not recorded there and 'tree' here"]),
}


@pytest.mark.parametrize(("changes", "differences"), OTHER_RUNS.values(), ids=OTHER_RUNS)
def test_a_run_with_other_settings_is_told_each_of_them(used, changes, differences):
    before = content(used)

    with pytest.raises(ValueError, match="holds a run with other settings") as error:
        open_run(used, {**RUN, **changes})
    lines = "\n".join(f"  {difference}" for difference in differences)
    assert str(error.value) == OTHER_SETTINGS_ERROR.format(folder=used, differences=lines)
    assert content(used) == before


def test_a_folder_with_other_files_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")

    with pytest.raises(ValueError, match="has files in it") as error:
        open_run(tmp_path, RUN)
    assert str(error.value) == NOT_A_RUN_ERROR.format(folder=tmp_path, file=RUN_FILE)
    assert content(tmp_path) == {"thesis.tex": b"mine"}


def test_the_releases_that_can_move_a_number_are_recorded():
    found = package_versions()

    assert {name: found[name] for name in ("torch", "scipy")} == {name: version(name) for name in ("torch", "scipy")}
