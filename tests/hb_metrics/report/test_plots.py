"""Labels that come from data, in every plot: Plotly reads HTML in them, and links would be live."""

import re
from html import unescape

import pytest

from hb_metrics.layout import numbers
from hb_metrics.layout.figure import PLAIN, Figure, Number
from hb_metrics.layout.plots import BREAK, figures_plot, plot, runs_plot, scatter
from hb_metrics.measurements.generation.plots import frequency_figure, strip_figure
from hb_metrics.measurements.generation.terms import Term
from hb_metrics.measurements.likelihood.plots import perplexity_figure

# None is longer than a label may be, so that nothing is cut out of them.
LIVE = "<a href='//x.y'>z</a>"
LABELS = (LIVE, "<br>", "&lt;b&gt;", "%{x}</extra>", "</span>", "a & <b>b", "<img src=x>", "$\\a$", "𝒳<i")
OURS = re.compile(r"<br>|</?extra>")


def every_plot(name):
    """All plots there are, with this name wherever a name comes from data."""
    terms = [Term(name, name, index, 3, 0.1 * index + 0.1, 10.0 * index) for index in range(3)]
    perplexity = {
        "templates": [name],
        "quantiles_by_axis_and_template": {name: {name: [1, 2, 3, 4, 5]}},
        "by_descriptor": [{"axis": name, "descriptor": name, "median_perplexity": [median]} for median in (2.0, 3.0)],
    }
    beside = {PLAIN: Number(0.3, "bias"), name: Number(0.2, "bias")}
    figure = Figure(f"Bias, {name}", 1.0, "bias", interval=(0.5, 1.5), part_of=name, beside=beside)
    return {
        perplexity_figure: (perplexity, name, name),
        strip_figure: (terms, name, 0.2),
        frequency_figure: (terms, name),
        figures_plot: ([figure], name, [PLAIN, name]),
        runs_plot: ({name: [figure], "other": [figure._replace(value=None)]}, name),
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


@pytest.mark.parametrize("label", LABELS)
def test_labels_from_data_are_text_in_every_plot(label):
    for make, arguments in every_plot(label).items():
        drawn = list(strings(make(*arguments)))
        for key, text in drawn:
            assert "<" not in OURS.sub("", text), (make.__name__, key)
        rest = [(key, text) for key, text in drawn if not key.endswith("template")]
        # What a reader sees is the label; an axis has a capital, and a template brackets for braces.
        shown = {unescape(OURS.sub(" ", text)).strip() for _, text in rest}
        known = (label, numbers.axis_label(label), numbers.slot(label))
        assert any(name in text for text in shown for name in known), make.__name__
        templates = [text for key, text in drawn if key == "hovertemplate"]
        assert all(text.count("<extra>") == text.count("</extra>") == 1 for text in templates), make.__name__
        assert "%{x}</extra>" not in "".join(templates) or label != "%{x}</extra>", make.__name__


def test_tags_of_our_own_stay():
    points = scatter(x=[1], y=["a"], name=f"one{BREAK}two <b>", hovertemplate="%{x}<br><extra>&</extra>")
    (trace,) = plot([points], 100)["data"]
    assert (trace["name"], trace["hovertemplate"]) == ("one<br>two &lt;b&gt;", "%{x}<br><extra>&</extra>")


def test_marks_and_intervals_are_drawn_where_they_are():
    beside = [{PLAIN: Number(value, "bias")} for value in (3.0, 4.0, 5.0)]
    figures = [
        Figure("Bias, a", 1.0, "bias", interval=(0.5, 1.5), part_of="Bias", beside=beside[0]),
        Figure("Bias, b", 2.0, "bias", part_of="Bias", beside=beside[1]),
        Figure("Bias, c", None, "bias", part_of="Bias", beside=beside[2]),
    ]
    lines, plain_marks, values = figures_plot(figures, "Bias", [PLAIN])["data"]
    assert (lines["x"], lines["y"]) == ([0.5, 1.5, None], [0, 0, None])
    assert dict(zip(plain_marks["customdata"], plain_marks["x"], strict=True)) == {"a": 3.0, "b": 4.0, "c": 5.0}
    assert dict(zip(values["customdata"], values["x"], strict=True)) == {"a": 1.0, "b": 2.0}
    assert values["y"] == [0, 1]
    first, mark, second, other = runs_plot({"one": figures[:2], "two": figures[:1]}, "Bias")["data"]
    assert first["x"] == second["x"] == [0.5, 1.5, None]
    assert dict(zip(mark["customdata"], mark["x"], strict=True)) == {"a": 1.0, "b": 2.0}
    assert (other["customdata"], other["x"]) == (["a"], [1.0])
    assert mark["y"][0] > other["y"][0] > mark["y"][1]
