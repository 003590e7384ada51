"""Writes the command of a run like a finished one, with more replies."""

import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from hb_dataset.prompt_columns import has_names
from hb_metrics.command.arguments import settings_of
from hb_metrics.measurements.generation.results import SHORT_SHARE
from hb_metrics.measurements.results import Run
from hb_metrics.report.page import Longer
from hb_metrics.run.run_folder import read_seconds


def firmer_run(run: Run) -> Longer | None:
    """Returns a run with four times as many replies, or `None` if it is impossible or shows no more than this run.

    It is impossible without enough prompts or, for a name, without random replies. If most replies are too short to
    have a style, more of them show no more.
    """
    replies = 4 * (run.record.settings.replies_per_cell or 0)
    if "generation" not in run.results.measured or not replies:
        return None
    prompts, asked = run.tables.prompts(), run.record.generation
    if (has_names(prompts) and not asked.sample) or run.results.generation.short_share >= SHORT_SHARE:
        return None
    left_out = asked.left_out_templates
    used = prompts.filter(pc.invert(pc.is_in(prompts["template"], pa.array(left_out, pa.string()))))
    # With a cue, replies are also spread over questions, so these cells are not those of Gen Bias.
    cells = used.group_by(["axis", "descriptor", "template"]).aggregate([])
    if not has_names(prompts) and replies * len(cells) > len(used):
        return None
    of_replies = reply_seconds(run)
    minutes = None if of_replies is None else (sum(read_seconds(run.folder).values()) + 3 * of_replies) / 60
    return Longer(longer_command(run, None, replies, " \\\n  "), minutes)


def reply_seconds(run: Run) -> float | None:
    """Returns how long the replies and a judge's labels took, or `None` if this is unknown, as for replies of files."""
    seconds = read_seconds(run.folder)
    if run.record.model.answered_in_files or "generation" not in seconds:
        return None
    return seconds["generation"] + seconds.get("judge", 0.0)


def longer_command(run: Run, folder: Path | None, replies: int, between: str = " ") -> str:
    """Returns the run's command with another number of replies, which follows `folder`. `None` is the default folder.

    `between` separates the options.
    """
    settings, model, defaults = run.record.content["settings"], run.record.model, settings_of({}).values()
    options = {name: value for name, value in settings.items() if value != defaults.get(name, value)}
    options |= {} if model.adapter is None else {"adapter": model.adapter.name}
    options |= {} if model.served is None else {"base_url": model.served.base_url}
    judges = run.record.judge.values() if "judge" in run.record.content else ()
    if any(judge.model_digest is None for judge in judges):  # run.json does not contain its address
        options["judge_base_url"] = "JUDGE_URL"
    parts = [["holistic-bias", "measure"], *([] if folder is None else [["--output_dir", f"{folder}-{replies}"]])]
    if {"replies_file", "logprobs_file"} & options.keys():  # the longer run needs more answers
        parts = [["holistic-bias", "export-prompts", f"{folder or 'prompts'}-{replies}.jsonl"]]
    for name, value in {**options, "replies_per_cell": replies}.items():
        if name not in ("quick", "replies_file", "logprobs_file") and value is not None:
            values = [*map(str, value if isinstance(value, list) else [value])]
            is_like_option = values[0].startswith("-")
            parts.append([f"--{name}={values[0]}"] if is_like_option else [f"--{name}", *values])
    return between.join(map(shlex.join, parts))
