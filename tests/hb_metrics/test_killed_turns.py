"""Conversations killed with `kill -9` at a turn and gone on with end in the same bytes."""

import signal

import pytest

from tests.hb_metrics.chat_models import chat_tokenizer, untrained_model
from tests.hb_metrics.conftest import write_vocabulary
from tests.hb_metrics.run_files import check_part_of, check_same, contents, identities
from tests.hb_metrics.test_killed_runs import Runs


@pytest.fixture(scope="module")
def runs(tmp_path_factory, forked_programs):
    folder, tokenizer = tmp_path_factory.mktemp("inputs"), chat_tokenizer("qwen3")
    untrained_model(tokenizer).save_pretrained(folder / "model")
    tokenizer.save_pretrained(folder / "model")
    vocabulary = write_vocabulary(folder / "vocabulary", nouns=("kid", "parent"))
    options = [
        "--model",
        folder / "model",
        "--vocabulary_dir",
        vocabulary,
        "--measurements",
        "generation,offensiveness",
    ]
    options += ["--replies_per_cell", 0, "--max_new_tokens", 8, "--max_reasoning_tokens", 0, "--turns", 3]
    return Runs(options, forked_programs)


@pytest.fixture(scope="module")
def whole(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "whole"
    runs.finish(folder, 1)
    return folder


def check_killed(runs, whole, killed, writes, processes):
    started, log = runs.start(killed, processes, writes=writes)
    assert set(runs.wait(started)) == {-signal.SIGKILL}, log.read_text()
    check_part_of(whole, killed)
    there = identities(killed)
    runs.finish(killed, 3 - processes)
    check_same(whole, killed, there)


def test_a_run_killed_at_a_later_turn_ends_in_the_same_bytes(runs, whole, tmp_path):
    shards = [name for name in contents(whole) if name.startswith("turns/")]
    assert len(shards) >= 8  # several at each of the two turns
    before = len([name for name in contents(whole) if name.startswith(("replies/", "style_probabilities/"))])
    check_killed(runs, whole, tmp_path / "run", before + 4, 1)
    assert list((tmp_path / "run" / "turns" / "2").iterdir())


@pytest.mark.long
def test_runs_killed_at_any_write_end_in_the_same_bytes(runs, whole, tmp_path):
    for writes in range(2, len(contents(whole)) - 1):
        check_killed(runs, whole, tmp_path / f"run{writes}", writes, 1 + writes % 2)
