"""Runs side by side: any that have a measurement in common, what differs, and the first two in detail."""

import re
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest

from hb_dataset.markdown_table import escape_markdown
from hb_metrics.measurements import GENERATION, MEASUREMENTS
from hb_metrics.measurements.results import Run
from hb_metrics.report.compared_runs import comparison_warnings, differing_settings, run_names
from hb_metrics.report.comparison import write_comparison
from hb_metrics.report.markdown import overview_markdown
from hb_metrics.report.sides import READING
from hb_metrics.run.tables import Tables
from tests.hb_metrics.made_results import (
    add_decisions,
    change_results,
    forget_debiased,
    full_run,
    loaded,
    read_results,
    reddit_run,
    reddit_test,
    regard_of,
    regard_run,
    whole_run,
    write_results,
    write_run,
)
from tests.hb_metrics.pages import check_sound, read_page

NAMES = ["before", "no_bias", "bias", "self-chat"]
ALONE = {
    "reddit": lambda side: (reddit_run(), reddit_run(28.0, race=reddit_test(-0.1), gender=reddit_test(0.3)))[side],
    "regard": lambda side: regard_run(regard_of(gaps={"orientation": (0.8, -0.4)[side]}, num_structures=6)),
    "offensiveness": lambda side: {k: v for k, v in full_run(seed=side).items() if k in ("run", "offensiveness")},
}


def compared(folders, folder, names=None, **more):
    write_comparison(folders, folder / "comparison.html", names, **more)
    page = read_page(folder / "comparison.html")
    check_sound(page)
    return page


@pytest.mark.parametrize("name", ALONE)
def test_two_runs_of_one_measurement_can_be_compared(name, tmp_path):
    runs = [ALONE[name](side) for side in (0, 1)]
    folders = [write_results(tmp_path / side, run) for side, run in zip("ab", runs, strict=True)]
    (measurement,) = (known for known in MEASUREMENTS if known.name == name)

    page = compared(folders, tmp_path, ["one", "two"])

    assert page.links == {"main", "overview", "changes", "settings", "reading"}
    assert page.terms() is None
    shown = {row[0]: row[1:] for tables in page.tables.values() for table in tables for row in table if row}
    figures = [{figure.name: figure for figure in measurement.parts.figures(loaded(run))} for run in runs]
    for figure in figures[0].values():
        other = figures[1][figure.name]
        if figure.value is not None and other.value is not None:
            assert [" ".join(cell.split()) for cell in shown[figure.name][:2]] == [figure.shown, other.shown]


def test_the_overview_has_every_figure_of_every_run(tuning_runs, tmp_path):
    page = compared(tuning_runs, tmp_path, NAMES)
    shown = [id.partition("-")[2] for id in page.ids if id.startswith("overview-")]
    assert shown == ["likelihood", "generation", "offensiveness", "dialogue"]
    assert page.table("Dialogue perplexity of the runs") == [
        ["Figure", *NAMES],
        ["Dialogue perplexity", "40.0 37.5 to 43.0", "31.3 28.8 to 34.3", "30.0 27.5 to 33.0", "–"],
    ]
    by_axis = {row[0]: row[1:] for row in page.table("Full Gen Bias by axis of the runs")[1:]}
    for column, folder in enumerate(tuning_runs):
        for figure in GENERATION.parts.figures(loaded(read_results(folder))):
            if figure.part_of == "Full Gen Bias by axis":
                bounds = f" {figure.shown_interval}" if figure.interval else ""
                assert by_axis[figure.label][column] == figure.shown + bounds
    assert "Partial Gen Bias by cluster of the runs" in page.tables
    assert "What changes from before to no_bias, bias and self-chat?" in page.text


def test_a_run_without_debiasing_is_compared_by_plain_values(copied, tmp_path):
    change_results(copied[1], forget_debiased)

    page = compared(copied[:2], tmp_path, NAMES[:2])
    text = overview_markdown(copied[:2], NAMES[:2])

    assert "Bias is not compared, because in a template of one of the runs, no term has" in page.words
    assert "Bias is not compared, because" in text
    assert "Bias and side effects" not in page.tables
    rows = {row[0]: row[1:] for row in page.table("Full Gen Bias by axis (plain) of the runs")[1:]}
    for column, folder in enumerate(copied[:2]):
        for figure in GENERATION.parts.figures(loaded(read_results(folder))):
            if figure.part_of == "Full Gen Bias by axis":
                assert rows[figure.label][column] == figure.beside["plain"].shown
    assert "changes have no interval, because in a template of one of the runs, no term has" in page.text
    assert re.search(r"Full Gen Bias, debiased \| [\d.]+ \([^)]+\) \| – \|", text)


def test_warnings_come_first(copied, tmp_path):
    base = full_run()
    write_run(tmp_path / "before", base)
    write_run(tmp_path / "after", base, seed=1, replies_per_cell=9)
    page = compared([tmp_path / "before", tmp_path / "after"], tmp_path)
    assert page.table("Settings that differ")[1:] == [["settings.replies_per_cell", "8", "9"]]
    assert "different numbers of replies" in page.words

    def other(results):
        results["run"]["style_classifier"] |= {"name": "third/classifier", "digest": "99"}
        results["run"]["offensiveness_classifier"]["digest"] = "98"
        results["run"]["data"]["digest"] = "97"
        results["generation"]["refusal_rules"] = "96"

    change_results(copied[3], other)  # a later run is warned of too
    page = compared([*copied[:2], copied[3]], tmp_path)
    kinds = ("different prompts", "different style classifiers", "classified by different classifiers")
    for words in (*kinds, "detected by different rules"):
        assert words in page.text
    assert page.words.index("Read the comparison with care") < page.words.index("Each interval is below its value")

    page = compared([copied[0], copied[0]], tmp_path, ["a", "b"])
    assert "There are no differences: both runs have the same model" in page.words
    assert "Read the comparison with care" not in page.words


PROMPTS = {  # the digest of each measurement's own prompts
    "decisions": ("decisions", "digest"),
    "awareness": ("awareness", "prompts_digest"),
    "dialogue": ("dialogue", "digest"),
    "reddit": ("reddit", "race", "digest"),
    "regard": ("regard", "groups_digest"),
}


def test_figures_of_other_prompts_are_not_comparable():
    assert PROMPTS.keys() == {measurement.name for measurement in MEASUREMENTS if measurement.has_own_prompts}
    for path in (*PROMPTS.values(), ("data", "digest")):
        runs = [whole_run(), whole_run()]
        for run, digest in zip(runs, "ab", strict=True):
            section = reduce(getitem, path[:-1], run["run"])
            section[path[-1]] = digest
        results = [loaded(run) for run in runs]
        (sentence,) = comparison_warnings(differing_settings([run.record for run in results]), results)
        assert re.search("not comparable|may be between different groups", sentence), path


def test_decisions_about_other_questions_are_not_compared(tmp_path):
    for name in "ab":
        results = add_decisions(full_run())
        results["run"]["decisions"]["digest"] = name
        write_run(tmp_path / name, results)
    page = compared([tmp_path / name for name in "ab"], tmp_path, ["a", "b"], no_worse_than=["decision_spread=9pt"])
    assert "asked different questions, so their decisions are not comparable" in page.text
    assert "answers without a decision (0.3% → 0.3%) changed, because the runs have different questions." in page.text
    assert "Not passed: Decision spread" in page.text
    assert "its change has no interval (the runs have different questions)" in page.text


def rows_of(markdown):
    table = markdown.split("\n\n")[0].split("\n")
    return [[cell.strip().replace("\\_", "_") for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


def test_parts_without_an_interval_in_any_run_are_left_out(copied, tmp_path):
    def without(results):
        bias = results["generation"]["gen_bias"]
        bias["intervals"]["partial_gen_bias"]["Hate"] = None
        bias["no_intervals"]["partial_gen_bias"]["Hate"] = "too few replies"

    change_results(copied[0], without)
    rows = compared(copied[:2], tmp_path, NAMES[:2]).table("Partial Gen Bias by cluster of the runs")
    assert "Hate" in [row[0] for row in rows]
    change_results(copied[1], without)
    page = compared(copied[:2], tmp_path, NAMES[:2])
    assert "Hate" not in [row[0] for row in page.table("Partial Gen Bias by cluster of the runs")]
    assert "Parts that have no interval in any run are left out: Partial Gen Bias (Hate)." in page.words


def test_markdown_has_the_main_figures_of_each_run(tuning_runs):
    runs = [read_results(folder) for folder in tuning_runs]
    expected = {}
    for measurement in MEASUREMENTS:
        for column, results in enumerate(runs):
            for figure in measurement.figures(loaded(results)):
                if figure.is_main:
                    bounds = "" if figure.interval is None else f" ({figure.shown_interval})"
                    expected.setdefault(figure.name, ["–"] * 4)[column] = figure.shown + bounds
    text = overview_markdown(tuning_runs, NAMES).partition(escape_markdown(READING))[2].lstrip()

    head, rule, *rows = rows_of(text)

    assert head == ["", *NAMES]
    assert rule == ["---", *["---:"] * 4]
    assert rows == [[label, *cells] for label, cells in expected.items()]
    cells = {row[0]: row[1:] for row in rows}
    assert cells["Dialogue perplexity"] == ["40.0 (37.5 to 43.0)", "31.3 (28.8 to 34.3)", "30.0 (27.5 to 33.0)", "–"]
    notes = text.split("\n\n")[1]
    assert notes.startswith("Brackets contain 95% intervals.")
    assert notes.count("Styles classified by classifier (digest 12).") == 1
    assert "Offensiveness classified by classifier (digest 13); a note." in notes


MODEL = {"digest": None, "kind": None, "dtype": None}
SETTINGS = {"context": "chat", "tag_reason": "as asked"}


def runs_of(*described):
    """Runs of (model, tag, folder)."""
    return [
        Run(
            Tables(Path(folder)),
            loaded({"run": {"model": {**MODEL, "name": model}, "generation": {**SETTINGS, "tag": tag}}}),
        )
        for model, tag, folder in described
    ]


@pytest.mark.parametrize(
    ("described", "names"),
    [
        ([("m", None, "x"), ("n", "bias", "y")], ["m", "n"]),
        (
            [("m", None, "x"), ("n", "no_bias", "y"), ("n", "bias", "z")],
            ["m", "n with tag no_bias", "n with tag bias"],
        ),
        ([("m", None, "r/x"), ("m", None, "r/y")], ["x", "y"]),
        ([("m", None, "r/x"), ("m", None, "s/x")], ["1. x", "2. x"]),
    ],
)
def test_runs_are_named_by_the_first_thing_that_tells_all_of_them_apart(described, names):
    assert run_names(runs_of(*described)) == names


@pytest.mark.parametrize("names", [["one", "two", "three"], ["one"], ["one", "one"], ["one", " "]])
def test_names_that_do_not_tell_runs_apart_are_rejected(names):
    with pytest.raises(ValueError, match="pass a different name for each of the 2 runs"):
        run_names(runs_of(("m", None, "x"), ("n", None, "y")), names)
