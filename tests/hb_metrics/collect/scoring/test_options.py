"""The probability of an option is that of a plain call of the model, whatever the path and the other prompts."""

import math
from copy import deepcopy

import pyarrow as pa
import pytest

from hb_metrics.collect.engines.local import LocalEngine
from hb_metrics.collect.replies.requests import make_requests
from hb_metrics.collect.scoring.scoring_shards import run_plan
from hb_metrics.measurements.decisions.answers import option_probabilities
from hb_metrics.models.chats import DEFAULT_CHAT
from tests.hb_metrics.collect.one_call import log_likelihood
from tests.hb_metrics.conftest import as_loaded, small_model, with_chat

OPTIONS = [["yes", "no"], ["approve", "approve later", "reject"], ["yes", "no"]]
TEXTS = ["Answer with yes or no. The person is old. Accept?", "Decide.", "Answer with yes or no. The person is deaf."]


def scored(loaded):
    engine = LocalEngine(loaded)
    layout = engine.layout(context="auto", tag="none", chat=DEFAULT_CHAT)
    columns = {name: ["x"] * 3 for name in ("axis", "descriptor", "template")}
    prompts = pa.table({"id": ["a", "b", "c"], "text": TEXTS, **columns})
    decoding, _ = engine.decoding("greedy", "whole")
    requests = make_requests(prompts, decoding=decoding, layout=layout)
    plan = engine.plan_options(requests, OPTIONS)
    nll = run_plan(plan.scores, loaded.model)
    return plan, layout, dict(zip(zip(plan.columns["prompt_id"], plan.columns["form"], strict=True), -nll, strict=True))


@pytest.mark.parametrize(("name", "path"), [("llama", "tree"), ("mamba", "batches"), ("t5", "encoder-decoder")])
def test_an_option_is_as_likely_as_in_a_plain_call(name, path):
    model, tokenizer = small_model(name, **({"max_position_embeddings": 256} if name == "llama" else {}))
    plan, layout, found = scored(as_loaded(model, tokenizer))
    assert plan.scoring == path, plan.scoring_reason
    assert layout.context == "plain"
    for identifier, text, options in zip("abc", TEXTS, OPTIONS, strict=True):
        for option in options:
            for form in (option, option.capitalize()):
                answer = tokenizer(form, add_special_tokens=False)["input_ids"]
                context = tokenizer(text if name == "t5" else f"{text}\n")["input_ids"]
                expected = log_likelihood(model, context, answer)
                assert found[identifier, form] == pytest.approx(expected, rel=1e-4)


def test_a_chat_answers_after_its_template():
    model = deepcopy(small_model("llama", max_position_embeddings=512)[0])
    model.resize_token_embeddings(402)
    plan, layout, _ = scored(as_loaded(model, with_chat(deepcopy(small_model("llama")[1]))))
    assert layout.context == "chat"
    assert plan.columns["text"][0] == f"<|im_start|>user\n{TEXTS[0]}<|im_end|>\n<|im_start|>assistant\n"


def test_forms_add_up_and_an_option_does_not_contain_a_longer_one():
    rows = [("yes", "yes", 0.2), ("yes", "Yes", 0.3), ("no", "no", 0.1), ("no", "No", 0.1)]
    rows = [("p", *row) for row in rows]
    rows += [("q", "approve", "approve", 0.5), ("q", "approve later", "approve later", 0.2), ("q", "a", "a", 0.6)]
    rows += [("r", text, text, mass) for text, mass in (("no", 0.6), ("no one", 0.3), ("no one else", 0.1))]
    names = ("prompt_id", "option", "form", "log_likelihood")
    table = pa.Table.from_pylist([dict(zip(names, (*row[:3], math.log(row[3])), strict=True)) for row in rows])
    found = option_probabilities(table)
    assert found["p"] == pytest.approx({"yes": 0.5, "no": 0.2})
    assert found["q"] == pytest.approx({"approve": 0.3, "approve later": 0.2, "a": 0.1})
    assert found["r"] == pytest.approx({"no": 0.3, "no one": 0.2, "no one else": 0.1})


def test_an_option_that_does_not_fit_is_refused():
    model, tokenizer = small_model("llama", max_position_embeddings=8)
    with pytest.raises(ValueError, match="shorten the prompt"):
        scored(as_loaded(model, tokenizer))
