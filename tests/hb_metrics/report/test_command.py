"""`python -m hb_metrics.report`: which page it writes where, and what it refuses in one line."""

import json

import pytest

from hb_metrics.report.__main__ import main
from hb_metrics.runs.run_folder import LAYOUT
from tests.hb_metrics.made_results import change_results
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
    assert read_page(copied[0] / "report.html").tiles


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
    for text, error in (
        ("[1]", "contains no JSON object"),
        ("{", "cannot be read"),
        ("[" * 100_000, "cannot be read"),
        (json.dumps({"run": {"layout": {"version": LAYOUT}}}), "the results lack "),
        (json.dumps({"run": {"layout": {"version": LAYOUT}}, "dialogue": {}}), "the results lack 'perplexity';"),
    ):
        (copied[0] / "results.json").write_text(text)
        assert error in failing([copied[0]], capsys)


@pytest.mark.parametrize("name", ["style_means.parquet", "prompts.parquet", "replies/00000-of-00002.parquet"])
def test_a_damaged_file_is_named(name, copied, capsys):
    (copied[1] / name).write_text("x")
    error = f"hb_metrics.report: '{copied[1] / name}' is damaged ("
    assert failing(copied[:2], capsys).startswith(error)
