"""Runs killed with `kill -9` and gone on with: nothing lost, nothing half-written, nothing computed twice."""

import os
import signal
import socket
import threading
import time
from itertools import pairwise

import pytest

from hb_metrics.measure import LOST_PROCESS, _ended_by_signals
from tests.hb_metrics.run_files import check_part_of, check_same, contents, identities

AT_REPLIES = "Likelihood Bias measured in"  # what a run prints before it generates replies
PROMPT = 60  # seconds, on a machine that does other things too; what hangs takes 600


class Runs:
    """Runs of one command in folders of their own."""

    def __init__(self, options, forked_programs):
        self.options, self.programs = list(map(str, options)), forked_programs

    def start(self, out, processes, writes=None, stalled=None, machines=False, own=None):
        """The process ids and the log of a run that writes to `out`; `own` has more options for each process."""
        options = [*self.options, "--output_dir", str(out)]
        arguments = [[[*options, *more], writes, stalled, machines] for more in own or [[]] * processes]
        return self.programs.start("tests.hb_metrics.stoppable_run:main", *arguments, machines=machines)

    def wait(self, started):
        return self.programs.wait(started)

    def finish(self, out, processes):
        started, log = self.start(out, processes)
        assert self.wait(started) == [0] * processes, log.read_text()
        return log.read_text()

    def check_killed(self, whole, killed, writes, processes):
        """Kills a run at a write, and goes on with it. Returns the files that had not got their names yet."""
        started, log = self.start(killed, processes, writes=writes)
        assert set(self.wait(started)) == {-signal.SIGKILL}, log.read_text()
        check_part_of(whole, killed)
        there, leftovers = identities(killed), [str(path.relative_to(killed)) for path in killed.rglob("*.tmp")]
        self.finish(killed, 3 - processes)
        check_same(whole, killed, there)
        return leftovers


@pytest.fixture(scope="module")
def runs(vocabulary, saved_llama, forked_programs):
    options = ["--model", saved_llama, "--vocabulary_dir", vocabulary]
    options += ["--measurements", "likelihood,generation,offensiveness,dialogue", "--replies_per_cell", 0]
    options += ["--variations", "--personas", 1, "--max_new_tokens", 12]
    return Runs(options, forked_programs)


@pytest.fixture(scope="module")
def whole(runs, tmp_path_factory):
    """A run of one process that nobody killed."""
    folder = tmp_path_factory.mktemp("uninterrupted") / "whole"
    printed = runs.finish(folder, 1)
    assert f"report so far: {folder / 'report.html'}\nstill to come: Generation bias, Offensiveness" in printed
    return folder


def test_a_run_killed_at_its_writes_ends_in_the_same_bytes(runs, whole, tmp_path):
    """Each time with a whole temporary file that has not got its name yet: the worst moment there is."""
    killed = tmp_path / "killed"
    leftovers = []
    for processes, writes in ((2, 4), (1, 12)):
        started, _ = runs.start(killed, processes, writes=writes)
        assert set(runs.wait(started)) == {-signal.SIGKILL}
        leftovers.append({path.name for path in killed.rglob("*.tmp")})
        check_part_of(whole, killed)
    assert all(leftovers)
    assert all(not before & after for before, after in pairwise(leftovers))  # cleared away by the next
    there = identities(killed)
    printed = " ".join(runs.finish(killed, 2).split())
    assert "rows were already in" in printed
    assert ", on cpu x 2" in printed  # on cpu:0, weights are copied, and last digits differ
    check_same(whole, killed, there)


@pytest.mark.long
def test_runs_killed_at_any_write_end_in_the_same_bytes(runs, whole, tmp_path):
    for writes in range(2, len(contents(whole)) - 1, 2):
        # Of two processes, neither makes many files.
        runs.check_killed(whole, tmp_path / f"run{writes}", writes, 2 if writes in (2, 4) else 1)


@pytest.mark.parametrize(
    ("processes", "stalled"),
    [
        pytest.param(1, 0, id="one", marks=pytest.mark.long),
        pytest.param(2, 0, id="main", marks=pytest.mark.long),
        pytest.param(2, 1, id="other"),
    ],
)
def test_ctrl_c_does_not_wait_for_a_batch_nor_for_another_process(processes, stalled, runs, tmp_path):
    """Of two processes, the one that is done waits for the other in the library that connects them."""
    started, log = runs.start(tmp_path / "run", processes, stalled=stalled)
    await_replies(log)
    time.sleep(1)
    begun = time.monotonic()
    os.killpg(started[0], signal.SIGINT)  # all processes of a terminal get the signal
    assert set(runs.wait(started)) == {1}
    assert time.monotonic() - begun < PROMPT
    assert log.read_text().count("Finished work is kept. To resume, run the same command again:\n  python -m") == 1
    assert "Traceback" not in log.read_text()
    assert list((tmp_path / "run" / "perplexities").iterdir())
    assert not list((tmp_path / "run" / "style_probabilities").glob("*"))


def hang(is_read):
    """Begins, and waits for what no Python handler interrupts; the reader of its errors may be gone."""
    if not is_read:
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 2)
    with _ended_by_signals(["--model", "a b"]):
        print("begun")
        lock = threading.Lock()
        lock.acquire()
        lock.acquire()


@pytest.mark.parametrize(("number", "code", "is_read"), [(signal.SIGINT, 1, True), (signal.SIGTERM, 143, False)])
def test_both_signals_end_a_process_at_once_and_say_how_to_go_on(number, code, is_read, forked_programs):
    started, log = forked_programs.start(f"{__name__}:hang", [is_read])
    while not log.exists() or "begun" not in log.read_text():
        time.sleep(0.002)
    os.kill(started[0], number)
    assert forked_programs.wait(started) == [code]
    resume = "To resume, run the same command again:\n  python -m hb_metrics.measure --model 'a b'\n"
    assert (resume in log.read_text()) == is_read


def test_two_machines_end_in_the_same_bytes_one_killed_and_started_again(runs, whole, tmp_path):
    """With a process each; test_several_machines.py has `torchrun` start them."""
    out = tmp_path / "run"
    started, log = runs.start(out, 2, machines=True)
    await_replies(log)
    os.kill(started[1], signal.SIGKILL)
    codes = runs.wait(started)
    assert codes[0] in (0, 1), log.read_text()
    if codes[0]:  # it was killed before the end
        assert f"measure.py: {LOST_PROCESS}\n" in log.read_text()
    check_part_of(whole, out)
    there = identities(out)
    started, log = runs.start(out, 2, machines=True)
    assert runs.wait(started) == [0, 0], log.read_text()
    check_same(whole, out, there)


@pytest.mark.parametrize("option", ["--output_dir", "--seed"])
def test_machines_that_do_not_share_folder_or_command_are_refused(option, runs, tmp_path):
    out, value = tmp_path / "run", {"--output_dir": str(tmp_path / "elsewhere"), "--seed": "7"}[option]
    started, log = runs.start(out, 2, machines=True, own=[[], [option, value]])
    assert runs.wait(started) == [1, 1]
    host, printed = socket.gethostname(), log.read_text()
    if option == "--output_dir":
        assert f"output_dir '{out}' on {host} is not the same folder as on {host}" in printed
    else:
        assert "measure.py: the processes of this run have different settings or files" in printed
        assert f"\n  settings.seed is 0 on {host} and 7 on {host}\n" in printed
        assert not out.exists()
    assert "Traceback" not in printed
    assert not (tmp_path / "elsewhere").exists()
    assert not list(out.glob("*/*.parquet")) + list(tmp_path.rglob("*.tmp"))  # nothing was computed


def await_replies(log):
    deadline = time.monotonic() + 300
    while AT_REPLIES not in (log.read_text() if log.exists() else ""):
        assert time.monotonic() < deadline, log.read_text()
        time.sleep(0.002)
