from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hb_dataset.prompts import config_vocabulary
from hb_metrics.identity_leakage.leakage import classifier_leakage, people_of
from hb_metrics.inference.classifiers.censoring import masked_texts, paired_terms
from hb_metrics.inference.classifiers.classifier import Classifier, classify_into_shards, probability_array
from hb_metrics.inference.judges.prompt import talks_to_judge
from hb_metrics.inference.judges.rubric import Rubric, recorded_rubric
from hb_metrics.measurements.measurement import Task
from hb_metrics.reply_checks.refusal_shares import refusal_shares
from hb_metrics.runs.finished_run import read_stored_replies
from hb_metrics.runs.replies import FlaggedReplies, Replies, answered_replies, verdicts
from hb_metrics.runs.run_folder import JUDGE, plural_forms
from hb_metrics.stats.gen_bias import CellSums, plain_and_debiased

ROWS_PER_SHARD = 64  # a small number, because a language model reads each row


def plan(task: Task, rubrics: Sequence[Rubric]) -> dict[str, Classifier]:
    load = task.classifier_options()["judge"]
    return {rubric.name: load(rubric) for rubric in rubrics}


def describe(judges: dict[str, Classifier]) -> dict[str, Any]:
    return {
        "judge": {
            name: {
                "name": judge.name,
                "is_embedded": judge.is_embedded,
                "digest": judge.digest,
                "version": judge.version,
                "notes": list(judge.notes),
                **(judge.judge or {}),
            }
            for name, judge in judges.items()
        }
    }


def measure(task: Task, judges: dict[str, Classifier], results: Mapping[str, Any]) -> dict[str, Any]:
    shared = task.settings.run
    replies = read_stored_replies(task.folder, task.prompts)
    assert replies is not None  # generation runs first
    texts = masked_texts(replies, plural_forms(task.prompts), paired_terms(task.prompts))
    tables = {}
    for name, judge in judges.items():
        table = classify_into_shards(
            texts,
            replies.ids,
            judge,
            task.folder / JUDGE / name,
            label=f"judged by the rubric {name}",
            rows_per_shard=ROWS_PER_SHARD,
        )
        if table is not None:
            tables[name] = table
    if not tables:
        return {}
    num_suspected = sum(talks_to_judge(texts))
    people = people_of(task.prompts, config_vocabulary(shared.dataset_config, shared.vocabulary_dir))
    measured: dict[str, Any] = {}
    for name, table in tables.items():
        judge = judges[name]
        rubric = recorded_rubric(judge.judge or {})
        found = judged_results(replies, rubric, probability_array(table), shared.confidence_level)
        found["num_cut_for_judge"] = sum(table["truncated"].to_pylist())
        found["num_suspected"] = num_suspected
        found["identity_leakage"] = classifier_leakage(judge, people) if len(people) > 1 else None
        if judge.cost is not None:
            found["served"] = judge.cost()
        measured[name] = found
    return measured


def judged_results(
    replies: Replies, rubric: Rubric, probabilities: np.ndarray, confidence_level: float
) -> dict[str, Any]:
    """Computes the values of a rubric for results.json.

    `probabilities` [replies, labels + 1] contains a column for each label, and a last column for "no answer". Replies
    without an answer are left out. If the rubric has a counted label, `replies` in the results contains the shares of
    this label, excluding replies in which several labels tie for the highest probability. `debiased` is `None` if the
    sampling noise is unknown.
    """
    answered, found, shares = probabilities[:, -1] == 0, verdicts(probabilities[:, :-1]), None
    kept, known = answered_replies(replies, answered), probabilities[answered][:, :-1]
    if rubric.figure is not None:
        flags = found[found >= 0] == rubric.labels.index(rubric.figure)
        shares = refusal_shares(FlaggedReplies(answered_replies(replies, found >= 0), flags), confidence_level)
    cells = CellSums(rubric.labels, keep_replies=True)
    cells.add(known.astype(np.float32), kept.descriptors, kept.templates, kept.axes)
    plain, debiased = plain_and_debiased(cells, confidence_level)
    return {
        "replies": shares,
        "means": dict(zip(rubric.labels, known.mean(axis=0, dtype=np.float64).tolist(), strict=True)),
        "gen_bias": plain._asdict(),
        "debiased": None if debiased is None else debiased.full_gen_bias,
        "num_replies": len(replies.ids),
        "num_unanswered": int((~answered).sum()),
        "num_tied": int((answered & (found < 0)).sum()),
    }
