"""What is read out of an answer, and what is not believed."""

import pytest

from hb_metrics.collect.engines.served import reply_of
from hb_metrics.models.served.answers import first_tokens, read_served_answer
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
        {"content": "Hi", "reasoning": "I think.", "reasoning_details": [{"type": "reasoning.text", "text": "I"}]},
        {"content": "Hi", "reasoning": True, "thinking": "I think.", "refusal": False},
        {"content": "Hi", "reasoning": {"content": "I think."}},
        {"content": "Hi", "reasoning_text": "I think."},
        # Mistral
        {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "I think."}]}, PART], "refusal": ""},
        {"content": [{"type": "reasoning", "text": "I think."}, {"type": "redacted_thinking", "data": "x"}, PART]},
        {"content": [{"type": "output_text", "text": "Hi"}], "thought": "I think."},
        {"content": ["H", "i"], "reasoning": ["I ", "think."]},
    ],
)
def test_a_thought_that_is_given_apart_is_kept_apart(message):
    answer = read_served_answer(chat(message, usage=usage(9, 7, 4)), max_tokens=9)

    assert (answer.text, answer.reasoning, answer.is_open, answer.inline) == ("Hi", "I think.", False, False)
    assert (answer.num_tokens, answer.num_reasoning_tokens) == (7, 4)
    assert reply_of(answer, extent="whole").num_tokens == 3
    assert reply_of(answer._replace(text=None), extent="whole").num_tokens == 0


@pytest.mark.parametrize(
    "thought",
    [
        {"reasoning_content": "I think"},
        {"thinking": "I think"},
        {"reasoning_details": [{"type": "reasoning.text", "text": "I think"}]},
    ],
)
def test_a_thought_in_which_the_answer_was_cut_is_open(thought):
    answer = read_served_answer(chat({"content": None, **thought}, "length"), max_tokens=9)

    assert (answer.text, answer.reasoning, answer.is_open) == (None, "I think", True)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": None, "refusal": "I can't."}, "I can't."),
        ({"content": [{"type": "refusal", "refusal": "I can't."}]}, "I can't."),
        ({"content": None, "refusal": [{"type": "refusal", "refusal": "I can't."}]}, "I can't."),
        ({"content": "Well.", "refusal": "I can't."}, "Well.\nI can't."),
    ],
)
def test_a_refusal_is_a_reply(message, text):
    for reason in ("stop", "length", "content_filter"):
        answer = read_served_answer(chat(message, reason), max_tokens=9)
        assert (answer.text, answer.ending, reply_of(answer, extent="whole").truncated) == (text, "refused", False)


@pytest.mark.parametrize(
    ("counts", "prompt", "number"),
    [
        *((counts, None, None) for counts in (usage(0, 10**9), usage(-3, -1), usage("3", None), None, "many")),
        *((counts, 3, None) for counts in (usage(3, 0), usage(3, True))),
        (usage(10**30, 3), None, 3),
        (usage(3, 5, 6), 3, 5),  # more tokens of a thought than of all
    ],
)
def test_counts_that_cannot_be_or_are_missing_are_left_out(counts, prompt, number):
    answer = read_served_answer(chat({"content": "Hello"}, usage=counts), max_tokens=9)

    assert answer.text == "Hello"
    assert (answer.num_prompt_tokens, answer.num_tokens, answer.num_reasoning_tokens) == (prompt, number, None)


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
        chat({"content": None, "refusal": {"code": 1}}),
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


def token(text, value, **fields):
    return {"token": text, "logprob": value, **fields}


A, B = token("A", -0.2), token("B", -2.4)


@pytest.mark.parametrize(
    ("chosen", "listed", "candidates"),
    [
        (A, [A, A, B], [["A", -0.2], ["B", -2.4]]),
        (A, [token("A", -0.205), B], [["A", -0.205], ["B", -2.4]]),  # rounded
        (A, [token("A", -3.0), B], [["A", -3.0], ["B", -2.4], ["A", -0.2]]),  # another token of the same text
        (token("token_id:32", -0.2, bytes=[65]), [B], [["B", -2.4], ["A", -0.2]]),
        (A, [token("B", -(10**400))], [["B", -9999.0], ["A", -0.2]]),
        (token("A", -(10**400)), [A, B], None),
        (token("A", None), [A, B], None),
        (token("A", 0.9), [token("A", 0.9), token("B", 0.1)], None),  # probabilities
    ],
)
def test_the_token_that_was_chosen_is_a_candidate(chosen, listed, candidates):
    logprobs = {"content": [{**chosen, "top_logprobs": listed}]}
    assert first_tokens({"choices": [{"logprobs": logprobs}]}) == candidates
