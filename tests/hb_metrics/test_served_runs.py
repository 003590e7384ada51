"""Whole runs of served models: what a run asks, what faults and deaths of a server do to it, and what is reported."""

import json
import os
import random
import signal
import time
from copy import copy
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from hb_dataset import load_table
from hb_metrics.collect import asking
from hb_metrics.collect.engines import served as engine
from hb_metrics.collect.scoring.perplexity import score_perplexity
from hb_metrics.command import measuring
from hb_metrics.command.analyse import analyse
from hb_metrics.command.arguments import parse_arguments
from hb_metrics.models.served import client
from hb_metrics.models.served.probe import QUESTIONS
from hb_metrics.run.record import Model
from hb_metrics.run.replies import LeftOutError
from hb_metrics.run.run_folder import turn_folder
from hb_metrics.run.run_record import measured_model
from hb_metrics.run.typed_json import from_json
from tests.forked_programs import free_port
from tests.hb_metrics.conftest import small_model
from tests.hb_metrics.models.served.stand_in import MODEL, StandIn, serving
from tests.hb_metrics.models.served.test_likelihoods import model_score
from tests.hb_metrics.test_killed_runs import Runs

KILLS = 4
PROBED = 40  # more requests than a probe has


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(asking, "ROWS_PER_SHARD", 8)


@pytest.fixture
def run(vocabulary, tmp_path):
    def run(url, *options, out="run", measurements="generation"):
        given = ["--model", MODEL, "--base_url", url, "--vocabulary_dir", vocabulary, "--output_dir", tmp_path / out]
        given += ["--measurements", measurements, "--replies_per_cell", 0, *options]
        measuring.measure(parse_arguments(list(map(str, given))))
        return json.loads((tmp_path / out / "results.json").read_text()), tmp_path / out

    return run


def asked_bodies(stand_in):
    """The requests to continue a conversation, without those of the probe."""
    bodies = [body for path, body, _ in stand_in.requests if path.endswith("chat/completions")]
    return [body for body in bodies if body["messages"][-1]["content"] not in QUESTIONS]


def asked_prompts(stand_in):
    return ["\n".join(message["content"] for message in body["messages"]) for body in asked_bodies(stand_in)]


def answers(results):
    """The results without the record of the run."""
    return {name: part for name, part in results.items() if name != "run"}


def test_a_served_model_is_measured_by_one_command(run, vocabulary):
    stand_in = StandIn(score=model_score("llama"))
    with serving(stand_in) as url:
        results, folder = run(url, measurements="likelihood,generation,offensiveness")

    prompts = load_table("v1.0-small", vocabulary)
    scores = pq.read_table(folder / "perplexities").sort_by("id")
    texts = dict(zip(prompts["id"].to_pylist(), prompts["text"].to_pylist(), strict=True))
    expected = score_perplexity([texts[each] for each in scores["id"].to_pylist()], *small_model("llama"))
    assert sorted(scores["id"].to_pylist()) == sorted(texts)
    assert scores["perplexity"].to_pylist() == pytest.approx(expected.perplexities.tolist(), rel=1e-5)
    assert scores["num_tokens"].to_pylist() == expected.num_tokens.tolist()
    assert results["likelihood"]["term_share"] is not None
    replies = pq.read_table(folder / "replies")
    assert sorted(asked_prompts(stand_in)) == sorted(texts.values()) == sorted(replies["text"].to_pylist())
    bodies = {body["messages"][-1]["content"]: body for body in asked_bodies(stand_in)}
    for row in replies.to_pylist():
        body = bodies[row["text"]]
        assert row["reply"] == stand_in.chat(body)["choices"][0]["message"]["content"]
        assert [body[name] for name in ("max_tokens", "temperature", "top_p", "top_k")] == [40, 0.7, 0.9, 50]
        assert body["messages"] == [{"role": "user", "content": row["text"]}]
        assert row["num_tokens"] == len(row["reply"].split())
        assert row["served_model"] == MODEL
    assert len({bodies[text]["seed"] for text in texts.values()}) == len(texts)
    assert results["run"]["model"]["served"]["base_url"] == url
    assert results["run"]["generation"]["ignored_settings"] == {"min_new_tokens": 10, "end_after_sentence": True}
    assert results["generation"]["served"]["tokens_out"] == sum(replies["tokens_out"].to_pylist())
    page = (folder / "report.html").read_text()
    assert f"served by {url}." in page
    model = from_json(Model, results["run"]["model"])
    assert measured_model(model) == f"{MODEL}, queried over HTTP (an OpenAI-compatible server)"
    assert measured_model(replace(model, name="/home/me/weights")).startswith("weights, queried over")
    assert not list(folder.rglob(".journal*"))


def test_faults_lose_nothing_and_count_nothing_twice(run):
    generator = random.Random(1)
    faults = [{"status": 429, "retry_after": "0.02"}, {"status": 500}, "half", "torn", "cut off", "empty"]
    faults += ["other model", "unfinished", *[None] * 12]
    with serving(StandIn()) as url:
        whole, _ = run(url, "--turns", 2)
    stand_in = StandIn()
    stand_in.faults = lambda number, body: copy(generator.choice(faults)) if number > PROBED else None
    with serving(stand_in) as url:
        results, folder = run(url, "--turns", 2, out="faulty")

    assert answers(results) == answers(whole)
    for replies in (pq.read_table(turn_folder(folder, turn) / "replies") for turn in (1, 2)):
        assert len(set(replies["id"].to_pylist())) == len(replies) == 28
    assert len(asked_prompts(stand_in)) > 68


def test_bad_counts_filtered_replies_and_refusals_are_counted(run):
    stand_in = StandIn()
    blocked = {"status": 400, "body": {"error": {"code": "content_filter", "message": "x"}}}
    faults = {"young": "bad counts", "deaf": "filtered", "blind": blocked, "old": "refused"}
    stand_in.faults = lambda number, body: next((copy(faults[word]) for word in faults if word in str(body)), None)
    with serving(stand_in) as url:
        results, folder = run(url)

    replies = pq.read_table(folder / "replies").to_pylist()
    assert all((row["num_tokens"] is None) == ("young" in row["text"]) for row in replies)
    generation = results["generation"]
    counts = [generation[f"num_{name}"] for name in ("replies", "empty_replies", "filtered_replies")]
    assert counts == [20, 0, 8]
    assert generation["served"]["finish_reasons"] == {"content_filter": 8, "stop": 20}
    assert generation["served"]["endings"] == {"ended": 16, "filtered": 8, "refused": 4}
    refusals = generation["refusals"]["refusals"]
    assert (refusals["num"], refusals["num_replies"], refusals["by_axis"]["age"]["num"]) == (4, 20, 4)
    assert refusals["by_rule"] == {"(marked as a refusal by the server)": 4}
    flags = pq.read_table(folder / "refusals.parquet").to_pylist()
    assert {row["id"] for row in flags if row["refusal"]} == {row["id"] for row in replies if "old" in row["text"]}
    page = (folder / "report.html").read_text()
    assert "A content filter of the server removed 8 replies" in page
    assert "content_filter 8, stop 20." in page


class Forgetful(StandIn):
    """Reads only the last message."""

    def chat(self, body):
        return super().chat({**body, "messages": body["messages"][-1:]})


class LaterFaults(StandIn):
    """Answers the second turn with a fault for each term, and keeps only the last messages of the third turn."""

    def chat(self, body):
        said = body["messages"]
        answer = super().chat({**body, "messages": said[-1:] if len(said) == 5 else said})
        choice, message = answer["choices"][0], answer["choices"][0]["message"]
        if len(said) == 3 and "young" in said[0]["content"]:
            message["content"] = " \n"
        elif len(said) == 3 and "old" in said[0]["content"]:
            choice |= {"finish_reason": "length"}
            message |= {"content": None, "reasoning_content": message["content"]}
        elif len(said) == 3 and "adult" in said[0]["content"]:
            message |= {"reasoning_content": "They want to know more."}
        elif len(said) == 3 and "blind" in said[0]["content"]:
            message["content"] += "\nUser: And then?"
        return answer


def test_what_later_turns_lack_is_counted(run, capsys):
    stand_in = LaterFaults()

    def faults(number, body):
        if len(body["messages"]) != 3 or "deaf" not in str(body):
            return None
        too_long = {"error": {"message": "The maximum context length is 64 tokens."}}
        return {"status": 400, "body": too_long} if "parent" in str(body) else "filtered"

    stand_in.faults = faults
    with serving(stand_in) as url:
        results, folder = run(url, "--turns", 3)

    later = [
        {row["id"]: row for row in pq.read_table(turn_folder(folder, turn) / "replies").to_pylist()} for turn in (2, 3)
    ]
    assert [len(rows) for rows in later] == [28, 16]
    turns = results["generation"]["turns"]
    assert (turns["num_conversations"], turns["num_ended"], turns["num_unclosed_reasoning"]) == (16, 12, 4)
    assert sum(row["reasoning"] == "They want to know more." for row in later[0].values()) == 4
    assert "They want" not in str([body for _, body, _ in stand_in.requests])
    assert "And then?" not in str([body for _, body, _ in stand_in.requests])
    assert turns["served"]["finish_reasons"]["content_filter"] == 2
    assert turns["served"]["finish_reasons"]["conversation_too_long"] == 2
    assert turns["served"]["num_shortened"] == 16
    tokens = [row["tokens_out"] for rows in later for row in rows.values()]
    assert turns["served"]["tokens_out"] - results["generation"]["served"]["tokens_out"] == sum(filter(None, tokens))
    page = (folder / "report.html").read_text()
    assert "For 16 requests after the first turn, the server counted fewer input tokens" in page
    assert "in 4 conversations, because a thought did not end" in page
    assert "content_filter 2, conversation_too_long 2, length 4," in page
    assert "4 replies contained text after an end mark or a user turn, which was removed" in capsys.readouterr().out


def test_what_a_server_does_not_do_is_refused_by_name(run):
    with serving(StandIn(temperature=0)) as url:
        results, _ = run(url, "--decoding", "greedy")
        with pytest.raises(ValueError, match="remove likelihood from --measurements, or serve"):
            run(url, measurements="likelihood", out="other")
    neutral = results["run"]["model"]["served"]["neutral"]
    assert results["run"]["generation"]["fields_sent"] == {**neutral, "max_tokens": 256, "temperature": 0}


TEMPERATURE_1 = StandIn(faults=lambda number, body: {"status": 400} if body.get("temperature", 1) != 1 else None)


@pytest.mark.parametrize(
    ("stand_in", "options", "match"),
    [
        (StandIn(ignores={"temperature"}), ["--decoding", "greedy"], "ignores temperatures other than 1"),
        (TEMPERATURE_1, [], "rejects or ignores temperatures other than 1; set --decoding sample and --temperature 1"),
        (StandIn(ignores={"top_p"}), [], "ignores top_p; set --top_p 1$"),
        (StandIn(refuses={"top_k"}), ["--top_k", 20], "ignores top_k; set --top_k 0$"),
        (StandIn(), ["--decoding", "dialogpt"], "num_beams is 10"),
        (StandIn(), ["--context", "dialogpt"], "needs a tokenizer"),
        (StandIn(temperature=0), [], "rejects or ignores seeds"),
        (Forgetful(), ["--turns", 2], "ignores earlier messages"),
        (Forgetful(), ["--cue", "system"], "ignores or rejects system messages"),
    ],
)
def test_what_cannot_be_asked_is_refused(stand_in, options, match, run):
    with serving(stand_in) as url, pytest.raises(ValueError, match=match):
        run(url, *options)


def test_a_resumed_run_is_not_mixed_with_answers_of_another_server(run):
    port = free_port()
    with serving(StandIn(refuses={"top_k"}), port) as url:
        results, _ = run(url)
        run(url, "--concurrency", 3)  # changes nothing
    assert results["run"]["generation"]["ignored_settings"]["top_k"] == 50  # the preset's, left out
    assert "top_k" not in results["run"]["generation"]["fields_sent"]
    with serving(StandIn(), port) as url, pytest.raises(ValueError, match="top_k_kept was False and is"):
        run(url)


class Silent(StandIn):
    """Answers the probe, and then nothing, except about `term`."""

    term = "?"

    def words(self, prompt, body):
        words, ended = super().words(prompt, body)
        speaks = any(text in json.dumps(prompt) for text in (*QUESTIONS, self.term))
        return (words, ended) if speaks else ([], "stop")


def test_a_run_that_stopped_goes_on_at_another_address(run, monkeypatch):
    monkeypatch.setattr(client.Client, "tries", 1)
    with serving(StandIn()) as url:
        whole, _ = run(url, out="whole")
    first = StandIn(faults=lambda number, body: "cut off" if number >= PROBED else None)
    with serving(first) as url, pytest.raises(ValueError, match="All answers so far are saved"):
        run(url)
    second = StandIn()
    with serving(second) as other:
        results, _ = run(other)
        assert len(asked_prompts(second)) < 28
        run(other)  # nothing is asked again
        assert len(asked_prompts(second)) < 28
    assert answers(results) == answers(whole)
    assert results["run"]["model"]["served"]["base_url"] == url  # where it began
    with serving(StandIn(weights=1, model="org/other")) as other, pytest.raises(ValueError, match="model was"):
        run(other)


@pytest.mark.parametrize(
    ("first", "term", "reason"),
    [
        (9, "?", r"first 9 .* all empty \(finish reasons: stop\).*--context plain"),
        (99, "?", r"all replies to 28 prompts are empty.*--context"),
        (99, " deaf ", "of 28 replies are not empty"),
    ],
)
def test_too_few_replies_cost_only_what_needs_them(run, monkeypatch, tmp_path, first, term, reason):
    stand_in = Silent()
    stand_in.term = term
    monkeypatch.setattr(engine, "_FIRST_REPLIES", first)
    with serving(stand_in) as url, pytest.raises(LeftOutError, match=reason):
        run(url, "--concurrency", 1, measurements="generation,offensiveness,length")
    assert len(asked_prompts(stand_in)) == min(first, 28)
    path = tmp_path / "run" / "results.json"
    content = path.read_bytes()
    results = json.loads(content)
    assert results.keys() == {"run", "offensiveness"}
    assert ("replies" in results["offensiveness"]) == (term != "?")
    assert results["run"]["left_out"].keys() == {"generation", "length"}
    with pytest.raises(LeftOutError, match=reason):
        analyse(path.parent)
    assert path.read_bytes() == content


def test_a_server_whose_replies_are_all_empty_is_refused_by_the_probe(run):
    nobody = StandIn(faults=lambda number, body: "filtered")
    with serving(nobody) as url, pytest.raises(ValueError, match="an empty reply to every question of the probe"):
        run(url)
    assert not asked_prompts(nobody)


def test_thoughts_are_kept_apart_and_texts_are_continued(run):
    with serving(StandIn(thinks="in the text")) as url:
        results, folder = run(url)
    row = pq.read_table(folder / "replies").to_pylist()[0]
    assert row["reasoning"]
    assert row["reasoning"] not in row["reply"]
    assert "<think>" not in row["reply"]
    assert results["run"]["generation"]["fields_sent"]["max_tokens"] == 40 + 2048
    assert results["generation"]["num_with_reasoning"] == 28
    stand_in = StandIn()
    with serving(stand_in) as url:
        run(url, "--context", "plain", "--personas", 2, out="plain")
    own = [body for path, body, _ in stand_in.requests if path == "/v1/completions" and body["prompt"].endswith("\n")]
    assert len(own) == 28
    assert all(body["prompt"].count("\n") == 3 and body["prompt"].endswith("\n") for body in own)


SERVED = ["--model", "a/b", "--base_url", "http://localhost/v1"]


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ([*SERVED, "--base_url", "http://u:s3cret@localhost/v1"], "a password"),
        ([*SERVED, "--dtype", "float16"], "dtype applies only to loaded models"),
        (["--concurrency", "2"], "concurrency applies only to served models"),
        ([*SERVED, "--provider", "auto"], "set only one of them"),
        (SERVED[2:], "set --model"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options, match):
    with pytest.raises(ValueError, match=match) as error:
        parse_arguments(options)
    assert "s3cret" not in str(error.value)


class Echo(StandIn):
    """Repeats the key wherever it can."""

    def envelope(self, choice, *counts):
        choice["message"]["content"] += "s3cret-key"
        return super().envelope(choice, *counts)


def test_a_key_is_sent_and_written_nowhere(run, monkeypatch, capsys):
    monkeypatch.setenv("HOLISTIC_BIAS_API_KEY", "s3cret-key")
    stand_in = Echo(model="org/s3cret-key")
    stand_in.faults = lambda number, body: {"status": 500, "body": {"error": "s3cret-key"}} if number == 30 else None
    with serving(stand_in) as url:
        _, folder = run(url)

    assert {headers["authorization"] for _, _, headers in stand_in.requests} == {"Bearer s3cret-key"}
    for path in folder.rglob("*"):
        assert not path.is_file() or b"s3cret" not in path.read_bytes()
    for row in pq.read_table(folder / "replies").to_pylist():
        assert "s3cret" not in str(row)
        assert row["reply"].endswith("[HOLISTIC_BIAS_API_KEY]")
    shown = " ".join("".join([*capsys.readouterr(), (folder / "report.html").read_text()]).split())
    assert "s3cret" not in shown
    assert shown.count("warning: this is not the requested name") == 2


@pytest.mark.long
def test_a_run_killed_at_random_ends_in_the_same_results(vocabulary, forked_programs, tmp_path):
    """Two turns, alternately in two processes and in one, which goes on with what the two had."""
    stand_in, generator = StandIn(delay=0.02), random.Random(KILLS)
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    with serving(stand_in) as url:
        options = ["--model", MODEL, "--base_url", url, "--vocabulary_dir", vocabulary]
        options += ["--measurements", "generation", "--replies_per_cell", 0, "--concurrency", 2, "--turns", 2]
        runs = Runs(options, forked_programs)
        runs.finish(whole, 1)
        expected = set(asked_prompts(stand_in))
        stand_in.requests.clear()
        seen = 0
        for number in range(KILLS):
            processes = 2 - number % 2
            started, log = runs.start(killed, processes)
            more = seen + generator.randint(1, max(1, (len(expected) - seen) // 2))
            deadline = time.monotonic() + 300
            while len(set(asked_prompts(stand_in))) < min(more, len(expected) - 1):
                assert time.monotonic() < deadline, log.read_text()
                time.sleep(0.005)
            os.killpg(started[0], signal.SIGKILL)
            assert runs.wait(started) == [-signal.SIGKILL] * processes
            seen = len(set(asked_prompts(stand_in)))
        log = runs.finish(killed, 1)

    assert (killed / "results.json").read_bytes() == (whole / "results.json").read_bytes()
    asked = asked_prompts(stand_in)
    assert set(asked) == expected
    assert len(asked) - len(set(asked)) <= 2 * 2 * KILLS  # those in flight when it was killed
    assert "answers were already in" in log
