"""What is read out of an answer, and what is not believed."""

import pytest

from hb_metrics.inference.engines.served import reply_of
from hb_metrics.inference.served.answers import check_model, read_served_answer
from hb_metrics.inference.served.client import TemporaryFault


def chat(message, finish_reason="stop", usage=None, **more):
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish_reason}
    return {"model": "m", "choices": [choice], "usage": usage, **more}


def usage(prompt, number, reasoning=None):
    details = {} if reasoning is None else {"completion_tokens_details": {"reasoning_tokens": reasoning}}
    return {"prompt_tokens": prompt, "completion_tokens": number, **details}


def test_an_answer_is_read():
    answer = read_served_answer(
        chat({"content": " Hello. \n"}, usage=usage(9, 3), system_fingerprint="fp_1"), max_tokens=5
    )

    assert answer._asdict() == {
        "text": "Hello.",
        "reasoning": None,
        "is_open": False,
        "inline": False,
        "invents_turn": False,
        "finish_reason": "stop",
        "num_tokens": 3,
        "num_reasoning_tokens": None,
        "num_prompt_tokens": 9,
        "model": "m",
        "fingerprint": "fp_1",
    }


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_a_thought_that_is_given_apart_is_kept_apart(name):
    answer = read_served_answer(chat({"content": "Hi", name: " I think. "}, usage=usage(9, 7, 4)), max_tokens=9)

    assert (answer.text, answer.reasoning, answer.is_open, answer.inline) == ("Hi", "I think.", False, False)
    assert (answer.num_tokens, answer.num_reasoning_tokens) == (7, 4)


def test_a_thought_in_which_the_answer_was_cut_is_open():
    answer = read_served_answer(chat({"content": None, "reasoning_content": "I think"}, "length"), max_tokens=9)

    assert (answer.text, answer.reasoning, answer.is_open) == (None, "I think", True)


def test_nothing_written_and_what_a_filter_took_away():
    assert read_served_answer(chat({"content": None}), max_tokens=9).text is None
    filtered = read_served_answer(chat({"content": None}, "content_filter"), max_tokens=9)
    assert (filtered.text, filtered.finish_reason) == (None, "content_filter")


IMPOSSIBLE = [usage(-1, 10**9), usage(3, 10), usage(3, 0), usage(3, True), usage(3, 2**40)]


@pytest.mark.parametrize("counts", [*IMPOSSIBLE, None, {}, "many", [1]])
def test_counts_that_cannot_be_or_are_missing_are_left_out(counts):
    answer = read_served_answer(chat({"content": "Hello"}, usage=counts), max_tokens=9)

    assert answer.num_tokens is None
    assert answer.text == "Hello"


def test_more_tokens_of_a_thought_than_of_all_are_left_out():
    assert (
        read_served_answer(chat({"content": "Hello"}, usage=usage(3, 5, 6)), max_tokens=9).num_reasoning_tokens is None
    )


@pytest.mark.parametrize(
    "content",
    [
        None,
        {},
        {"choices": []},
        {"choices": [{"finish_reason": "stop"}]},
        {"choices": [{"message": {"content": 3}, "finish_reason": "stop"}]},
        {"choices": 2 * chat({"content": "a"})["choices"]},
        chat({"content": "a"}, None),
    ],
)
def test_what_is_no_whole_answer_is_asked_for_again(content):
    with pytest.raises(TemporaryFault):
        read_served_answer(content, max_tokens=9)


def test_half_a_character_can_be_written():
    assert read_served_answer(chat({"content": "a\ud83d"}), max_tokens=9).text == "a?"
    named = {**chat({"content": "a"}, "st\ud83d"), "model": "m\ud83d", "system_fingerprint": "f\ud83d"}
    answer = read_served_answer(named, max_tokens=9)
    assert (answer.model, answer.fingerprint, answer.finish_reason) == ("m?", "f?", "st?")


@pytest.mark.parametrize(("reason", "cut"), [("stop", False), ("eos_token", False), ("length", True), ("x", True)])
def test_what_the_model_ended_itself_is_not_cut(reason, cut):
    assert reply_of(read_served_answer(chat({"content": "a"}, reason), max_tokens=9), extent="whole").truncated == cut


def test_a_continuation_is_read():
    content = {"model": "m", "choices": [{"text": " and so on", "finish_reason": "length"}], "usage": usage(4, 3)}
    answer = read_served_answer(content, max_tokens=3)

    assert (answer.text, answer.finish_reason, answer.num_tokens) == ("and so on", "length", 3)


def test_an_answer_of_another_model_is_asked_for_again():
    check_model("m", "m")
    for model in ("m", None):
        with pytest.raises(TemporaryFault, match=f"from model '{model}', but earlier answers came from 'n'"):
            check_model(model, "n")
