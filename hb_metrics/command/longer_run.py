"""Writes the command of a run like a finished one, with more replies."""

import math
import shlex
from pathlib import Path

from hb_dataset.prompt_columns import has_names
from hb_metrics.command.arguments import default_settings
from hb_metrics.measurements.results import Run
from hb_metrics.report.page import Longer
from hb_metrics.run.run_folder import read_seconds


def firmer_run(run: Run) -> Longer | None:
    """Returns a run with four times as many replies, or `None` if there are not enough prompts for it."""
    if "generation" not in run.results.measured:
        return None
    gen_bias = run.results.generation.gen_bias
    replies = math.ceil(4 * gen_bias.mean_replies_per_cell)
    if not has_names(run.tables.prompts()) and replies * gen_bias.num_cells > run.record.data.num_prompts:
        return None
    seconds = read_seconds(run.folder)
    minutes = (sum(seconds.values()) + 3 * seconds["generation"]) / 60 if "generation" in seconds else None
    return Longer(longer_command(run, Path("runs/firmer"), replies), minutes)


def longer_command(run: Run, folder: Path, replies: int) -> str:
    """Returns the run's command with another number of replies. `folder` is followed by this number."""
    settings, model, defaults = run.record.content["settings"], run.record.model, default_settings().values()
    options = {name: value for name, value in settings.items() if value != defaults.get(name, value)}
    options |= {} if model.adapter is None else {"adapter": model.adapter.name}
    options |= {} if model.served is None else {"base_url": model.served.base_url}
    judges = run.record.judge.values() if "judge" in run.record.content else ()
    if any(judge.model_digest is None for judge in judges):  # run.json does not contain its address
        options["judge_base_url"] = "JUDGE_URL"
    words = ["holistic-bias", "measure", "--output_dir", f"{folder}-{replies}"]
    if {"replies_file", "logprobs_file"} & options.keys():  # the longer run needs more answers
        words = ["holistic-bias", "export-prompts", f"{folder}-{replies}.jsonl"]
    for name, value in {**options, "replies_per_cell": replies}.items():
        if name not in ("quick", "replies_file", "logprobs_file") and value is not None:
            words += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return shlex.join(words)
