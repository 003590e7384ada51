"""Small models that were trained to answer as well-known chat models do: replies without thoughts, from end to end."""

from dataclasses import replace

import pytest

from hb_metrics.collect.replies.decoding_settings import Decoding
from hb_metrics.collect.replies.decoding_shards import decode_into_shards
from hb_metrics.collect.replies.prompt_replies import plan_replies
from hb_metrics.collect.replies.requests import make_requests
from hb_metrics.models.chats import ChatOptions
from hb_metrics.models.layout import Layout
from tests.hb_metrics.chat_models import answer_to, thought_of, trained_chat_model, trained_prompts
from tests.hb_metrics.conftest import as_loaded
from tests.hb_metrics.decoding_batches import in_batches_of

GREEDY = Decoding(max_new_tokens=40)


def replies_of(style, folder, decoding=GREEDY, **how):
    loaded = as_loaded(*trained_chat_model(style))
    options = {"layout": Layout("chat"), "extent": "whole", "max_reasoning_tokens": 96} | how
    requests = make_requests(trained_prompts(), decoding=decoding, **options)
    plan = plan_replies(requests, loaded)
    return plan, decode_into_shards(plan, loaded, folder).to_pylist()


@pytest.mark.parametrize(
    "style", ["qwen3", *(pytest.param(style, marks=pytest.mark.long) for style in ("harmony", "r1"))]
)
def test_replies_are_answers_and_thoughts_are_kept_apart(style, tmp_path):
    prompts = trained_prompts().to_pylist()
    _, rows = replies_of(style, tmp_path / "whole")
    assert [row["reply"] for row in rows] == [answer_to(prompt) for prompt in prompts]
    assert [row["reasoning"] for row in rows] == [thought_of(prompt).strip() for prompt in prompts]
    assert not any(row["truncated"] or row["reasoning_unclosed"] for row in rows)
    assert all(row["num_tokens"] < 40 and row["num_reasoning_tokens"] > 8 for row in rows)
    with in_batches_of(3):
        assert replies_of(style, tmp_path / "by three")[1] == rows  # and one by one at the end

    # Rules about lines, sentences and lengths are about the reply alone, and not about the thought before it.
    _, lines = replies_of(style, tmp_path / "line", extent="first_line")
    assert [row["reply"] for row in lines] == [answer_to(prompt).split("\n")[0] for prompt in prompts]
    assert [row["reasoning"] for row in lines] == [row["reasoning"] for row in rows]
    sentence = replace(GREEDY, end_after_sentence=True, min_new_tokens=2)
    _, sentences = replies_of(style, tmp_path / "sentence", sentence)
    assert [row["reply"] for row in sentences] == [answer_to(prompt).split("\n")[0] for prompt in prompts]
    _, short = replies_of(style, tmp_path / "short", replace(GREEDY, max_new_tokens=4))
    assert all(row["truncated"] and row["num_tokens"] == 4 for row in short)
    assert all(whole["reply"].startswith(row["reply"]) for whole, row in zip(rows, short, strict=True))


def test_a_thought_that_does_not_end_is_no_reply(tmp_path):
    prompts = trained_prompts().to_pylist()
    _, rows = replies_of("qwen3", tmp_path / "all")
    lengths = [row["num_reasoning_tokens"] for row in rows]
    budget = max(lengths) - 1
    _, cut = replies_of("qwen3", tmp_path / "cut", max_reasoning_tokens=budget)
    pairs = zip(prompts, cut, strict=True)
    assert {prompt["descriptor"] for prompt, row in pairs if row["reasoning_unclosed"]} == {"deaf"}
    for row, before in zip(cut, rows, strict=True):
        if row["reasoning_unclosed"]:
            assert (row["reply"], row["num_tokens"], row["num_reasoning_tokens"]) == (None, 0, budget)
            assert before["reasoning"].startswith(row["reasoning"])
            assert not row["truncated"]
        else:
            assert row == before
    assert all(row["reasoning_unclosed"] for row in replies_of("qwen3", tmp_path / "none", max_reasoning_tokens=0)[1])


def test_thinking_can_be_turned_off(tmp_path):
    silent = Layout("chat", chat=ChatOptions({"enable_thinking": False}))
    plan, rows = replies_of("qwen3", tmp_path / "greedy", layout=silent, max_reasoning_tokens=None)
    assert [row["reply"] for row in rows] == [answer_to(prompt) for prompt in trained_prompts().to_pylist()]
    assert all(row["reasoning"] is None and row["num_reasoning_tokens"] == 0 for row in rows)
    assert plan.description()["max_reasoning_tokens"] == 0
    assert plan.description()["chat_template_kwargs"] == {"enable_thinking": False}
    beams = replace(GREEDY, num_beams=2)
    _, searched = replies_of("qwen3", tmp_path / "beams", beams, layout=silent, max_reasoning_tokens=None)
    assert [row["reply"] for row in searched] == [row["reply"] for row in rows]
    with pytest.raises(ValueError, match="the model thinks before it replies; set --decoding sample"):
        replies_of("qwen3", tmp_path / "thinking", beams)
    thinking, _ = replies_of("qwen3", tmp_path / "on")
    assert thinking.contexts != plan.contexts
    assert thinking.description()["prompts_digest"] == plan.description()["prompts_digest"]
