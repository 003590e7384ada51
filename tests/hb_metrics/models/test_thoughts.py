"""What models write around replies: the same is taken away whether a model is loaded here, served, or in files."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import yaml
from tokenizers import AddedToken

from hb_metrics.collect.engines.files import _answer
from hb_metrics.collect.engines.served import reply_of
from hb_metrics.collect.replies.decoding_settings import Decoding
from hb_metrics.collect.replies.decoding_shards import decode_into_shards
from hb_metrics.collect.replies.prompt_replies import plan_replies
from hb_metrics.collect.replies.requests import MAX_CHARACTERS, make_requests
from hb_metrics.models.layout import Layout
from hb_metrics.models.served.answers import read_served_answer
from hb_metrics.models.thoughts import THOUGHT_MARKS, common_tag, read_written
from hb_metrics.run.answer_files import GivenReply
from tests.hb_metrics.chat_models import chat_tokenizer, trained_prompts, untrained_model
from tests.hb_metrics.conftest import as_loaded

ANSWER = "Hello my friend, how are you doing today?"
# Marks that are special tokens, of which the chat template says nothing.
SPECIAL = ["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|python_tag|>", "<|START_THINKING|>", "<|END_THINKING|>"]
LLAMA_HEADER = "<|start_header_id|>assistant<|end_header_id|>\n\n"


class Scripted:
    """In the place of `Forward`: a model that writes its script, and is lost once it is pushed off it."""

    script: tuple[int, ...] = ()
    vocabulary = 0

    def __init__(self, model, contexts, *, cached=True):
        self.written = [()] * len(contexts)
        self.tokens = torch.zeros(len(contexts), 200)

    def _logits(self):
        logits = torch.zeros(len(self.written), self.vocabulary)
        for row, written in enumerate(self.written):
            is_on = written == self.script[: len(written)] and len(written) < len(self.script)
            logits[row, self.script[len(written)] if is_on else 300] = 40.0
        return logits

    def first(self):
        return self._logits()

    def next(self, tokens):
        self.written = [(*before, token) for before, token in zip(self.written, tokens.tolist(), strict=True)]
        return self._logits()

    def select(self, rows):
        self.written = [self.written[row] for row in rows.tolist()]


@pytest.fixture(scope="module")
def loaded():
    tokenizer = chat_tokenizer("llama3")
    tokenizer.add_tokens([AddedToken(token, special=True) for token in SPECIAL[:3]])
    return as_loaded(untrained_model(tokenizer), tokenizer)


@pytest.fixture(scope="module")
def plans(loaded):
    """By the extent of a reply: a plan for two replies."""
    prompts, how = trained_prompts().slice(0, 2), {"decoding": Decoding(max_new_tokens=120), "layout": Layout("chat")}
    return {
        extent: plan_replies(make_requests(prompts, extent=extent, **how), loaded) for extent in ("first_line", "whole")
    }


@pytest.fixture
def reply_to(loaded, plans, monkeypatch, tmp_path):
    """The row of a reply of a Llama 3 that writes a text."""

    def reply_to(text, extent="first_line"):
        plan = plans[extent]
        script = tuple(loaded.tokenizer(text, add_special_tokens=False)["input_ids"])
        monkeypatch.setattr(Scripted, "script", script)
        monkeypatch.setattr(Scripted, "vocabulary", len(loaded.tokenizer))
        rows = decode_into_shards(
            replace(plan, start=Scripted), loaded, tmp_path / f"{len(list(tmp_path.iterdir()))}"
        ).to_pylist()
        assert rows[0]["reply"] == rows[1]["reply"]
        return rows[0]

    return reply_to


@pytest.mark.parametrize("beginning", ["", "\n\n", "<|python_tag|>\n<|START_RESPONSE|>", LLAMA_HEADER])
def test_a_model_begins_as_it_does(beginning, reply_to):
    row = reply_to(f"{beginning}{ANSWER}<|eot_id|>")
    assert (row["reply"], row["reasoning"], row["truncated"]) == (ANSWER, None, False)


@pytest.mark.parametrize("nothing", ["", "\n", "<|START_RESPONSE|>"])
def test_an_empty_answer_is_an_empty_answer(nothing, reply_to):
    row = reply_to(f"{nothing}<|eot_id|>")
    assert (row["reply"], row["truncated"], row["reasoning_unclosed"]) == (None, False, False)


# Text, what of it is the reply, and what is thought.
THOUGHTS = {
    **{
        opening: (f"{opening}\nThey are deaf.\n{closing}\n\n{ANSWER}", "They are deaf.")
        for opening, closing in THOUGHT_MARKS
    },
    "a later one": (f"<think>One.</think>Well.<think>Two.</think>{ANSWER}", "One.Well.Two."),
    "empty": (f"<think>\n\n</think>\n\n{ANSWER}", ""),
    "answer": (f"<think>One.</think>\n<answer>{ANSWER}</answer>", "One."),
    "answer with a header": (f"<think>One.</think>\n<answer>\n### Response:\n{ANSWER}</answer>", "One."),
    "granite": (f"Here is my thought process:\nOne.\nHere is my response:\n{ANSWER}", "One."),
}
TEXTS = yaml.safe_load(Path(__file__).with_name("marked_texts.yaml").read_text(encoding="utf-8"))


def served(text):
    content = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "model": "m"}
    return reply_of(read_served_answer(content, max_tokens=99), extent="whole")


def of_a_file(text):
    return _answer(GivenReply(1, "a", None, text.strip(), None, False, 1, None), "whole")


def test_the_tokens_of_a_first_line_are_unknown_whoever_answers():
    text = "Hi.\nSecond line"
    content = {
        "choices": [{"message": {"content": text}, "finish_reason": "length"}],
        "usage": {"completion_tokens": 5},
    }
    of_server = reply_of(read_served_answer({**content, "model": "m"}, max_tokens=5), extent="first_line")
    for answer in (of_server, _answer(GivenReply(1, "a", "t", text, 5, True, 1, None), "first_line")):
        assert (answer.text, answer.num_tokens, answer.truncated) == ("Hi.", None, False)


@pytest.mark.parametrize("name", THOUGHTS)
def test_thoughts_are_no_part_of_a_reply_whoever_answers(name, reply_to):
    text, thought = THOUGHTS[name]
    for answer in (served(text), of_a_file(text)):
        assert (answer.text, (answer.reasoning or "").replace("\n", "")) == (ANSWER, thought)
        assert not answer.reasoning_unclosed
    row = reply_to(f"{text}<|eot_id|>", "whole")
    found = row["reply"], (row["reasoning"] or "").replace("\n", ""), row["reasoning_unclosed"]
    assert found == (ANSWER, thought, False)


@pytest.mark.parametrize("turn", TEXTS["turns"] + TEXTS["bare_turns"])
def test_a_turn_that_the_model_invents_is_no_part_of_a_reply(turn, reply_to):
    text = f"ASSISTANT: {ANSWER}{turn}"
    for answer in (served(text), of_a_file(text)):
        assert (answer.text, answer.truncated, answer.invented_turn) == (ANSWER, False, True)
    if turn in TEXTS["turns"]:
        row = reply_to(text.replace("<|im_start|>", "<|eot_id|>"), "whole")
        assert (row["reply"], row["truncated"]) == (ANSWER, False)


@pytest.mark.parametrize("mark", TEXTS["end_marks"])
def test_an_end_mark_ends_a_reply_and_text_after_it_is_counted(mark):
    for read in (served, of_a_file):
        for text, reply in ((f"{ANSWER}{mark}", ANSWER), (mark, "")):
            alone, more = read(text), read(f"{text}They are deaf.")
            assert (alone.text, alone.invented_turn, more.text, more.invented_turn) == (reply, False, reply, True)
    thoughts = served(f"<think>One.</think>{ANSWER}{mark}<think>Two.</think>Three.")
    assert (thoughts.text, thoughts.reasoning) == (ANSWER, "One.")


@pytest.mark.parametrize("lead", TEXTS["leads"])
def test_marks_before_the_first_word_are_no_part_of_a_reply(lead):
    for text in (f"{lead}{ANSWER}", f"{lead}<think>Hm.</think>{lead}{ANSWER}"):
        assert (served(text).text, of_a_file(text).text) == (ANSWER, ANSWER)


@pytest.mark.parametrize("nothing", TEXTS["invisible"])
def test_a_reply_that_nobody_sees_is_empty(nothing, reply_to):
    for text in (nothing, f"{nothing}<|eot_id|>", f"<think>Hm.</think>{nothing}"):
        assert (served(text).text, of_a_file(text).text) == ("", "")
    assert reply_to(f"{nothing}<|eot_id|>", "whole")["reply"] is None
    assert served(f"{nothing}{ANSWER}").text.endswith(ANSWER)


def test_text_after_a_wrapped_answer_is_counted():
    assert read_written(f"<answer>{ANSWER}</answer><|eot_id|>") == (ANSWER, None, False, False)
    assert read_written(f"<answer>{ANSWER}</answer> They are deaf.") == (ANSWER, None, False, True)


def test_a_reply_beyond_all_bounds_is_cut_and_counted():
    text = "Hello my friend. " * 10_000
    for answer in (served(text), of_a_file(text)):
        assert (answer.text, answer.truncated, answer.num_tokens) == (text[:MAX_CHARACTERS], True, None)


def test_a_thought_that_does_not_end_is_no_reply(reply_to):
    for text in (
        "<reasoning>\nThey are",
        "<think>One.</think>Hm <think>They are",
        "analysisThey are",
        "<cot>Hi<|end|>",
    ):
        for answer in (served(text), of_a_file(text)):
            assert (answer.text, answer.reasoning_unclosed) == ("", True)
    row = reply_to("<reasoning>They" + " are" * 200)
    assert (row["reply"], row["reasoning_unclosed"], row["num_tokens"], row["truncated"]) == (None, True, 0, False)


@pytest.mark.parametrize("text", TEXTS["replies"])
def test_what_looks_like_a_mark_stays(text, reply_to):
    assert read_written(text) == (text, None, False, False)
    if not re.search(r"\n|s>|`|[|]>", text):  # the local model would end at the marks, which are its own
        assert reply_to(f"{text}<|eot_id|>", "whole")["reply"] == text


@pytest.mark.parametrize("text", TEXTS["thoughts"])
def test_a_thought_begins_the_text(text):
    assert read_written(text) == ("Hi", "Hm.", False, False)


def test_tags_that_nobody_knows_are_found():
    replies = ["<musing>Hm", "Hi", None, " <musing>Ha", "[b] x", "<musing>"]
    assert common_tag(replies) == ("<musing>", [0, 3, 5])
    assert common_tag(replies[:4]) is None
    assert common_tag(["Hi <musing>"] * 9) is common_tag([*replies, *["Hi"] * 99]) is None
