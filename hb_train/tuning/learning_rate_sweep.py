"""A sweep of bias tuning over learning rates, the best of which has the lowest validation perplexity (appendix C.1)."""

import math
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tqdm import tqdm

from hb_metrics.runs.run_folder import open_run, package_versions, read_json, write_json
from hb_train.training.hub_token import NOT_RECORDED, check_recorded
from hb_train.training.options import MISSING_ERROR
from hb_train.training.sweeps import (
    NUMBER_ERROR,
    SWEEP_FILE,
    SharedSweepArguments,
    check_alike,
    option_name,
    read_config,
    remove_weights,
    run_processes,
)
from hb_train.tuning.labels import read_labels
from hb_train.tuning.methods import SFT, given_method

# The page's packages take seconds to import: not before they are needed.

PAGE_FILE = "sweep.html"
DIVERGED = "diverged: its validation perplexity is not finite"
# The options that the sweep gives to its runs, and why they are no options of the whole sweep.
_OWN = {
    "learning_rate": "the sweep gives each run its own; choose them with --lowest, --highest and --num_runs",
    "output_dir": "give it once, in full; each run has a folder in it",
    "resume_from_checkpoint": "each run resumes from its own last checkpoint by itself",
}
_HIGHEST_PERPLEXITY = math.exp(700)  # as tune.py writes all that is larger, so that it stays finite

METHOD_ERROR = (
    "method {method} cannot be swept: rates are compared by validation perplexity, which only sft has; leave it out"
)
OPTION_ERROR = "{option} cannot be given here: {reason}"
GRID_ERROR = "lowest is {lowest:g} and highest {highest:g}; give rates above 0, the lowest first"
TOO_CLOSE_ERROR = (
    "{num_runs} rates from {lowest:g} to {highest:g} are too close to each other to tell by three digits; give fewer, "
    "or a wider range"
)
ALL_FAILED_ERROR = "none of the {num_runs} runs has a result; their output is in {folder}/lr-*.log"


@dataclass
class SweepArguments(SharedSweepArguments):
    """The options of a sweep of learning rates. All other options go to each run of tune.py."""

    dataset_name: str | None = field(
        default=None, metadata={"help": "The folder of labels that bias_labels.py has written, as in tune.py."}
    )
    lowest: float = field(default=3e-7, metadata={"help": "The lowest learning rate of the grid."})
    highest: float = field(default=3e0, metadata={"help": "The highest learning rate of the grid."})
    num_runs: int = field(
        default=15, metadata={"help": "The number of learning rates, which are uniform in the logarithm."}
    )

    def __post_init__(self) -> None:
        """Raises `ValueError` if the rates are no grid, or a number is too small."""
        super().__post_init__()
        if not 0 < self.lowest < self.highest < math.inf:
            raise ValueError(GRID_ERROR.format(lowest=self.lowest, highest=self.highest))
        if self.num_runs < 2:
            raise ValueError(NUMBER_ERROR.format(name="num_runs", value=self.num_runs, least=2))


class SweepRun(NamedTuple):
    """A run of the sweep; without perplexity and reason, one that has not ended.

    Attributes:
        learning_rate: The maximum learning rate.
        folder: The run's folder, inside that of the sweep.
        best_validation_perplexity: The perplexity of the best step.
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


def sweep_learning_rates(arguments: SweepArguments, options: Sequence[str]) -> dict[str, Any]:
    """Tunes with each learning rate that has no result yet, and writes sweep.json and sweep.html.

    Args:
        arguments: What to sweep.
        options: More options of tune.py.

    Returns:
        The content of sweep.json.

    Raises:
        ValueError: An option is one that the sweep gives to its runs, the folder holds another sweep, the runs do not
            compare, or none has a result.
        OSError: The config cannot be read.
    """
    from hb_train.tuning.sweep_page import remarks, sweep_table, write_page

    _check_options(options)
    folder = Path(arguments.output_dir)
    rates = {f"lr-{rate:.2e}": rate for rate in learning_rates(arguments)}
    if len(rates) < arguments.num_runs:
        raise ValueError(TOO_CLOSE_ERROR.format(**vars(arguments)))
    open_run(folder, _description(arguments, options))
    runs = _known_runs(folder, rates)
    shared = [(f"--{name}", getattr(arguments, name)) for name in ("config", "dataset_name")]
    shared_words = [word for option in shared if option[1] is not None for word in option]
    commands = {
        folder / f"{run.folder}.log": [
            *(sys.executable, "-m", "hb_train.tune", *shared_words, *options),
            *(f"--output_dir={folder / run.folder}", f"--learning_rate={run.learning_rate!r}"),
        ]
        for run in runs.values()
        if run.best_validation_perplexity is None and not run.diverged
    }
    sweep = _record(folder, runs, arguments.keep)
    num_ended = arguments.num_runs - len(commands)
    with (
        tqdm(desc="learning rates", total=arguments.num_runs, initial=num_ended, unit="run") as bar,
        closing(run_processes(commands, arguments.num_parallel, arguments.hub_token)) as processes,
    ):
        for log, failure in processes:
            runs[log.stem] = _outcome(folder, runs[log.stem], failure or "it ended without a result")
            sweep = _record(folder, runs, arguments.keep)
            bar.update()
    write_page(folder / PAGE_FILE, sweep)
    print(f"\n{sweep_table(sweep)}\n")
    if sweep["best"] is None:
        raise ValueError(ALL_FAILED_ERROR.format(num_runs=arguments.num_runs, folder=folder))
    for line in remarks(sweep):
        print(line)
    print(f"\npage:  {(folder / PAGE_FILE).resolve()}\nmodel: {(folder / sweep['best']['folder']).resolve()}")
    return sweep


def learning_rates(arguments: SweepArguments) -> list[float]:
    """The grid, uniform in the logarithm."""
    return np.geomspace(arguments.lowest, arguments.highest, arguments.num_runs).tolist()


def _check_options(options: Sequence[str]) -> None:
    """Raises `ValueError` if an option is one that the sweep gives to its runs, in full or shortened."""
    for word in options:
        name = option_name(word)
        for own, reason in _OWN.items():
            if word.startswith("--") and name and own.startswith(name):
                raise ValueError(OPTION_ERROR.format(option=f"--{own}", reason=reason))


def _description(arguments: SweepArguments, options: Sequence[str]) -> dict[str, Any]:
    """Everything that the runs depend on, for run.json."""
    config = read_config(arguments.config)
    check_recorded(options, config)
    method = given_method(options, config)
    if method != SFT:
        raise ValueError(METHOD_ERROR.format(method=method))
    dataset_name = arguments.dataset_name or config.get("dataset_name")
    if dataset_name is None:
        what = "a folder that hb_train/bias_labels.py has written"
        raise ValueError(MISSING_ERROR.format(option="--dataset_name", what=what))
    return {
        "settings": {name: getattr(arguments, name) for name in ("lowest", "highest", "num_runs")},
        "options": shlex.join(options),
        "config": {name: value for name, value in config.items() if name not in (*_OWN, "dataset_name", *NOT_RECORDED)},
        "labels": read_labels(Path(dataset_name)),
        "versions": package_versions("accelerate", "peft", "trl"),
    }


def _known_runs(folder: Path, rates: Mapping[str, float]) -> dict[str, SweepRun]:
    """The runs by their folders, with the results that tune.py wrote there; diverged ones are known from sweep.json."""
    recorded = read_json(folder / SWEEP_FILE)["runs"] if (folder / SWEEP_FILE).is_file() else []
    diverged = {row["folder"] for row in recorded if row["diverged"] and (folder / row["folder"]).is_dir()}
    return {
        name: SweepRun(rate, name, failed=DIVERGED, diverged=True)
        if name in diverged
        else _outcome(folder, SweepRun(rate, name), None)
        for name, rate in rates.items()
    }


def _outcome(folder: Path, run: SweepRun, failure: str | None) -> SweepRun:
    """The run with its result, or with why there is none."""
    training = _read_training(folder / run.folder)
    if training is None:
        # Whether a run that has ended without a result diverged is seen in its checkpoint, if it wrote one.
        diverged = failure is not None and _has_diverged(folder / run.folder)
        return run._replace(failed=DIVERGED if diverged else failure, diverged=diverged)
    perplexity, best_step, num_steps = (
        training[name] for name in ("best_validation_perplexity", "best_step", "num_steps")
    )
    if perplexity is None or not perplexity < _HIGHEST_PERPLEXITY:
        return run._replace(num_steps=num_steps, failed=DIVERGED, diverged=True)
    return run._replace(best_validation_perplexity=perplexity, best_step=best_step, num_steps=num_steps, failed=None)


def _read_training(folder: Path) -> dict[str, Any] | None:
    """What tune.py recorded of a run; `None`: it has no result."""
    from hb_metrics.inference.models.bias_tags import read_bias_tuning

    # What is no folder would be looked for on the Hub.
    tuning = read_bias_tuning(str(folder)) if folder.is_dir() else None
    return None if tuning is None else tuning.training


def _has_diverged(folder: Path) -> bool:
    """Whether a validation perplexity in a run's checkpoints is not finite."""
    histories = [read_json(path)["log_history"] for path in folder.glob("checkpoint-*/trainer_state.json")]
    return any(not entry.get("eval_perplexity", 0) < _HIGHEST_PERPLEXITY for history in histories for entry in history)


def _record(folder: Path, runs_by_folder: Mapping[str, SweepRun], keep: str) -> dict[str, Any]:
    """Writes what is known so far, and removes the weights of what will not be picked."""
    runs = list(runs_by_folder.values())
    tuned = [run for run in runs if run.best_validation_perplexity is not None]
    check_alike([folder / run.folder for run in tuned], ["learning_rate"])
    best = min(tuned, key=lambda run: (run.best_validation_perplexity, run.learning_rate), default=None)
    training = (None if best is None else _read_training(folder / best.folder)) or {}
    ends = {runs[0]: "lowest", runs[-1]: "highest"}
    sweep = {
        "model": training.get("model"),
        "grid": [run.learning_rate for run in runs],
        "validation_perplexity_before_tuning": next(
            (entry["perplexity"] for entry in training.get("validation_perplexity", ()) if entry["step"] == 0), None
        ),
        "runs": [run._asdict() for run in runs],
        "best": None if best is None else best._asdict(),
        "best_at_end": None if best is None else ends.get(best),
    }
    write_json(folder / SWEEP_FILE, sweep)
    if keep == "best":
        for run in runs:
            if run != best and (run.diverged or run in tuned):
                remove_weights(folder / run.folder)
    return sweep
