"""Charts are SVG files: labels that come from data are text, and marks stand where the axis says."""

from itertools import product
from xml.etree import ElementTree

import numpy as np
import pytest

from hb_metrics.layout import numbers
from hb_metrics.layout.figure import (
    PLAIN,
    Figure,
    Number,
    missing_intervals,
    table_notes,
    written,
    written_change,
    written_interval,
)
from hb_metrics.layout.plots import LEFT, Mark, PlotAxis, Row, figures_plot, rows_plot, runs_plot
from hb_metrics.layout.terminal import figure_lines, filled
from hb_metrics.measurements import MEASUREMENTS
from hb_metrics.measurements.generation.styles import TermStyle
from hb_metrics.measurements.generation.terms import frequency_figure, strip_figure
from hb_metrics.measurements.likelihood.page import perplexity_figure
from hb_metrics.measurements.likelihood.results import DescriptorMedians, Perplexities
from hb_metrics.report.changes import comparable_figures
from hb_metrics.report.page import write_report
from tests.hb_metrics.made_results import loaded, whole_run

SVG = "{http://www.w3.org/2000/svg}"
LABELS = ("<a href='//x'>z</a>", "&lt;b&gt;", "</text>")


def test_no_line_of_a_label_is_longer_than_its_column():
    for label, most in (("w" * 60, 18), ("我" * 50, 7), ("African-American people", 13)):
        svg = ElementTree.fromstring(str(figures_plot([Figure(label, 0.0, "share")], "Bias")))
        lines = [text for text in svg.itertext() if text.strip() and text.replace(" ", "") in label]
        assert max(len(word) for line in lines for word in line.split()) <= most
        assert "".join(lines).replace(" ", "") == label.replace(" ", "")


def every_plot(name):
    """All plots there are, with this name wherever a name comes from data."""
    terms = [TermStyle(name, name, 3, 0.0, {name: value}, 0.0) for value in (0.1, 0.2, 0.3)]
    medians = [DescriptorMedians(name, name, [median], [3.0]) for median in (2.0, 3.0)]
    perplexity = Perplexities(2.0, [name], {name: {name: [1, 2, 3, 4, 5]}}, medians)
    beside = {PLAIN: Number(0.3, "bias"), name: Number(0.2, "bias")}
    figure = Figure(f"Bias, {name}", 1.0, "bias", interval=(0.5, 1.5), part_of=name, beside=beside)
    return [
        perplexity_figure(perplexity, name, name),
        strip_figure(terms, name),
        frequency_figure(terms, {0: 0.0, 1: 10.0, 2: 20.0}, name),
        figures_plot([figure], name, [PLAIN, name]),
        runs_plot({name: [figure], "other": [figure._replace(value=None)]}, name),
    ]


@pytest.mark.parametrize("label", LABELS)
def test_labels_from_data_are_text_in_every_plot(label):
    for svg in every_plot(label):
        root = ElementTree.fromstring(svg)
        assert {element.tag for element in root.iter()} <= {SVG + name for name in KNOWN}
        shown = "".join("".join(text.itertext()) for text in root.iter() if text.tag in (SVG + "text", SVG + "title"))
        assert label in shown or numbers.axis_label(label) in shown


KNOWN = ("svg", "text", "tspan", "title", "path", "line", "rect")


def percent(element, name="x"):
    return float(element.get(name).removesuffix("%"))


def drawn(svg):
    """The positions of marks by their tips, and the function from values to positions according to the ticks."""
    area = next(part for part in ElementTree.fromstring(svg) if part.get("x") == f"{LEFT}%" and part.tag == SVG + "svg")
    ticks = [(float(text.text.rstrip("%").replace("−", "-")), percent(text)) for text in area.findall(SVG + "text")]
    (low, first), *_, (high, last) = ticks
    marks = {mark.find(SVG + "title").text: mark for mark in area if mark.find(SVG + "title") is not None}
    lines = [line for line in area.findall(SVG + "line") if line.get("stroke-width")]
    bars = [(percent(line, "x1"), percent(line, "x2")) for line in lines]
    return marks, bars, lambda value: pytest.approx(first + (value - low) * (last - first) / (high - low), abs=0.02)


def test_no_line_crosses_the_label_of_a_point():
    row = Row("axis", [Mark(3.0, "tip", text="term")], box=(1.0, 2.0, 2.5, 2.9, 4.0))
    root = ElementTree.fromstring(rows_plot([row], "title", "count", height=36, is_log=True))
    (mark,) = [svg for svg in root.iter(SVG + "svg") if svg.find(SVG + "title") is not None]
    (box,) = root.iter(SVG + "rect")
    bottom = float(mark.get("y")) + float(mark.find(SVG + "text").get("y"))
    assert 8 < bottom < float(box.get("y"))  # 8: the height of its capitals


def test_marks_and_intervals_stand_where_the_axis_says():
    beside = [{PLAIN: Number(value, "bias")} for value in (3.0, 4.0, 5.0)]
    figures = [
        Figure("Bias, a", 1.0, "bias", interval=(0.5, 1.5), part_of="Bias", beside=beside[0]),
        Figure("Bias, b", 2.0, "bias", interval=(-0.5, 4.5), part_of="Bias", beside=beside[1]),
        Figure("Bias, c", None, "bias", part_of="Bias", beside=beside[2]),
    ]
    marks, bars, at = drawn(figures_plot(figures, "Bias", [PLAIN]))
    values = {"c, plain: 5.00": 5, "b, plain: 4.00": 4, "b: 2.00 (95% interval −0.50 to 4.50)": 2, "a, plain: 3.00": 3}
    values["a: 1.00 (95% interval 0.50 to 1.50)"] = 1
    assert {tip: percent(mark) for tip, mark in marks.items()} == {tip: at(value) for tip, value in values.items()}
    assert bars == [(at(-0.5), at(4.5)), (at(0.5), at(1.5))]
    heights = [float(mark.get("y")) for mark in marks.values()]
    assert heights == sorted(heights)  # the highest value is on top
    # A value that could be 0 has another colour than one that could not.
    colours = [mark.findall(SVG + "path")[0].get("fill") for tip, mark in marks.items() if "interval" in tip]
    assert len(set(colours)) == 2

    marks, bars, at = drawn(runs_plot({"one": figures[:2], "two": figures[:1]}, "Bias"))
    assert [percent(mark) for mark in marks.values()] == [at(1), at(1), at(2)]
    assert [tip.partition(":")[0] for tip in marks] == ["a, one", "a, two", "b, one"]
    assert float(marks["a, one: 1.00 (95% interval 0.50 to 1.50)"].get("y")) < float(list(marks.values())[1].get("y"))


@pytest.mark.parametrize("is_log", [True, False])
def test_every_axis_has_two_ticks_or_more(is_log):
    for low, ratio in product(np.geomspace(1e-3, 1e3, 61), (1.44, 2, 3, 5, 9, 30, 99, 1e4)):
        ticks = PlotAxis(low, low * ratio, is_log).ticks()
        assert 2 <= len(ticks) <= 6, (low, ratio)
        assert low <= ticks[0] < ticks[-1] <= low * ratio
    assert PlotAxis(12.5, 72, is_log=True).ticks() == [20, 50]
    assert PlotAxis(5.8, 8.4, is_log=True).ticks() == [6, 7, 8]


def test_a_chart_of_nothing_is_a_chart():
    assert drawn(rows_plot([Row("a")], "Bias", "bias"))[0] == {}
    marks, _, at = drawn(figures_plot([Figure("a", 0.0, "share")], "Bias"))
    assert percent(marks["a: 0.0%"]) == at(0) == 0


@pytest.mark.parametrize(
    ("unit", "value", "text", "bounds", "interval", "change"),
    [
        ("share", 0.8472, "84.7%", (0.8, 0.9), "80.0% to 90.0%", "+84.7"),
        ("small_share", 0.00519, "0.52%", (0.0, 0.01), "0.00% to 1.00%", "+0.52"),
        ("bias", 9.716, "9.72", (-0.5, 12.25), "−0.5 to 12.2", "+9.72"),
        ("bias", 1234.5, "1,234", (999.0, 2000.4), "999 to 2,000", "+1,234"),
        ("signed", -0.071, "−0.07", (-0.2, 0.05), "−0.20 to +0.05", "−0.07"),
        ("signed", 0.071, "+0.07", (0.0, 0.1), "0.00 to +0.10", "+0.07"),
        ("effect", 0.431, "0.43", (-0.1, 0.9), "−0.10 to 0.90", "+0.43"),
        ("count", 1560.0, "1,560", (1.0, 20.0), "1 to 20", "+1560"),
    ],
)
def test_each_unit_is_written_in_its_way(unit, value, text, bounds, interval, change):
    figure = Figure("name", value, unit, interval=bounds)

    assert (figure.shown, figure.shown_interval) == (text, interval)
    assert figure.words == f"{text} (95% interval {interval})"
    assert written_interval(bounds, unit) == interval
    assert written_change(value, unit) == change


@pytest.mark.parametrize("unit", ["share", "small_share", "bias", "signed", "effect", "count"])
def test_unknown_is_a_dash_and_zero_has_no_sign(unit):
    assert written(None, unit) == written_change(None, unit) == "–"
    assert Figure("name", None, unit).words == Figure("name", None, unit).shown_interval == "–"
    for text in (written(-0.00001, unit), written_change(-0.00001, unit), written_change(0.0, unit)):
        assert text.rstrip("%").strip("0.") == ""


def test_figures_without_an_interval_are_named_with_the_reason():
    parts = {"Full Gen Bias, Age": "by axis", "Full Gen Bias, Religion": "by axis", "Offensive replies": ""}
    figures = [Figure(name, 1.0, "bias", no_interval="there are few", part_of=part) for name, part in parts.items()]
    figures += [Figure("LMP", 1.0, "bias"), Figure("Known", 1.0, "bias", interval=(0, 2), no_interval="x")]
    assert figures[0].words == "1.00 (no interval: there are few)"
    assert table_notes(figures[:3]) == ["No interval: there are few."]
    assert table_notes(figures) == ["No interval for Age, Religion and Offensive replies: there are few."]
    assert table_notes([*figures[:2] * 9, *figures]) == ["No interval for 21 rows: there are few."]
    (missing,) = missing_intervals(figures)
    assert missing == "No interval for Full Gen Bias (Age, Religion); Offensive replies: there are few."
    rows = [figure._replace(part_of="Full Gen Bias by axis") for figure in figures]
    assert figure_lines(rows)[-1].split() == table_notes(rows)[0].split()


def test_lines_fit_and_have_all_figures(tmp_path, monkeypatch):
    results = whole_run()
    answers = write_report(loaded(results), tmp_path / "report.html")
    for columns in (60, 80, 300):
        monkeypatch.setenv("COLUMNS", str(columns))
        for measurement in MEASUREMENTS:
            figures = comparable_figures([measurement.parts.figures(loaded(results))])[0]
            lines = figure_lines(figures)
            text = " ".join(" ".join(lines).split())
            assert text.isascii()
            assert max(len(line) for printed in lines for line in printed.split("\n")) < min(columns, 100)
            for figure in figures:
                if not figure.part_of:
                    assert figure.shown.replace("−", "-") in text
                shares = ("Refusals", "Disclaimers", "Replies", "Attitude contrast")
                if figure.part_of.endswith("by axis") and not figure.part_of.startswith(shares):
                    assert f"{figure.label} {figure.shown}".replace("−", "-") in text
        for answer in answers:
            assert max(map(len, filled(answer).split("\n"))) < min(columns, 100)
