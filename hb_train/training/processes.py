"""Commands that run side by side, each with its log, its share of the cores and one of the graphics cards."""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from hb_train.training.hub_token import TOKEN_VARIABLE

_PAUSE = 0.2  # seconds between looks at the commands
_PATIENCE = 10  # seconds that a command is given to stop


class _Process(NamedTuple):
    """A running command, and the position in its log where its output begins."""

    process: subprocess.Popen
    log: Path
    start: int


def run_processes(
    commands: Mapping[Path, Sequence[str]], num_parallel: int, hub_token: str | None = None
) -> Generator[tuple[Path, str | None]]:
    """Runs commands, several at a time, and stops the running ones when it is closed or interrupted.

    Args:
        commands: The file that a command's output is added to → the command.
        num_parallel: How many run at a time.
        hub_token: The Hub token that the commands may push with, handed to them past their command lines.

    Yields:
        The log of a command that has ended, and why it failed, or `None`.
    """
    waiting = list(commands.items())
    cards = _graphics_cards() if waiting else []
    running: dict[int, _Process] = {}
    try:
        while waiting or running:
            for slot in range(num_parallel):
                if slot in running and running[slot].process.poll() is not None:
                    ended = running.pop(slot)
                    yield ended.log, _failure(ended)
                if slot not in running and waiting:
                    running[slot] = _start(*waiting.pop(0), slot, num_parallel, cards, hub_token)
            time.sleep(_PAUSE)
    finally:
        for ended in running.values():
            ended.process.terminate()
        for ended in running.values():
            try:
                ended.process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                ended.process.kill()
                ended.process.wait()


def _start(
    log: Path, command: Sequence[str], slot: int, num_parallel: int, cards: Sequence[str], hub_token: str | None
) -> _Process:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TQDM_DISABLE": "1"}  # lines in the log, no bars
    if hub_token:
        environment[TOKEN_VARIABLE] = hub_token
    if cards:  # one, whatever their number: with several a batch would be as many times as large
        environment["CUDA_VISIBLE_DEVICES"] = cards[slot % len(cards)]
    with log.open("ab") as output:
        output.write(f"$ {shlex.join(command)}\n".encode())
        output.flush()
        start = output.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
    if num_parallel > 1 and sys.platform == "linux":  # otherwise each command would use all cores
        cores = sorted(os.sched_getaffinity(0))
        with suppress(ProcessLookupError):
            os.sched_setaffinity(process.pid, cores[slot::num_parallel] or cores)
    return _Process(process, log, start)


def _graphics_cards() -> list[str]:
    """The names of the usable graphics cards, as in CUDA_VISIBLE_DEVICES."""
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(index) for index in range(torch.cuda.device_count())]
    return names if visible is None else visible.split(",")[: len(names)]


def _failure(ended: _Process) -> str | None:
    """Why a command failed: the error of the script, or the last line of its output; `None`: it did not fail."""
    code = ended.process.returncode
    if code == 0:
        return None
    with ended.log.open("rb") as log:
        log.seek(ended.start)
        lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    errors = [index for index, line in enumerate(lines) if line.startswith(("tune.py: ", "debias.py: "))]
    reason = " ".join(lines[errors[-1] if errors else -1 :])
    if code < 0:
        reason = f"ended by {signal.Signals(-code).name}" + (f" after: {reason}" if reason else "")
    return reason or f"ended with exit code {code}"
