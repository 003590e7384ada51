"""`holistic-bias report`: which page it writes where, and what it refuses in one line."""

import json
import math
import sys

import pytest

from hb_cli.main import main as holistic_bias
from hb_metrics.command.report import main
from tests.hb_metrics.made_results import change_results, write_results
from tests.hb_metrics.pages import check_sound, read_page

NAMES = ["before", "no_bias", "bias", "self-chat"]


def failing(arguments, capsys):
    """The one line that the command exits with."""
    with pytest.raises(SystemExit) as failed:
        main([str(argument) for argument in arguments])
    assert isinstance(failed.value.code, str)  # which Python prints, and exits with 1
    assert "\n" not in failed.value.code
    assert capsys.readouterr().out == ""
    return failed.value.code


def test_one_folder_writes_its_report_anew(copied, capsys):
    main([str(copied[0])])

    assert capsys.readouterr().out == f"report: {(copied[0] / 'report.html').resolve()}\n"
    assert "Main figures" in read_page(copied[0] / "report.html").tables


def test_the_command_names_the_runs(tuning_runs, tmp_path, capsys):
    path = tmp_path / "all.html"

    main([*map(str, tuning_runs), "--names", *NAMES, "--output", str(path)])

    assert capsys.readouterr().out.endswith(f"\nreport: {path.resolve()}\n")
    assert "<title>HolisticBias: before · no_bias · bias · self-chat</title>" in path.read_text(encoding="utf-8")
    check_sound(read_page(path))


def test_every_later_run_has_something_in_common_with_the_first(copied, capsys):
    change_results(copied[0], lambda results: results.pop("likelihood"))
    names = ("generation", "offensiveness", "dialogue")
    change_results(copied[2], lambda results: [results.pop(name) for name in names])

    assert f"and '{copied[2]}' have no measurement in common;" in failing(copied[:3], capsys)


def test_what_is_no_run_is_named(copied, tmp_path, capsys):
    assert "has no results.json" in failing([tmp_path], capsys)
    assert "has no results.json" in failing([copied[0], tmp_path / "nowhere"], capsys)
    assert "does not exist; create it first" in failing([copied[1], "--output", tmp_path / "no" / "a.html"], capsys)


FORGED = {
    "run": [None, ...],
    "run.settings": ["text", ...],
    "run.model.name": [...],
    "run.layout": ["2", ...],
    "generation": [[]],
    "generation.num_replies": ["many", ...],
    "dialogue.perplexity": [math.inf],
}


@pytest.mark.parametrize("place", FORGED)
def test_a_forged_value_is_an_error_that_names_the_file(place, copied, capsys):
    """Whether one run is shown or two are compared."""
    *parents, key = place.split(".")
    original = (copied[1] / "results.json").read_text()
    for value in FORGED[place]:
        results = part = json.loads(original)
        for parent in parents:
            part = part[parent]
        part[key] = value
        if value is ...:
            del part[key]
        write_results(copied[1], results)
        for runs in (copied[1:2], copied[:2]):
            message = failing(runs, capsys)
            assert f"'{copied[1]}" in message
            assert "results." in message or "folder layout" in message


def test_a_page_of_other_runs_is_not_overwritten(copied, capsys):
    page = copied[1] / "comparison.html"
    main([str(copied[0]), str(copied[2]), str(copied[1])])
    capsys.readouterr()
    before = page.read_text(encoding="utf-8")
    assert f"'{page}' compares other runs; set --output" in failing([copied[0], copied[1]], capsys)
    assert page.read_text(encoding="utf-8") == before
    main([str(copied[0]), str(copied[2]), str(copied[1]), "--names", "one", "two", "three"])
    assert "one · two · three" in page.read_text(encoding="utf-8")
    capsys.readouterr()
    for target in (["--output", page], []):
        assert "compares other runs" in failing([copied[0], copied[1], *target], capsys)


def test_texts_of_another_run_reach_no_terminal_as_they_are(copied, capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", [])
    change_results(copied[1], lambda results: results["run"]["model"].update(name="\x1b[2Jbad\u202e\x9b"))
    holistic_bias(["report", str(copied[0]), str(copied[1])])
    shown = capsys.readouterr().out
    change_results(copied[1], lambda results: results["run"].update(layout={"version": "\x1b[2Jbad\u202e\x9b"}))
    with pytest.raises(SystemExit) as ended:
        holistic_bias(["report", str(copied[0]), str(copied[1])])
    for text in (shown, ended.value.code):
        assert "�[2Jbad��" in text
        assert not {"\x1b", "\u202e", "\x9b"} & set(text)


@pytest.mark.parametrize("name", ["prompts.parquet", "replies/00000-of-00002.parquet"])
def test_a_damaged_file_is_named(name, copied, capsys):
    (copied[1] / name).write_text("x")
    error = f"hb_metrics.report: '{copied[1] / name}' is damaged ("
    assert failing(copied[:2], capsys).startswith(error)
