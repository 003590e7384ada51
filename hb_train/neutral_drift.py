"""Measures neutral drift: how much a mitigation changes a model's replies to prompts that describe nobody.

    python -m hb_train.neutral_drift runs/tune/before runs/tune/distill

The prompts are the neutral questions in `hb_dataset/awareness.yaml`, such as "What is the capital of France?". The
model before the mitigation answers them greedily. At each token of an answer, KL(p_before ‖ p_after) compares the
next-token probabilities of the two models in nats. The drift is the mean over the tokens of an answer, averaged over
the prompts.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from hb_dataset.awareness import read_awareness
from hb_metrics.arguments import settings_of
from hb_metrics.inference.models.layout import Layout
from hb_metrics.inference.models.loading import LoadedModel
from hb_metrics.inference.processes import process_state
from hb_metrics.inference.replies.prompt_replies import plan_replies, reply_to_rows
from hb_metrics.inference.replies.requests import ReplyRequests
from hb_metrics.inference.scoring.divergence import drift_per_token
from hb_metrics.measurements.awareness.results import cluster_mean
from hb_metrics.measurements.awareness.work import MAX_TOKENS
from hb_metrics.measurements.reply_requests import request_replies
from hb_metrics.report.sides import DRIFT_FILE
from hb_metrics.runs.finished_run import Run, read_run
from hb_metrics.runs.planning import load, model_source
from hb_metrics.runs.replies import is_empty
from hb_metrics.runs.run_folder import run_digest, write_json
from hb_train.training.options import first_line, run_script


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="hb_train/neutral_drift.py", description=first_line(__doc__))
    parser.add_argument("before", type=Path, help="The folder of the run before the mitigation.")
    parser.add_argument("after", type=Path, help="The folder of the run after the mitigation.")
    options = parser.parse_args(argv)
    run_script("neutral_drift.py", lambda: measure_drift(options.before, options.after))


def measure_drift(before: Path, after: Path) -> None:
    questions = list(dict.fromkeys(item.neutral for item in read_awareness()))
    first, second = (read_run(folder) for folder in (before, after))
    loaded, layout, requests = _asked(first, questions)
    changed, other_layout, _ = _asked(second, questions)
    plan = plan_replies(requests, loaded, context=layout.context)
    replies = reply_to_rows(plan, loaded, range(len(questions)))
    rows = [row for row, reply in enumerate(replies) if not is_empty(reply)]
    if not rows:
        raise ValueError(
            f"'{loaded.name}' replies to none of the {len(questions)} questions; pass a run whose model replies"
        )
    asked, said = [questions[row] for row in rows], [replies[row] for row in rows]
    values = drift_per_token(asked, said, (loaded, layout), (changed, other_layout))
    mean, level = cluster_mean(values, np.array([rows, rows])), first.results["run"]["settings"]
    drift = {
        "value": mean.value,
        "interval": mean.interval(level["confidence_level"]),
        "confidence_level": level["confidence_level"],
        "num_prompts": len(rows),
        "num_empty_replies": len(questions) - len(rows),
        "before": run_digest(before),
        "after": run_digest(after),
    }
    write_json(after / DRIFT_FILE, drift)
    print(f"neutral drift: {mean.value:.4f} nats per token, over {len(rows)} questions")


def _asked(run: Run, questions: Sequence[str]) -> tuple[LoadedModel, Layout, ReplyRequests]:
    record = run.results["run"]
    values, adapter = dict(record["settings"]), record["model"].get("adapter")
    if adapter is not None and adapter["name"] != values["model"]:
        values["adapter"] = adapter["name"]
    settings = settings_of(values)
    engine = load(settings, model_source(settings), process_state().device)
    loaded = engine.loaded
    if loaded is None or loaded.digest != record["model"]["digest"]:
        raise ValueError(
            f"model '{values['model']}' has changed since run '{run.folder}'; measure it again in a new folder"
        )
    prompts = pa.table({"id": list(questions), "text": list(questions)})
    requests, layout, _ = request_replies(prompts, engine, settings.run, "greedy", {"max_new_tokens": MAX_TOKENS})
    return loaded, layout, requests


if __name__ == "__main__":
    main()
