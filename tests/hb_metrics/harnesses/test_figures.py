"""What harnesses are given and what they show, against the functions that fill `results.json`."""

import numpy as np
import pyarrow as pa
import pytest

from hb_metrics.collect.classifiers.classifier import Classification, Classifier
from hb_metrics.command.arguments import settings_of
from hb_metrics.command.export_prompts import requested
from hb_metrics.command.run_prompts import read_prompts
from hb_metrics.harnesses.figures import (
    ClassifiedReplies,
    Classifiers,
    classify_replies,
    decision_figures,
    gen_bias_figures,
    likelihood_figures,
    offensiveness_figures,
)
from hb_metrics.harnesses.rows import PromptRow, decision_rows, prompt_rows
from hb_metrics.measurements.generation.styles import style_results
from hb_metrics.measurements.likelihood.compute import likelihood_results
from hb_metrics.measurements.offensiveness.compute import Classified, prompt_results
from hb_metrics.run.replies import Replies
from hb_metrics.run.typed_json import to_json
from tests.hb_metrics.harnesses import expected
from tests.hb_metrics.made_results import LOVE_HATE, scored

LABELS = ("Kind", "Curious", "Hateful")


def classifier(labels, probabilities):
    """Classifies by a function of the text, and keeps what it was given."""
    seen = []

    def classify(texts):
        seen.extend(texts)
        return Classification(np.array([probabilities(text) for text in texts]), np.zeros(len(texts), bool))

    made = Classifier(
        name="made", digest="", version="", labels=labels, source_labels=labels, classify_distinct=classify
    )
    return made, seen


@pytest.fixture(scope="module")
def classified(rows):
    draw = np.random.default_rng(2)
    kinder = {"deaf": 30, "old": 20}
    styles = [draw.dirichlet([10 + kinder.get(row.descriptor, 0), 10, 10]) for row in rows]
    styles = np.array(styles, np.float32)
    return ClassifiedReplies(rows, styles, draw.uniform(0, 0.7, len(rows)))


def columns(rows, *names):
    return [[getattr(row, name) for row in rows] for name in names]


def test_the_prompts_are_those_that_a_run_would_ask(asked):
    options = {**asked, "replies_per_cell": 3, "axes": ["age"], "seed": 4}

    settings = settings_of({**options, "measurements": "generation,likelihood"})
    table = requested(settings, read_prompts(settings)).to_pylist()
    ours = {wanted: prompt_rows(replied=wanted == "reply", **options) for wanted in ("reply", "log_probability")}
    for wanted, rows in ours.items():
        theirs = [(row["id"], row["text"]) for row in table if row["wanted"] == wanted]
        assert [(row.id, row.text) for row in rows] == theirs
    assert (len(ours["reply"]), len(ours["log_probability"])) == (30, 100)


def test_axes_can_be_separated_by_commas(asked):
    lists = [prompt_rows(replied=True, **{**asked, "axes": axes}) for axes in ("age, ability", ["age", "ability"])]
    assert lists[0] == lists[1] != []


def test_the_figures_of_replies_are_those_of_results_json(rows, classified):
    ids, axes, descriptors, templates, texts = columns(rows, "id", "axis", "descriptor", "template", "text")
    replies = Replies(ids, axes, descriptors, templates, texts, texts)
    results, _ = style_results(replies, classified.styles, LABELS)

    figures = {**gen_bias_figures(classified, LABELS), **offensiveness_figures(classified)}

    offensive = prompt_results(Classified(replies, classified.offensiveness, 0))
    assert figures == expected.reply_figures(to_json(results), to_json(offensive))
    assert figures["full_gen_bias_debiased_lowest"] is not None


def test_the_figures_of_likelihoods_are_those_of_results_json(rows):
    draw = np.random.default_rng(1)
    pairs = [(draw.normal(-30 - len(row.descriptor), 3), len(row.text) // 4) for row in rows]
    names = ("id", "axis", "descriptor", "template")
    prompts = pa.table(dict(zip(names, columns(rows, *names), strict=True)))
    prompts = prompts.append_column("noun", pa.nulls(len(rows), pa.string()))
    perplexities = np.exp([-total / number for total, number in pairs])
    scores = scored(prompts, perplexities, [n for _, n in pairs])

    figures = likelihood_figures(rows, *zip(*pairs, strict=True))

    results = to_json(likelihood_results(scores, LOVE_HATE).likelihood_bias)
    assert figures == expected.likelihood_figures(results)
    assert 0 < figures["likelihood_bias"] < 1


def test_unknown_figures_are_null(rows, classified, caplog):
    singles = list({(row.descriptor, row.template): index for index, row in enumerate(rows)}.values())
    one_each = ClassifiedReplies(
        [rows[index] for index in singles], classified.styles[singles], classified.offensiveness[singles]
    )
    one_term = ClassifiedReplies(rows[:1], classified.styles[:1], classified.offensiveness[:1])

    figures = gen_bias_figures(one_each, LABELS)

    unknown = {name for name, value in figures.items() if value is None}
    assert unknown == {name for name in figures if "debiased" in name or "noise" in name}
    assert figures["full_gen_bias"] > 0
    assert gen_bias_figures(one_term, LABELS) == {"num_replies": 1}
    assert likelihood_figures(rows[:1], [-3.0], [2]) == {"num_tests": 0}
    untested = likelihood_figures(one_each.rows, -np.arange(1.0, len(singles) + 1), [2] * len(singles))
    assert untested["num_tests"] > 0  # a test of two sentences is never significant, so 0 % would mean nothing
    assert {value for name, value in untested.items() if name.startswith("likelihood_bias")} == {None}
    axes_apart = [next(row for row in rows if row.axis == axis) for axis in ("age", "ability")]
    assert likelihood_figures(axes_apart, [-3.0, -4.0], [2, 2]) == {"num_tests": 0}
    assert not caplog.records  # Inspect computes figures of a run's first samples, where this is no news


def test_replies_are_censored_as_in_a_run_and_empty_ones_left_out():
    pair = {"first_descriptor": "young", "second_descriptor": "with a hearing loss"}
    plural = {"second_descriptor_plural": "with hearing losses"}
    asked = [
        PromptRow("1", "", "age", "t", "old"),
        PromptRow("2", "", "both", "t", "young, with a hearing loss", **pair, **plural),
    ]
    texts = ["Old people? I'm OLD!", "Young ones with hearing losses? I'm not young with a hearing loss."]
    styles, seen = classifier(LABELS, lambda text: [0.5, 0.25, 0.25])
    offensive, seen_whole = classifier(("offensive",), lambda text: [0.5])

    classified = classify_replies([*asked, *asked], [*texts, " ", None], Classifiers(styles, offensive))

    assert seen == [
        "left-handed people? I'm left-handed!",
        "left-handed ones left-handed? I'm not left-handed left-handed.",
    ]
    assert seen_whole == texts
    assert classified.rows == asked
    assert classified.styles.dtype == np.float32


def test_a_refusal_in_one_order_of_the_options_is_no_gap():
    """All people get the option that is named first. One term has no answer if that is unfavourable."""
    rows = decision_rows(axes="ability", quick=False)

    def decision(row):
        value = float(row.options[-row.order] == row.favourable)
        return None if (row.descriptor, value) == ("Deaf", 0.0) else value

    figures = decision_figures(rows, [decision(row) for row in rows])
    assert figures["decision_gap/ability"] == pytest.approx(0)
    assert figures["decision_spread"] == pytest.approx(0)
    assert figures["num_unanswered"] == len(rows) / 6 / 2


def test_decisions_in_few_questions_have_no_figures():
    rows = decision_rows(axes="ability")
    gap = [float(row.descriptor == "Deaf") for row in rows]
    assert decision_figures(rows, gap)["decision_gap/ability"] == 1
    for missing in (None, float("nan")):  # NaN is the probability of a model whose weights are not finite
        seven = [missing if row.question == rows[0].question else value for row, value in zip(rows, gap, strict=True)]
        figures = decision_figures(rows, seven)
        assert {name for name, value in figures.items() if value is not None} == {"num_answers", "num_unanswered"}


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_likelihoods_that_are_not_finite_stop_no_harness(rows, value, caplog):
    """The harness computes figures after it has run all tasks."""
    figures = likelihood_figures(rows, [value, *[-20.0] * (len(rows) - 1)], [5] * len(rows))
    assert {name for name, figure in figures.items() if figure is not None} == {"num_tests"}
    assert f"1 of {len(rows)} likelihoods are not finite" in caplog.text
