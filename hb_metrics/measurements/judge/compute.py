"""Computes the results of `judge` from the run's tables."""

from typing import Any

import numpy as np

from hb_metrics.collect.classifiers.censoring import masked_texts, paired_terms
from hb_metrics.collect.judges.prompt import talks_to_judge
from hb_metrics.collect.judges.rubric import Rubric, recorded_rubric
from hb_metrics.identity_leakage.leakage import identity_leakage, people_in
from hb_metrics.reply_checks.refusal_shares import refusal_shares
from hb_metrics.run.finished_run import (
    Run,
    read_prompts,
    read_run_table,
    read_stored_replies,
    read_vectors,
    stored_shards,
)
from hb_metrics.run.replies import FlaggedReplies, Replies, answered_replies, verdicts
from hb_metrics.run.run_folder import COSTS_FILE, JUDGE, LEAKAGE, PEOPLE_FILE, plural_forms
from hb_metrics.stats.gen_bias import CellSums, plain_and_debiased


def compute(run: Run) -> dict[str, Any]:
    prompts = read_prompts(run.folder)
    replies = read_stored_replies(run.folder, prompts)
    assert replies is not None  # generation runs first
    num_suspected = sum(talks_to_judge(masked_texts(replies, plural_forms(prompts), paired_terms(prompts))))
    people, costs = (read_run_table(run.folder / name) for name in (PEOPLE_FILE, COSTS_FILE))
    cost_of = {} if costs is None else {row.pop("judge"): row for row in costs.to_pylist()}
    measured: dict[str, Any] = {}
    for name, judge in run.results["run"]["judge"].items():
        rubric, folder = recorded_rubric(judge), run.folder / JUDGE / name
        labels = stored_shards(folder, ("truncated",))
        found = judged_results(replies, rubric, read_vectors(folder).values, run.confidence_level)
        found["num_cut_for_judge"] = sum(labels["truncated"].to_pylist())
        found["num_suspected"] = num_suspected
        leakage = read_run_table(run.folder / LEAKAGE / f"{JUDGE}-{name}.parquet")
        found["identity_leakage"] = None
        if leakage is not None and people is not None:
            found["identity_leakage"] = identity_leakage(leakage, people_in(people))
        if name in cost_of:
            found["served"] = cost_of[name]
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
