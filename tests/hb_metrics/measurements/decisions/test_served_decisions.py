"""Decisions of servers whose probabilities are known: a model that decides, and a judge of free text."""

import json
import re
from math import log

import pytest

from hb_metrics.command.arguments import parse_arguments
from hb_metrics.command.measuring import measure
from hb_metrics.run.run_folder import STYLES
from hb_metrics.run.tables import Tables
from tests.hb_metrics.collect.judges.toy_judges import StandInJudge
from tests.hb_metrics.conftest import small_model
from tests.hb_metrics.made_results import read_results
from tests.hb_metrics.measurements.decisions.test_decisions import CHOICE, probability_of, write_prompts
from tests.hb_metrics.models.served.stand_in import MODEL, StandIn, serving
from tests.hb_metrics.models.served.test_likelihoods import model_score
from tests.hb_metrics.runs_here import measure_here, refusal, replies_file


class Decider(StandIn):
    """Says yes to old people with a probability of 0.3, and to all others with 0.6."""

    most, names = 20, ("Yes", "no", "Maybe")

    def chat(self, body):
        content = super().chat(body)
        if body.get("logprobs") and body["top_logprobs"] <= self.most:
            probability = 0.3 if " old " in body["messages"][-1]["content"] else 0.6
            values = zip(self.names, (probability, 0.8 - probability, 0.2), strict=True)
            listed = [{"token": token, "logprob": log(value)} for token, value in values]
            content["choices"][0]["logprobs"] = {"content": [{**listed[0], "top_logprobs": listed}]}
        return content


@pytest.fixture
def decide(vocabulary, tmp_path):
    def run(stand_in, *options, number=8, measurements="decisions"):
        prompts = [f"{row}: {{options}}? It is about {{person}}." for row in range(number)]
        path = write_prompts(tmp_path / "own.csv", prompts, **CHOICE)
        with serving(stand_in) as url:
            given = ["--model", MODEL, "--base_url", url, "--vocabulary_dir", vocabulary, "--dataset_config", "v1.0"]
            given += ["--prompts", path, "--measurements", measurements, "--output_dir", tmp_path / "run", *options]
            measure(parse_arguments(list(map(str, given))))
        return read_results(tmp_path / "run")

    return run


@pytest.mark.parametrize("most", [20, 5])
def test_first_tokens_of_a_chat_are_the_decision(decide, most):
    results = decide(Decider(most=most))
    found = results["decisions"]
    assert results["run"]["decisions"]["scoring"] == f"served, {most} first tokens"
    means = {term["name"]: term["mean"] for term in found["by_axis"]["age"]["terms"]}
    assert means == pytest.approx({"young": 0.75, "old": 0.375, "adult": 0.75, "elderly": 0.75})
    assert found["option_mass"] == pytest.approx(0.8)
    assert found["by_axis"]["age"]["baseline"]["value"] == pytest.approx((3 * 0.75 + 0.375) / 4 - 0.75)
    assert (found["num_answers"], found["num_unanswered"]) == (8 * 2 * (4 + 3 + 1), 0)


def test_the_baseline_of_a_cue_has_the_same_system_message_and_tag(decide, tmp_path):
    path = write_prompts(tmp_path / "two.csv", ["1: {options}?", "2: {options}?"], system="Be brief.", **CHOICE)
    stand_in = Decider()
    decide(stand_in, "--cue", "memory", "--prompts", path, "--tag", "no_bias")
    asked = [body["messages"] for _, body, _ in stand_in.requests if "top_logprobs" in body]
    assert {len(messages[0]["content"].split("\n")) for messages in asked} == {1, 2}  # without and with the memory
    for messages in asked:
        assert messages[0]["content"].startswith("Be brief.")
        assert messages[-1]["content"].endswith(" no_bias")


@pytest.mark.parametrize("context", ["chat", "plain"])
def test_prompts_that_a_filter_blocks_are_unanswered(context, decide):
    stand_in = Decider(score=model_score("llama"))
    blocked = {"status": 400, "body": {"error": {"code": "content_filter", "message": "x"}}}
    stand_in.faults = lambda _, body: {**blocked} if re.search("0: .* old kid", str(body)) else None
    results = decide(stand_in, "--context", context, number=2)
    assert results["run"]["decisions"]["scoring"].startswith("served")
    assert results["decisions"]["num_unanswered"] == 2


@pytest.mark.parametrize(("names", "most"), [(("Yes", "no", "Maybe"), 0), (("Y", "Maybe", "n't"), 20)])
def test_without_probabilities_decisions_are_read_from_replies(decide, names, most):
    with pytest.raises(ValueError, match="add generation"):
        decide(Decider(names=names, most=most))
    stand_in = Decider(names=names, most=most, preamble=["No."])
    results = decide(stand_in, "--replies_per_cell", 1, measurements="generation,decisions")
    assert results["run"]["decisions"]["answers"] == "replies"
    assert "no log-probabilities" in results["run"]["decisions"]["scoring_reason"]
    assert results["decisions"]["mean"]["value"] == 0


def test_echoed_options_are_as_likely_as_in_a_plain_call(decide):
    results = decide(StandIn(score=model_score("llama")), "--context", "plain", number=2)  # each of 64 requests
    assert results["run"]["decisions"]["scoring"] == "served, echo"
    model, tokenizer = small_model("llama")
    texts = [f"{row}: {order}? It is about an old kid." for row in range(2) for order in ("yes or no", "no or yes")]
    expected = sum(probability_of(text, model, tokenizer, [tokenizer.bos_token_id]) for text in texts) / len(texts)
    means = {term["name"]: term["mean"] for term in results["decisions"]["by_axis"]["age"]["terms"]}
    assert means["old"] == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("label", ["not condescending", "Kind"])
def test_free_text_is_as_favourable_as_a_judge_or_classifier_says(label, tmp_path, vocabulary):
    prompts = [f"{row}: write to {{person}}." for row in range(8)]
    path = write_prompts(tmp_path / "own.csv", prompts, outcome="text", favourable=label)
    options = ["--prompts", path, "--vocabulary_dir", vocabulary, "--dataset_config", "v1.0", "--model", "acme"]
    options += ["--measurements", "generation,decisions", "--replies_per_cell", 1]
    replies = {True: "Well done, you came by bus!", False: "I like the bus, too."}
    options += replies_file(tmp_path, lambda text: replies[" old " in text], *options)
    options += ["--output_dir", tmp_path / "run"]
    with serving(StandInJudge()) as url:
        if label != "Kind":
            assert "0 judges or classifiers" in refusal(*options)
            options += ["--judge", "condescending", "--judge_model", MODEL, "--judge_base_url", url]
        printed = measure_here(*options)
    expected = {True: 0.05, False: 0.95}
    if label == "Kind":
        labels = json.loads((tmp_path / "run" / "run.json").read_text())["style_classifier"]["labels"]
        values = Tables(tmp_path / "run").vectors(STYLES).values[:, labels.index(label)]
        replies = Tables(tmp_path / "run").reply_table()["reply"].to_pylist()
        expected = {reply.startswith("Well"): value for reply, value in zip(replies, values, strict=True)}
    found = read_results(tmp_path / "run")["decisions"]
    means = {term["name"]: term["mean"] for term in found["by_axis"]["age"]["terms"]}
    assert means == pytest.approx({name: expected[name == "old"] for name in ("young", "old", "adult", "elderly")})
    assert found["num_unanswered"] == 0
    assert "A judge or classifier alone decided which replies are favourable" in " ".join(printed.split())
