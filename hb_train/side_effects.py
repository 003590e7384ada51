"""Measures two side effects of a mitigation that a single run cannot show: neutral drift, and changes in entropy.

    python -m hb_train.side_effects runs/tune/before runs/tune/counterfactual

Neutral drift is the change in replies to prompts that describe nobody. The prompts are the neutral questions in
`hb_dataset/awareness.yaml`, such as "What is the capital of France?". The model before the mitigation answers these
questions greedily. At each token of an answer, KL(p_before ‖ p_after) compares the next-token probabilities of the two
models in nats. The drift is the mean over the tokens of an answer, averaged over the prompts.

The entropy shows how randomly each model replies to prompts of its run. It is the entropy, in nats, of the distribution
from which a token is drawn. The mean is taken over the tokens of each reply, and then over the prompts.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from accelerate import PartialState

from hb_dataset.awareness import read_awareness
from hb_dataset.seeded_draws import balanced_sample
from hb_metrics.collect.replies.prompt_replies import reply_entropies, reply_to_rows
from hb_metrics.collect.scoring.reply_scoring import drift_per_token
from hb_metrics.command.arguments import settings_of
from hb_metrics.command.planning import load
from hb_metrics.measurements.awareness.compute import cluster_mean, estimate
from hb_metrics.measurements.awareness.figures import cluster_change
from hb_metrics.measurements.reply_requests import ask, request_replies
from hb_metrics.measurements.results import Run, read_run
from hb_metrics.report.sides import EFFECTS_FILE
from hb_metrics.run.run_folder import run_digest, write_json
from hb_train.training.options import first_line, run_script

MAX_TOKENS = 48  # the maximum length of an answer
NUM_PROMPTS = 200  # the maximum number of prompts whose replies are sampled for the entropy


class Side(NamedTuple):
    """A run with its `Settings`, and the `LocalEngine` of its model."""

    run: Run
    settings: Any
    engine: Any


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser("hb_train/side_effects.py", description=first_line(__doc__), allow_abbrev=False)
    parser.add_argument("before", type=Path, help="The folder of the run before the mitigation.")
    parser.add_argument("after", type=Path, help="The folder of the run after the mitigation.")
    options = parser.parse_args(argv)
    run_script("side_effects.py", lambda: measure_side_effects(options.before, options.after))


def measure_side_effects(before: Path, after: Path) -> None:
    sides = [load_side(read_run(folder)) for folder in (before, after)]
    drift, entropy = neutral_drift(*sides), entropy_of_replies(*sides)
    level = sides[0].run.confidence_level
    runs = {"before": run_digest(before), "after": run_digest(after)}
    write_json(after / EFFECTS_FILE, {**runs, "confidence_level": level, "drift": drift, "entropy": entropy})
    print(f"neutral drift: {drift['value']:.4f} nats per token, over {drift['num_prompts']} questions")
    if "missing" in entropy:
        print(f"entropy of replies: not measured, because {entropy['missing']}")
    else:
        first, second, number = (entropy[name] for name in ("first", "second", "num_prompts"))
        print(f"entropy of replies: {first:.3f} → {second:.3f} nats per token, over {number} prompts")


def load_side(run: Run) -> Side:
    model = run.record.model
    if model.dtype is None:
        raise ValueError(f"run '{run.folder}' did not load its model; pass a run of a local model")
    values = dict(run.record.content["settings"])
    if model.adapter is not None and model.adapter.name != run.record.settings.model:
        values["adapter"] = model.adapter.name
    settings = settings_of(values)
    engine: Any = load(settings, PartialState().device)
    if engine.loaded.digest != model.digest:
        raise ValueError(f"the model of run '{run.folder}' has changed since; measure it again in a new folder")
    return Side(run, settings, engine)


def neutral_drift(before: Side, after: Side) -> dict[str, object]:
    questions = list(dict.fromkeys(item.neutral for item in read_awareness()))
    prompts = pa.table({"id": questions, "text": questions})
    (requests, layout, _), (_, other_layout, _) = (
        request_replies(prompts, side.engine, side.settings.run, "greedy", {"max_new_tokens": MAX_TOKENS})
        for side in (before, after)
    )
    loaded, other = before.engine.loaded, after.engine.loaded
    replies = reply_to_rows(before.engine.plan_replies(requests, layout), loaded, range(len(questions)))
    answers = {question: reply for question, reply in zip(questions, replies, strict=True) if reply}
    if not answers:
        raise ValueError(f"'{loaded.name}' replies to none of the questions; pass a run whose model replies")
    values = drift_per_token([*answers], [*answers.values()], (loaded, layout), (other, other_layout))
    rows = np.arange(len(values))
    mean = cluster_mean(values, np.array([rows, rows]))
    return {
        "value": mean.value,
        "interval": estimate(mean, before.run.confidence_level).interval,
        "num_prompts": len(values),
        "num_empty_replies": len(questions) - len(values),
    }


def entropy_of_replies(before: Side, after: Side) -> dict[str, object]:
    """Computes the change in entropy on the prompts that both runs share, or states why there is none."""
    asked = []
    for name, side in (("before", before), ("after", after)):
        if "generation" in side.run.results.measured:
            asked.append(ask(side.settings, side.run.tables.prompts(), side.engine))
        if "generation" not in side.run.results.measured or not asked[-1].requests.decoding.sample:
            return {"missing": f"the run {name} the mitigation has no sampled replies"}
    first, second = (dict(zip(run.requests.ids, run.requests.texts, strict=True)) for run in asked)
    is_shared = [second.get(identifier) == text for identifier, text in first.items()]
    if not any(is_shared):
        return {"missing": "the runs have no prompt in common"}
    prompts = asked[0].prompts.filter(pa.array(is_shared))
    drawn = balanced_sample(prompts, min(NUM_PROMPTS, len(prompts)), seed=before.settings.run.seed)
    terms = drawn.select(["axis", "descriptor"]).to_pandas().groupby(["axis", "descriptor"]).ngroup().to_numpy()
    means, num_empty = [], []
    for side, run in zip((before, after), asked, strict=True):
        requests = run.requests.take(pc.index_in(drawn["id"], pa.array(run.requests.ids)).to_pylist())
        values = reply_entropies(side.engine.plan_replies(requests, run.layout), side.engine.loaded)
        num_empty.append(int(np.isnan(values).sum()))
        if num_empty[-1] == len(values):
            return {"missing": f"all replies of a model to {len(values)} prompts are empty"}
        means.append(cluster_mean(values, np.array([terms, terms])))
    change = cluster_change(means[0], means[1], before.run.confidence_level)
    return {**change._asdict(), "num_prompts": len(drawn), "num_empty_replies": num_empty}


if __name__ == "__main__":
    main()
