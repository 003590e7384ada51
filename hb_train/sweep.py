r"""Runs a training script with a grid of options, each run in its own folder, and finds the best.

    python hb_train/sweep.py --config hb_train/recipes/dialogpt.yaml --dataset_name labels/dialogpt \
        --output_dir sweeps/dialogpt
    python hb_train/sweep.py --script debias --method lmd --bias_type religion1 --reddit_folder RedditBias \
        --model_name_or_path microsoft/DialoGPT-small --output_dir sweeps/lmd

Without `--grid`, the grid is the paper's. `tune.py`: 15 learning rates from 3e-7 to 3e0, uniform in the logarithm
(Smith et al., 2022, C.1, DialoGPT; BlenderBot's is `--grid learning_rate=3e-7:3e-3:9`); the best has the lowest
validation perplexity. `debias.py`: 54 combinations of batch size, gradient accumulation, λ_LM and λ_D (Barikeri et al.,
2021, 5.1).

The best debiased model has the smallest |t|, which is the highest p-value, on logarithms of the validation pairs'
perplexities (raw ones depend on a few rows), among the runs whose perplexity of other text (LMP) is at most
`--lmp_tolerance` above the value before; of equals the lower LMP decides. The paper states only that it optimised on
the validation portion.

Each run gets all options that are not the sweep's. The same command resumes an interrupted sweep. Weights of all runs
but the best are removed unless `--keep all` is given. sweep.json and the table sweep.md hold the results.
"""

import math
import os
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tqdm import tqdm

from hb_dataset.markdown_table import markdown_table
from hb_dataset.whole_files import write_text
from hb_metrics.runs.run_folder import RUN_FILE, open_run, package_versions, read_json, write_json
from hb_train.debiasing.arguments import DEBIAS_FILE
from hb_train.training.hub_token import NOT_RECORDED, TOKEN_VARIABLE, check_recorded
from hb_train.training.options import check_given, check_least, first_line, option, read_config, run_script
from hb_train.tune import given_method
from hb_train.tuning.labels import read_labels

SWEEP_FILE, TABLE_FILE = "sweep.json", "sweep.md"
PAPER_GRIDS = {
    "tune": ["learning_rate=3e-7:3e0:15"],
    "debias": [
        *("per_device_train_batch_size=4,8,16", "gradient_accumulation_steps=1,5,8"),
        *("lambda_lm=0.001,0.01", "lambda_d=10,50,100"),
    ],
}
# The numbers of a run in sweep.json and in the table.
NUMBERS = {
    "tune": ("best_validation_perplexity", "perplexity_before", "best_step", "num_steps"),
    "debias": ("t_log", "p_value_log", "t", "lmp", "lmp_ratio"),
}
_SHORT = {"per_device_train_batch_size": "batch", "gradient_accumulation_steps": "accumulation", "learning_rate": "lr"}
_OWN = ("output_dir", "resume_from_checkpoint")  # beside the grid, what the sweep gives each run
_HIGHEST_PERPLEXITY = math.exp(700)  # tune.py writes it for all that is larger
DIVERGED = "diverged: its validation perplexity is not finite"


@dataclass
class SweepArguments:
    """The options of a sweep. All other options go to each run of the script."""

    output_dir: str = field(metadata={"help": "The folder of the sweep, with a folder for each run; also to resume."})
    script: Literal["tune", "debias"] = option("tune", "The script that is swept.")
    grid: list[str] | None = option(
        None,
        "The swept options with their values, such as lambda_d=10,100 or learning_rate=1e-6:1e-2:9 (nine "
        "values, uniform in the logarithm); by default the paper's grid.",
    )
    config: str | None = option(None, "A YAML file with options of the script.")
    dataset_name: str | None = option(None, "The folder of labels, as in tune.py.")
    lmp_tolerance: float = option(
        0.1, "The largest rise of the best debiased model's perplexity of other text, as a share."
    )
    keep: Literal["best", "all"] = option("best", "Which runs keep their weights.")
    hub_token: str | None = field(
        default=None,
        repr=False,
        metadata={"help": "A Hub token that the runs push with; it is handed to them and not recorded."},
    )

    def __post_init__(self) -> None:
        """Raises `ValueError` if a number is too small."""
        check_least(self, lmp_tolerance=0)


def main(argv: list[str] | None = None) -> None:
    """Reads the options, sweeps, and prints which model is the best."""
    words = sys.argv[1:] if argv is None else argv
    handler_before = signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the runs are stopped too
    try:
        run_script("sweep.py", lambda: sweep(*parse_options(words)))
    finally:
        signal.signal(signal.SIGTERM, handler_before)


def parse_options(argv: list[str]) -> tuple[SweepArguments, list[str]]:
    """The options of the sweep, and the words that go to each run."""
    from transformers import HfArgumentParser

    parser = HfArgumentParser(SweepArguments, description=first_line(__doc__), allow_abbrev=False)
    options, others = parser.parse_known_args(argv)
    return SweepArguments(**vars(options)), others


def sweep(arguments: SweepArguments, options: Sequence[str]) -> dict[str, Any]:
    """Runs each setting of the grid that has no result yet, and writes sweep.json and sweep.md.

    Args:
        arguments: What to sweep.
        options: More options of the script.

    Returns:
        The content of sweep.json.

    Raises:
        ValueError: An option is one that the sweep gives each run, the folder holds another sweep, the runs are not
            comparable, or none has a result.
        OSError: A folder is not there.
    """
    folder, grid = Path(arguments.output_dir), read_grid(arguments.grid or PAPER_GRIDS[arguments.script])
    open_run(folder, _description(arguments, options, grid))
    runs = {}
    for values in product(*grid.values()):
        settings = dict(zip(grid, values, strict=True))
        runs["_".join(f"{_SHORT.get(name, name)}-{value.replace('/', '_')}" for name, value in settings.items())] = (
            settings
        )
    shared = list(options)
    for name in ("config", "dataset_name"):
        if getattr(arguments, name) is not None:
            shared += [f"--{name}", getattr(arguments, name)]
    known = read_json(folder / SWEEP_FILE)["runs"] if (folder / SWEEP_FILE).is_file() else []
    failures = {}
    for run in known:
        if run["failed"] == DIVERGED and (folder / run["folder"]).is_dir():  # not tried again, unless it was removed
            failures[run["folder"]] = DIVERGED
    commands = {}
    for name, settings in runs.items():
        if name not in failures and _numbers(arguments.script, folder / name) is None:
            own = [f"--output_dir={folder / name}", *(f"--{option}={value}" for option, value in settings.items())]
            commands[folder / f"{name}.log"] = [sys.executable, "-m", f"hb_train.{arguments.script}", *shared, *own]
    content = _record(arguments, folder, grid, runs, failures)
    with tqdm(desc="runs", total=len(runs), initial=len(runs) - len(commands), unit="run") as bar:
        for log, command in commands.items():
            failure = run_logged(log, command, arguments.hub_token)
            if failure is not None:
                failures[log.stem] = DIVERGED if " diverged: " in failure else failure
            content = _record(arguments, folder, grid, runs, failures)
            bar.update()
    table = sweep_table(content)
    write_text(folder / TABLE_FILE, table + "\n")
    print(f"\n{table}\n")
    best = content["best"]
    if best is None:
        raise ValueError(f"none of the {len(runs)} runs has a result to pick; their output is in {folder}/*.log")
    for name, swept in grid.items():
        if best["settings"][name] in (swept[0], swept[-1]) and len(swept) > 2:
            print(f"the best {name} is at an end of the grid: the optimum may lie beyond {best['settings'][name]}")
    print(f"model: {(folder / best['folder']).resolve()}")
    return content


def run_logged(log: Path, command: Sequence[str], hub_token: str | None) -> str | None:
    """Runs a command, and adds its output to a log.

    Args:
        log: The file.
        command: The words of the command; with several graphics cards it sees one, because its batches would otherwise
            be as many times as large.
        hub_token: The Hub token that it may push with, handed over past its command line.

    Returns:
        Why it failed: the error of the script, or the last line of its output; `None`: it did not fail.
    """
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", "TQDM_DISABLE": "1"}  # lines in the log, no bars
    environment["CUDA_VISIBLE_DEVICES"] = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    if hub_token:
        environment[TOKEN_VARIABLE] = hub_token
    with log.open("ab") as output:
        output.write(f"$ {shlex.join(command)}\n".encode())
        output.flush()
        start = output.tell()
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=environment
        )
    if ended.returncode == 0:
        return None
    lines = [line.strip() for line in log.read_bytes()[start:].decode(errors="replace").splitlines() if line.strip()]
    errors = [index for index, line in enumerate(lines) if line.startswith(("tune.py: ", "debias.py: "))]
    reason = " ".join(lines[errors[-1] if errors else -1 :])
    if ended.returncode < 0:
        reason = f"ended by {signal.Signals(-ended.returncode).name} after: {reason}"
    return reason or f"ended with exit status {ended.returncode}"


def read_grid(words: Sequence[str]) -> dict[str, list[str]]:
    """The values of each swept option, from words such as `lambda_d=10,100` or `learning_rate=1e-6:1e-2:9`.

    Raises:
        ValueError: A word is no option with distinct values, or names an option twice.
    """
    grid: dict[str, list[str]] = {}
    for word in words:
        name, _, text = word.partition("=")
        name, values = _option_name(name), text.split(",")
        if ":" in text:
            try:
                lowest, highest, number = text.split(":")
                values = [f"{value:.3g}" for value in np.geomspace(float(lowest), float(highest), int(number))]
            except ValueError:
                values = [""]
        if not name or not all(values) or len(set(values)) < len(values) or name in grid:
            raise ValueError(
                f"--grid {word} is no list of values; write name=a,b,c or name=lowest:highest:number with values that "
                "differ, and each name once"
            )
        grid[name] = values
    return grid


def sweep_table(content: Mapping[str, Any]) -> str:
    """The runs in sweep.json as a table in Markdown."""
    names, numbers = list(content["grid"]), NUMBERS[content["script"]]
    header = [*(_SHORT.get(name, name) for name in names), *(name.replace("_", " ") for name in numbers), ""]
    rows = []
    for run in content["runs"]:
        remark = (
            "**best**" if run == content["best"] else (run["failed"] or run["not_picked"] or "").replace("|", r"\|")
        )
        cells = ["–" if run[name] is None else _number(run[name]) for name in numbers]
        rows.append([*run["settings"].values(), *cells, remark])
    return markdown_table(header, rows, numbers=range(len(header) - 1))


def _description(arguments: SweepArguments, options: Sequence[str], grid: dict[str, list[str]]) -> dict[str, Any]:
    """Everything that the runs depend on, for run.json.

    Raises:
        ValueError: An option is one that the sweep gives each run, or holds a token, or no labels are named.
    """
    own = (*grid, *_OWN)
    for word in options:
        name = _option_name(word)
        # The scripts' parsers take options that are shortened too.
        if word.startswith("--") and name and any(each.startswith(name) for each in own):
            raise ValueError(f"--{name} cannot be given here: the sweep gives each run its own")
    config = read_config(arguments.config)
    check_recorded([*options, *(f"--{name}={','.join(values)}" for name, values in grid.items())], config)
    dataset_name = arguments.dataset_name or config.get("dataset_name")
    labels = None
    if arguments.script == "tune":
        if given_method(options, config) != "sft":
            raise ValueError("only method sft can be swept, because runs are compared by validation perplexity")
        check_given(dataset_name=dataset_name)
        labels = read_labels(Path(str(dataset_name)))
    recorded = {"script": arguments.script, "lmp_tolerance": arguments.lmp_tolerance, "grid": grid}
    return {
        "settings": recorded,
        "options": shlex.join(options),
        "config": {name: config[name] for name in config if name not in (*own, "dataset_name", *NOT_RECORDED)},
        "labels": labels,
        "versions": package_versions("accelerate", "peft", "trl"),
    }


def _record(
    arguments: SweepArguments,
    folder: Path,
    grid: dict[str, list[str]],
    runs: Mapping[str, dict[str, str]],
    failures: Mapping[str, str],
) -> dict[str, Any]:
    """Writes the results so far, and removes the weights of runs that will not be picked."""
    rows, ended, eligible = [], [], []
    for name, settings in runs.items():
        numbers = _numbers(arguments.script, folder / name)
        failed = failures.get(name)
        row: dict[str, Any] = {"settings": settings, "folder": name, "failed": failed, "not_picked": None}
        row |= dict.fromkeys(NUMBERS[arguments.script]) if numbers is None else {**numbers, "failed": None}
        if numbers is not None:
            ended.append(folder / name)
            row |= _judged(arguments, row)
            if row["failed"] is None and row["not_picked"] is None:
                eligible.append(row)
        rows.append(row)
    _check_alike(ended, grid)
    if arguments.script == "tune":
        best = min(eligible, key=lambda row: row["best_validation_perplexity"], default=None)
    else:
        best = min(eligible, key=lambda row: (abs(row["t_log"]), row["lmp"]), default=None)
    content = {"script": arguments.script, "grid": grid, "runs": rows, "best": best}
    write_json(folder / SWEEP_FILE, content)
    for row in rows:
        is_over = folder / row["folder"] in ended or row["failed"] == DIVERGED
        if arguments.keep == "best" and is_over and row != best:
            for path in (folder / row["folder"]).glob("checkpoint-*"):
                shutil.rmtree(path)
            for path in (folder / row["folder"]).glob("*.safetensors"):
                path.unlink()
    return content


def _numbers(script: str, folder: Path) -> dict[str, Any] | None:
    """What a run recorded of its result; `None`: it has none."""
    if script == "debias":
        if not (folder / DEBIAS_FILE).is_file():
            return None
        results = read_json(folder / DEBIAS_FILE)
        before, after = results["before"], results["after"]
        ratio = None if after["lmp"] is None else after["lmp"] / before["lmp"]
        return {**{name: after[name] for name in NUMBERS["debias"][:-1]}, "lmp_ratio": ratio}
    from hb_metrics.inference.models.bias_tags import read_bias_tuning

    # The name of a folder that does not exist would be looked for on the Hub.
    tuning = read_bias_tuning(str(folder)) if folder.is_dir() else None
    if tuning is None:
        return None
    numbers = {name: tuning.training[name] for name in ("best_validation_perplexity", "best_step", "num_steps")}
    curve = tuning.training["validation_perplexity"]
    return {**numbers, "perplexity_before": next((each["perplexity"] for each in curve if each["step"] == 0), None)}


def _judged(arguments: SweepArguments, row: Mapping[str, Any]) -> dict[str, str]:
    """Why a run with a result cannot be the best; empty: it can."""
    if arguments.script == "tune":
        perplexity = row["best_validation_perplexity"]
        finite = perplexity is not None and perplexity < _HIGHEST_PERPLEXITY
        return {} if finite else {"failed": DIVERGED}
    if row["t_log"] is None or row["lmp_ratio"] is None:
        return {"not_picked": "it has no t or no LMP to choose by"}
    if row["lmp_ratio"] > 1 + arguments.lmp_tolerance:
        return {"not_picked": f"its LMP rose by {row['lmp_ratio'] - 1:.0%}"}
    return {}


def _check_alike(folders: Sequence[Path], swept: Mapping[str, Any]) -> None:
    """Raises `ValueError` if runs differ in more than the grid, such as in a model that was changed meanwhile."""
    records = [read_json(folder / RUN_FILE) for folder in folders]
    for record in records:
        for name in swept:
            record["settings"].pop(name, None)
    for folder, record in zip(folders[1:], records[1:], strict=True):
        different = [name for name in {**records[0], **record} if records[0].get(name) != record.get(name)]
        if different:
            raise ValueError(
                f"the runs in '{folders[0]}' and '{folder}' differ in {', '.join(different)} beside their grid, so "
                "they are not comparable; remove the folder that is out of date, and give the same command again"
            )


def _option_name(word: str) -> str:
    """The name of the option in a word of a command line, as Python writes it."""
    return word.partition("=")[0].lstrip("-").replace("-", "_")


def _number(value: float) -> str:
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.3f}" if abs(value) < 1e6 else f"{value:.3g}"


if __name__ == "__main__":
    main()
