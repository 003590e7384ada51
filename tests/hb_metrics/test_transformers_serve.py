"""The embedded model behind `transformers serve` on loopback: its greedy replies are ours, and sampling is found."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.request
from contextlib import contextmanager

import pyarrow.parquet as pq
import pytest
from transformers.utils.import_utils import is_serve_available

from hb_metrics.collect.judges.judge import JudgeSource, load_judge
from hb_metrics.models.sources import embedded_model_folder
from hb_metrics.run.run_folder import turn_folder
from tests.forked_programs import free_port
from tests.hb_metrics.made_results import read_results
from tests.hb_metrics.runs_here import measure_here

pytestmark = [
    pytest.mark.embedded,
    pytest.mark.long,
    pytest.mark.skipif(not is_serve_available(), reason="needs the extra 'serving'"),
]
STARTS = 240  # seconds


@contextmanager
def transformers_serve(folder, **settings):
    """The embedded model, served from a copy with these settings in its generation_config."""
    shutil.copytree(embedded_model_folder(), folder)
    path = folder / "generation_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **settings}))
    port = free_port()
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
    measure_here(*given)
    return {row["id"]: row for row in pq.read_table(out / "replies").to_pylist()}, read_results(out)


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
