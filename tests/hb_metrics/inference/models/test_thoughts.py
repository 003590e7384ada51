"""What models write around replies: the same is taken away whether a model is loaded here, served, or in files."""

from dataclasses import replace

import pytest
import torch
from tokenizers import AddedToken

from hb_metrics.inference.engines.files import _answer
from hb_metrics.inference.engines.served import reply_of
from hb_metrics.inference.models.thoughts import THOUGHT_MARKS, common_tag, read_written
from hb_metrics.inference.replies import beam_search, decoding
from hb_metrics.inference.replies.decoding_settings import Decoding
from hb_metrics.inference.replies.decoding_shards import decode_into_shards
from hb_metrics.inference.replies.presets import PRESETS
from hb_metrics.inference.replies.prompt_replies import plan_replies
from hb_metrics.inference.replies.requests import make_requests
from hb_metrics.inference.served.answers import read_served_answer
from hb_metrics.runs.answer_files import GivenReply
from tests.hb_metrics.chat_models import chat_tokenizer, trained_prompts, untrained_model
from tests.hb_metrics.conftest import as_loaded

ANSWER = "Hello my friend, how are you doing today?"
# Marks that are special tokens, of which the chat template says nothing.
SPECIAL = ["<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|python_tag|>", "<|START_THINKING|>", "<|END_THINKING|>"]
DECODINGS = {
    "greedy": Decoding(max_new_tokens=120),
    "sample": replace(PRESETS["sample"], max_new_tokens=120),
    "beams": Decoding(num_beams=2, max_new_tokens=120),
}


class Scripted:
    """In the place of `Forward`: a model that writes its script, and is lost once it is pushed off it."""

    script: tuple[int, ...] = ()
    vocabulary = 0

    def __init__(self, model, contexts, beams=1, *, cached=True, states=()):
        self.written = [()] * (len(contexts) * beams)

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


@pytest.fixture
def reply_to(loaded, monkeypatch, tmp_path):
    """The row of a reply of a Llama 3 that writes a text."""

    def reply_to(text, how, extent="first_line"):
        requests = make_requests(trained_prompts().slice(0, 2), decoding=DECODINGS[how], extent=extent)
        plan = plan_replies(requests, loaded, context="chat")
        script = tuple(loaded.tokenizer(text, add_special_tokens=False)["input_ids"])
        monkeypatch.setattr(Scripted, "script", script)
        monkeypatch.setattr(Scripted, "vocabulary", len(loaded.tokenizer))
        for module in (decoding, beam_search):
            monkeypatch.setattr(module, "Forward", Scripted)
        rows = decode_into_shards(plan, loaded, tmp_path / f"{len(list(tmp_path.iterdir()))}").to_pylist()
        assert rows[0]["reply"] == rows[1]["reply"]
        return rows[0]

    return reply_to


@pytest.mark.parametrize("how", DECODINGS)
@pytest.mark.parametrize(
    "beginning",
    [
        "",
        "\n\n",
        " \n",
        "<|START_RESPONSE|>",
        "<|python_tag|>",
        "<|python_tag|>\n<|START_RESPONSE|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
    ],
)
def test_a_model_begins_as_it_does(beginning, how, reply_to):
    if how == "beams" and "header" in beginning:
        pytest.skip("beams read no words before a reply")
    row = reply_to(f"{beginning}{ANSWER}<|eot_id|>", how)
    assert (row["reply"], row["reasoning"], row["truncated"]) == (ANSWER, None, False)


@pytest.mark.parametrize("how", DECODINGS)
@pytest.mark.parametrize("nothing", ["", "\n", "<|START_RESPONSE|>"])
def test_an_empty_answer_is_an_empty_answer(nothing, how, reply_to):
    row = reply_to(f"{nothing}<|eot_id|>", how)
    assert (row["reply"], row["truncated"], row["reasoning_unclosed"]) == (None, False, False)


def test_the_next_special_token_ends_a_reply(reply_to):
    for end in ("<|START_RESPONSE|>", "<|start_header_id|>user<|end_header_id|>\n\n"):
        assert reply_to(f"{ANSWER}{end}More.<|eot_id|>", "greedy", "whole")["reply"] == ANSWER


# Text, what of it is the reply, and what is thought.
THOUGHTS = {
    **{
        opening: (f"{opening}\nThey are deaf.\n{closing}\n\n{ANSWER}", "They are deaf.")
        for opening, closing in THOUGHT_MARKS
    },
    "two": (f"<think>One.</think>\n<think>Two.</think>{ANSWER}", "One.Two."),
    "a later one": (f"<think>One.</think>Well.<think>Two.</think>{ANSWER}", "One.Well.Two."),
    "empty": (f"<think>\n\n</think>\n\n{ANSWER}", ""),
    "answer": (f"<think>One.</think>\n<answer>{ANSWER}</answer>", "One."),
    "solution": (f"<|begin_of_thought|>One.<|end_of_thought|><|begin_of_solution|>{ANSWER}<|end_of_solution|>", "One."),
    "granite": (f"Here is my thought process:\nOne.\nHere is my response:\n{ANSWER}", "One."),
    "header": (f"<|im_start|>assistant\n<think>One.</think>{ANSWER}", "One."),
}
TURNS = [
    f"{ANSWER} USER: Fine! ASSISTANT: Good.",
    f"{ANSWER}\nUSER: Fine!",
    f"{ANSWER}\n\nUser: Fine!\nAssistant: Good.",
    f"{ANSWER}\n### Human: Fine!",
    f"{ANSWER}\n### Instruction:\nSay more.",
    f"{ANSWER}<|im_start|>user\nFine!",
    f"ASSISTANT: {ANSWER}\nHuman: Fine!",
]


def served(text):
    content = {"choices": [{"message": {"content": text}, "finish_reason": "stop"}], "model": "m"}
    return reply_of(read_served_answer(content, max_tokens=99), extent="whole")


def of_a_file(text):
    return _answer(GivenReply(1, "a", None, text.strip(), None, False, 1, None), "whole")


@pytest.mark.parametrize("name", THOUGHTS)
def test_thoughts_are_no_part_of_a_reply_whoever_answers(name, reply_to):
    text, thought = THOUGHTS[name]
    for answer in (served(text), of_a_file(text)):
        assert (answer.text, (answer.reasoning or "").replace("\n", "")) == (ANSWER, thought)
        assert not answer.reasoning_unclosed
    row = reply_to(f"{text}<|eot_id|>", "greedy", "whole")
    assert (row["reply"], (row["reasoning"] or "").replace("\n", "")) == (ANSWER, thought)
    assert not row["reasoning_unclosed"]


@pytest.mark.parametrize("text", TURNS)
def test_a_turn_that_the_model_invents_is_no_part_of_a_reply(text, reply_to):
    for answer in (served(text), of_a_file(text)):
        assert (answer.text, answer.truncated, answer.invented_turn) == (ANSWER, False, True)
    row = reply_to(text.replace("<|im_start|>", "<|eot_id|>"), "greedy", "whole")
    assert (row["reply"], row["truncated"]) == (ANSWER, False)


def test_a_thought_that_does_not_end_is_no_reply(reply_to):
    for text in ("<reasoning>\nThey are", "<think>One.</think>Hm <think>They are"):
        for answer in (served(text), of_a_file(text)):
            assert (answer.text, answer.reasoning_unclosed) == ("", True)
    row = reply_to("<reasoning>They" + " are" * 200, "greedy")
    assert (row["reply"], row["reasoning_unclosed"], row["num_tokens"], row["truncated"]) == (None, True, 0, False)


@pytest.mark.parametrize(
    "text",
    ["Say <think> to think.", "USER is a word.", "I analysis things.", "The user: me.", "As <b>you</b> like.", "A"],
)
def test_what_looks_like_a_mark_stays(text, reply_to):
    assert read_written(text) == (text, None, False, False)
    assert reply_to(f"{text}<|eot_id|>", "greedy", "whole")["reply"] == text


def test_the_mark_that_ends_a_thought_is_enough():
    for text in ("Hm.</think>Hi", "<think>\nHm.\n</think>\n\nHi", "[THINK]Hm.[/THINK]Hi"):
        assert read_written(text) == ("Hi", "Hm.", False, False)
    final = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Hi"
    assert read_written(final) == read_written("analysisHm.assistantfinalHi") == ("Hi", "Hm.", False, False)


def test_tags_that_nobody_knows_are_found():
    replies = ["<musing>Hm", "Hi", None, " <musing>Ha", "[b] x", "<musing>"]
    assert common_tag(replies) == ("<musing>", [0, 3, 5])
    assert common_tag(replies[:4]) is None
    assert common_tag(["Hi <musing>"] * 9) is None
    assert common_tag([*replies, *["Hi"] * 99]) is None
