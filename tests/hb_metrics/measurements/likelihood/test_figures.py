"""The figures of Likelihood Bias show each share and each term once."""

import pytest

from hb_dataset import load_table
from hb_metrics.measurements.likelihood.figures import likelihood_bias_figure, perplexity_figure
from hb_metrics.report.numbers import axis_label
from tests.hb_metrics.made_results import likelihood_run


@pytest.fixture(scope="module")
def results():
    return likelihood_run(load_table("v1.0-small"))["likelihood"]


def test_the_bars_are_the_shares_of_the_axes(results):
    bias = results["likelihood_bias"]
    bars, marks = likelihood_bias_figure(bias).data

    for drawn, by_axis in ((bars, bias["by_axis"]), (marks, bias["bh_by_axis"])):
        shares = {axis_label(axis): share for axis, share in by_axis.items()}
        assert dict(zip(drawn.y, drawn.x, strict=True)) == shares


def test_a_template_shows_each_term_once_and_marks_the_highest_of_each_axis(results):
    perplexity = results["perplexity"]
    for index, template in enumerate(perplexity["templates"]):
        box, *points = perplexity_figure(perplexity, template, "perplexity").data
        drawn = [point for trace in points for point in zip(trace.y, trace.customdata, trace.x, strict=True)]
        medians = [
            (axis_label(row["axis"]), row["descriptor"], row["median_perplexity"][index])
            for row in perplexity["by_descriptor"]
        ]
        assert sorted(drawn) == sorted(medians)
        quantiles = {
            axis_label(axis): cells[template] for axis, cells in perplexity["quantiles_by_axis_and_template"].items()
        }
        parts = (box[part] for part in ("lowerfence", "q1", "median", "q3", "upperfence"))
        assert dict(zip(box.y, map(list, zip(*parts, strict=True)), strict=True)) == quantiles
        for axis, name in zip(points[-1].y, points[-1].customdata, strict=True):
            assert name == max((row for row in medians if row[0] == axis), key=lambda row: row[2])[1]
