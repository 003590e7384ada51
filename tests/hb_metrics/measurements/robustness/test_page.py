"""Robustness over templates: figures are the numbers of results.json, and sentences say how far halves differ."""

import pytest

from hb_metrics.measurements import ROBUSTNESS
from hb_metrics.measurements.robustness.figures import measures
from tests.hb_metrics.made_results import robustness_run


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
