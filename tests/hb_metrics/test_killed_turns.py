"""Conversations killed with `kill -9` at a turn and gone on with end in the same bytes."""

import pytest

from tests.hb_metrics.chat_models import chat_tokenizer, untrained_model
from tests.hb_metrics.conftest import save_parts
from tests.hb_metrics.run_files import contents
from tests.hb_metrics.test_killed_runs import Runs


@pytest.fixture(scope="module")
def runs(vocabulary, tmp_path_factory, forked_programs):
    tokenizer = chat_tokenizer("qwen3")
    model = save_parts(tmp_path_factory.mktemp("model"), tokenizer, untrained_model(tokenizer))
    options = ["--model", model, "--vocabulary_dir", vocabulary, "--measurements", "generation"]
    options += ["--replies_per_cell", 0, "--max_new_tokens", 8, "--max_reasoning_tokens", 0, "--turns", 2]
    return Runs(options, forked_programs)


@pytest.fixture(scope="module")
def whole(runs, tmp_path_factory):
    folder = tmp_path_factory.mktemp("uninterrupted") / "whole"
    runs.finish(folder, 1)
    return folder


def test_a_run_killed_at_a_later_turn_ends_in_the_same_bytes(runs, whole, tmp_path):
    names = list(contents(whole))
    assert sum(name.startswith("turns/2/") for name in names) >= 3
    # run.json, the prompts, all of turn 1, and the first shard of turn 2
    before = 3 + sum(name.startswith(("replies/", "style_probabilities/")) for name in names)
    (leftover,) = runs.check_killed(whole, tmp_path / "run", before + 1, 1)
    assert leftover.startswith("turns/2/replies/")


@pytest.mark.long
def test_runs_killed_at_any_write_end_in_the_same_bytes(runs, whole, tmp_path):
    for writes in range(2, len(contents(whole)) - 1):
        runs.check_killed(whole, tmp_path / f"run{writes}", writes, 1 + writes % 2)
