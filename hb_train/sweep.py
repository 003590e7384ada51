r"""Tunes a model with several learning rates and finds the best (paper, appendix C.1).

    python hb_train/sweep.py --config hb_train/recipes/dialogpt.yaml --dataset_name labels/dialogpt \
        --output_dir sweeps/dialogpt

The paper's grid for DialoGPT: 15 rates from 3e-7 to 3e0; its grid for BlenderBot: `--highest 3e-3 --num_runs 9`. Each
rate is a run of `tune.py` in a folder of its own, which gets all options that are not this script's; with graphics
cards, one card each. A sweep that was interrupted goes on when the same command is given again. The best model is the
one of the lowest validation perplexity; weights of the others are removed unless `--keep all` is given. With
`--script debias` first, a grid of `debias.py` is swept instead (see debias_sweep.py).
"""

import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import yaml
from tqdm import tqdm

from hb_metrics.run_folder import RUN_FILE, open_run, package_versions, read_json, write_json
from hb_train.hub_token import NOT_RECORDED, TOKEN_VARIABLE, check_recorded

# torch, transformers and the page's packages take seconds to import: not before they are needed.

SWEEP_FILE = "sweep.json"
PAGE_FILE = "sweep.html"
DIVERGED = "diverged: its validation perplexity is not finite"
_WEIGHTS = ("*.safetensors", "checkpoint-*")
# What runs are given by the sweep, and why it is no option of the whole sweep.
_OWN = {
    "learning_rate": "the sweep gives each run its own; choose them with --lowest, --highest and --num_runs",
    "output_dir": "give it once, in full; each run has a folder in it",
    "resume_from_checkpoint": "each run goes on from its own last checkpoint by itself",
}
_HIGHEST_PERPLEXITY = math.exp(700)  # as tune.py writes all that is larger, so that it stays finite
_PAUSE = 0.2  # seconds between looks at the runs
_PATIENCE = 10  # seconds that a run is given to stop

SCRIPT_ERROR = "script '{script}' is not known; give tune or debias"
OPTION_ERROR = "{option} cannot be given here: {reason}"
GRID_ERROR = "lowest is {lowest:g} and highest {highest:g}; give rates above 0, the lowest first"
NUMBER_ERROR = "{name} is {value}; give at least {least}"
TOO_CLOSE_ERROR = (
    "{num_runs} rates from {lowest:g} to {highest:g} are too close to each other to tell by three digits; give fewer, "
    "or a wider range"
)
DATASET_ERROR = "--dataset_name is missing; give a folder that hb_train/bias_labels.py has written"
CONFIG_ERROR = "config '{path}' cannot be read ({problem}); give a YAML file of options, such as those in recipes"
UNLIKE_ERROR = (
    "the runs in '{one}' and '{other}' differ in {sections} beside their {swept}, so they do not compare; "
    "remove the folder of the one that is out of date, and give the same command again"
)
ALL_FAILED_ERROR = "none of the {num_runs} runs has a result; what they said is in {folder}/lr-*.log"


@dataclass
class SweepArguments:
    """What is swept, and where to. All options not named here go to each run of tune.py."""

    output_dir: str = field(metadata={"help": "A new folder for the runs, or that of a sweep to go on with."})
    config: str | None = field(default=None, metadata={"help": "A YAML file of options of tune.py."})
    dataset_name: str | None = field(default=None, metadata={"help": "The folder of labels, as in tune.py."})
    lowest: float = field(default=3e-7, metadata={"help": "The lowest learning rate."})
    highest: float = field(default=3e0, metadata={"help": "The highest learning rate."})
    num_runs: int = field(default=15, metadata={"help": "How many rates, in a uniform logarithmic grid."})
    num_parallel: int = field(default=1, metadata={"help": "How many runs at a time."})
    keep: Literal["best", "all"] = field(
        default="best", metadata={"help": "Which runs keep their weights; the others keep what they recorded."}
    )
    hub_token: str | None = field(
        default=None, repr=False, metadata={"help": "A token to push with; handed to the runs, and not recorded."}
    )

    def __post_init__(self) -> None:
        """Refuses what is no grid."""
        if not 0 < self.lowest < self.highest < math.inf:
            raise ValueError(GRID_ERROR.format(lowest=self.lowest, highest=self.highest))
        for name, least in (("num_runs", 2), ("num_parallel", 1)):
            if getattr(self, name) < least:
                raise ValueError(NUMBER_ERROR.format(name=name, value=getattr(self, name), least=least))


class SweepRun(NamedTuple):
    """A run of the sweep; without perplexity and reason, one that has not ended.

    Attributes:
        learning_rate: The maximum learning rate.
        folder: The run's folder, inside that of the sweep.
        best_validation_perplexity: Of the best step.
        best_step: The step whose weights were kept.
        num_steps: How many steps it took until it was stopped.
        failed: Why there is no perplexity.
        diverged: Whether it failed for its learning rate, so that it is not tried again.
    """

    learning_rate: float
    folder: str
    best_validation_perplexity: float | None = None
    best_step: int | None = None
    num_steps: int | None = None
    failed: str | None = None
    diverged: bool = False


def main(argv: list[str] | None = None) -> None:
    """Reads the options, sweeps, and says which model is the best."""
    from transformers import HfArgumentParser

    argv = sys.argv[1:] if argv is None else argv
    if argv[:1] == ["--script"]:  # before the rest is read, which is another script's
        if argv[1:2] == ["debias"]:
            from hb_train.debias_sweep import main as sweep_debiasing

            return sweep_debiasing(argv[2:])
        if argv[1:2] != ["tune"]:
            raise SystemExit(f"sweep.py: {SCRIPT_ERROR.format(script=' '.join(argv[1:2]))}")
        argv = argv[2:]
    parser = HfArgumentParser(SweepArguments, description=(__doc__ or "").split("\n", 1)[0], allow_abbrev=False)
    options, others = parser.parse_known_args(argv)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the runs are stopped with the sweep
    try:
        _check_options(argv, others)
        sweep(SweepArguments(**vars(options)), others)
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"sweep.py: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted; to go on, give the same command again") from None
    finally:
        signal.signal(signal.SIGTERM, before)


def sweep(arguments: SweepArguments, options: Sequence[str]) -> dict[str, Any]:
    """Tunes with each learning rate that has no result yet, and writes sweep.json and sweep.html.

    Args:
        arguments: What to sweep.
        options: More options of tune.py.

    Returns:
        The content of sweep.json.

    Raises:
        ValueError: The folder holds another sweep, the runs do not compare, or none has a result.
        OSError: The config cannot be read.
    """
    from hb_train.sweep_page import markdown_table, remarks, write_page

    folder = Path(arguments.output_dir)
    runs = {f"lr-{rate:.2e}": rate for rate in learning_rates(arguments)}
    if len(runs) < arguments.num_runs:
        raise ValueError(TOO_CLOSE_ERROR.format(**vars(arguments)))
    open_run(folder, _description(arguments, options))
    results = _known_results(folder, runs)
    shared = [(f"--{name}", getattr(arguments, name)) for name in ("config", "dataset_name")]
    given = [word for option in shared if option[1] is not None for word in option]
    commands = {
        folder / f"{run.folder}.log": [
            *(sys.executable, "-m", "hb_train.tune", *given, *options),
            *(f"--output_dir={folder / run.folder}", f"--learning_rate={run.learning_rate!r}"),
        ]
        for run in results.values()
        if run.best_validation_perplexity is None and not run.diverged
    }
    found = _record(folder, results, arguments.keep)
    ended = arguments.num_runs - len(commands)
    with (
        tqdm(desc="learning rates", total=arguments.num_runs, initial=ended, unit="run") as bar,
        closing(run_processes(commands, arguments.num_parallel, arguments.hub_token)) as processes,
    ):
        for log, failed in processes:
            run = results[log.stem]
            results[log.stem] = _outcome(folder, run, failed or "it ended without a result")
            found = _record(folder, results, arguments.keep)
            bar.update()
    write_page(folder / PAGE_FILE, found)
    print(f"\n{markdown_table(found)}\n")
    if found["best"] is None:
        raise ValueError(ALL_FAILED_ERROR.format(num_runs=arguments.num_runs, folder=folder))
    for line in remarks(found):
        print(line)
    print(f"\npage:  {(folder / PAGE_FILE).resolve()}\nmodel: {(folder / found['best']['folder']).resolve()}")
    return found


def learning_rates(arguments: SweepArguments) -> list[float]:
    """The grid, uniform in the logarithm."""
    return np.geomspace(arguments.lowest, arguments.highest, arguments.num_runs).tolist()


def read_config(path: str) -> dict[str, Any]:
    """The options in a YAML file.

    Raises:
        ValueError: It cannot be read.
    """
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
    """Runs commands, so many at a time, and stops those that run when it is closed or interrupted.

    Args:
        commands: The file that a command's output is added to → the command.
        num_parallel: How many run at a time; each gets a share of the cores, and one of the graphics cards if any.
        hub_token: What they may push with, handed to them past their command lines.

    Yields:
        The file of a command that has ended, and why it failed, or `None`.
    """
    waiting = list(commands.items())
    cards = _graphics_cards() if waiting else []
    running: dict[int, _Process] = {}
    try:
        while waiting or running:
            for place in range(num_parallel):
                if place in running and running[place].process.poll() is not None:
                    ended = running.pop(place)
                    yield ended.log, _reason(ended)
                if place not in running and waiting:
                    running[place] = _start(*waiting.pop(0), place, num_parallel, cards, hub_token)
            time.sleep(_PAUSE)
    finally:
        _stop([each.process for each in running.values()])


def _check_options(argv: Sequence[str], others: Sequence[str]) -> None:
    """Refuses options of tune.py that the sweep sets, in full or shortened, and its own when they are given twice."""
    given = [word.partition("=")[0].lstrip("-").replace("-", "_") for word in argv if word.startswith("--")]
    if given.count("output_dir") > 1:
        raise ValueError(OPTION_ERROR.format(option="--output_dir", reason=_OWN["output_dir"]))
    for word in others:
        name = word.partition("=")[0].removeprefix("--").replace("-", "_")
        for own, reason in _OWN.items():
            if word.startswith("--") and name and own.startswith(name):
                raise ValueError(OPTION_ERROR.format(option=f"--{own}", reason=reason))


def _description(arguments: SweepArguments, options: Sequence[str]) -> dict[str, Any]:
    """Everything that the runs depend on, for run.json."""
    from hb_train.bias_labels import read_labels

    config = {} if arguments.config is None else read_config(arguments.config)
    check_recorded(options, config)
    dataset_name = arguments.dataset_name or config.get("dataset_name")
    if dataset_name is None:
        raise ValueError(DATASET_ERROR)
    return {
        "settings": {name: getattr(arguments, name) for name in ("lowest", "highest", "num_runs")},
        "options": shlex.join(options),
        "config": {name: value for name, value in config.items() if name not in (*_OWN, "dataset_name", *NOT_RECORDED)},
        "labels": read_labels(Path(dataset_name)),
        "versions": package_versions("accelerate", "peft", "trl"),
    }


def _known_results(folder: Path, runs: Mapping[str, float]) -> dict[str, SweepRun]:
    """What is known of each run, by its folder: what tune.py wrote there, and of diverged ones what the sweep wrote."""
    recorded = read_json(folder / SWEEP_FILE)["runs"] if (folder / SWEEP_FILE).is_file() else []
    diverged = {row["folder"] for row in recorded if row["diverged"] and (folder / row["folder"]).is_dir()}
    return {
        name: SweepRun(rate, name, failed=DIVERGED, diverged=True)
        if name in diverged
        else _outcome(folder, SweepRun(rate, name), None)
        for name, rate in runs.items()
    }


def _outcome(folder: Path, run: SweepRun, failed: str | None) -> SweepRun:
    """The run with its result, or with why there is none."""
    training = _read_training(folder / run.folder)
    if training is None:
        # A run that is over and has not ended well is told by its checkpoint, if it came to one.
        diverged = failed is not None and _has_diverged(folder / run.folder)
        return run._replace(failed=DIVERGED if diverged else failed, diverged=diverged)
    perplexity, best_step, num_steps = (
        training[name] for name in ("best_validation_perplexity", "best_step", "num_steps")
    )
    if perplexity is None or not perplexity < _HIGHEST_PERPLEXITY:
        return run._replace(num_steps=num_steps, failed=DIVERGED, diverged=True)
    return run._replace(best_validation_perplexity=perplexity, best_step=best_step, num_steps=num_steps, failed=None)


def _read_training(folder: Path) -> dict[str, Any] | None:
    """How a run went; `None`: it has no result."""
    from hb_metrics.inference.models.bias_tags import read_bias_tuning

    # What is no folder would be looked for on the Hub.
    tuning = read_bias_tuning(str(folder)) if folder.is_dir() else None
    return None if tuning is None else tuning.training


def _has_diverged(folder: Path) -> bool:
    """Whether a validation perplexity in a run's checkpoints is not finite."""
    histories = [read_json(path)["log_history"] for path in folder.glob("checkpoint-*/trainer_state.json")]
    return any(not entry.get("eval_perplexity", 0) < _HIGHEST_PERPLEXITY for each in histories for entry in each)


def _record(folder: Path, results: Mapping[str, SweepRun], keep: str) -> dict[str, Any]:
    """Writes what is known so far, and removes the weights of what will not be picked."""
    runs = list(results.values())
    tuned = [run for run in runs if run.best_validation_perplexity is not None]
    check_alike([folder / run.folder for run in tuned], ["learning_rate"])
    best = min(tuned, key=lambda run: (run.best_validation_perplexity, run.learning_rate), default=None)
    training = (None if best is None else _read_training(folder / best.folder)) or {}
    ends = {runs[0]: "lowest", runs[-1]: "highest"}
    found = {
        "model": training.get("model"),
        "grid": [run.learning_rate for run in runs],
        "validation_perplexity_before_tuning": next(
            (entry["perplexity"] for entry in training.get("validation_perplexity", ()) if entry["step"] == 0), None
        ),
        "runs": [run._asdict() for run in runs],
        "best": None if best is None else best._asdict(),
        "best_at_end": None if best is None else ends.get(best),
    }
    write_json(folder / SWEEP_FILE, found)
    if keep == "best":
        for run in runs:
            if run != best and (run.diverged or run in tuned):
                remove_weights(folder / run.folder)
    return found


def check_alike(folders: Sequence[Path], swept: Iterable[str]) -> None:
    """Refuses runs that differ in more than what is swept, such as by a model that was changed meanwhile."""
    swept = list(swept)
    what = "learning rates" if swept == ["learning_rate"] else ", ".join(swept)
    records = [read_json(folder / RUN_FILE) for folder in folders]
    for record in records:
        for name in swept:
            record["settings"].pop(name, None)
    for folder, record in zip(folders[1:], records[1:], strict=True):
        different = [name for name in {**records[0], **record} if records[0].get(name) != record.get(name)]
        if different:
            raise ValueError(
                UNLIKE_ERROR.format(one=folders[0], other=folder, sections=", ".join(different), swept=what)
            )


def remove_weights(folder: Path) -> None:
    """Removes a run's weights and checkpoints, and leaves what it recorded."""
    for path in (path for pattern in _WEIGHTS for path in folder.glob(pattern)):
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink()


class _Process(NamedTuple):
    """A command that runs, and where its output begins in its log."""

    process: subprocess.Popen
    log: Path
    start: int


def _start(
    log: Path, command: Sequence[str], place: int, num_parallel: int, cards: Sequence[str], hub_token: str | None
) -> _Process:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TQDM_DISABLE": "1"}  # lines in the log, no bars
    if hub_token:
        environment[TOKEN_VARIABLE] = hub_token
    if cards:  # one, whatever their number: a batch would else be as many times as large
        environment["CUDA_VISIBLE_DEVICES"] = cards[place % len(cards)]
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
            os.sched_setaffinity(process.pid, cores[place::num_parallel] or cores)
    return _Process(process, log, start)


def _graphics_cards() -> list[str]:
    """What names each graphics card that may be used."""
    import torch

    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    names = [str(place) for place in range(torch.cuda.device_count())]
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


def _reason(ended: _Process) -> str | None:
    """Why a process failed: the error of the script, or the last line it said; `None`: it did not fail."""
    code = ended.process.returncode
    if code == 0:
        return None
    with ended.log.open("rb") as log:
        log.seek(ended.start)
        lines = [line.strip() for line in log.read().decode(errors="replace").splitlines() if line.strip()]
    errors = [place for place, line in enumerate(lines) if line.startswith(("tune.py: ", "debias.py: "))]
    said = " ".join(lines[errors[-1] if errors else -1 :])
    if code < 0:
        said = f"ended by {signal.Signals(-code).name}" + (f" after: {said}" if said else "")
    return said or f"ended with exit code {code}"


if __name__ == "__main__":
    main()
