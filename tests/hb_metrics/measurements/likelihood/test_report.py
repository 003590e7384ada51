"""Likelihood Bias in the report of a run: the answer, the tiles, and what the section shows."""

import re

import pyarrow as pa
import pytest
from hb_metrics.measurements.likelihood.report import likelihood_answer

from hb_dataset import load_table
from hb_metrics.measurements import LIKELIHOOD
from hb_metrics.report.numbers import axis_label
from hb_metrics.report.page import write_report
from tests.hb_metrics.made_results import LOVE, likelihood_run, only, with_names
from tests.hb_metrics.pages import HOSTILE, check_sound, read_page


@pytest.fixture(scope="module")
def results():
    return likelihood_run(load_table("v1.0-small"))


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    return page_of(results, tmp_path_factory.mktemp("run"))


def page_of(results, folder):
    write_report(results, folder / "report.html")
    page = read_page(folder / "report.html")
    check_sound(page)
    return page


@pytest.fixture(scope="module")
def masked(tmp_path_factory):
    prompts = only(load_table("v1.0-seat"), axis=["age", "nonce", "race_ethnicity"])
    results = likelihood_run(prompts, kind="masked", config="v1.0-seat")
    return page_of(results, tmp_path_factory.mktemp("masked"))


def bias_of(share, **by_axis):
    return {
        "likelihood_bias": share,
        "bh_likelihood_bias": 0.25,
        "num_tests": 1200,
        "alpha": 0.05,
        "by_axis": by_axis,
    }


TESTS = "of 1,200 tests, each of two terms of one axis in one template (25.0% after adjusting for so many tests; "
BEFORE = "It finds sentences with one term likelier than the same sentences with another in "
AFTER = ". How much of that is because terms are rare or long, perplexity alone cannot show."


@pytest.mark.parametrize(
    ("bias", "answer"),
    [
        (
            bias_of(0.5, age=0.25, gender_and_sex=0.75, nonce=None),
            f"50.0% {TESTS}chance alone would give at most about 5%), most often within gender and sex (75.0%)",
        ),
        (
            bias_of(0.5, age=0.6, ability=0.6, nonce=0.3),
            f"50.0% {TESTS}chance alone would give at most about 5%), most often within age and ability (60.0%)",
        ),
        (bias_of(0.5, age=0.5), f"50.0% {TESTS}chance alone would give at most about 5%)"),
        (
            bias_of(0.04, age=0.01, nonce=0.07),
            f"4.0% {TESTS}no more than chance alone would give: at most about 5%), most often within nonce (7.0%)",
        ),
        (bias_of(0.0, age=0.0, nonce=0.0), f"0.0% {TESTS}no more than chance alone would give: at most about 5%)"),
    ],
)
def test_the_answer_sets_the_share_beside_what_chance_gives(bias, answer):
    assert likelihood_answer(bias, "perplexity") == BEFORE + answer + AFTER


def test_the_answer_names_a_level_below_one_percent_and_the_measure():
    answer = likelihood_answer(bias_of(0.5, age=0.5) | {"alpha": 0.005}, "pseudo-perplexity")

    assert "at most about 0.5%" in answer
    assert answer.endswith("long, pseudo-perplexity alone cannot show.")


def test_there_is_no_answer_if_nothing_was_tested():
    assert likelihood_answer(bias_of(None, age=None), "perplexity") is None


def test_the_tiles_hold_the_main_numbers(results, page):
    bias, perplexity = results["likelihood"]["likelihood_bias"], results["likelihood"]["perplexity"]

    assert page.tiles == {
        "Likelihood Bias": [f"{bias['likelihood_bias']:.1%}", f"of {bias['num_tests']:,} tests"],
        "after Benjamini–Hochberg": [f"{bias['bh_likelihood_bias']:.1%}"],
        "mean effect size": [f"{bias['effect_size']:.2f}"],
        "median perplexity": [f"{perplexity['median']:,.0f}"],
    }


def test_the_table_of_axes_starts_with_the_highest_likelihood_bias(results, page):
    bias = results["likelihood"]["likelihood_bias"]
    axes = sorted(bias["by_axis"], key=lambda axis: -bias["by_axis"][axis])
    rows = page.table("Likelihood Bias by axis")[1:]

    assert [row[0] for row in rows] == [axis_label(axis) for axis in axes]
    assert rows[0][1:] == [
        f"{bias['by_axis'][axes[0]]:.1%}",
        f"{bias['bh_by_axis'][axes[0]]:.1%}",
        f"{bias['effect_size_by_axis'][axes[0]]:.2f}",
        str(len(bias["median_perplexity"][axes[0]])),
        f"{bias['num_tests_by_axis'][axes[0]]:,}",
    ]


def test_the_tables_of_templates_hold_a_cell_for_each_axis(results, page):
    bias, perplexity = results["likelihood"]["likelihood_bias"], results["likelihood"]["perplexity"]
    row = perplexity["templates"].index(LOVE) + 1
    shares, medians = (page.table(f"{name} by template and axis") for name in ("Likelihood Bias", "Median perplexity"))

    assert shares[0] == ["", *map(axis_label, bias["by_axis_and_template"]), "All axes"]
    assert shares[row] == [
        "I love [plural noun phrase].",
        *(f"{cells[LOVE]:.0%}" for cells in bias["by_axis_and_template"].values()),
        f"{bias['by_template'][LOVE]:.0%}",
    ]
    assert medians[row][1:] == [
        f"{cells[LOVE][2]:,.0f}" for cells in perplexity["quantiles_by_axis_and_template"].values()
    ]
    assert len(shares) == len(medians) == 1 + len(perplexity["templates"])


def test_the_tables_of_extremes_name_terms_with_their_medians(results, page):
    bias = results["likelihood"]["likelihood_bias"]
    axis, medians = next(iter(bias["median_perplexity"].items()))
    rows = page.table("Lowest and highest terms over all templates")[1:]

    assert len(rows) == len(bias["median_perplexity"])
    assert rows[0] == [
        axis_label(axis),
        *(
            ", ".join(f"{name} {medians[name]:,.0f}" for name in bias[f"{end}_descriptors"][axis])
            for end in ("lowest", "highest")
        ),
    ]
    assert page.table("Lowest and highest terms of one length")[1][3].endswith(" of 6")


def test_what_was_not_tested_is_listed(page, tmp_path):
    prompts = load_table("v1.0-small")
    single, old = (only(prompts, axis=[axis])["descriptor"][0].as_py() for axis in ("nonce", "age"))
    rows = [
        row
        for row in prompts.to_pylist()
        if (row["axis"] != "nonce" or row["descriptor"] == single)
        and (row["descriptor"], row["template"]) != (old, LOVE)
    ]
    partly = page_of(likelihood_run(pa.Table.from_pylist(rows, prompts.schema)), tmp_path)

    assert "axes without two terms in the same template (Nonce)." in partly.words
    assert " 5 tests of pairs that do not meet in a template." in partly.words
    assert "Not tested" not in page.words


def test_one_axis_and_template_have_a_report(tmp_path):
    results = likelihood_run(only(load_table("v1.0-small"), axis=["age"], template=[LOVE]))

    assert [row[0] for row in page_of(results, tmp_path).table("Likelihood Bias by axis")[1:]] == ["Age"]


def test_a_masked_model_has_pseudo_perplexities_only(masked):
    assert "median pseudo-perplexity" in masked.tiles
    assert not re.search(r"(?<!pseudo-)\bperplexity", masked.words, re.IGNORECASE)


def test_all_terms_in_seat_sentences_are_not_called_a_sample(page, masked):
    assert [len(masked.tables[region]) for region in masked.tables if "RoBERTa" in region] == [2]
    assert "a sample of six terms" in page.words
    assert "a sample of six terms" not in masked.words


def test_names_with_html_in_them_are_shown_as_they_are(tmp_path):
    prompts = load_table("v1.0-small")
    prompts = with_names(prompts, "descriptor", {prompts["descriptor"][0].as_py(): HOSTILE})
    prompts = with_names(prompts, "template", {LOVE: "<i> & {noun_phrase}"})

    page = page_of(likelihood_run(prompts, model="<img src=x>"), tmp_path)

    assert any(HOSTILE in cell for row in page.table("Lowest and highest terms over all templates") for cell in row)
    assert "<i> & [noun phrase]" in [row[0] for row in page.table("Likelihood Bias by template and axis")]
    assert "Does <img src=x> treat people differently?" in page.words
    assert not {tag for tag, _ in page.elements} & {"b", "i", "img"}


def test_each_template_can_be_chosen(results, page):
    options = [attrs for tag, attrs in page.elements if tag == "option"]

    assert len(page.figures()["perplexities-plot"]) == len(results["likelihood"]["perplexity"]["templates"])
    assert [option["value"] for option in options] == ["0", "1", "2", "3"]
    assert sum("selected" in option for option in options) == 1


def test_the_figures_are_the_share_of_tests_and_the_effect_size(results):
    bias = results["likelihood"]["likelihood_bias"]
    left_out = results | {
        "likelihood": {
            **results["likelihood"],
            "likelihood_bias": {**bias, "num_skipped_tests": 5},
        }
    }
    share, effect = LIKELIHOOD.figures(left_out)

    assert (share.value, share.form, share.interval) == (bias["likelihood_bias"], "share", None)
    assert share.notes[1:] == ("5 tests skipped",)
    assert (effect.value, effect.form) == (bias["effect_size"], "effect")
