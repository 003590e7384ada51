"""The journal: every answer is there after a kill, and none that is not whole."""

import json
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from hb_metrics.collect import asking
from hb_metrics.collect.asking import Journal, answers_of, request_key

ANSWERS = {request_key(["a", 1]): {"text": "ü\n\u2028 x", "n": 1.1}, request_key(["a", 2]): {"text": None}}


def write(folder, answers, process=0):
    journal = Journal(folder, process)
    for key, answer in answers.items():
        journal.add(key, answer)
    return next(iter(folder.glob(f".journal-{process:05d}*")))


def test_the_order_of_fields_does_not_matter_and_everything_else_does():
    assert request_key({"a": 1, "b": 2}) == request_key({"b": 2, "a": 1})
    assert len({request_key(body) for body in ({"a": 1}, {"a": 2}, {"b": 1}, {"a": "1"}, [1], "a")}) == 6


@pytest.mark.parametrize("cut", [0, 1, 2, 30, 60])
def test_half_a_last_line_is_passed_over_and_written_on_after(tmp_path, cut):
    path = write(tmp_path, ANSWERS)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) - cut])

    kept = dict(list(ANSWERS.items())[: 2 if cut < 2 else 1])  # with 1, only the end of the line is missing
    assert Journal(tmp_path).answers == kept
    write(tmp_path, {"new": {"text": "next"}})
    assert Journal(tmp_path).answers == {**kept, "new": {"text": "next"}}


def test_the_answers_of_all_processes_are_read_and_the_first_counts(tmp_path):
    key, other = ANSWERS
    write(tmp_path, {key: {"text": "first"}}, process=0)
    write(tmp_path, {key: {"text": "second"}, other: {"text": "b"}}, process=1)

    assert Journal(tmp_path, 2).answers == {key: {"text": "first"}, other: {"text": "b"}}


def test_what_any_process_writes_later_is_read_once(tmp_path, monkeypatch):
    journal, other = Journal(tmp_path, 0), Journal(tmp_path, 1)
    parsed, loads = [], json.loads
    monkeypatch.setattr(json, "loads", lambda line: parsed.append(line) or loads(line))
    for number in range(5):
        journal.add(f"own {number}", number)
        other.add(f"other {number}", number)
        journal.refresh()
        assert len(journal.answers) == 2 * number + 2
    assert len(list(filter(None, parsed))) == 10


def test_a_line_that_another_process_is_writing_is_read_when_it_is_whole(tmp_path):
    journal, path = Journal(tmp_path, 0), tmp_path / ".journal-00001.jsonl"
    line = json.dumps({"key": "late", "answer": 1}).encode()
    path.write_bytes(b"\n" + line[:9])
    journal.refresh()
    assert journal.answers == {}
    path.write_bytes(b"\n" + line + b"\n")
    journal.refresh()
    assert journal.answers == {"late": 1}


def test_only_answers_of_an_earlier_run_count_as_resumed(tmp_path, monkeypatch, capsys):
    """A text that this run asked about before was not resumed, although the journal has its answer."""
    monkeypatch.setattr(asking, "connected", lambda _: nullcontext(SimpleNamespace(cost="")))
    server, advanced = SimpleNamespace(concurrency=1), []

    async def ask(client, row):
        return row

    def printed(journal, *keys):
        advanced.clear()
        answers_of(server, dict(enumerate(keys)), ask, journal, lambda rows, *_: advanced.append(rows))
        assert sum(advanced) == len(keys)
        return capsys.readouterr().out

    journal = Journal(tmp_path)
    assert printed(journal, "a", "b") == printed(journal, "a", "b", "c") == ""
    resumed = Journal(tmp_path)
    assert printed(resumed, "a", "d").startswith("1 of 2 answers were already in")
    assert printed(resumed, "d", "c", "b").startswith("2 of 3 answers were already in")
