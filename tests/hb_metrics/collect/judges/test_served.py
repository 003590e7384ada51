"""Judges that a server runs, against a stand-in with planted rules."""

import json
import math
from copy import copy

import numpy as np
import pytest

from hb_metrics.collect.judges.judge import JudgeSource, load_judge
from hb_metrics.collect.judges.served import _tried, letter_masses
from hb_metrics.collect.scoring.served_options import chat_plans, works
from hb_metrics.models.served.answers import first_tokens
from hb_metrics.models.served.client import Server
from tests.hb_metrics.collect.judges.toy_judges import ATTACKS, StandInJudge
from tests.hb_metrics.models.served.stand_in import MODEL, serving

TEXTS = ["Well done, you came by bus!", "I like the bus, too.", "In simple words: it is a bus.", *ATTACKS]
EXPECTED = [True, False, True, *[False] * len(ATTACKS)]


@pytest.fixture(autouse=True)
def untried():
    _tried.cache_clear()


def judge_of(url, folder, **more):
    return load_judge("condescending", JudgeSource(MODEL, url, folder=folder, **more))


def num_asked(stand_in):
    return sum("\nBEGIN " in body["messages"][-1]["content"] for _, body, _ in stand_in.requests if "messages" in body)


def test_log_probabilities_are_read_and_attacks_change_nothing(tmp_path):
    stand_in = StandInJudge()
    with serving(stand_in) as url:
        judge = judge_of(url, tmp_path)
        probabilities = judge.probabilities(TEXTS)
    # The letter with a space before it is the same letter; the rest is the other one.
    np.testing.assert_allclose(probabilities[:, 0], [0.95 if is_true else 0.05 for is_true in EXPECTED], atol=1e-12)
    assert judge.judge["reads"] == "log-probabilities"
    assert judge.answered(probabilities).all()
    assert num_asked(stand_in) == len(TEXTS)


@pytest.mark.parametrize("refuses", [{"logprobs"}, set()], ids=["refused", "left out"])
def test_without_log_probabilities_several_answers_count(refuses, tmp_path):
    stand_in = StandInJudge(gives=False, refuses=refuses, says="The answer is {}.".format)
    with serving(stand_in) as url:
        judge = judge_of(url, tmp_path)
        probabilities = judge.probabilities(TEXTS[:3])
    assert judge.judge["reads"] == "5 answers"
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    np.testing.assert_array_equal(probabilities * 5, (probabilities * 5).round())
    seeds = [body["seed"] for _, body, _ in stand_in.requests if "BEGIN" in str(body) and "seed" in body]
    assert sorted(seeds) == sorted([0, 1, 2, 3, 4] * 3)


def failing(is_failing, status):
    return lambda number, body: {"status": status, "body": {"error": "not supported"}} if is_failing(body) else None


def test_a_server_without_seeds_and_temperatures_answers_several_times(tmp_path):
    is_other = failing(lambda body: body.get("temperature", 1) != 1, 400)
    stand_in = StandInJudge(gives=False, refuses={"seed", "logprobs"}, faults=is_other)
    with serving(stand_in) as url:
        judge = judge_of(url, tmp_path)
        probabilities = judge.probabilities(TEXTS[:3])
        assert judge.judge["reads"] == "5 answers"
        np.testing.assert_array_equal(probabilities * 5, (probabilities * 5).round())
        assert num_asked(stand_in) == 15
        assert judge_of(url, tmp_path).probabilities(TEXTS[:3]).tobytes() == probabilities.tobytes()
    assert num_asked(stand_in) == 15


def test_a_server_that_fails_at_log_probabilities_is_not_down(tmp_path):
    stand_in = StandInJudge(faults=failing(lambda body: body.get("logprobs"), 500))
    with serving(stand_in) as url:
        assert judge_of(url, tmp_path).judge["reads"] == "5 answers"
        body = {"messages": [{"role": "user", "content": "Yes or no?"}], "max_tokens": 1}
        (plan, _), server = chat_plans(["a"], [body]), Server(model=MODEL, url=url)
        assert not works(plan, server, [["yes", "no"]])
        stand_in.faults = failing(lambda body: True, 500)
        with pytest.raises(ValueError, match="did not answer a trial of log-probabilities"):
            works(plan, server, [["yes", "no"]])


def test_answers_that_are_no_letter_are_counted_not_guessed(tmp_path):
    talkative = iter(range(1000))
    stand_in = StandInJudge(gives=False, says=lambda letter: "It depends." if next(talkative) % 7 > 1 else letter)
    with serving(stand_in) as url:
        judge = judge_of(url, tmp_path, concurrency=1)
        probabilities = judge.probabilities([f"text {number}" for number in range(12)])
    answered = judge.answered(probabilities)
    assert 0 < answered.sum() < 12
    np.testing.assert_array_equal(probabilities[~answered], [[0, 0, 1]] * (~answered).sum())
    np.testing.assert_array_equal(probabilities[answered, -1], 0)


def test_a_judge_without_any_letter_ends_early(tmp_path):
    stand_in = StandInJudge(gives=False, says=lambda letter: "I cannot say.")
    with serving(stand_in) as url, pytest.raises(ValueError, match=r"first 32 answers.*--judge_model"):
        judge_of(url, tmp_path).probabilities([f"text {number}" for number in range(50)])
    assert num_asked(stand_in) < 50


def test_answers_are_paid_for_once(tmp_path):
    stand_in = StandInJudge()
    texts = [f"text {number}" for number in range(30)]
    with serving(stand_in) as url:
        whole = judge_of(url, tmp_path / "whole").probabilities(texts)
        before = num_asked(stand_in)
        stand_in.faults = lambda number, body: {"status": 401} if num_asked(stand_in) > before + 12 else None
        with pytest.raises(ValueError, match="401"):
            judge_of(url, tmp_path / "halves").probabilities(texts)
        stand_in.faults = lambda number, body: None
        paid = len((tmp_path / "halves" / "condescending" / ".journal-00000.jsonl").read_text().split())
        assert paid > 0
        before = num_asked(stand_in)
        judge = judge_of(url, tmp_path / "halves")
        assert judge.probabilities(texts).tobytes() == whole.tobytes()
        assert judge.probabilities(texts[::-1])[::-1].tobytes() == whole.tobytes()
        assert num_asked(stand_in) - before <= len(texts) - 8
        assert judge.cost() == {"num_answers": 30, "tokens_in": 3000, "tokens_out": 30}


@pytest.mark.parametrize("other", [{}, {"model": "org/other"}], ids=["another address", "another served model"])
def test_a_judge_never_gives_the_answers_of_another(other, tmp_path, monkeypatch):
    monkeypatch.setattr("hb_metrics.collect.judges.judge._ANSWERS", tmp_path / "shared")
    folder = tmp_path / "run" if other else None
    first, second = StandInJudge(sure=0.9), StandInJudge(sure=0.6, **other)
    with serving(first) as url, serving(second) as elsewhere:
        judges = [judge_of(address, folder) for address in (url, elsewhere, url)]
        shares = [judge.probabilities(TEXTS[:1])[0, 0] for judge in judges]
    assert shares == pytest.approx([0.95, 0.8, 0.95])
    assert (num_asked(first), num_asked(second)) == (1, 1)


def test_the_cost_is_that_of_all_who_share_the_folder(tmp_path):
    with serving(StandInJudge()) as url:
        judge, other = judge_of(url, tmp_path), judge_of(url, tmp_path)
        judge.probabilities(["text 0", "text 1"])
        assert judge.cost() == {"num_answers": 2, "tokens_in": 200, "tokens_out": 2}
        other.probabilities(["text 1", "text 2"])
        assert judge.cost() == other.cost() == {"num_answers": 3, "tokens_in": 300, "tokens_out": 3}


@pytest.mark.parametrize(
    ("text", "letter"),
    [("A", 0), (" b", None), ("B.", 1), ("(B)", 1), ("**A**", 0), ("Answer: B", 1), ("The answer is A.", 0),
     ("A: condescending", 0), ("A person would say B", None), ("C", None), ("", None), (None, None),
     ("Both A and B", None), ("I cannot", None), ("A\n\nIt is rude.", 0), ("A\u00a0man", None)],
)  # fmt: skip
def test_which_answers_are_letters(text, letter):
    masses = letter_masses(text, None, 2)
    assert masses == [float(place == letter) for place in range(2)]


@pytest.fixture(scope="module")
def by_answers(tmp_path_factory):
    """The probabilities of a server without log-probabilities."""
    with serving(StandInJudge(gives=False)) as url:
        return judge_of(url, tmp_path_factory.mktemp("answers")).probabilities(TEXTS[:4])[:, 0]


def with_values(change, listed=slice(None)):
    """The field `logprobs` with changed values, and with only these tokens in the list beside the chosen one."""

    def given(found):
        pairs = [{"token": token, "logprob": change(math.log(value))} for token, value in found.items()]
        return {"content": [{**pairs[0], "top_logprobs": pairs[listed]}]}

    return given


@pytest.mark.parametrize(
    ("given", "reads"),
    [
        (with_values(lambda value: value, slice(1, None)), "log-probabilities"),  # lmdeploy leaves the chosen one out
        (with_values(math.exp), "5 answers"),
        (with_values(lambda value: float(value > -1)), "5 answers"),  # greedy decoding in llama.cpp
        (with_values(lambda value: value / math.log(10)), "5 answers"),
        (with_values(lambda value: -4 - value), "5 answers"),  # the likeliest is another than the answer
        (with_values(lambda value: None), "5 answers"),
        (lambda found: {"content": [{"top_logprobs": StandInJudge.given(found)["content"]}]}, "5 answers"),
        (lambda found: {"content": None, "refusal": []}, "5 answers"),
    ],
)
def test_no_server_inverts_a_verdict(given, reads, by_answers, tmp_path):
    expected = np.where(EXPECTED[:4], 0.975, 0.025) if reads == "log-probabilities" else by_answers
    with serving(StandInJudge(given=given, sure=0.95)) as url:
        judge = judge_of(url, tmp_path)
        np.testing.assert_allclose(judge.probabilities(TEXTS[:4])[:, 0], expected, atol=1e-6)
    assert judge.judge["reads"] == reads


@pytest.mark.parametrize("rest", [None, -9999, -math.inf, -(10**400)])
def test_impossible_tokens_have_no_probability(rest):
    values = ("ĠA", 1e-7), ("A", -16), ("B", rest), ("B", rest)
    pairs = [{"token": token, "logprob": value} for token, value in values]
    content = {"choices": [{"message": {}, "logprobs": {"content": [{**pairs[0], "top_logprobs": pairs}]}}]}
    first = json.loads(json.dumps(first_tokens(content), allow_nan=False))  # as in a journal
    assert len(first) == 3
    assert letter_masses("A", first, 2) == pytest.approx([1.0, 0.0], abs=1e-6)


BLOCKED = {"body": {"error": {"code": "content_filter", "message": "blocked"}}}
LONG = {"body": {"error": {"message": "This model's maximum context length is 4096 tokens."}}}


@pytest.mark.parametrize(
    "fault",
    [{"status": 400, **BLOCKED}, {"status": 200, **BLOCKED}, "filtered", "refused", {"status": 400, **LONG}],
)
def test_texts_that_the_judge_does_not_get_to_read_are_unanswered(fault, tmp_path):
    stand_in = StandInJudge(faults=lambda number, body: copy(fault) if "came by bus" in str(body) else None)
    with serving(stand_in) as url:
        judge = judge_of(url, tmp_path)
        probabilities = judge.probabilities(TEXTS[:3])
    assert judge.answered(probabilities).tolist() == [False, True, True]
    assert num_asked(stand_in) == 3
