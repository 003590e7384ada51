"""Tables to take away: each format has the figures of the runs, and stars stand where adjusted changes are."""

import csv
import io
import json
import re
import shutil
from xml.etree import ElementTree

import pytest

from hb_metrics.command.table import chart, main, table
from hb_metrics.layout.numbers import axis_label
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.results import read_run
from hb_metrics.report.changes import run_changes
from tests.hb_metrics.made_results import change_results, forget_debiased

NAMES = ["one_model", "100% other"]


@pytest.fixture
def runs(made_runs):
    return [read_run(folder) for folder in made_runs]


def main_figures(run):
    listed = [figure for measurement in MEASUREMENTS for figure in measurement.figures(run.results)]
    return {
        figure.name: figure for figure in listed if figure.is_main and not figure.part_of and figure.value is not None
    }


def shown(figure):
    return figure.shown + (f" ({figure.shown_interval})" if figure.interval else "")


def test_all_formats_have_the_same_figures(runs):
    expected = [main_figures(run) for run in runs]
    for found in (json.loads(table(runs, NAMES, "json")), list(csv.DictReader(io.StringIO(table(runs, NAMES, "csv"))))):
        assert [(row["run"], row["figure"], float(row["value"])) for row in found] == [
            (name, figure.name, pytest.approx(figure.value))
            for name, figures in zip(NAMES, expected, strict=True)
            for figure in figures.values()
        ]
    changed = {row.name for row in run_changes(*runs, ("", "")).rows if row.beyond_chance}
    lines = table(runs, NAMES, "md").split("\n\n")[0].split("\n")[2:]
    cells = {name: both for _, name, *both, _ in (re.split(r" ?\| ?", line) for line in lines)}
    for name, figure in expected[0].items():
        other = expected[1].get(name)
        star = "\\*" if name in changed else ""
        assert cells[name] == [shown(figure), "–" if other is None else shown(other) + star]
    assert any(name in cells for name in changed)


def test_a_plain_value_is_not_called_debiased(made_runs, tmp_path):
    copied = [shutil.copytree(folder, tmp_path / folder.name) for folder in made_runs]

    change_results(copied[1], forget_debiased)
    of_runs = [read_run(folder) for folder in copied]
    rows = json.loads(table(of_runs, ["a", "b"], "json", "axis"))
    biases = {row["figure"]: row["value"] for row in rows if row["run"] == "a" and "Full Gen Bias" in row["figure"]}
    plain = of_runs[0].results.generation.gen_bias.by_axis
    assert biases == {f"Full Gen Bias, {axis_label(axis)} (plain)": value for axis, value in plain.items()}


@pytest.mark.parametrize("format", ["md", "latex"])
def test_the_note_states_why_a_figure_has_no_interval(made_runs, tmp_path, format):
    copied = shutil.copytree(made_runs[0], tmp_path / "run")
    change_results(copied, lambda results: results["dialogue"].update(interval=None, no_interval="there are few"))
    text = table([read_run(copied)], ["here"], format)
    assert "Brackets contain 95% intervals. here: No interval for Dialogue perplexity: there are few." in text


def test_latex_has_a_column_for_each_run_and_no_bare_sign(runs):
    lines = table(runs, NAMES, "latex", "axis").split("\n")
    body = [line for line in lines if line.endswith(r" \\")]
    rules = [r"\toprule", r"\midrule", r"\bottomrule"]
    assert [line for line in lines if line.startswith(("\\top", "\\mid", "\\bottom"))] == rules
    assert r"\begin{tabular}{lrr}" in lines
    assert body[0] == r" & one\_model & 100\% other \\"
    assert all(len(re.findall(r"(?<!\\)&", line)) == 2 for line in body)
    assert not any(re.search(r"(?<!\\)[%#_]|−|–", line) for line in body)


def test_a_chart_is_a_file_for_slides(runs):
    assert ElementTree.fromstring(chart(runs, NAMES, "axis")).get("width") == "800"


def test_runs_with_other_prompts_are_not_put_side_by_side_without_a_warning(made_runs, tmp_path, capsys):
    other = shutil.copytree(made_runs[1], tmp_path / "other")
    change_results(other, lambda results: results["run"]["data"].update(digest="another"))
    for folder, warned in ((made_runs[1], False), (other, True)):
        main([str(made_runs[0]), str(folder), "--format", "csv"])
        assert ("different prompts" in " ".join(capsys.readouterr().err.split())) == warned


def test_what_no_run_has_is_an_error(runs, made_runs, capsys):
    with pytest.raises(ValueError, match="no run has figures by 'moon'; pass --by axis"):
        table(runs, NAMES, by="moon")
    with pytest.raises(ValueError, match="has no figures by 'moon'; pass --by axis"):
        chart(runs, NAMES, "moon")
    with pytest.raises(SystemExit):
        main([str(made_runs[0]), "--figure", "axes.pdf"])
    assert "ends in .svg" in capsys.readouterr().err
