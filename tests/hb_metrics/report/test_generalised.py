"""The section of a report for other terms and templates, from the files of a made run."""

import shutil

import pyarrow.parquet as pq
import pytest

from hb_metrics.command.report import main
from hb_metrics.measurements import GENERATION, LIKELIHOOD, MEASUREMENTS
from hb_metrics.measurements.generation import generalised as of_generation
from hb_metrics.measurements.results import read_run
from hb_metrics.run.run_folder import PROMPTS_FILE
from tests.hb_metrics.made_results import loaded
from tests.hb_metrics.pages import check_sound, read_page


@pytest.fixture
def folder(made_runs):
    return made_runs[0]


def test_the_report_has_both_intervals(folder, tmp_path):
    path = tmp_path / "page.html"
    main([str(folder), "--generalise", "templates", "--output", str(path)])
    page = read_page(path)
    check_sound(page)
    text = path.read_text(encoding="utf-8")
    section = text[text.index('id="generalised"') :]
    assert "is for other templates" in section
    assert len(page.plots["generalised-plot"]) > 1
    assert "wide bar: for other templates" in text


def test_intervals_are_of_the_figures_in_the_results(folder, monkeypatch):
    run, values = read_run(folder), []
    known = of_generation.gen_bias_influences

    def spied(*given):
        values.append(known(*given))
        return values[-1]

    monkeypatch.setattr(of_generation, "gen_bias_influences", spied)
    found = of_generation.generalise(run, "both")
    debiased = run.results.generation.debiased
    expected = [debiased.full_gen_bias, *(debiased.by_axis[axis] for axis in sorted(debiased.by_axis))]
    assert [1000 * (each.value - each.noise) for each in values] == pytest.approx(expected)
    low, high = found["Full Gen Bias, debiased"].interval
    assert low < debiased.full_gen_bias < high
    names = {figure.name for each in MEASUREMENTS[:3] for figure in each.parts.figures(loaded(run.results))}
    for measurement in MEASUREMENTS[:3]:
        of_measurement = measurement.parts.generalise(run, "terms")
        assert of_measurement
        for name, interval in of_measurement.items():
            if name in names and ", " not in name:
                assert (interval.interval is None) != (interval.reason is None)
    assert {"Likelihood Bias", "Offensive replies", "Replies that name the term"} <= names


def test_what_cannot_be_generalised_is_refused(folder, tmp_path):
    with pytest.raises(SystemExit, match="--generalise accepts only one run, but 2 were passed"):
        main([str(folder), str(folder), "--generalise", "terms"])
    lacks = {"perplexities": "lacks the perplexities", "style_probabilities": "or the style vectors"}
    for missing, message in lacks.items():
        damaged = tmp_path / missing
        shutil.copytree(folder, damaged)
        shutil.rmtree(damaged / missing)
        with pytest.raises(SystemExit, match=message):
            main([str(damaged), "--generalise", "terms"])


def test_pairs_of_terms_have_no_intervals_for_other_terms(folder, tmp_path):
    paired = shutil.copytree(folder, tmp_path / "paired")
    prompts = pq.read_table(paired / PROMPTS_FILE)
    for name in ("first_descriptor", "second_descriptor"):
        for ending in ("", "_plural"):
            prompts = prompts.append_column(name + ending, prompts["descriptor"])
    pq.write_table(prompts, paired / PROMPTS_FILE)
    for over in ("terms", "both"):
        with pytest.raises(SystemExit, match=r"pairs of terms.*set --generalise to templates"):
            main([str(paired), "--generalise", over])
    for run, is_known in ((read_run(folder), True), (read_run(paired), False)):
        assert ("Likelihood Bias" in LIKELIHOOD.parts.changes(run, run).by_name) == is_known
        assert ("Bias between nouns" in GENERATION.parts.changes(run, run).by_name) == is_known
