"""What is read out of an answer, and what is not believed."""

import pytest

from hb_metrics.collect.engines.served import reply_of
from hb_metrics.models.served.answers import read_served_answer
from hb_metrics.models.served.client import TemporaryFault


def chat(message, finish_reason="stop", usage=None):
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}
    return {"model": "m", "choices": [choice], "usage": usage}


def usage(prompt, number, reasoning=None):
    details = {} if reasoning is None else {"completion_tokens_details": {"reasoning_tokens": reasoning}}
    return {"prompt_tokens": prompt, "completion_tokens": number, **details}


def test_an_answer_is_read():
    answer = read_served_answer(chat({"content": " Hello. \n"}, usage=usage(9, 3)), max_tokens=5)

    assert answer._asdict() == {
        "text": "Hello.",
        "reasoning": None,
        "is_open": False,
        "inline": False,
        "invents_turn": False,
        "finish_reason": "stop",
        "ending": "ended",
        "num_tokens": 3,
        "num_reasoning_tokens": None,
        "num_prompt_tokens": 9,
        "model": "m",
    }


PART = {"type": "text", "text": "Hi"}


@pytest.mark.parametrize(
    "message",
    [
        {"content": "Hi", "reasoning_content": " I think. "},
        {"content": "Hi", "reasoning": "I think.", "reasoning_content": "I think.", "refusal": None},
        # Mistral
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I think."}]}, PART], "refusal": ""},
    ],
)
def test_a_thought_that_is_given_apart_is_kept_apart(message):
    answer = read_served_answer(chat(message, usage=usage(9, 7, 4)), max_tokens=9)

    assert (answer.text, answer.reasoning, answer.is_open, answer.inline) == ("Hi", "I think.", False, False)
    assert (answer.num_tokens, answer.num_reasoning_tokens) == (7, 4)
    assert reply_of(answer, extent="whole").num_tokens == 3
    assert reply_of(answer._replace(text=None), extent="whole").num_tokens == 0


def test_a_thought_in_which_the_answer_was_cut_is_open():
    answer = read_served_answer(chat({"content": None, "reasoning_content": "I think"}, "length"), max_tokens=9)

    assert (answer.text, answer.reasoning, answer.is_open) == (None, "I think", True)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None, "refusal": "I can't."}, "I can't."),
        ({"content": [{"type": "refusal", "refusal": "I can't."}]}, "I can't."),
        ({"content": "Well.", "refusal": "I can't."}, "Well.\nI can't."),
    ],
)
def test_a_refusal_is_a_reply(message, text):
    for reason in ("stop", "length", "content_filter"):
        answer = read_served_answer(chat(message, reason), max_tokens=9)
        assert (answer.text, answer.ending, reply_of(answer, extent="whole").truncated) == (text, "refused", False)


@pytest.mark.parametrize("counts", [usage(0, 10**9), usage(3, 0), usage(-3, -1), usage("3", None), None, "many"])
def test_counts_that_cannot_be_or_are_missing_are_left_out(counts):
    answer = read_served_answer(chat({"content": "Hello"}, usage=counts), max_tokens=9)

    assert answer.num_tokens is None
    assert answer.num_prompt_tokens != 0
    assert answer.text == "Hello"


def test_more_tokens_of_a_thought_than_of_all_are_left_out():
    answer = read_served_answer(chat({"content": "Hello"}, usage=usage(3, 5, 6)), max_tokens=9)
    assert (answer.num_tokens, answer.num_reasoning_tokens) == (5, None)


@pytest.mark.parametrize(
    "content",
    [
        None,
        {"choices": []},
        {"choices": [{"finish_reason": "stop"}]},
        {"choices": [{"message": {"content": 3}, "finish_reason": "stop"}]},
        {"choices": 2 * chat({"content": "a"})["choices"]},
        chat({"content": "a"}, None),
        chat({"content": "a"}, {"type": "stop"}),
        chat({"content": [{"type": "image_url", "image_url": {}}]}),
    ],
)
def test_what_is_no_whole_answer_is_asked_for_again(content):
    with pytest.raises(TemporaryFault):
        read_served_answer(content, max_tokens=9)


def test_half_a_character_can_be_written():
    assert read_served_answer(chat({"content": "a\ud83d"}), max_tokens=9).text == "a?"
    name = f"stop\ud83d\x1b[2J\u202e\n{'x' * 999}"
    model = read_served_answer({**chat({"content": "a"}), "model": name}, max_tokens=9).model
    with pytest.raises(TemporaryFault, match="finish reason 'stop") as fault:
        read_served_answer(chat({"content": "a"}, name), max_tokens=9)
    for name in (model, str(fault.value)):
        assert name.isprintable()
        assert len(name) <= 400


REASONS = {
    "ended": "stop eos_token COMPLETE tool_calls",
    "cut": "length MAX_TOKENS model_length",
    "filtered": "content_filter content_filter:OTHER SAFETY sensitive",
    "unknown": "OTHER pause_turn",
    "fault": "error abort insufficient_system_resource null max_time 停",
}


@pytest.mark.parametrize(("ending", "reason"), [(each, name) for each in REASONS for name in REASONS[each].split()])
def test_an_answer_is_what_its_finish_reason_means(ending, reason):
    content = chat({"content": "a"}, reason)
    if ending == "fault":
        with pytest.raises(TemporaryFault, match=f"finish reason '{reason}'"):
            read_served_answer(content, max_tokens=9)
        return
    answer = read_served_answer(content, max_tokens=9)
    assert (answer.ending, answer.finish_reason) == (ending, reason)
    reply = reply_of(answer, extent="whole")
    assert reply.text == ("" if ending == "filtered" else "a")
    assert reply.truncated is (None if ending == "unknown" else ending == "cut")


def test_a_continuation_is_read():
    content = {"model": "m", "choices": [{"text": " and so on", "finish_reason": "length"}], "usage": usage(4, 3)}
    answer = read_served_answer(content, max_tokens=3)

    assert (answer.text, answer.finish_reason, answer.num_tokens) == ("and so on", "length", 3)
