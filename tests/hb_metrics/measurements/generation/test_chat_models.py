"""Small models that were trained to answer as well-known chat models do: replies without thoughts, from end to end."""

from dataclasses import replace

import pytest
from transformers import GenerationConfig

from hb_metrics.inference.models.chats import ChatOptions
from hb_metrics.inference.replies.decoding_settings import Decoding
from hb_metrics.inference.replies.decoding_shards import decode_into_shards
from hb_metrics.inference.replies.presets import PRESETS, choose_extent, decoding_preset, ignored_settings
from hb_metrics.inference.replies.prompt_replies import plan_replies
from hb_metrics.inference.replies.requests import make_requests
from tests.hb_metrics.chat_models import (
    answer_to,
    chat_tokenizer,
    thought_of,
    trained_chat_model,
    trained_prompts,
    untrained_model,
)
from tests.hb_metrics.conftest import as_loaded

GREEDY = Decoding(max_new_tokens=40)


def replies_of(style, folder, decoding=GREEDY, batch_size=None, **how):
    loaded = as_loaded(*trained_chat_model(style))
    requests = make_requests(trained_prompts(), decoding=decoding, **{"extent": "whole"} | how)
    plan = plan_replies(requests, loaded, context="chat")
    table = decode_into_shards(plan, loaded, folder, batch_size=batch_size)
    return plan, table.to_pylist()


@pytest.mark.parametrize(
    "style", ["qwen3", *(pytest.param(style, marks=pytest.mark.long) for style in ("harmony", "r1"))]
)
def test_replies_are_answers_and_thoughts_are_kept_apart(style, tmp_path):
    prompts = trained_prompts().to_pylist()
    plan, rows = replies_of(style, tmp_path / "whole")
    assert [row["reply"] for row in rows] == [answer_to(prompt) for prompt in prompts]
    assert [row["reasoning"] for row in rows] == [thought_of(prompt).strip() for prompt in prompts]
    assert not any(row["truncated"] or row["reasoning_unclosed"] for row in rows)
    assert all(row["num_tokens"] < 40 and row["num_reasoning_tokens"] > 8 for row in rows)
    assert plan.description()["max_reasoning_tokens"] == 2048
    assert replies_of(style, tmp_path / "by three", batch_size=3)[1] == rows  # and one by one at the end

    # Rules about lines, sentences and lengths are about the reply alone, and not about the thought before it.
    _, lines = replies_of(style, tmp_path / "line", extent="first_line")
    assert [row["reply"] for row in lines] == [answer_to(prompt).split("\n")[0] for prompt in prompts]
    assert [row["reasoning"] for row in lines] == [row["reasoning"] for row in rows]
    sentence = replace(GREEDY, end_after_sentence=True, min_new_tokens=2, no_repeat_ngram_size=3)
    _, sentences = replies_of(style, tmp_path / "sentence", sentence)
    assert [row["reply"] for row in sentences] == [answer_to(prompt).split("\n")[0] for prompt in prompts]
    _, short = replies_of(style, tmp_path / "short", replace(GREEDY, max_new_tokens=4))
    assert all(row["truncated"] and row["num_tokens"] == 4 for row in short)
    assert all(whole["reply"].startswith(row["reply"]) for whole, row in zip(rows, short, strict=True))
    sampled = replace(GREEDY, sample=True, temperature=0.1)
    _, drawn = replies_of(style, tmp_path / "sample", sampled)
    assert [row["reply"] for row in drawn] == [row["reply"] for row in rows]
    assert replies_of(style, tmp_path / "sample-1", sampled, batch_size=1)[1] == drawn


def test_a_thought_that_does_not_end_is_no_reply(tmp_path):
    prompts = trained_prompts().to_pylist()
    _, rows = replies_of("qwen3", tmp_path / "all")
    lengths = [row["num_reasoning_tokens"] for row in rows]
    budget = max(lengths) - 1
    _, cut = replies_of("qwen3", tmp_path / "cut", max_reasoning_tokens=budget)
    assert {prompt["descriptor"] for prompt, row in zip(prompts, cut, strict=True) if row["reasoning_unclosed"]} == {
        "deaf"
    }
    for row, before in zip(cut, rows, strict=True):
        if row["reasoning_unclosed"]:
            assert (row["reply"], row["num_tokens"], row["num_reasoning_tokens"]) == (None, 0, budget)
            assert before["reasoning"].startswith(row["reasoning"])
            assert not row["truncated"]
        else:
            assert row == before
    assert all(row["reasoning_unclosed"] for row in replies_of("qwen3", tmp_path / "none", max_reasoning_tokens=0)[1])


def test_thinking_can_be_turned_off(tmp_path):
    silent = ChatOptions({"enable_thinking": False})
    plan, rows = replies_of("qwen3", tmp_path / "greedy", chat=silent)
    assert [row["reply"] for row in rows] == [answer_to(prompt) for prompt in trained_prompts().to_pylist()]
    assert all(row["reasoning"] is None and row["num_reasoning_tokens"] == 0 for row in rows)
    assert plan.description()["max_reasoning_tokens"] == 0
    assert plan.description()["chat_template_kwargs"] == {"enable_thinking": False}
    beams = replace(GREEDY, num_beams=2)
    assert [row["reply"] for row in replies_of("qwen3", tmp_path / "beams", beams, chat=silent)[1]] == [
        row["reply"] for row in rows
    ]
    with pytest.raises(ValueError, match="beam search cannot separate a thought from a reply; set --decoding sample"):
        replies_of("qwen3", tmp_path / "thinking", beams)
    thinking, _ = replies_of("qwen3", tmp_path / "on")
    assert thinking.contexts != plan.contexts
    assert thinking.description()["prompts_digest"] == plan.description()["prompts_digest"]


def test_which_part_of_what_is_written_is_the_reply():
    assert choose_extent("auto", "chat", "greedy")[0] == "whole"
    assert choose_extent("auto", "chat", "model")[0] == "whole"
    assert choose_extent("auto", "plain", "greedy")[0] == "first_line"
    for preset in ("sample", "dialogpt", "blenderbot2"):
        assert choose_extent("auto", "chat", preset) == (
            "first_line",
            f"--decoding {preset} generates one line of dialogue",
        )
        assert choose_extent("whole", "plain", preset) == ("whole", "--reply whole was given")
    whole = decoding_preset("sample", extent="whole")
    assert (whole.max_new_tokens, whole.end_after_sentence, whole.temperature) == (256, False, 0.7)
    assert decoding_preset("greedy", extent="whole", max_new_tokens=30).max_new_tokens == 30
    assert decoding_preset("greedy") == PRESETS["greedy"]


def test_the_models_own_settings():
    model = untrained_model(chat_tokenizer("qwen3"))
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=0.6, top_p=0.95, top_k=20, repetition_penalty=1.05, max_length=4096
    )
    found = decoding_preset("model", model, "whole")
    assert found == Decoding(sample=True, temperature=0.6, top_p=0.95, top_k=20, max_new_tokens=256)
    assert ignored_settings(model.generation_config) == {"repetition_penalty": 1.05}
    model.generation_config = GenerationConfig(do_sample=True, top_k=0, max_new_tokens=70)
    found = decoding_preset("model", model, "whole", temperature=0.5)
    assert (found.temperature, found.max_new_tokens) == (0.5, 70)
    assert found.top_k >= len(chat_tokenizer("qwen3"))
    model.generation_config = GenerationConfig()
    assert decoding_preset("model", model) == Decoding()
    with pytest.raises(ValueError, match=r"^temperature is 0\.5, but --decoding model does not sample"):
        decoding_preset("model", model, temperature=0.5)
    assert ignored_settings(model.generation_config) == {}


def test_an_encoder_decoder_models_own_lengths_are_of_the_reply(get_small_model):
    model, _ = get_small_model("blenderbot")
    config = GenerationConfig(num_beams=10, max_length=60, min_length=20, no_repeat_ngram_size=3, length_penalty=0.65)
    before, model.generation_config = model.generation_config, config
    try:
        found = decoding_preset("model", model)
    finally:
        model.generation_config = before
    expected = Decoding(num_beams=10, max_new_tokens=59, min_new_tokens=19, no_repeat_ngram_size=3, length_penalty=0.65)
    assert found == expected
