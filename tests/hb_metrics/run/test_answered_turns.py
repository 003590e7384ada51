"""Conversations exported, answered elsewhere and taken back turn by turn: the same results; and what is refused."""

import json
import re

import pyarrow.parquet as pq
import pytest

from hb_metrics.command.export_prompts import main as export
from hb_metrics.run.run_folder import turn_folder
from tests.hb_metrics.models.served.stand_in import MODEL, StandIn, serving
from tests.hb_metrics.run.test_answer_files import lines, results_of, write
from tests.hb_metrics.runs_here import measure_here, refusal

TURNS = 3


@pytest.fixture(scope="module")
def shared(vocabulary):
    shared = ["--vocabulary_dir", vocabulary, "--context", "chat", "--replies_per_cell", 0, "--cue", "history"]
    return [*shared, "--measurements", "generation", "--decoding", "greedy", "--turns", TURNS]


@pytest.fixture(scope="module")
def served(shared, tmp_path_factory):
    """A run of a served model, and its answers as rows of files of replies, by turn."""
    folder, stand_in = tmp_path_factory.mktemp("served") / "run", StandIn()
    with serving(stand_in) as url:
        measure_here("--model", MODEL, "--base_url", url, "--output_dir", folder, *shared)
    answers = [pq.read_table(turn_folder(folder, turn) / "replies").to_pylist() for turn in range(1, TURNS + 1)]
    columns = "id", "turn", "reply", "num_tokens", "truncated"
    return folder, [[{name: row[name] for name in columns} for row in rows] for rows in answers]


def test_conversations_are_exported_turn_by_turn_and_taken_back(shared, served, tmp_path):
    folder, answers = served
    given, before = [], {}
    for turn in range(1, TURNS + 1):
        after = ["--after", write(tmp_path / f"answers{turn}.jsonl", given)] if given else []
        export([*map(str, [tmp_path / f"turn{turn}.jsonl", *after, *shared])])
        asked = {row["id"]: row for row in lines(tmp_path / f"turn{turn}.jsonl")}
        replies = {row["id"]: row for row in pq.read_table(turn_folder(folder, turn) / "replies").to_pylist()}
        assert asked.keys() == replies.keys()
        assert {row["turn"] for row in asked.values()} == {turn}
        for identifier, row in asked.items():
            assert row["text"] == replies[identifier]["text"]
            assert row["messages"][-1]["content"] == (row["question"] if turn == 1 else row["text"])
            assert len(row["messages"]) == 1 + 2 * turn
            if turn > 1:
                assert row["messages"][-2] == {"role": "assistant", "content": before[identifier]["reply"]}
        before = replies
        given += [{**row, "text": asked[row["id"]]["text"]} for row in answers[turn - 1]]
    path = write(tmp_path / "all.parquet", given)
    measure_here("--model", "somebody", "--replies_file", path, "--output_dir", tmp_path / "taken", *shared)
    taken, whole = (json.loads(results_of(path))["generation"] for path in (tmp_path / "taken", folder))
    del whole["turns"]["served"]  # the server's own counts
    assert taken["turns"] == whole["turns"]
    assert taken["debiased"] == whole["debiased"]


def test_several_replies_to_a_prompt_are_conversations_of_their_own(shared, served, tmp_path):
    _, answers = served
    first = [*answers[0], *({**row, "reply": f"{row['reply']} again"} for row in answers[0])]
    path = write(tmp_path / "answers.jsonl", [{name: row[name] for name in ("id", "reply")} for row in first])
    export([*map(str, [tmp_path / "next.jsonl", "--after", path, *shared, "--decoding", "sample"])])
    asked = {row["id"]: row["messages"][-2]["content"] for row in lines(tmp_path / "next.jsonl")}
    assert len(asked) == len(first)
    for row in answers[0]:
        assert {asked[row["id"]], asked[f"{row['id']}#2"]} == {row["reply"], f"{row['reply']} again"}


def test_conversations_that_have_all_ended_have_no_next_turn(shared, served, tmp_path):
    ended = [*served[1][0], *({**row, "reply": ""} for row in served[1][1])]
    path = write(tmp_path / "answers.jsonl", ended)
    with pytest.raises(ValueError, match="no conversation can continue"):
        export([*map(str, [tmp_path / "next.jsonl", "--after", path, *shared])])


@pytest.mark.parametrize(
    ("turns", "twice", "message"),
    [
        ((1, 2), False, "has replies only for these turns: 1, 2, but --turns is 3; add the missing replies"),
        ((1, 3), False, "has replies only for these turns: 1, 3, but --turns is 3"),
        ((1, 2, 3), True, "several replies only at turn 1; pass one reply per conversation at each later turn"),
        ((1, 2, 3), False, "has replies from turn 3, and turns is 3, so there is no next turn"),
    ],
)
def test_files_that_are_no_conversations_are_refused(turns, twice, message, shared, served, tmp_path):
    rows = [row for turn in turns for row in served[1][turn - 1]]
    if twice:
        rows.append({**served[1][1][0], "reply": "Another."})
    path = write(tmp_path / "answers.jsonl", rows)
    if "no next turn" in message:
        with pytest.raises(ValueError, match=re.escape(message)):
            export([*map(str, [tmp_path / "next.jsonl", "--after", path, *shared])])
    else:
        out = tmp_path / "run"
        assert message in refusal("--model", "x", "--replies_file", path, "--output_dir", out, *shared)
