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
import gc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from accelerate import PartialState

from hb_dataset.awareness import read_awareness
from hb_dataset.seeded_draws import balanced_sample
from hb_metrics.collect.replies.prompt_replies import reply_entropies, reply_to_rows
from hb_metrics.collect.scoring.reply_scoring import drift_per_token, reply_predictions
from hb_metrics.command.arguments import settings_of
from hb_metrics.command.planning import load
from hb_metrics.measurements.awareness.compute import cluster_mean, estimate
from hb_metrics.measurements.awareness.figures import cluster_change
from hb_metrics.measurements.reply_requests import ask, layout_of_run, request_replies
from hb_metrics.measurements.results import Run, read_run
from hb_metrics.report.sides import EFFECTS_FILE
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.run.run_folder import REPLIES, run_digest, write_json
from hb_metrics.run.schema import by_id
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
    """Measures the side effects. The models are loaded one after the other, because both may not fit on a device."""
    runs = [read_run(folder) for folder in (before, after)]
    shared = shared_prompts(*runs)
    side = load_side(runs[0])
    answers = greedy_answers(side)
    with TemporaryDirectory() as scratch:  # the logits of all answers may not fit in memory
        files = [Path(scratch) / str(number) for number in range(len(answers))]
        for file, prediction in zip(files, _predictions(side, answers), strict=True):
            torch.save(prediction, file)
        entropies = [sampled_entropies(side, shared)]
        del side
        gc.collect()
        side = load_side(runs[1])
        values = drift_per_token(map(torch.load, files), _predictions(side, answers))
    entropies.append(sampled_entropies(side, shared))
    rows = np.arange(len(values))
    mean = estimate(cluster_mean(values, np.array([rows, rows])))
    drift = {
        **vars(mean),  # the value, its interval, and the reason if it has none
        "num_prompts": len(values),
        "num_empty_replies": len(neutral_questions()) - len(values),
    }
    entropy = change_in_entropy(shared, entropies)
    about = {"before": run_digest(before), "after": run_digest(after), "confidence_level": CONFIDENCE_LEVEL}
    write_json(after / EFFECTS_FILE, {**about, "drift": drift, "entropy": entropy})
    print(f"neutral drift: {mean.value:.4f} nats per token, over {len(values)} questions")
    if "missing" in entropy:
        print(f"entropy of replies: not measured, because {entropy['missing']}")
    else:
        first, second, number = (entropy[name] for name in ("first", "second", "num_prompts"))
        print(f"entropy of replies: {first:.3f} → {second:.3f} nats per token, over {number} prompts")


def shared_prompts(before: Run, after: Run) -> pa.Table | str:
    """Draws prompts to which both runs sampled replies, or states why there are none."""
    texts = []
    for name, run in (("before", before), ("after", after)):
        if not (run.tables.has(REPLIES) and run.record.generation.sample):
            return f"the run {name} the mitigation has no sampled replies"
        texts.append(by_id(run.tables.reply_table(), "text"))
    ids = [identifier for identifier, text in texts[0].items() if texts[1].get(identifier) == text]
    if not ids:
        return "the runs have no prompt in common"
    prompts = before.tables.prompts()
    prompts = prompts.filter(pc.is_in(prompts["id"], value_set=pa.array(ids)))
    return balanced_sample(prompts, min(NUM_PROMPTS, len(prompts)), seed=before.record.settings.seed)


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


def neutral_questions() -> list[str]:
    return list(dict.fromkeys(item.neutral for item in read_awareness()))


def greedy_answers(side: Side) -> dict[str, str]:
    questions = neutral_questions()
    prompts = pa.table({"id": questions, "text": questions})
    options = {"max_new_tokens": MAX_TOKENS}
    requests, _ = request_replies(prompts, side.engine, side.settings.run, "greedy", options)
    replies = reply_to_rows(side.engine.plan_replies(requests), side.engine.loaded, range(len(questions)))
    answers = {question: reply for question, reply in zip(questions, replies, strict=True) if reply}
    if not answers:
        raise ValueError(
            f"'{side.engine.loaded.name}' replies to none of the questions; pass a run whose model replies"
        )
    return answers


def _predictions(side: Side, answers: Mapping[str, str]) -> Iterator[tuple[list[int], torch.Tensor]]:
    layout = layout_of_run(side.engine, side.settings.run)
    return reply_predictions([*answers], [*answers.values()], side.engine.loaded, layout)


def sampled_entropies(side: Side, prompts: pa.Table | str) -> np.ndarray:
    """Returns the entropy of a reply to each prompt (see `reply_entropies`): [prompts] float64."""
    if isinstance(prompts, str):
        return np.empty(0)
    asked = ask(side.settings, side.run.tables.prompts(), side.engine)
    rows = pc.index_in(prompts["id"], pa.array(asked.requests.ids)).to_pylist()
    return reply_entropies(side.engine.plan_replies(asked.requests.take(rows)), side.engine.loaded)


def change_in_entropy(prompts: pa.Table | str, entropies: Sequence[np.ndarray]) -> dict[str, object]:
    """Computes the change in entropy, or states why there is none."""
    if isinstance(prompts, str):
        return {"missing": prompts}
    num_empty, is_empty = [int(np.isnan(values).sum()) for values in entropies], np.isnan(entropies).any(axis=0)
    if is_empty.all():
        return {"missing": f"to each of {len(prompts)} prompts, one of the models gives an empty reply"}
    terms = prompts.select(["axis", "descriptor"]).to_pandas().groupby(["axis", "descriptor"]).ngroup().to_numpy()
    both = (np.where(is_empty, np.nan, values) for values in entropies)  # else, the means would be of other prompts
    first, second = (cluster_mean(values, np.array([terms, terms])) for values in both)
    change = cluster_change(first, second)
    return {**change._asdict(), "num_prompts": len(prompts), "num_empty_replies": num_empty}


if __name__ == "__main__":
    main()
