"""The probe, on servers that leave out one thing each and answer as if they did not."""

import asyncio
import math
import random
from dataclasses import asdict, replace

import pytest

from hb_metrics.models.served.client import Server, connected
from hb_metrics.models.served.probe import changes, probe
from tests.hb_metrics.models.served.stand_in import MODEL, WORDS, StandIn, serving
from tests.hb_metrics.models.served.test_likelihoods import model_score


def run_probe(url, chat=True, **extra):
    async def run():
        async with connected(Server(model=MODEL, url=url, timeout=60)) as client:
            return await probe(client, chat=chat, extra=extra)

    return asyncio.run(run())


def probe_of(chat=True, **settings):
    with serving(StandIn(**settings)) as url:
        return replace(run_probe(url, chat=chat), base_url=None)


HONEST = {
    "base_url": None,
    "model": MODEL,
    "max_tokens_field": "max_tokens",
    "max_tokens_kept": True,
    "greedy": True,
    "samples": True,
    "temperature_kept": True,
    "top_p_kept": True,
    "top_k_kept": True,
    "neutral": {
        "top_p": 1.0,
        "top_k": -1,
        "min_p": 0.0,
        "repetition_penalty": 1.0,
        "repeat_penalty": 1.0,
        "presence_penalty": 0.0,
        "frequency_penalty": 0.0,
    },
    "not_set": [],
    "reasoning": "none",
    "writes": True,
    "system_kept": True,
    "history_kept": True,
    "likelihoods": False,
    "start_token": None,
    "log_likelihood": None,
}


def without(*names):
    """What is found of a server that refuses fields."""
    neutral = {name: value for name, value in HONEST["neutral"].items() if name not in names}
    return {"neutral": neutral, "not_set": list(names)}


class Lossy(StandIn):
    """Uses only the messages that `kept` leaves."""

    def chat(self, body):
        return super().chat({**body, "messages": self.kept(body["messages"])})


def without_roles(status, *roles):
    """A fault of a server whose chat template accepts only some roles."""
    refusal = {"status": status, "body": {"error": "Conversation roles must alternate"}}

    def fault(number, body):
        return dict(refusal) if {each["role"] for each in body.get("messages", [])} & set(roles) else None

    return fault


class Counting(StandIn):
    def envelope(self, choice, num_prompt, *counts):
        return super().envelope(choice, self.count, *counts)


class Rounding(StandIn):
    """Rounds differently in each answer, so it changes one of 25 words even if it should draw the likeliest."""

    def words(self, prompt, body):
        words, ended = super().words(prompt, body)
        return [random.choice(WORDS) if random.random() < 0.04 else word for word in words], ended


def rejecting(is_rejected):
    return lambda number, body: {"status": 400, "body": {"error": "not supported"}} if is_rejected(body) else None


def test_a_server_that_does_what_it_is_asked():
    stand_in = StandIn()
    with serving(stand_in) as url:
        assert asdict(run_probe(url)) == {**HONEST, "base_url": url}
    assert not [body for _, body, _ in stand_in.requests if "n" in body or "best_of" in body]


@pytest.mark.parametrize(
    ("stand_in", "different"),
    [
        # transformers serve, as long as its model's generation_config has no do_sample
        (StandIn(temperature=0), {"samples": False, "top_p_kept": None, "top_k_kept": None}),
        (StandIn(refuses={"seed"}), {"samples": False, "top_p_kept": None, "top_k_kept": None}),
        (StandIn(ignores={"temperature"}), {"greedy": False, "temperature_kept": False}),
        (StandIn(faults=rejecting(lambda body: body.get("temperature") == 0)), {"greedy": False}),  # TGI
        # OpenAI's reasoning models, and Anthropic
        (
            StandIn(faults=rejecting(lambda body: body.get("temperature", 1) != 1)),
            {"greedy": False, "temperature_kept": False},
        ),
        (
            StandIn(faults=rejecting(lambda body: {"temperature", "top_p"} <= set(body))),
            {"top_p_kept": False, **without("top_p")},
        ),
        (Counting(count=7), {"system_kept": None, "history_kept": None}),
        (
            StandIn(refuses={"repetition_penalty", "frequency_penalty"}),
            without("repetition_penalty", "frequency_penalty"),
        ),
        (StandIn(ignores={"top_k"}), {"top_k_kept": False}),
        (StandIn(ignores={"top_p"}), {"top_p_kept": False}),
        (StandIn(thinks="apart"), {"reasoning": "apart"}),
        (StandIn(thinks="in the text"), {"reasoning": "in the text"}),
        (StandIn(refuses={"max_tokens"}), {"max_tokens_field": "max_completion_tokens"}),
        (StandIn(ignores={"max_tokens"}), {"max_tokens_kept": False}),
        (Lossy(kept=lambda said: [each for each in said if each["role"] != "system"]), {"system_kept": False}),
        (Lossy(kept=lambda said: [each for each in said if each["role"] != "assistant"]), {"history_kept": False}),
        (Lossy(kept=lambda said: said[-1:]), {"history_kept": False, "system_kept": False}),
        (StandIn(faults=without_roles(400, "system")), {"system_kept": False}),
        (StandIn(faults=without_roles(500, "assistant")), {"history_kept": False}),
        (StandIn(ignores={"seed"}), {}),
        (StandIn(faults=lambda number, body: "bad counts"), {"system_kept": None, "history_kept": None}),
    ],
)
def test_what_a_server_leaves_out_is_found(stand_in, different):
    with serving(stand_in) as url:
        assert asdict(run_probe(url)) == {**HONEST, **different, "base_url": url}


class Late(StandIn):
    """Begins with a thought of 320 words, as the chat template says, and marks only its end, or hides it."""

    hidden = False

    def words(self, prompt, body):
        start, _ = super().words(prompt, {**body, "max_tokens": 20})
        words, most = [*start, *["so"] * 300, "</think>", "Hello."], body["max_tokens"]
        return words[:most], "length" if len(words) > most else "stop"

    def chat(self, body):
        content = super().chat(body)
        if self.hidden:
            number = content["usage"]["completion_tokens"]
            content["usage"]["completion_tokens_details"] = {"reasoning_tokens": min(number, 321)}
            message = content["choices"][0]["message"]
            message["content"] = "Hello." if number > 321 else ""
        return content


@pytest.mark.parametrize(("hidden", "reasoning"), [(False, "in the text"), (True, "apart")])
def test_a_thought_that_ends_late_is_known(hidden, reasoning):
    with serving(Late(hidden=hidden)) as url:
        found = run_probe(url)
    assert (found.reasoning, found.writes) == (reasoning, True)


def shifted(score):
    def wrong(text):
        tokens, values = score(text)
        return tokens, [*values[1:], score.next(text)[1]]

    wrong.next = score.next
    return wrong


def scaled(score, factor):
    """Of another base than what is said of the token that was written."""

    def wrong(text):
        tokens, values = score(text)
        return tokens, [None if value is None else value * factor for value in values]

    wrong.next = score.next
    return wrong


@pytest.mark.parametrize("name", ["llama", "gpt2-without-bos"])
def test_likelihoods_of_other_tokens_or_bases_do_not_count(name):
    score = model_score(name)
    right = probe_of(score=score)
    assert right.likelihoods
    assert (right.start_token is None) == (name == "gpt2-without-bos")
    assert not probe_of(score=shifted(score)).likelihoods
    for base in (2, 10):
        assert not probe_of(score=scaled(score, 1 / math.log(base))).likelihoods
    assert not probe_of(score=lambda text: (["<s>", text], [None, -1.0])).likelihoods  # the same for all texts


def test_samples_at_low_temperature_are_not_taken_for_greedy():
    # 1 probe of 1,000 sees no difference: eight answers of 25 words, each word the likelier of two with p = 0.966.
    with serving(StandIn(temperature=0.3, ignores={"seed"})) as url:
        assert sum(run_probe(url).greedy for _ in range(8)) <= 1


def test_a_temperature_counts_as_kept_only_if_it_changes_the_answers():
    # Of 40 probes each, 1 was wrong.
    ignoring, rounding = StandIn(temperature=0.7, ignores={"seed"}), Rounding()
    with serving(ignoring) as url, serving(rounding) as other:
        assert sum(run_probe(url).temperature_kept for _ in range(4)) <= 1
        found = [run_probe(other) for _ in range(4)]
    assert sum(probe.temperature_kept for probe in found) >= 3
    assert not any(probe.greedy for probe in found)
    assert len(rounding.requests) / 4 <= 40


def test_texts_are_continued_by_a_server_without_chats():
    assert asdict(probe_of(chat=False)) == {**HONEST, "system_kept": None, "history_kept": None}


def test_answers_of_several_models_are_refused():
    with pytest.raises(ValueError, match=r"returned answers from several models \('org/other', 'org/stand-in'\)"):
        probe_of(faults=lambda number, body: "other model" if number == 3 else None)


def test_what_changed_since_the_run_began():
    now = probe_of()
    likely = replace(now, log_likelihood=-3.0)
    assert changes(HONEST, now) == {}
    assert changes({**HONEST, "log_likelihood": -3.01}, likely) == {}
    assert changes({**HONEST, "log_likelihood": -3.2}, likely) == {"log_likelihood": (-3.2, -3.0)}
    assert changes({**HONEST, "max_tokens_kept": None}, now) == {}
    assert changes({**HONEST, "model": "a"}, now) == {"model": ("a", MODEL)}
