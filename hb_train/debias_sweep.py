r"""Debiases a model with each setting of a grid and finds the best on the validation pairs (Barikeri et al., 5.1).

    python hb_train/sweep.py --script debias --method lmd --bias_type religion1 --reddit_folder RedditBias \
        --model_name_or_path microsoft/DialoGPT-small --output_dir sweeps/lmd

The paper's grid for lmd, add and hd is the default, 54 runs: batch size {4, 8, 16} × gradient accumulation {1, 5, 8} ×
λ_LM {0.001, 0.01} × λ_D {10, 50, 100}. Or: `--grid lambda_d=10,100 learning_rate=1e-5,5e-5`. Each setting is run
by `debias.py` in its own folder. The paper says only that it optimised on the validation portion. Here the best has
the smallest |t| on logarithms of the validation pairs' perplexities (raw ones hang on a few rows) among the runs whose
perplexity on other text (LMP) is at most `--lmp_tolerance` above that before; of equals the one of lower LMP.
"""

import shlex
import signal
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal

from tqdm import tqdm

from hb_dataset.whole_files import write_text
from hb_metrics.run_folder import open_run, package_versions, read_json, write_json
from hb_train.debias import DEBIAS_FILE
from hb_train.hub_token import NOT_RECORDED, check_recorded
from hb_train.sweep import SWEEP_FILE, check_alike, read_config, remove_weights, run_processes

TABLE_FILE = "sweep.md"
PAPER_GRID = {
    "per_device_train_batch_size": ["4", "8", "16"],
    "gradient_accumulation_steps": ["1", "5", "8"],
    "lambda_lm": ["0.001", "0.01"],
    "lambda_d": ["10", "50", "100"],
}
_SHORT = {"per_device_train_batch_size": "batch", "gradient_accumulation_steps": "accumulation"}

GRID_ERROR = "--grid {word} is no list of values; write name=a,b,c with values that differ, and each name once"
OWN_ERROR = "--{name} cannot be given here: the sweep gives each run its own"
TOLERANCE_ERROR = "lmp_tolerance is {value}; give at least 0"
NUMBER_ERROR = "num_parallel is {value}; give at least 1"
NO_LMP_ERROR = "the run in '{folder}' has no LMP to select by; leave out --num_reference_texts 0"
NONE_ERROR = "none of the {number} runs can be picked; why is in {path}, and what they said in {folder}/*.log"


@dataclass
class GridArguments:
    """What is swept, and where to. All options not named here go to each run of debias.py."""

    output_dir: str = field(metadata={"help": "A new folder for the runs, or that of a sweep to go on with."})
    config: str | None = field(default=None, metadata={"help": "A YAML file of options of debias.py."})
    grid: list[str] | None = field(
        default=None, metadata={"help": "Options and their values, name=a,b,c; default: the paper's grid."}
    )
    lmp_tolerance: float = field(
        default=0.1, metadata={"help": "How much LMP may rise for a run to be picked, as a share of that before."}
    )
    num_parallel: int = field(default=1, metadata={"help": "How many runs at a time."})
    keep: Literal["best", "all"] = field(
        default="best", metadata={"help": "Which runs keep their weights; the others keep what they recorded."}
    )
    hub_token: str | None = field(
        default=None, repr=False, metadata={"help": "A token to push with; handed to the runs, and not recorded."}
    )

    def __post_init__(self) -> None:
        """Refuses what cannot be."""
        if not self.lmp_tolerance >= 0:
            raise ValueError(TOLERANCE_ERROR.format(value=self.lmp_tolerance))
        if self.num_parallel < 1:
            raise ValueError(NUMBER_ERROR.format(value=self.num_parallel))


def main(argv: list[str]) -> None:
    """Reads the options, sweeps, and says which model is the best."""
    from transformers import HfArgumentParser

    parser = HfArgumentParser(GridArguments, description=(__doc__ or "").split("\n", 1)[0], allow_abbrev=False)
    options, others = parser.parse_known_args(argv)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the runs are stopped with the sweep
    try:
        sweep_grid(GridArguments(**vars(options)), others)
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"sweep.py: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted; to go on, give the same command again") from None
    finally:
        signal.signal(signal.SIGTERM, before)


def read_grid(words: Sequence[str] | None) -> dict[str, list[str]]:
    """The grid of `name=a,b,c` words; `None`: the paper's.

    Raises:
        ValueError: One is not such a word.
    """
    if words is None:
        return PAPER_GRID
    grid: dict[str, list[str]] = {}
    for word in words:
        name, _, values = word.partition("=")
        name = name.removeprefix("--").replace("-", "_")
        each = values.split(",")
        if not name or not all(each) or len(set(each)) < len(each) or name in grid:
            raise ValueError(GRID_ERROR.format(word=word))
        grid[name] = each
    return grid


def sweep_grid(arguments: GridArguments, options: Sequence[str]) -> dict[str, Any]:
    """Debiases with each setting that has no result yet, and writes sweep.json and sweep.md.

    Args:
        arguments: What to sweep.
        options: More options of debias.py.

    Returns:
        The content of sweep.json.

    Raises:
        ValueError: The folder holds another sweep, the runs do not compare, or none can be picked.
        OSError: The config cannot be read.
    """
    folder, grid = Path(arguments.output_dir), read_grid(arguments.grid)
    for word in options:
        name = word.partition("=")[0].removeprefix("--").replace("-", "_")
        if word.startswith("--") and name in (*grid, "output_dir", "resume_from_checkpoint"):
            raise ValueError(OWN_ERROR.format(name=name))
    config = {} if arguments.config is None else read_config(arguments.config)
    check_recorded([*options, *(f"--{name}={','.join(values)}" for name, values in grid.items())], config)
    description = {
        "settings": {"script": "debias", "lmp_tolerance": arguments.lmp_tolerance, "grid": grid},
        "options": shlex.join(options),
        "config": {name: value for name, value in config.items() if name not in (*grid, "output_dir", *NOT_RECORDED)},
        "versions": package_versions("accelerate", "peft", "trl"),
    }
    open_run(folder, description)
    runs = {_folder_name(settings): settings for settings in _settings(grid)}
    failed: dict[str, str] = {}
    given = [] if arguments.config is None else ["--config", arguments.config]
    commands = {
        folder / f"{name}.log": [
            *(sys.executable, "-m", "hb_train.debias", *given, *options, f"--output_dir={folder / name}"),
            *(f"--{option}={value}" for option, value in settings.items()),
        ]
        for name, settings in runs.items()
        if not (folder / name / DEBIAS_FILE).is_file()
    }
    found = _record(arguments, folder, runs, failed)
    with (
        tqdm(desc="settings", total=len(runs), initial=len(runs) - len(commands), unit="run") as bar,
        closing(run_processes(commands, arguments.num_parallel, arguments.hub_token)) as processes,
    ):
        for log, reason in processes:
            if reason is not None:
                failed[log.stem] = reason
            found = _record(arguments, folder, runs, failed)
            bar.update()
    table = markdown_table(found)
    write_text(folder / TABLE_FILE, table + "\n")
    print(f"\n{table}\n")
    if found["best"] is None:
        raise ValueError(NONE_ERROR.format(number=len(runs), path=folder / SWEEP_FILE, folder=folder))
    print(f"model: {(folder / found['best']['folder']).resolve()}")
    return found


def markdown_table(found: dict[str, Any]) -> str:
    """The runs as a table in Markdown."""
    names = list(found["grid"])
    header = [*(_SHORT.get(name, name) for name in names), "t (log)", "t", "LMP", "LMP / before", ""]
    rows = [header, ["---:"] * (len(header) - 1) + ["---"]]
    for run in found["runs"]:
        said = "**best**" if run == found["best"] else (run["failed"] or run["not_picked"] or "").replace("|", r"\|")
        numbers = ["–" if run[name] is None else f"{run[name]:.3f}" for name in ("t_log", "t", "lmp", "lmp_ratio")]
        rows.append([*(run["settings"][name] for name in names), *numbers, said])
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _settings(grid: dict[str, list[str]]) -> list[dict[str, str]]:
    return [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]


def _folder_name(settings: dict[str, str]) -> str:
    words = (f"{_SHORT.get(name, name)}-{value.replace('/', '_')}" for name, value in settings.items())
    return "_".join(words)


def _record(
    arguments: GridArguments, folder: Path, runs: dict[str, dict[str, str]], failed: dict[str, str]
) -> dict[str, Any]:
    """Writes what is known so far, and removes the weights of what will not be picked."""
    rows = [_row(folder, name, settings, failed.get(name), arguments.lmp_tolerance) for name, settings in runs.items()]
    ended = [row for row in rows if row["t"] is not None or row["lmp"] is not None]
    check_alike([folder / row["folder"] for row in ended], read_grid(arguments.grid))
    picked = [row for row in ended if row["not_picked"] is None]
    best = min(picked, key=lambda row: (abs(row["t_log"]), row["lmp"]), default=None)
    found = {"grid": read_grid(arguments.grid), "runs": rows, "best": best}
    write_json(folder / SWEEP_FILE, found)
    if arguments.keep == "best":
        for row in ended:
            if row != best:
                remove_weights(folder / row["folder"])
    return found


def _row(folder: Path, name: str, settings: dict[str, str], failed: str | None, tolerance: float) -> dict[str, Any]:
    """What a run found; without numbers and reason one that has not ended."""
    row = {"settings": settings, "folder": name, "failed": failed, "not_picked": None}
    if not (folder / name / DEBIAS_FILE).is_file():
        return {**row, **dict.fromkeys(("t_log_before", "t_log", "t", "lmp", "lmp_ratio"))}
    found = read_json(folder / name / DEBIAS_FILE)
    before, after = found["before"], found["after"]
    if after["lmp"] is None:
        raise ValueError(NO_LMP_ERROR.format(folder=folder / name))
    ratio = after["lmp"] / before["lmp"]
    if after["t_log"] is None:
        row["not_picked"] = "its t is not defined"
    elif ratio > 1 + tolerance:
        row["not_picked"] = f"its LMP rose by {ratio - 1:.0%}"
    numbers = {"t_log_before": before["t_log"], "t_log": after["t_log"], "t": after["t"], "lmp": after["lmp"]}
    return {**row, "failed": None, **numbers, "lmp_ratio": ratio}
