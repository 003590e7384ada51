"""Labels that come from data, in every figure: Plotly reads HTML in them, and links would be live."""

import inspect
import re
from html import escape, unescape
from importlib import import_module
from pathlib import Path

import plotly.graph_objects as go
import pytest
from hb_metrics.display import numbers, rendering
from hb_metrics.display.change_figure import Change, change_figure
from hb_metrics.display.runs_figures import Value, clusters_figure, runs_figure
from hb_metrics.measurements.reddit.tables import RedditRow
from hb_metrics.measurements.regard.tables import Ends, GapRow, GroupRow
from hb_metrics.measurements.robustness.tables import RobustnessRow

import hb_metrics
from hb_metrics.measurements.generation.figures import (
    Measured,
    Term,
    frequency_figure,
    interval_figure,
    share_interval_figure,
    strip_figure,
    styles_figure,
)
from hb_metrics.measurements.likelihood.figures import likelihood_bias_figure, perplexity_figure
from hb_metrics.measurements.offensiveness.figures import axis_offensiveness_figure, template_offensiveness_figure
from hb_metrics.measurements.reddit.figures import share_figure, t_figure
from hb_metrics.measurements.regard.figures import distribution_figure, ends_figure, gaps_figure, means_figure
from hb_metrics.measurements.robustness.figures import templates_figure
from hb_metrics.report.plots import BREAK, axis_label, plain
from hb_train.tuning.sweep_page import sweep_figure
from tests.hb_metrics.pages import browse, needs_browser

# None is longer than a label may be, so that nothing is cut out of them.
LIVE = "<a href='//x.y'>z</a>"
LABELS = (LIVE, "<br>", "&lt;b&gt;", "%{x}</extra>", "</span>", "a & <b>b", "<img src=x>", "$\\a$", "𝒳<i")
OURS = re.compile(r"<br>|</?extra>|<span style=\"color:#\w+;font-size:11px\">|</span>")


def every_figure(name):
    """All figures there are, with this name wherever a name comes from data."""
    terms = [Term(name, name, index, 3, 0.1 * index + 0.1, 10.0 * index) for index in range(3)]
    regard = {
        "mean": 0.1,
        "sd": 0.2,
        "interval": [0, 0.2],
        "distribution": {"negative": 0.4, "positive": 0.6},
    }
    gap = {"gap": 0.1, "interval": [0, 0.2], "advantaged": name, "disadvantaged": name}
    run = {"learning_rate": 1e-3, "best_validation_perplexity": 5.0, "failed": None}
    perplexity = {
        "templates": [name],
        "quantiles_by_axis_and_template": {name: {name: [1, 2, 3, 4, 5]}},
        "by_descriptor": [{"axis": name, "descriptor": name, "median_perplexity": [median]} for median in (2.0, 3.0)],
    }
    robust = {"by_template": {name: 0.5}, "half_interval": (0.4, 0.6), "overall": 0.5}
    reddit = [RedditRow(name, {"t": 1.0, "t_log": 2.0, "share_t1_likelier": 0.4})]
    values = {name: Value(1.0, (0.5, 1.5)), "other": Value(None)}
    return {
        likelihood_bias_figure: ({"by_axis": {name: 0.5}, "bh_by_axis": {name: 0.4}},),
        perplexity_figure: (perplexity, name, name),
        interval_figure: ([Measured(name, 1.0, 0.5, (0.2, 0.8))], name, 0.95),
        share_interval_figure: ([(name, 0.5, (0.2, 0.8))], name, name),
        styles_figure: ([(name, 1.0)], name),
        strip_figure: (terms, name, 0.2),
        frequency_figure: (terms, name),
        template_offensiveness_figure: ([(name, 0.2, 0.1, 0.3)],),
        axis_offensiveness_figure: ([(name, 0.2, 0.1)],),
        runs_figure: (values, name),
        clusters_figure: ({name: values}, list(values), name),
        t_figure: (reddit,),
        share_figure: (reddit,),
        means_figure: ([GroupRow(name, regard, regard)], 0.95),
        gaps_figure: ([GapRow(name, name, gap, gap, {})], 0.95),
        distribution_figure: ([GroupRow(name, regard, regard)], ["negative", "positive"]),
        ends_figure: ([Ends(name, {name: 0.1}, [name], [name])], [0.1], name, (name, name)),
        templates_figure: (RobustnessRow("full", name, robust),),
        change_figure: ([Change(name, 0.1, 0.2, (0.0, 0.3), (0.1, 0.3))], name, (name, name), None),
        sweep_figure: (
            {
                "runs": [run, run | {"failed": name, "best_validation_perplexity": None}],
                "best": run,
                "validation_perplexity_before_tuning": 6.0,
                "grid": [1e-3],
            },
        ),
    }


def strings(part, key=""):
    """Every string of a figure, and what it is of."""
    if isinstance(part, dict):
        for name, value in part.items():
            yield from strings(value, name)
    elif isinstance(part, list):
        for item in part:
            yield from strings(item, key)
    elif isinstance(part, str):
        yield key, part


def test_no_figure_is_missing_here():
    package = Path(hb_metrics.__file__).parent
    paths = [path for room in ("display", "measurements") for path in (package / room).rglob("*figure*.py")]
    names = [".".join(path.relative_to(package.parent).with_suffix("").parts) for path in paths]
    made = {
        function
        for module in map(import_module, names)
        for name, function in inspect.getmembers(module, inspect.isfunction)
        if name.endswith("_figure") and function.__module__ == module.__name__ and not name.startswith("_")
    }
    assert made | {sweep_figure} == every_figure("x").keys()


@pytest.mark.parametrize("label", LABELS)
def test_labels_from_data_are_text_in_every_figure(label):
    for make, arguments in every_figure(label).items():
        drawn = list(strings(plain(make(*arguments))))
        for key, text in drawn:
            assert "<" not in OURS.sub("", text), (make.__name__, key)
        rest = [(key, text) for key, text in drawn if not key.endswith("template")]
        # What a reader sees is the label; an axis has a capital, and a template brackets for braces.
        shown = {unescape(OURS.sub(" ", text)).strip() for _, text in rest}
        known = (label, axis_label(label), numbers.slot(label))
        assert any(name in text for text in shown for name in known), make.__name__
        templates = [text for key, text in drawn if key == "hovertemplate"]
        assert all(text.count("<extra>") == text.count("</extra>") == 1 for text in templates), make.__name__
        assert "%{x}</extra>" not in "".join(templates) or label != "%{x}</extra>", make.__name__


def test_what_figures_write_themselves_stays():
    figure = go.Figure(go.Scatter(x=[1], y=["a"], name=f"one{BREAK}two <b>", hovertemplate="%{x}<br><extra>&</extra>"))
    (trace,) = plain(figure)["data"]
    assert (trace["name"], trace["hovertemplate"]) == ("one<br>two &lt;b&gt;", "%{x}<br><extra>&</extra>")
    assert escape("&lt;") == "&amp;lt;"


@needs_browser
def test_a_browser_finds_no_link_in_any_figure(tmp_path):
    drawn = {f"plot{index}": [plain(make(*given))] for index, (make, given) in enumerate(every_figure(LIVE).items())}
    page = tmp_path / "figures.html"
    marks = "".join(f'<div id="{name}"></div>' for name in drawn)
    # As in page.js: the bar of buttons has a link of its own, to plotly.com.
    script = (
        "const config = {displayModeBar: false};"
        "for (const [id, [figure]] of Object.entries(figures)) Plotly.newPlot(id, figure.data, figure.layout, config);"
    )
    page.write_text(
        f"<!doctype html><meta charset=utf-8>{marks}<script>{rendering.get_plotlyjs()}</script>"
        f"<script>const figures = {rendering.for_script(drawn)};{script}</script>",
        encoding="utf-8",
    )
    shown = browse(page, tmp_path)
    assert shown.count('<svg class="main-svg"') >= len(drawn)
    assert "<a " not in shown.split("<script>")[0]
