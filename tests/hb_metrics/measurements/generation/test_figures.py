"""The figures of generation bias are the numbers of results.json, and the answer says no more than the interval."""

import re
from dataclasses import asdict

import pytest
from scipy.stats import spearmanr

from hb_metrics.collect.replies.decoding_settings import Decoding
from hb_metrics.layout import paper
from hb_metrics.layout.figure import Figure, by_part, missing_intervals
from hb_metrics.layout.numbers import axis_label, fixed
from hb_metrics.measurements.generation import GENERATION
from hb_metrics.measurements.generation.figures import TELLING, figures
from hb_metrics.measurements.generation.page import (
    axes_beyond_chance,
    frequency_section,
    generation_answer,
)
from hb_metrics.stats.cell_sums import PAPER_CLUSTERS
from hb_metrics.stats.gen_bias_intervals import FEW_REPLIES_REASON
from tests.hb_metrics.made_results import AXES, LABELS, full_run, generation_of, loaded, replies_to, some_prompts

METRICS = {"Partial Gen Bias": "partial_gen_bias", "Summed-Cluster Gen Bias": "summed_cluster_gen_bias"}


@pytest.fixture(scope="module")
def results():
    return full_run()


@pytest.fixture(scope="module")
def generation(results):
    return results["generation"]


def check(figure, generation, metric, key=None):
    """A figure has the value, the interval and the plain value at a place of the results."""

    def at(content):
        return content[metric] if key is None else content[metric][key]

    assert figure.value == at(generation["debiased"])
    assert list(figure.interval) == at(generation["gen_bias"]["intervals"])
    if figure.part_of:
        assert figure.plain == at(generation["gen_bias"])


def test_figures_are_those_of_the_results(results, generation):
    parts = by_part(figures(loaded(results)))
    whole = {figure.name: figure for figure in parts[""]}

    check(whole["Full Gen Bias, debiased"], generation, "full_gen_bias")
    assert whole["Full Gen Bias, plain"].value == generation["gen_bias"]["full_gen_bias"]
    printed = {"DialoGPT": 3.04, "BlenderBot 2.0 400M": 7.46, "BlenderBot 2.0 3B": 8.89}
    assert whole["Full Gen Bias, plain"].printed == printed
    assert whole["Parroting replies"].value == generation["parroting"]["parroting_share"]
    assert whole["Replies"].value == generation["num_replies"]
    for kind in ("refusals", "disclaimers"):
        found = generation["refusals"][kind]
        figure = whole[kind.capitalize()]
        assert (figure.value, list(figure.interval)) == (found["share"], found["interval"])
        assert figure.detail == f"{found['num']:,} of {found['num_replies']:,}"
    axes = sorted(AXES, key=lambda axis: -generation["debiased"]["by_axis"][axis])
    rows = parts["Full Gen Bias by axis"]
    assert [row.label for row in rows] == [axis_label(axis) for axis in axes]
    for axis, row in zip(axes, rows, strict=True):
        check(row, generation, "by_axis", axis)
        assert row.printed == {model: values[axis] for model, values in paper.PRINTED.gen_bias_by_axis.items()}
    for heading, metric in METRICS.items():
        rows = parts[f"{heading} by cluster"]
        printed = paper.PARTIAL_GEN_BIAS if metric == "partial_gen_bias" else paper.SUMMED_CLUSTER_GEN_BIAS
        assert [row.label for row in rows] == list(PAPER_CLUSTERS)
        for row in rows:
            check(row, generation, metric, row.label)
            assert row.printed == {model: values[row.label] for model, values in printed.items()}


def test_with_one_reply_per_cell_only_plain_values_are_known():
    results = full_run(replies_per_cell=1)
    listed = {figure.name: figure for figure in figures(loaded(results))}

    assert "Full Gen Bias, debiased" not in listed
    axis = listed[f"Full Gen Bias, {axis_label(AXES[0])}"]
    plain = results["generation"]["gen_bias"]["by_axis"][AXES[0]]
    assert (axis.value, axis.interval, axis.known) == (None, None, plain)
    assert "sampling noise" not in generation_answer(listed)  # a readable figure has an interval
    del listed[TELLING]
    assert "needs a second reply in each template" in generation_answer(listed)


def test_other_files_of_replies_are_no_other_settings():
    runs = [loaded(full_run())] * 2
    files = {f"generation.{name}" for name in ("replies_from", "replies_a_prompt", "num_cut_to_first_line")}
    assert GENERATION.warnings(files, runs) == []
    assert "different settings" in GENERATION.warnings({*files, "generation.temperature"}, runs)[0]


SETTINGS = asdict(Decoding(top_p=0.9)) | {"tag": "no_bias", "reply": "whole"}


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"sample": True, "top_k": 50}, "sample; num_beams 1; temperature 1.0; top_k 50; top_p 0.9"),
        ({"sample": True, "top_k": 2**31}, "sample; num_beams 1; temperature 1.0; top_p 0.9"),
        ({"num_beams": 10}, "num_beams 10"),
        ({"replies_from": "replies.jsonl"}, None),
    ],
)
def test_only_settings_that_made_the_replies_are_published(asked, words):
    results = full_run()
    results["run"]["generation"] |= SETTINGS | asked
    published = "; ".join(GENERATION.figure_settings(loaded(results).record)[1:])
    made = f"context chat; tag no_bias; {words}; max_new_tokens 60; reply whole; seed 0"
    from_file = "replies from a file, settings unknown; tag no_bias; reply whole"
    assert published == (from_file if words is None else made)


def test_with_too_few_replies_the_reason_is_named():
    listed = figures(loaded(full_run(replies_per_cell=3)))
    (sentence,) = missing_intervals(listed)

    assert sentence.startswith("No interval for Full Gen Bias (debiased, ")
    assert sentence.endswith(f"{FEW_REPLIES_REASON}.")


def test_a_classifier_without_clusters_has_none(results):
    labels = [f"style {index}" for index in range(len(LABELS))]
    generation, _ = generation_of(replies_to(some_prompts()), labels=labels, clusters=None)

    typed = loaded({**results, "generation": generation})
    assert not [figure for figure in figures(typed) if "by cluster" in figure.part_of]


def full(value, bounds, no_interval=None):
    debiased = Figure("Full Gen Bias, debiased", value, "bias", "", bounds, no_interval)
    return {figure.name: figure for figure in (debiased, Figure("Full Gen Bias, plain", 9.5, "bias"))}


def axes(**values):
    return [
        Figure(f"Full Gen Bias, {name}", value, "bias", interval=bounds, part_of="Full Gen Bias by axis")
        for name, (value, bounds) in values.items()
    ]


@pytest.mark.parametrize(
    ("whole", "answer"),
    [
        (full(5.25, (4, 6.5)), "differ in style beyond chance[.] .* 5.25 .95% interval 4.00 to 6.50"),
        (full(0.5, (0, 2)), "No difference .* a small one is possible.* 0.50 .95% interval 0.00 to 2.00"),
        (full(5.25, None, "too few replies"), "not known whether .* 5.25 .no interval: too few replies"),
    ],
)
def test_the_answer_says_no_more_than_the_interval(whole, answer):
    assert re.search(answer, generation_answer(whole))


def test_the_verdict_names_axes_whose_interval_is_above_0():
    several = axes(Ability=(8, (7, 9)), X=(9, None), Age=(2, (1, 3)), Nonce=(1, (-1, 3)))
    assert axes_beyond_chance(several) == ", beyond chance among terms of ability and age"
    assert not axes_beyond_chance(axes(Age=(2, (1, 3))))


def test_frequencies_are_of_one_word_terms(results, generation):
    known = {(row["axis"], row["descriptor"]): row for row in generation["frequencies"]}
    rows = generation["by_descriptor"]
    one_word = [row for row in rows if known.get((row["axis"], row["descriptor"]), {}).get("one_word")]
    per_million = [known[row["axis"], row["descriptor"]]["per_million"] for row in one_word]

    (section,) = frequency_section(loaded(results))
    assert re.search(rf"{len(rows) - 1 - len(one_word)} terms .* several words", section.html)
    assert re.search("[^0-9]1 terms .* frequency is unknown", section.html)
    assert 0 in per_million
    for cluster in rows[0]["clusters"]:
        rho = spearmanr(per_million, [row["clusters"][cluster] for row in one_word]).statistic
        assert f'>{cluster}</th><td class="number">{fixed(rho, 2)}</td>' in section.html
    plots = re.findall(r'<svg [^>]*class="chart".*?(?=<svg [^>]*class="chart"|<table)', section.html, re.DOTALL)
    assert len(plots) == len(rows[0]["clusters"])
    for plot in plots:
        drawn = " ".join(re.findall(r'data-rows?="([\d ]+)"', plot)).split()
        assert sorted(map(int, drawn)) == [number for number, row in enumerate(rows) if row in one_word]
