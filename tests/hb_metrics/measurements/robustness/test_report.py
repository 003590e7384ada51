"""Robustness over templates in the report of a run, and its sentences."""

import re

import pytest

from hb_metrics.measurements import ROBUSTNESS
from hb_metrics.measurements.robustness import tables
from hb_metrics.measurements.robustness.figures import templates_figure
from hb_metrics.measurements.robustness.template_robustness import template_robustness
from hb_metrics.report.numbers import slot
from hb_metrics.report.page import write_report
from tests.hb_metrics.made_results import AXES, full_run, likelihood_run, robustness_of, some_prompts, template_values
from tests.hb_metrics.pages import check_sound, number, read_page


def page_of(results, folder):
    write_report(results, folder / "report.html")
    page = read_page(folder / "report.html")
    check_sound(page)
    return page


@pytest.fixture(scope="module")
def robustness():
    return robustness_of()


@pytest.fixture(scope="module")
def page(robustness, tmp_path_factory):
    return page_of(full_run() | {"robustness": robustness}, tmp_path_factory.mktemp("run"))


def test_the_tables_have_its_numbers(robustness, page):
    plain, likelihood = robustness["full_gen_bias"], robustness["likelihood_bias"]

    assert "robustness over templates on HolisticBias" in page.words
    rows = {row[0]: row[1:] for row in page.table("Robustness over templates")[1:]}
    assert list(rows) == ["Full Gen Bias, plain", "Full Gen Bias, debiased", "Likelihood Bias"]
    assert rows["Full Gen Bias, plain"] == [
        f"{plain['overall']:.2f}",
        "26",
        f"{min(plain['by_template'].values()):.2f}",
        f"{max(plain['by_template'].values()):.2f}",
        " to ".join(f"{bound:.2f}" for bound in plain["half_interval"]),
        f"{plain['mean_half_difference']:.2f} ({plain['relative_half_difference']:.0%})",
    ]
    assert rows["Likelihood Bias"][4] == " to ".join(f"{bound:.1%}" for bound in likelihood["half_interval"])
    assert page.table("Lowest and highest template")[5:] == [
        [
            "Likelihood Bias",
            end,
            slot(likelihood[f"{end}_template"]),
            f"{extreme(likelihood['by_template'].values()):.1%}",
        ]
        for end, extreme in (("lowest", min), ("highest", max))
    ]
    agreement = page.table("Agreement on the axes")[1:]
    assert [row[:2] for row in agreement[:2]] == [
        ["Full Gen Bias, plain", "single templates"],
        ["Full Gen Bias, plain", "random halves"],
    ]
    assert agreement[5][2:] == [
        f"{likelihood['half_rank_correlation']:.2f}",
        f"{likelihood['half_same_highest']:.0%}",
        f"{likelihood['half_cosine']:.3f}",
        "3",
    ]
    by_axis = [row[1] for row in tables.by_axis(tables.robustness_rows(robustness)[2])]
    assert [row[1] for row in page.table("Likelihood Bias of halves by axis")[1:]] == by_axis
    assert [number(value) for value in by_axis] == sorted(map(number, by_axis), reverse=True)
    assert len(by_axis) == len(AXES)


def test_each_figure_shows_every_template_and_the_band_of_halves(robustness, page):
    rows = tables.robustness_rows(robustness)

    assert len(page.figures()["robustness-templates"]) == len(rows) == 3
    for row in rows:
        band, line, points = templates_figure(row).data
        drawn = dict(zip(points.customdata, points.x, strict=True))
        assert drawn == {slot(name): value for name, value in row.robustness["by_template"].items()}
        assert [min(band.x), max(band.x)] == row.robustness["half_interval"]
        assert set(line.x) == {row.robustness["overall"]}
        assert list(points.x) == sorted(points.x)


def test_a_masked_model_has_robustness_of_likelihood_bias_alone(robustness, tmp_path):
    results = likelihood_run(some_prompts()) | {"robustness": {"likelihood_bias": robustness["likelihood_bias"]}}

    page = page_of(results, tmp_path)

    assert [row[0] for row in page.table("Robustness over templates")[1:]] == ["Likelihood Bias"]
    assert "robustness-measure" not in page.ids
    assert "Gen Bias ×1000" not in page.words
    assert "sampling noise" not in page.words


def test_the_figures_are_the_difference_and_the_order_of_halves(robustness):
    figures = ROBUSTNESS.figures({"robustness": robustness})

    assert [figure.name for figure in figures[4:]] == [
        "Likelihood Bias, difference between halves",
        "Likelihood Bias, rank correlation of halves",
    ]
    assert [figure.form for figure in figures] == ["bias", "effect", "bias", "effect", "share", "effect"]
    likelihood = robustness["likelihood_bias"]
    assert figures[4].shown == f"{likelihood['mean_half_difference']:.1%}"
    assert figures[5].value == likelihood["half_rank_correlation"]
    assert "over 100 random splits of 26 templates in halves" in figures[4].meaning


def test_without_second_replies_the_noise_is_named(tmp_path):
    page = page_of(full_run() | {"robustness": robustness_of(full_gen_bias_debiased=None)}, tmp_path)

    assert len(page.table("Robustness over templates")) == 3
    assert "It could not be subtracted" in page.words


def test_few_templates_and_one_axis_leave_out_what_is_not_defined(tmp_path):
    one_axis = template_robustness(template_values(num_templates=3, axes=AXES[:1]))._asdict()
    robustness = robustness_of(full_gen_bias=one_axis | {"relative_half_difference": None}, likelihood_bias=one_axis)
    page = page_of(full_run() | {"robustness": robustness}, tmp_path)
    rows = tables.robustness_rows(robustness)

    assert robustness["full_gen_bias"]["single_rank_correlation"] is None
    assert "Of an odd number of templates, each split leaves one out." in page.words
    assert "in each of the 3 ways there are" in page.words
    assert page.table("Agreement on the axes")[1][2:4] == ["–", "–"]
    assert tables.robustness_sentence(rows[0]).endswith(f"differ by {one_axis['mean_half_difference']:.2f}.")


def test_the_sentence_of_robustness_says_how_far_halves_and_single_templates_agree():
    row = tables.robustness_rows(
        robustness_of(
            full_gen_bias=robustness_of()["full_gen_bias"]
            | {"relative_half_difference": 0.081, "single_same_highest": 0.4, "half_same_highest": 0.9}
        )
    )[0]

    assert tables.robustness_sentence(row) == (
        "Full Gen Bias, plain: two random halves of the 26 templates differ by about 8% of the value from all. Another "
        "axis comes first in 60% of pairs of single templates, and in 10% of pairs of halves."
    )


def test_a_run_prints_robustness():
    robustness = robustness_of(full_gen_bias_debiased=None)
    lines = tables.robustness_lines(robustness)
    likelihood = robustness["likelihood_bias"]

    assert len(lines) == 5
    assert re.fullmatch(r"  Full Gen Bias, plain +\d\.\d\d from 26 templates; single ones .*, halves .*", lines[1])
    assert f"{likelihood['overall']:.1%} from 26 templates" in lines[3]
    assert lines[4].endswith(f"halves {likelihood['half_rank_correlation']:.2f}")
