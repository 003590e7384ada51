"""A sweep of debiasing over a grid of options, the best of which is found on the validation pairs (section 5.1).

The paper's grid for lmd, add and hd is the default, 54 runs: batch size {4, 8, 16} × gradient accumulation {1, 5, 8} ×
λ_LM {0.001, 0.01} × λ_D {10, 50, 100}. The paper states only that it optimised on the validation portion. Here the best
has the highest p-value, which is the smallest |t|, on logarithms of the validation pairs' perplexities (raw ones depend
on a few rows) among the runs whose perplexity of other text (LMP) is at most `--lmp_tolerance` above that before; of
equals the one of lower LMP.
"""

import shlex
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from tqdm import tqdm

from hb_dataset.markdown_table import markdown_table
from hb_dataset.whole_files import write_text
from hb_metrics.runs.run_folder import open_run, package_versions, read_json, write_json
from hb_train.debiasing.arguments import DEBIAS_FILE
from hb_train.training.hub_token import NOT_RECORDED, check_recorded
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

TABLE_FILE = "sweep.md"
PAPER_GRID = {
    "per_device_train_batch_size": ["4", "8", "16"],
    "gradient_accumulation_steps": ["1", "5", "8"],
    "lambda_lm": ["0.001", "0.01"],
    "lambda_d": ["10", "50", "100"],
}
_NUMBERS = ("t_log", "p_value_log", "t", "lmp", "lmp_ratio")  # of a run, in sweep.json
_SHORT = {"per_device_train_batch_size": "batch", "gradient_accumulation_steps": "accumulation"}

GRID_ERROR = "--grid {word} is no list of values; write name=a,b,c with values that differ, and each name once"
OWN_ERROR = "--{name} cannot be given here: the sweep gives each run its own"
NO_LMP_ERROR = "the run in '{folder}' has no LMP to select by; leave out --num_reference_texts 0"
NONE_ERROR = (
    "none of the {number} runs can be picked; the reasons are in {path}, the output of the runs in {folder}/*.log"
)


@dataclass
class GridArguments(SharedSweepArguments):
    """The options of a sweep of debiasing. All other options go to each run of debias.py."""

    grid: list[str] | None = field(
        default=None,
        metadata={
            "help": "The options that are swept, each with its values, such as lambda_d=10,100; by default the paper's "
            "grid."
        },
    )
    lmp_tolerance: float = field(
        default=0.1,
        metadata={
            "help": "How much the perplexity of other text (LMP) of the best run may be higher than before debiasing, "
            "as a share of that."
        },
    )

    def __post_init__(self) -> None:
        """Raises `ValueError` if a number is too small."""
        super().__post_init__()
        if not self.lmp_tolerance >= 0:
            raise ValueError(NUMBER_ERROR.format(name="lmp_tolerance", value=self.lmp_tolerance, least=0))


def read_grid(words: Sequence[str] | None) -> dict[str, list[str]]:
    """The grid of words such as `lambda_d=10,100`; `None`: the paper's.

    Raises:
        ValueError: A word is no option with distinct values, or names an option twice.
    """
    if words is None:
        return PAPER_GRID
    grid: dict[str, list[str]] = {}
    for word in words:
        name, values = option_name(word), word.partition("=")[2].split(",")
        if not name or not all(values) or len(set(values)) < len(values) or name in grid:
            raise ValueError(GRID_ERROR.format(word=word))
        grid[name] = values
    return grid


def sweep_grid(arguments: GridArguments, options: Sequence[str]) -> dict[str, Any]:
    """Debiases with each setting that has no result yet, and writes sweep.json and sweep.md.

    Args:
        arguments: What to sweep.
        options: More options of debias.py.

    Returns:
        The content of sweep.json.

    Raises:
        ValueError: An option is one that the sweep gives to its runs, the folder holds another sweep, the runs do not
            compare, or none can be picked.
        OSError: The config cannot be read.
    """
    folder, grid = Path(arguments.output_dir), read_grid(arguments.grid)
    for word in options:
        name = option_name(word)
        if word.startswith("--") and name in (*grid, "output_dir", "resume_from_checkpoint"):
            raise ValueError(OWN_ERROR.format(name=name))
    config = read_config(arguments.config)
    check_recorded([*options, *(f"--{name}={','.join(values)}" for name, values in grid.items())], config)
    description = {
        "settings": {"script": "debias", "lmp_tolerance": arguments.lmp_tolerance, "grid": grid},
        "options": shlex.join(options),
        "config": {name: value for name, value in config.items() if name not in (*grid, "output_dir", *NOT_RECORDED)},
        "versions": package_versions("accelerate", "peft", "trl"),
    }
    open_run(folder, description)
    all_settings = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    runs = {_folder_name(settings): settings for settings in all_settings}
    failures: dict[str, str] = {}
    config_words = [] if arguments.config is None else ["--config", arguments.config]
    commands = {
        folder / f"{name}.log": [
            *(sys.executable, "-m", "hb_train.debias", *config_words, *options, f"--output_dir={folder / name}"),
            *(f"--{option}={value}" for option, value in settings.items()),
        ]
        for name, settings in runs.items()
        if not (folder / name / DEBIAS_FILE).is_file()
    }
    sweep = _record(arguments, folder, runs, failures)
    with (
        tqdm(desc="settings", total=len(runs), initial=len(runs) - len(commands), unit="run") as bar,
        closing(run_processes(commands, arguments.num_parallel, arguments.hub_token)) as processes,
    ):
        for log, failure in processes:
            if failure is not None:
                failures[log.stem] = failure
            sweep = _record(arguments, folder, runs, failures)
            bar.update()
    table = grid_table(sweep)
    write_text(folder / TABLE_FILE, table + "\n")
    print(f"\n{table}\n")
    if sweep["best"] is None:
        raise ValueError(NONE_ERROR.format(number=len(runs), path=folder / SWEEP_FILE, folder=folder))
    print(f"model: {(folder / sweep['best']['folder']).resolve()}")
    return sweep


def grid_table(sweep: dict[str, Any]) -> str:
    """The runs in the content of sweep.json as a table in Markdown."""
    names = list(sweep["grid"])
    header = [*(_SHORT.get(name, name) for name in names), "t (log)", "p (log)", "t", "LMP", "LMP / before", ""]
    rows = []
    for run in sweep["runs"]:
        remark = "**best**" if run == sweep["best"] else (run["failed"] or run["not_picked"] or "").replace("|", r"\|")
        numbers = ["–" if run[name] is None else f"{run[name]:.3f}" for name in _NUMBERS]
        rows.append([*(run["settings"][name] for name in names), *numbers, remark])
    return markdown_table(header, rows, numbers=range(len(header) - 1))


def _folder_name(settings: dict[str, str]) -> str:
    words = (f"{_SHORT.get(name, name)}-{value.replace('/', '_')}" for name, value in settings.items())
    return "_".join(words)


def _record(
    arguments: GridArguments, folder: Path, runs: dict[str, dict[str, str]], failures: dict[str, str]
) -> dict[str, Any]:
    """Writes what is known so far, and removes the weights of what will not be picked."""
    grid = read_grid(arguments.grid)
    rows = [
        _row(folder, name, settings, failures.get(name), arguments.lmp_tolerance) for name, settings in runs.items()
    ]
    ended = [row for row in rows if row["t"] is not None or row["lmp"] is not None]
    check_alike([folder / row["folder"] for row in ended], grid)
    eligible = [row for row in ended if row["not_picked"] is None]
    best = min(eligible, key=lambda row: (abs(row["t_log"]), row["lmp"]), default=None)
    sweep = {"grid": grid, "runs": rows, "best": best}
    write_json(folder / SWEEP_FILE, sweep)
    if arguments.keep == "best":
        for row in ended:
            if row != best:
                remove_weights(folder / row["folder"])
    return sweep


def _row(folder: Path, name: str, settings: dict[str, str], failure: str | None, tolerance: float) -> dict[str, Any]:
    """A run in sweep.json; without numbers and reason one that has not ended."""
    row = {"settings": settings, "folder": name, "failed": failure, "not_picked": None}
    if not (folder / name / DEBIAS_FILE).is_file():
        return {**row, **dict.fromkeys(("t_log_before", *_NUMBERS))}
    results = read_json(folder / name / DEBIAS_FILE)
    before, after = results["before"], results["after"]
    if after["lmp"] is None:
        raise ValueError(NO_LMP_ERROR.format(folder=folder / name))
    ratio = after["lmp"] / before["lmp"]
    if after["t_log"] is None:
        row["not_picked"] = "its t is not defined"
    elif ratio > 1 + tolerance:
        row["not_picked"] = f"its LMP rose by {ratio - 1:.0%}"
    numbers = {name: after[name] for name in _NUMBERS if name != "lmp_ratio"}
    return {**row, "failed": None, "t_log_before": before["t_log"], **numbers, "lmp_ratio": ratio}
