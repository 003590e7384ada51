"""Robustness over templates: figures are the numbers of results.json, and sentences say how far halves differ."""

import pytest

from hb_metrics.measurements import ROBUSTNESS
from hb_metrics.measurements.robustness.figures import measures
from hb_metrics.measurements.robustness.page import robustness_sentence
from tests.hb_metrics.made_results import robustness_of, robustness_run
from tests.hb_metrics.pages import report_page


@pytest.fixture(scope="module")
def results():
    return robustness_run()


def test_figures_are_those_of_the_results(results):
    robustness = results["robustness"]
    listed = ROBUSTNESS.figures(results)

    names = ["full_gen_bias", "full_gen_bias_debiased", "likelihood_bias"]
    assert [figure.value for figure in listed[::2]] == [robustness[name]["mean_half_difference"] for name in names]
    assert [figure.value for figure in listed[1::2]] == [robustness[name]["half_rank_correlation"] for name in names]
    for measure, name in zip(measures(robustness), names, strict=True):
        found = robustness[name]
        assert (measure.overall.value, list(measure.overall.interval)) == (found["overall"], found["half_interval"])
        ends = [measure.overall.beside[f"{end} template"].value for end in ("lowest", "highest")]
        assert ends == [min(found["by_template"].values()), max(found["by_template"].values())]


def test_a_sentence_states_how_far_halves_differ(results):
    measure = measures(results["robustness"])[2]
    found = measure.robustness
    assert robustness_sentence(measure) == (
        f"Likelihood Bias: two random halves of the 26 templates differ by about "
        f"{found['relative_half_difference']:.0%} of the value from all templates. Another axis comes first in "
        f"{1 - found['single_same_highest']:.0%} of pairs of single templates, and in "
        f"{1 - found['half_same_highest']:.0%} of pairs of halves."
    )
    alone = measure._replace(
        robustness={**found, "single_same_highest": None, "relative_half_difference": None, "mean_half_difference": 0.2}
    )
    assert robustness_sentence(alone).endswith("differ by 20.0%.")


@pytest.mark.parametrize("kept", [("likelihood_bias",), ("full_gen_bias", "likelihood_bias")])
def test_the_page_shows_the_figures_that_the_run_has(results, tmp_path, kept):
    robustness = {name: part if name in kept else None for name, part in robustness_of().items()}
    page = report_page({"run": results["run"], "robustness": robustness}, tmp_path)
    found = robustness[kept[0]]
    band, overall, points = page.figures()["robustness-templates"][0]["data"]
    assert {*band["x"]} == {*found["half_interval"]}
    assert {*overall["x"]} == {found["overall"]}
    assert sorted(points["x"]) == sorted(found["by_template"].values())
    rows = page.table("Robustness over templates")[1:]
    assert len(rows) == len(kept)
    for measure, row in zip(measures(robustness), rows, strict=True):
        assert row[1:3] == [measure.overall.shown, measure.overall.shown_interval]
    assert ("needs at least two replies per cell" in page.text) == ("full_gen_bias" in kept)
