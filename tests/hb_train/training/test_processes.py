"""Commands side by side: they fail alone, share the machine, and end with their caller."""

import os
import sys

import psutil
import pytest

from hb_train.training.processes import run_processes


def python(code):
    return [sys.executable, "-c", code]


def test_processes_that_fail_do_not_stop_others(tmp_path):
    error = "tune.py: the folder holds\n  another run\n"
    commands = {
        "fine": python("print('an error')"),
        "last line": python("import sys; print('\\nthe reason\\n'); sys.exit(3)"),
        "its error": python(f"import sys; print('first'); sys.exit({error!r})"),
        "silent": python("import sys; sys.exit(3)"),
        "killed": python("import os; print('at work'); os.kill(os.getpid(), 9)"),
    }
    (tmp_path / "silent.log").write_text("of another time\n", encoding="utf-8")

    ended = {log.stem: failed for log, failed in run_processes(as_logs(tmp_path, commands), 3)}

    assert ended == {
        "fine": None,
        "last line": "the reason",
        "its error": "tune.py: the folder holds another run",
        "silent": "ended with exit code 3",
        "killed": "ended by SIGKILL after: at work",
    }
    assert (tmp_path / "silent.log").read_text(encoding="utf-8").startswith("of another time\n$ ")


def as_logs(tmp_path, commands):
    return {tmp_path / f"{name}.log": command for name, command in commands.items()}


@pytest.mark.skipif(sys.platform != "linux", reason="cores are shared on Linux alone")
def test_each_process_has_its_share_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setattr("hb_train.training.processes._graphics_cards", lambda: ["4", "7"])
    code = "import os, time; time.sleep(0.2); print(*os.sched_getaffinity(0), os.environ['CUDA_VISIBLE_DEVICES'])"
    commands = as_logs(tmp_path, dict.fromkeys("abc", python(code)))

    assert {failed for _, failed in run_processes(commands, 3)} == {None}

    outputs = [log.read_text(encoding="utf-8").split("\n")[1].split() for log in commands]
    cores = sorted(os.sched_getaffinity(0))
    assert [card for *_, card in outputs] == ["4", "7", "4"]
    for index, (*allowed, _) in enumerate(outputs):
        assert sorted(map(int, allowed)) == (cores[index::3] or cores)


def test_so_many_run_at_a_time_and_none_after_it_is_closed(tmp_path):
    waiting = python("import time; time.sleep(60)")
    commands = {"short": python("pass"), **dict.fromkeys(("a", "b", "c"), waiting)}

    processes = run_processes(as_logs(tmp_path, commands), 2)
    log, _ = next(processes)
    running = [child for child in psutil.Process().children() if "time.sleep(60)" in " ".join(child.cmdline())]
    processes.close()

    assert log.stem == "short"
    assert 1 <= len(running) <= 2
    assert not [child for child in running if child.is_running()]
