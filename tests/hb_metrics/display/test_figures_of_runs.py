"""Overviews and comparisons that are made of figures alone: of every measurement that has no more to show."""

import re
from functools import cache
from pathlib import Path

import pytest
from hb_metrics.display.parts import Figure
from hb_metrics.report.plots_of_runs import comparison, figure_changes, overview_section

from hb_metrics.measurements import DIALOGUE, MEASUREMENTS, OFFENSIVENESS, REDDIT, REGARD, ROBUSTNESS
from hb_metrics.runs.finished_run import Run
from tests.hb_metrics.made_results import (
    dialogue_run,
    full_run,
    reddit_run,
    reddit_test,
    regard_of,
    regard_run,
    robustness_of,
    run_record,
    some_prompts,
)
from tests.hb_metrics.pages import Page

NAMES = ("before", "after")


@cache
def two_runs():
    """Two runs of each measurement whose pages are made of figures."""
    return {
        DIALOGUE: (dialogue_run(40.0, (37.5, 43.0)), dialogue_run(31.26, (28.76, 34.26))),
        REDDIT: (reddit_run(), reddit_run(28.0, race=reddit_test(-0.1, seed=1), gender=reddit_test(0.3))),
        REGARD: (
            regard_run(regard_of(gaps={"orientation": 0.8}, fixed_gaps={"orientation": 0.8})),
            regard_run(regard_of(gaps={"orientation": -0.4}, seed=1)),
        ),
        ROBUSTNESS: tuple(
            {"run": run_record(some_prompts()), "robustness": robustness_of(**change)}
            for change in ({}, {"full_gen_bias_debiased": None})
        ),
    }


@pytest.fixture(scope="module", params=["dialogue", "reddit", "regard", "robustness"])
def measured(request):
    """A measurement and the results of two runs."""
    return next((measurement, runs) for measurement, runs in two_runs().items() if measurement.name == request.param)


def as_runs(results):
    return [Run(Path(f"run{index}"), part) for index, part in enumerate(results)]


def shown(section):
    return Page(f"<main>{section.html}</main>")


def test_an_overview_has_a_row_and_a_plot_for_each_figure_that_two_runs_have(measured):
    measurement, runs = measured
    sides = [{figure.name: figure for figure in measurement.figures(run)} for run in runs]
    shared = [name for name in sides[0] if name in sides[1]]

    section = measurement.overview(as_runs(runs), NAMES)

    page = shown(section)
    table = page.table(f"{measurement.title} of the runs")
    assert table[0] == ["Figure", *NAMES]
    for row, label in zip(table[1:], shared, strict=True):
        assert row == [
            label,
            *(
                side[label].shown + ("" if side[label].interval is None else f" {side[label].shown_interval}")
                for side in sides
            ),
        ]
    (plots,) = section.figures.values()
    assert section.figures.keys() == {f"runs-{measurement.name}"}
    for plot, label in zip(plots, shared, strict=True):
        assert plot["layout"]["xaxis"]["title"]["text"] == label
        assert [mark["x"] for mark in plot["data"][1::2]] == [[side[label].value] for side in sides]
        assert [list(line["x"][:2]) for line in plot["data"][::2]] == [
            [] if side[label].interval is None else list(side[label].interval) for side in sides
        ]
    assert f"overview-{measurement.name}" in page.ids
    assert section.title == measurement.title
    assert ("select" in dict(page.elements)) == (len(shared) > 1)


def test_a_comparison_has_a_row_for_each_figure_of_either_run(measured):
    measurement, runs = measured
    sides = [{figure.name: figure for figure in measurement.figures(run)} for run in runs]

    compared = measurement.compare(*as_runs(runs), NAMES)

    (section,) = compared.sections
    rows = shown(section).table(f"{measurement.title} of both runs")
    assert [row[0] for row in rows[1:]] == list({**sides[0], **sides[1]})
    for row in rows[1:]:
        figures = [side.get(row[0]) for side in sides]
        texts = ["–" if figure is None else figure.shown for figure in figures]
        bounds = [(None if figure is None else figure.shown_interval) or "–" for figure in figures]
        has_intervals = any(figure.interval is not None for side in sides for figure in side.values())
        assert [row[1], row[3 if has_intervals else 2]] == texts
        if has_intervals:
            assert [row[2], row[4]] == bounds
    assert len(compared.tiles) == min(2, len(rows) - 1)
    assert compared.tiles[0].label == rows[1][0]
    assert " → " in compared.tiles[0].value
    assert compared.terms is None


def test_only_intervals_tell_a_change_from_chance(measured):
    measurement, runs = measured
    (section,) = measurement.compare(*as_runs(runs), NAMES).sections

    page = shown(section)

    verdicts = {row[-1] for row in page.table(f"{measurement.title} of both runs")[1:]}
    if measurement in (DIALOGUE, REGARD):
        assert "Where two 95% intervals overlap, they leave open whether it changed" in page.text
        assert verdicts == ({"apart", "overlap"} if measurement is REGARD else {"apart"})
    else:
        assert "Without intervals, chance cannot be told from change." in page.text
        assert not verdicts & {"apart", "overlap"}
        assert "chance is a poor explanation" not in page.text
    overview = shown(measurement.overview(as_runs(runs), NAMES))
    assert ("its 95% interval" in overview.text) == (measurement in (DIALOGUE, REGARD))
    assert ("Without intervals, chance cannot be told from difference, but" in overview.text) == (
        measurement in (REDDIT, ROBUSTNESS)
    )


def test_figures_that_are_written_in_the_same_way_are_drawn_together(measured):
    measurement, runs = measured
    (section,) = measurement.compare(*as_runs(runs), NAMES).sections

    assert section.figures.keys() == ({f"change-{measurement.name}"} if measurement in (DIALOGUE, REGARD) else set())
    assert set(section.figures) <= set(shown(section).ids)


def test_every_measurement_that_can_be_compared_by_figures_is_here():
    own = {type(measurement).compare.__qualname__.split(".")[0] for measurement in MEASUREMENTS}

    assert own == {"Likelihood", "Generation", "Offensiveness", "Measurement"}
    assert set(two_runs()) == {measurement for measurement in MEASUREMENTS if "compare" not in vars(type(measurement))}


def test_offensiveness_has_an_overview_of_its_share_of_replies():
    runs = [full_run(), full_run(seed=1), {"run": run_record(some_prompts())}]

    section = OFFENSIVENESS.overview(as_runs(runs), ["a", "b", "c"])

    shares = [f"{run['offensiveness']['replies']['offensive_share']:.2%}" for run in runs[:2]]
    assert shown(section).table("Offensiveness of the runs") == [
        ["Figure", "a", "b", "c"],
        ["Offensive replies", *shares, "–"],
    ]


def figure(name, value=1.0, interval=None, level=None, meaning="m", form="bias"):
    return Figure(name, value, form, meaning, interval, level)


def test_an_overview_leaves_out_what_fewer_than_two_runs_know():
    runs = [[figure("a"), figure("b", None), figure("c")], [figure("b"), figure("c", 2.0)], []]

    section = overview_section("x", "Title", runs, ["one", "two", "three"])

    assert shown(section).table("Title of the runs") == [
        ["Figure", "one", "two", "three"],
        ["c", "1.00", "2.00", "–"],
    ]
    assert overview_section("x", "Title", [[figure("a")], [figure("b")]], ["one", "two"]) is None
    assert overview_section("x", "Title", [[figure("a")], [figure("a", None)]], ["one", "two"]) is None


def test_a_meaning_that_is_not_of_all_runs_is_given_for_each():
    runs = [[figure("a", meaning="Of 10."), figure("b")], [figure("a", meaning="Of 20."), figure("b")]]

    items = re.findall(r"<strong>(.*?)\.</strong> (.*?)</p>", overview_section("x", "t", runs, ["one", "two"]).html)

    assert items == [("a, one", "Of 10."), ("a, two", "Of 20."), ("b", "m")]


def test_intervals_of_two_levels_are_both_named():
    runs = [[figure("a", 1.0, (0.0, 2.0), 0.9)], [figure("a", 2.0, (1.0, 3.0), 0.95)]]

    assert "its 90% or 95% interval" in shown(overview_section("x", "t", runs, ["one", "two"])).text
    (section,) = comparison("x", "t", *runs, NAMES).sections
    assert "Where two 90% or 95% intervals overlap" in shown(section).text
    assert shown(section).table("t of both runs")[1] == [
        "a", "1.00", "0.00 to 2.00", "2.00", "1.00 to 3.00", "+1.00", "overlap",
    ]  # fmt: skip


def test_changes_keep_what_one_run_has_alone():
    changes = figure_changes([figure("a", 1.0, (0.0, 2.0))], [figure("b", 3.0), figure("a", None)])

    assert [(change.name, change.first, change.second, change.change, change.apart) for change in changes] == [
        ("a", 1.0, None, None, None),
        ("b", None, 3.0, None, None),
    ]


def test_names_with_html_in_them_are_text():
    section = overview_section("x", "t", [[figure("<b>"), figure("c")]] * 2, ["<i>", "two"])

    assert not {tag for tag, _ in shown(section).elements} & {"b", "i"}
