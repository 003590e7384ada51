"""Likelihood Bias: its figures are the numbers of results.json, and the page names what it shows."""

from dataclasses import replace

import pytest

from hb_dataset import load_table
from hb_metrics.layout.figure import by_part
from hb_metrics.layout.numbers import axis_label
from hb_metrics.measurements import LIKELIHOOD
from hb_metrics.measurements.likelihood.page import likelihood_answer, same_length_extremes
from hb_metrics.measurements.likelihood.results import DescriptorMedians, Perplexities
from hb_metrics.run.typed_json import to_json
from tests.hb_metrics.made_results import likelihood_run, loaded
from tests.hb_metrics.pages import report_page


@pytest.fixture(scope="module")
def results():
    return likelihood_run(load_table("v1.0-small"))


def test_figures_are_those_of_the_results(results):
    bias = results["likelihood"]["likelihood_bias"]
    parts = by_part(LIKELIHOOD.parts.figures(loaded(results)))
    share, common, adjusted, effect, median, contrast = parts[""]  # one pair has no agreement
    common_found, found = results["likelihood"]["term_share"], results["likelihood"]["contrasts"]

    assert (share.value, share.task, share.detail) == (bias["likelihood_bias"], "likelihood_bias", "of 780 tests")
    assert (adjusted.value, effect.value) == (bias["bh_likelihood_bias"], bias["effect_size"])
    assert median.value == results["likelihood"]["perplexity"]["median"]
    assert (common.value, common.interval) == (common_found["whole"]["value"], tuple(common_found["whole"]["interval"]))
    assert (contrast.key, contrast.value) == ("attitude_contrast", found["spread"]["value"])
    rows = parts["Likelihood Bias by axis"]
    assert {row.label: row.value for row in rows} == {axis_label(axis): x for axis, x in bias["by_axis"].items()}
    assert [row.value for row in rows] == sorted(bias["by_axis"].values(), reverse=True)
    for axis in bias["by_axis"]:
        (row,) = (row for row in rows if row.label == axis_label(axis))
        assert row.beside["after Benjamini–Hochberg"].value == bias["bh_by_axis"][axis]
        assert row.beside["effect size"].value == bias["effect_size_by_axis"][axis]
        assert row.beside["comes with the term"].value == common_found["by_axis"][axis]["value"]
        assert row.detail == f"6 terms, {bias['num_tests_by_axis'][axis]} tests"


@pytest.mark.parametrize("all_axes", [True, False])
def test_a_share_is_unknown_if_no_test_could_be_significant(results, all_axes, tmp_path):
    run = loaded(results)
    bias = run.likelihood.likelihood_bias
    numbers = {axis: number if all_axes or axis == "age" else 3 for axis, number in bias.num_tests_by_axis.items()}
    bias = replace(bias, num_tests_too_small=sum(numbers.values()), num_tests_too_small_by_axis=numbers)
    changed = replace(run.likelihood, likelihood_bias=bias)
    few = by_part(LIKELIHOOD.figures(run.with_("likelihood", changed)))
    share, _, adjusted, effect, *_ = few[""]
    assert (share.value is None) == (adjusted.value is None) == all_axes
    assert share.detail == f"of 780 tests, {sum(numbers.values())} with too few sentences to be significant"
    assert effect.value == bias.effect_size
    answer = likelihood_answer(few[""], bias)
    assert ("none of the 780 tests has enough sentences" in answer) == all_axes
    for row in few["Likelihood Bias by axis"]:
        unknown = row.value is None, row.beside["after Benjamini–Hochberg"].value is None
        assert unknown == (all_axes or row.label == "Age",) * 2
    likelihood = to_json(changed)
    page = report_page({**results, "likelihood": likelihood}, tmp_path)
    head, *rows = page.table("Likelihood Bias by template and axis")
    for row in rows:
        assert [axis for axis, share in zip(head, row, strict=True) if share == "–"] == (
            head[1:] if all_axes else ["Age"]
        )
    assert ("Beside the paper's BlenderBot 2.0 3B" in page.tables) != all_axes


def test_the_papers_shares_are_beside_those_of_the_same_template(results, tmp_path):
    page = report_page(results, tmp_path)
    template = "I love {plural_noun_phrase}."
    own = results["likelihood"]["likelihood_bias"]["by_axis_and_template"]
    assert [row[::2] for row in page.table("Beside the paper's GPT-2 large")[1:]][:1] == [["Characteristics", "78.0%"]]
    for row in page.table("Beside the paper's BlenderBot 2.0 3B")[1:]:
        (axis,) = (axis for axis in own if axis_label(axis) == row[0])
        assert row[1] == f"{own[axis][template]:.1%}"
    assert "Beside the paper's RoBERTa-large" not in page.tables


def test_extremes_are_of_terms_of_one_length():
    rows = [("a", 5.0, 2), ("b", 1.0, 2), ("c", 9.0, 2), ("d", 99.0, 3), ("e", 3.0, 2), ("f", None, 2)]
    by_descriptor = [DescriptorMedians("age", name, [value], [tokens]) for name, value, tokens in rows]
    (row,) = same_length_extremes(Perplexities(1.0, ["t"], {}, by_descriptor), "t")
    assert (row.num_compared, row.num_descriptors) == (4, 5)
    assert (row.lowest, row.highest) == ([("b", 1.0), ("e", 3.0)], [("c", 9.0), ("a", 5.0)])
