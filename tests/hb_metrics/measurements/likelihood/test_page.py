"""Likelihood Bias: its figures are the numbers of results.json, and the page names what it shows."""

import re

import pytest

from hb_dataset import load_table
from hb_metrics.measurements import LIKELIHOOD
from hb_metrics.measurements.likelihood.page import beside_paper, likelihood_answer, same_length_extremes
from hb_metrics.measurements.likelihood.plots import perplexity_figure
from hb_metrics.report.layout import paper
from hb_metrics.report.layout.figure import Figure, by_part
from hb_metrics.report.layout.numbers import axis_label
from tests.hb_metrics.made_results import LOVE, likelihood_run, only
from tests.hb_metrics.pages import report_page


@pytest.fixture(scope="module")
def results():
    return likelihood_run(load_table("v1.0-small"))


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    return report_page(results, tmp_path_factory.mktemp("run"))


def test_figures_are_those_of_the_results(results):
    bias = results["likelihood"]["likelihood_bias"]
    parts = by_part(LIKELIHOOD.figures(results))
    share, adjusted, effect, median = parts[""]

    assert (share.value, share.task, share.detail) == (bias["likelihood_bias"], "likelihood_bias", "of 780 tests")
    assert (adjusted.value, effect.value) == (bias["bh_likelihood_bias"], bias["effect_size"])
    assert median.value == results["likelihood"]["perplexity"]["median"]
    rows = parts["Likelihood Bias by axis"]
    assert {row.label: row.value for row in rows} == {axis_label(axis): x for axis, x in bias["by_axis"].items()}
    assert [row.value for row in rows] == sorted(bias["by_axis"].values(), reverse=True)
    for axis in bias["by_axis"]:
        (row,) = (row for row in rows if row.label == axis_label(axis))
        assert row.beside["after Benjamini–Hochberg"].value == bias["bh_by_axis"][axis]
        assert row.beside["effect size"].value == bias["effect_size_by_axis"][axis]
        assert row.detail == f"6 terms, {bias['num_tests_by_axis'][axis]} tests"


def test_the_papers_tables_have_this_runs_shares(results):
    tables = beside_paper(results["likelihood"]["likelihood_bias"])
    shares = results["likelihood"]["likelihood_bias"]["by_axis_and_template"]

    assert [table["model"] for table, _ in tables] == ["GPT-2 large", "BlenderBot 2.0 3B"]
    assert sum(row["template"] != LOVE for row in paper.LIKELIHOOD_BIAS) == 2
    for table, rows in tables:
        for axis, row in zip(table["by_axis"], rows, strict=True):
            assert row.value == shares[axis][LOVE]
            assert row.printed == {table["model"]: table["by_axis"][axis]}


def test_extremes_are_of_terms_of_one_length():
    rows = [("a", 5.0, 2), ("b", 1.0, 2), ("c", 9.0, 2), ("d", 99.0, 3), ("e", 3.0, 2), ("f", None, 2)]
    by_descriptor = [
        {"axis": "age", "descriptor": name, "median_perplexity": [value], "median_num_tokens": [tokens]}
        for name, value, tokens in rows
    ]
    (row,) = same_length_extremes({"templates": ["t"], "by_descriptor": by_descriptor}, "t")
    assert (row.num_compared, row.num_descriptors) == (4, 5)
    assert (row.lowest, row.highest) == ([("b", 1.0), ("e", 3.0)], [("c", 9.0), ("a", 5.0)])


def test_the_plot_of_perplexities_has_every_term(results):
    perplexity = results["likelihood"]["perplexity"]
    boxes, others, highest = perplexity_figure(perplexity, LOVE, "perplexity").data
    column = perplexity["templates"].index(LOVE)
    points = set(zip([*others.customdata, *highest.customdata], [*others.x, *highest.x], strict=True))
    assert points == {(row["descriptor"], row["median_perplexity"][column]) for row in perplexity["by_descriptor"]}
    quantiles = perplexity["quantiles_by_axis_and_template"]
    for label, low, middle in zip(boxes.y, boxes.lowerfence, boxes.median, strict=True):
        (axis,) = (axis for axis in quantiles if axis_label(axis) == label)
        assert (low, middle) == (quantiles[axis][LOVE][0], quantiles[axis][LOVE][2])


@pytest.mark.parametrize(
    ("by_axis", "most"),
    [
        ({"age": 0.5, "ability": 0.7}, ", most often within ability"),
        ({"age": 0.7, "ability": 0.7, "nonce": 0.1}, ", most often within age and ability"),
        ({"age": 0.7}, ""),
    ],
)
def test_the_answer_names_the_highest_axes_and_chance(by_axis, most):
    bias = {"likelihood_bias": 0.6, "alpha": 0.05, "by_axis": by_axis}
    whole = [Figure("Likelihood Bias", 0.6, "share", detail="of 1,200 tests"), Figure("adjusted", 0.25, "share")]
    answer = likelihood_answer(whole, bias, "pseudo-perplexity")
    assert (
        "in 60.0% of 1,200 tests (25.0% after adjusting for their number; chance alone gives at most about 5%)"
        in answer
    )
    assert f"5%){most}; pseudo-perplexity alone" in answer
    assert likelihood_answer(whole, bias | {"likelihood_bias": None}, "perplexity") is None


def test_a_masked_model_has_pseudo_perplexities_only(page, tmp_path):
    prompts = only(load_table("v1.0-seat"), axis=["age", "nonce", "race_ethnicity"])
    masked = report_page(likelihood_run(prompts, kind="masked", config="v1.0-seat"), tmp_path)
    assert not re.search(r"(?<!pseudo-)\bperplexity", masked.words, re.IGNORECASE)
    assert [len(masked.tables[region]) for region in masked.tables if "RoBERTa" in region] == [2]
    assert "a sample of six terms" in page.words
    assert "a sample of six terms" not in masked.words
