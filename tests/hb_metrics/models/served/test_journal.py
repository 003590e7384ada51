"""The journal: every answer is there after a kill, and none that is not whole."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hb_metrics.models.served.asking import Journal, remove_journals, request_key

ROOT = Path(__file__).parents[4]
ANSWERS = {request_key(["a", 1]): {"text": "ü\n\u2028 x", "n": 1.1}, request_key(["a", 2]): {"text": None}}


def write(folder, answers, process=0):
    journal = Journal(folder, process)
    for key, answer in answers.items():
        journal.add(key, answer)
    return next(iter(folder.glob(f".journal-{process:05d}*")))


def test_answers_are_found_by_what_was_asked(tmp_path):
    write(tmp_path, ANSWERS)

    journal = Journal(tmp_path)

    assert journal.answers == ANSWERS


def test_the_order_of_fields_does_not_matter_and_everything_else_does():
    assert request_key({"a": 1, "b": 2}) == request_key({"b": 2, "a": 1})
    assert len({request_key(each) for each in ({"a": 1}, {"a": 2}, {"b": 1}, {"a": "1"}, [1], "a")}) == 6


@pytest.mark.parametrize("cut", [1, 2, 30, 60])
def test_half_a_last_line_is_passed_over_and_written_on_after(tmp_path, cut):
    path = write(tmp_path, ANSWERS)
    path.write_bytes(path.read_bytes()[:-cut])

    kept = dict(list(ANSWERS.items())[: 2 if cut == 1 else 1])  # of the last only the line's end is missing
    assert Journal(tmp_path).answers == kept
    write(tmp_path, {"new": {"text": "next"}})
    assert Journal(tmp_path).answers == {**kept, "new": {"text": "next"}}


def test_the_answers_of_all_processes_are_read_and_the_first_counts(tmp_path):
    key, other = ANSWERS
    write(tmp_path, {key: {"text": "first"}}, process=0)
    write(tmp_path, {key: {"text": "second"}, other: {"text": "b"}}, process=1)

    assert Journal(tmp_path, 2).answers == {key: {"text": "first"}, other: {"text": "b"}}
    remove_journals(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_killed_leaves_what_it_wrote(tmp_path):
    code = (
        "import os, signal\nfrom pathlib import Path\nfrom hb_metrics.models.served.asking import Journal\n"
        f"journal = Journal(Path({str(tmp_path)!r}))\n"
        "for number in range(100):\n    journal.add(str(number), number)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})

    assert done.returncode == -signal.SIGKILL
    assert Journal(tmp_path).answers == {str(number): number for number in range(100)}
