"""The journal: every answer is there after a kill, and none that is not whole."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hb_metrics.inference.served.journal import Journal, remove_journals, request_key

ROOT = Path(__file__).parents[4]
ANSWERS = {request_key(["a", 1]): {"text": "ü\n\u2028 x", "n": 1.1}, request_key(["a", 2]): {"text": None}}


def write(folder, answers, process=0):
    with Journal(folder, process) as journal:
        for key, answer in answers.items():
            journal.add(key, answer)
    return next(iter(folder.glob(f".journal-{process:05d}*")))


def test_answers_are_found_by_what_was_asked(tmp_path):
    write(tmp_path, ANSWERS)

    journal = Journal(tmp_path)

    assert {key: journal.get(key) for key in ANSWERS} == ANSWERS
    assert len(journal) == 2
    assert journal.get(request_key(["a", 3])) is None


def test_the_order_of_fields_does_not_matter_and_everything_else_does():
    assert request_key({"a": 1, "b": 2}) == request_key({"b": 2, "a": 1})
    assert len({request_key(each) for each in ({"a": 1}, {"a": 2}, {"b": 1}, {"a": "1"}, [1], "a")}) == 6


@pytest.mark.parametrize("cut", [1, 2, 30, 60])
def test_half_a_last_line_is_passed_over_and_written_on_after(tmp_path, cut):
    path = write(tmp_path, ANSWERS)
    path.write_bytes(path.read_bytes()[:-cut])

    journal = Journal(tmp_path)
    first, last = ANSWERS
    whole = cut == 1  # only the line's end is missing
    assert (journal.get(first), journal.get(last)) == (ANSWERS[first], ANSWERS[last] if whole else None)
    assert journal.num_damaged == (not whole)
    write(tmp_path, {"new": {"text": "next"}})

    again = Journal(tmp_path)
    assert again.get("new") == {"text": "next"}
    assert again.get(first) == ANSWERS[first]


def test_a_line_that_was_changed_is_not_believed(tmp_path):
    path = write(tmp_path, ANSWERS)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0].replace("x", "y"), "[]", "null", lines[1], json.dumps({"key": 1})]))

    journal = Journal(tmp_path)

    assert len(journal) == 1
    assert journal.num_damaged == 4


def test_the_answers_of_all_processes_are_read_and_the_first_counts(tmp_path):
    key, other = ANSWERS
    write(tmp_path, {key: {"text": "first"}}, process=0)
    write(tmp_path, {key: {"text": "second"}, other: {"text": "b"}}, process=1)

    journal = Journal(tmp_path, 2)

    assert journal.get(key) == {"text": "first"}
    assert journal.get(other) == {"text": "b"}
    remove_journals(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_process_that_is_killed_leaves_what_it_wrote(tmp_path):
    code = (
        "import os, signal\nfrom pathlib import Path\nfrom hb_metrics.inference.served.journal import Journal\n"
        f"with Journal(Path({str(tmp_path)!r})) as journal:\n"
        "    for number in range(100):\n        journal.add(str(number), number)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)})

    assert done.returncode == -signal.SIGKILL
    assert [Journal(tmp_path).get(str(number)) for number in range(100)] == list(range(100))
