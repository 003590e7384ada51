"""What sweeps share: running a script with several settings, each with its folder and log, and comparing the runs."""

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import yaml

from hb_metrics.runs.run_folder import RUN_FILE, read_json
from hb_train.training.hub_token import TOKEN_VARIABLE

SWEEP_FILE = "sweep.json"
_WEIGHTS = ("*.safetensors", "checkpoint-*")
_PAUSE = 0.2  # seconds between looks at the runs
_PATIENCE = 10  # seconds that a run is given to stop

NUMBER_ERROR = "{name} is {value}; give at least {least}"
CONFIG_ERROR = "config '{path}' cannot be read ({problem}); give a YAML file of options, such as those in recipes"
UNLIKE_ERROR = (
    "the runs in '{one}' and '{other}' differ in {sections} beside their {swept}, so they do not compare; "
    "remove the folder of the one that is out of date, and give the same command again"
)


@dataclass
class SharedSweepArguments:
    """The options that all sweeps have."""

    output_dir: str = field(
        metadata={"help": "The folder of the sweep, which has a folder for each run: a new one, or one to resume in."}
    )
    config: str | None = field(default=None, metadata={"help": "A YAML file with options of the script that is swept."})
    num_parallel: int = field(default=1, metadata={"help": "The number of runs at a time."})
    keep: Literal["best", "all"] = field(
        default="best",
        metadata={"help": "Whether the best run or all runs keep their weights; the others keep what they recorded."},
    )
    hub_token: str | None = field(
        default=None,
        repr=False,
        metadata={"help": "A Hub token that the runs push with; it is handed to them and not recorded."},
    )

    def __post_init__(self) -> None:
        """Raises `ValueError` if no run would be started."""
        if self.num_parallel < 1:
            raise ValueError(NUMBER_ERROR.format(name="num_parallel", value=self.num_parallel, least=1))


def option_name(word: str) -> str:
    """The name of the option in a word of a command line, as Python writes it."""
    return word.partition("=")[0].lstrip("-").replace("-", "_")


def read_config(path: str | None) -> dict[str, Any]:
    """The options in a YAML file; none without a file.

    Raises:
        ValueError: It cannot be read.
    """
    if path is None:
        return {}
    try:
        config = yaml.safe_load(Path(path).read_text(encoding="utf-8")) or {}
    except (yaml.YAMLError, UnicodeDecodeError, OSError) as error:
        raise ValueError(CONFIG_ERROR.format(path=path, problem=error)) from error
    if not isinstance(config, dict):
        raise ValueError(CONFIG_ERROR.format(path=path, problem="it is no mapping"))
    return config


def run_processes(
    commands: Mapping[Path, Sequence[str]], num_parallel: int, hub_token: str | None = None
) -> Generator[tuple[Path, str | None]]:
    """Runs commands, several at a time, and stops those that run when it is closed or interrupted.

    Args:
        commands: The file that a command's output is added to → the command.
        num_parallel: How many run at a time; each gets a share of the cores, and one of the graphics cards if any.
        hub_token: The Hub token that the commands may push with, handed to them past their command lines.

    Yields:
        The file of a command that has ended, and why it failed, or `None`.
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
        _stop([running_process.process for running_process in running.values()])


def check_alike(folders: Sequence[Path], swept: Iterable[str]) -> None:
    """Raises if runs differ in more than what is swept, such as by a model that was changed meanwhile.

    Args:
        folders: The folders of the runs.
        swept: The options that differ from run to run.

    Raises:
        ValueError: They differ in something else.
    """
    swept = list(swept)
    swept_words = "learning rates" if swept == ["learning_rate"] else ", ".join(swept)
    records = [read_json(folder / RUN_FILE) for folder in folders]
    for record in records:
        for name in swept:
            record["settings"].pop(name, None)
    for folder, record in zip(folders[1:], records[1:], strict=True):
        different = [name for name in {**records[0], **record} if records[0].get(name) != record.get(name)]
        if different:
            sections = ", ".join(different)
            raise ValueError(UNLIKE_ERROR.format(one=folders[0], other=folder, sections=sections, swept=swept_words))


def remove_weights(folder: Path) -> None:
    """Removes a run's weights and checkpoints, and leaves what it recorded."""
    for path in (path for pattern in _WEIGHTS for path in folder.glob(pattern)):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


class _Process(NamedTuple):
    """A running command, and the position in its log where its output begins."""

    process: subprocess.Popen
    log: Path
    start: int


def _start(
    log: Path, command: Sequence[str], slot: int, num_parallel: int, cards: Sequence[str], hub_token: str | None
) -> _Process:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TQDM_DISABLE": "1"}  # lines in the log, no bars
    if hub_token:
        environment[TOKEN_VARIABLE] = hub_token
    if cards:  # one, whatever their number: a batch would else be as many times as large
        environment["CUDA_VISIBLE_DEVICES"] = cards[slot % len(cards)]
    with log.open("ab") as output:
        output.write(f"$ {shlex.join(command)}\n".encode())
        output.flush()
        start = output.tell()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
    if num_parallel > 1 and sys.platform == "linux":  # else each would take all cores for its own
        cores = sorted(os.sched_getaffinity(0))
        with suppress(ProcessLookupError):
            os.sched_setaffinity(process.pid, cores[slot::num_parallel] or cores)
    return _Process(process, log, start)


def _graphics_cards() -> list[str]:
    """The names, as in CUDA_VISIBLE_DEVICES, of the graphics cards that may be used."""
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(index) for index in range(torch.cuda.device_count())]
    return names if visible is None else visible.split(",")[: len(names)]


def _stop(processes: Sequence[subprocess.Popen]) -> None:
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _failure(ended: _Process) -> str | None:
    """Why a process failed: the error of the script, or the last line of its output; `None`: it did not fail."""
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
