r"""Runs tune.py or debias.py with each setting of a grid, and writes the results to one table, sweep.md.

    python hb_train/sweep.py --config hb_train/recipes/dialogpt.yaml --dataset_name labels/dialogpt \
        --output_dir sweeps/dialogpt
    python hb_train/sweep.py --script debias --method lmd --bias_type religion1 --reddit_folder RedditBias \
        --model_name_or_path microsoft/DialoGPT-small --output_dir sweeps/lmd

The default grids come from the papers (Smith et al., 2022, C.1, for DialoGPT; Barikeri et al., 2021, 5.1). For
BlenderBot, the paper's grid is `--grid learning_rate=3e-7:3e-3:9`.

The best run of tune.py has the lowest validation perplexity (method sft) or validation loss (other methods). The best
run of debias.py has the smallest |t| in the test of log perplexities on the validation pairs. Runs that raise the
perplexity of ordinary texts (LMP) by more than a tenth are excluded.

Only the best model keeps its weights. To resume an interrupted sweep, run the same command again.
"""

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from hb_dataset.command_line import CommandParser
from hb_dataset.markdown_table import markdown_table
from hb_dataset.whole_files import write_text
from hb_metrics.run.run_folder import read_json, write_json
from hb_train.debiasing.arguments import DEBIAS_FILE
from hb_train.training.options import first_line, run_script

SWEEP_FILE, TABLE_FILE = "sweep.json", "sweep.md"
PAPER_GRIDS = {
    "tune": ["learning_rate=3e-7:3e0:15"],
    "debias": [
        *("per_device_train_batch_size=4,8,16", "gradient_accumulation_steps=1,5,8"),
        *("lambda_lm=0.001,0.01", "lambda_d=10,50,100"),
    ],
}
LMP_TOLERANCE = 0.1  # the largest allowed rise in the perplexity of ordinary texts, as a share
_HIGHEST_PERPLEXITY = math.exp(700)  # tune.py writes this value for any larger perplexity


def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(prog="hb_train/sweep.py", description=first_line(__doc__))
    parser.add_argument(
        "--output_dir", type=Path, required=True, help="The folder for the sweep. Each run gets a subfolder."
    )
    parser.add_argument("--script", choices=PAPER_GRIDS, default="tune", help="The script to run with each setting.")
    parser.add_argument(
        "--grid",
        nargs="+",
        help="The values to try for each option, such as lambda_d=10,100 or learning_rate=1e-6:1e-2:9 (nine values, "
        "evenly spaced on a logarithmic scale). Default: the paper's grid.",
    )
    options, others = parser.parse_known_args(argv)
    run_script("sweep.py", lambda: sweep(options.script, options.grid, options.output_dir, others))


def sweep(script: str, words: Sequence[str] | None, folder: Path, options: Sequence[str]) -> dict[str, Any]:
    grid = read_grid(words or PAPER_GRIDS[script])
    folder.mkdir(parents=True, exist_ok=True)
    # Only one graphics card is used, because each additional card would increase the batch size of a run.
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]}
    runs: list[dict[str, Any]] = []
    best: dict[str, Any] | None = None
    for values in product(*grid.values()):
        settings = dict(zip(grid, values, strict=True))
        own = [f"{name}={value}" for name, value in settings.items()]
        output = folder / "_".join(own).replace("/", "_")
        command = [sys.executable, "-m", f"hb_train.{script}", *options, f"--output_dir={output}"]
        print(f"$ {script} {' '.join(own)}", flush=True)
        # If a run is finished, this call only checks that the run has the same settings.
        status = subprocess.run([*command, *(f"--{word}" for word in own)], env=environment).returncode
        run = {"settings": settings, "folder": output.name, **_result(script, output, status)}
        runs.append(run)
        worse: dict[str, Any] | None = run
        if run["loss"] is not None and (best is None or run["loss"] < best["loss"]):
            worse, best = best, run
        if worse is not None:
            _remove_weights(folder / worse["folder"])
        write_json(folder / SWEEP_FILE, {"script": script, "grid": grid, "runs": runs, "best": best})
    table = _table(runs, best)
    write_text(folder / TABLE_FILE, table + "\n")
    print(f"\n{table}\n")
    if best is None:
        raise ValueError(
            f"all {len(runs)} runs in '{folder}' failed or are excluded for the reasons in {TABLE_FILE}; set --grid to "
            "other values"
        )
    print(f"model: {(folder / best['folder']).resolve()}")
    return {"script": script, "grid": grid, "runs": runs, "best": best}


def read_grid(words: Sequence[str]) -> dict[str, list[str]]:
    """Parses grid words such as `lambda_d=10,100` or `learning_rate=1e-6:1e-2:9`."""
    grid: dict[str, list[str]] = {}
    for word in words:
        name, _, text = word.partition("=")
        values = text.split(",")
        try:
            if ":" in text:
                lowest, highest, number = text.split(":")
                values = [f"{value:.3g}" for value in np.geomspace(float(lowest), float(highest), int(number))]
        except ValueError:
            values = []
        if not name or not values or not all(values):
            raise ValueError(f"--grid {word} is not a list of values; write name=a,b,c or name=lowest:highest:number")
        grid[name.lstrip("-").replace("-", "_")] = values
    return grid


def _result(script: str, folder: Path, status: int) -> dict[str, Any]:
    if status != 0:
        return {"loss": None, "remark": f"ended with exit status {status}"}
    if script == "tune":
        from hb_metrics.models.bias_tags import TUNING_FILE  # this import loads torch

        training = read_json(folder / TUNING_FILE)["training"]
        name = next(name for name in training if name.startswith("best_validation_"))
        figures = {"loss": training[name], name: training[name], "best_step": training["best_step"]}
        if training[name] is None or training[name] >= _HIGHEST_PERPLEXITY:
            return {**figures, "loss": None, "remark": "diverged"}
        return {**figures, "remark": ""}
    results = read_json(folder / DEBIAS_FILE)
    before, after = results["before"], results["after"]
    figures = {name: after[name] for name in ("t_log", "p_value_log", "t", "lmp")}
    if after["t_log"] is None or after["lmp"] is None:
        return {"loss": None, **figures, "remark": "no t or no LMP"}
    if after["lmp"] > before["lmp"] * (1 + LMP_TOLERANCE):
        return {"loss": None, **figures, "remark": f"LMP rose by {after['lmp'] / before['lmp'] - 1:.0%}"}
    return {"loss": abs(after["t_log"]), **figures, "remark": ""}


def _remove_weights(folder: Path) -> None:
    for path in folder.glob("checkpoint-*"):
        shutil.rmtree(path)
    for path in folder.glob("*.safetensors"):
        path.unlink()


def _table(runs: Sequence[dict[str, Any]], best: dict[str, Any] | None) -> str:
    finished = next((run for run in runs if len(run) > len(("settings", "folder", "loss", "remark"))), runs[0])
    names = [name for name in finished if name not in ("settings", "folder", "loss", "remark")]
    rows = []
    for run in runs:
        cells = ["–" if run.get(name) is None else f"{run[name]:,.4g}" for name in names]
        rows.append([*run["settings"].values(), *cells, "**best**" if run is best else run["remark"]])
    header = [*runs[0]["settings"], *names, ""]
    return markdown_table([name.replace("_", " ") for name in header], rows, numbers=range(len(header) - 1))


if __name__ == "__main__":
    main()
