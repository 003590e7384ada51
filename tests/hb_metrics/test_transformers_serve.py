"""The embedded model behind `transformers serve` on loopback: its greedy replies are ours, and sampling is found."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from transformers.utils.import_utils import is_serve_available

from hb_metrics import measuring
from hb_metrics.arguments import parse_arguments
from hb_metrics.inference.judges.judge import JudgeSource, load_judge
from hb_metrics.inference.models.gguf import embedded_model_folder
from hb_metrics.runs.run_folder import turn_folder
from tests.forked_programs import free_port
from tests.hb_metrics.chat_models import chat_tokenizer, untrained_model
from tests.hb_metrics.conftest import write_vocabulary
from tests.hb_metrics.test_killed_runs import Runs

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.long,
    pytest.mark.skipif(not is_serve_available(), reason="needs the extra 'serving'"),
]
STARTS = 240  # seconds
KILLS = 10


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    return write_vocabulary(tmp_path_factory.mktemp("vocabulary"))


@contextmanager
def transformers_serve(folder, model=None, port=None, **settings):
    """A model, served from a copy with these settings in its generation_config. By default, the embedded model."""
    shutil.copytree(model or embedded_model_folder(), folder, dirs_exist_ok=True)
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    port = port or free_port()
    command = [sys.executable, "-m", "transformers.cli.transformers", "serve", str(folder), "--port", str(port)]
    command += ["--host", "127.0.0.1", "--device", "cpu", "--dtype", "float32"]
    with (folder.parent / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env={**os.environ, "HF_HUB_OFFLINE": "1"})
    try:
        deadline = time.monotonic() + STARTS
        while True:
            assert process.poll() is None, (folder.parent / "log").read_text()
            assert time.monotonic() < deadline
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except OSError:
                time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.kill()
        process.wait()


def run(out, vocabulary, *options):
    given = ["--vocabulary_dir", vocabulary, "--output_dir", out, "--measurements", "generation"]
    given += ["--replies_per_cell", 1, "--max_new_tokens", 8, *options]
    measuring.measure(parse_arguments(list(map(str, given))))
    return {row["id"]: row for row in pq.read_table(Path(out) / "replies").to_pylist()}, json.loads(
        (Path(out) / "results.json").read_text()
    )


def test_greedy_replies_of_the_served_model_are_those_of_the_model(vocabulary, tmp_path):
    conversations = ["--decoding", "greedy", "--turns", 3, "--cue", "history"]
    # Its own penalty would change every reply, and is set to nothing.
    with transformers_serve(tmp_path / "model", do_sample=True, repetition_penalty=1.3) as url:
        served = ["--model", tmp_path / "model", "--base_url", url]
        replies, results = run(tmp_path / "served", vocabulary, *served, *conversations)
    ours, _ = run(tmp_path / "ours", vocabulary, "--model", "embedded", "--context", "chat", *conversations)
    for turn in (2, 3):
        served_later, ours_later = (
            {row["id"]: (row["text"], row["reply"]) for row in pq.read_table(folder / "replies").to_pylist()}
            for folder in (turn_folder(tmp_path / name, turn) for name in ("served", "ours"))
        )
        assert served_later == ours_later
    assert {key: row["reply"] for key, row in replies.items()} == {key: row["reply"] for key, row in ours.items()}
    assert {key: row["num_tokens"] for key, row in replies.items()} == {
        key: row["num_tokens"] for key, row in ours.items()
    }
    served = results["run"]["model"]["served"]
    assert (served["samples"], served["greedy"], served["likelihoods"]) == (True, True, False)
    assert served["neutral"] == {"top_p": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0}
    assert set(served["not_set"]) == {"top_k", "min_p", "repetition_penalty", "repeat_penalty"}
    assert "likelihood" not in results


def test_a_served_judge_answers_the_letters_of_the_model(tmp_path):
    texts = [f"I met {who} yesterday. Well done!" for who in ("an old friend", "a tall nurse", "my twin", "nobody")]
    with transformers_serve(tmp_path / "model", do_sample=False) as url:
        judge = load_judge("condescending", JudgeSource(str(tmp_path / "model"), url, folder=tmp_path / "answers"))
        served = judge.probabilities(texts)
    ours = load_judge("condescending", JudgeSource("embedded")).probabilities(texts)
    assert judge.judge["reads"] == "the likeliest answer"
    assert judge.cost()["num_answers"] == len(texts)
    answered = judge.answered(served)
    assert answered.any()
    assert served[answered].argmax(axis=1).tolist() == ours[answered].argmax(axis=1).tolist()


def test_conversations_outlive_kills_of_the_run_and_of_the_server(vocabulary, forked_programs, tmp_path):
    """Ten kills of the run at random answers of both turns. Between them, the server dies in mid-run."""
    tokenizer, killed, whole = chat_tokenizer("llama3"), tmp_path / "killed", tmp_path / "whole"
    for part in (tokenizer, untrained_model(tokenizer)):
        part.save_pretrained(tmp_path / "small")
    port, model = free_port(), tmp_path / "model"
    options = ["--model", model, "--base_url", f"http://127.0.0.1:{port}/v1", "--vocabulary_dir", vocabulary]
    options += ["--measurements", "generation", "--replies_per_cell", 0, "--max_new_tokens", 8, "--decoding", "greedy"]
    runs = Runs([*options, "--concurrency", 2, "--turns", 2, "--cue", "history"], forked_programs)

    def asked():
        return (tmp_path / "log").read_text().count("Request received")

    def start(number):
        """Starts the run, and waits until it has asked for so many replies."""
        before, (started, log) = asked(), runs.start(killed, 1)
        while asked() < before + probed + number:
            time.sleep(0.002)
        return started, log

    def kill(started, log, codes=(-signal.SIGKILL,)):
        os.killpg(started[0], signal.SIGKILL)
        assert runs.wait(started)[0] in codes, log.read_text()

    with transformers_serve(model, tmp_path / "small", port, do_sample=False):
        runs.finish(whole, 1)
        replies = sum(pq.read_table(turn_folder(whole, turn) / "replies").num_rows for turn in (1, 2))
        probed = asked() - replies
        with pytest.raises(ValueError, match="the same answer at temperature 1 for every seed"):
            run(tmp_path / "refused", vocabulary, *options[:4], "--decoding", "sample")
        moments = [0, *sorted(random.Random(KILLS).sample(range(1, replies), KILLS))]
        steps = [later - earlier for earlier, later in pairwise(moments)]
        for step in steps[: KILLS // 2]:
            kill(*start(step))
        started, log = start(1)
    with transformers_serve(model, tmp_path / "small", port, do_sample=False):
        while "tries" not in log.read_text() and not asked():  # it resumes by itself, unless the start took too long
            time.sleep(0.002)
        kill(started, log, (1, -signal.SIGKILL))
        for step in steps[KILLS // 2 :]:
            kill(*start(step))
        runs.finish(killed, 1)

    assert (killed / "results.json").read_bytes() == (whole / "results.json").read_bytes()
