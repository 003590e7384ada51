"""Computes the results of `judge` from the run's tables."""

from dataclasses import replace

import numpy as np
import pyarrow as pa

from hb_metrics.collect.classifiers.censoring import masked_texts
from hb_metrics.collect.judges.rubric import Rubric, talks_to_judge
from hb_metrics.measurements.identity_leakage import PEOPLE_SCHEMA, identity_leakage, people_in
from hb_metrics.measurements.judge.results import Judged, Served
from hb_metrics.measurements.results import Run
from hb_metrics.measurements.shares import group_shares
from hb_metrics.reply_checks.refusal_shares import refusal_shares
from hb_metrics.run.plurals import terms_of_prompts
from hb_metrics.run.record import CONFIDENCE_LEVEL, Judge
from hb_metrics.run.replies import (
    LeftOutError,
    RatedReplies,
    Replies,
    answered_replies,
    are_comparable,
    verdicts,
)
from hb_metrics.run.run_folder import COSTS_FILE, JUDGE_FOLDER, LEAKAGE, PEOPLE_FILE
from hb_metrics.run.tables import has_pairs_of_terms
from hb_metrics.stats.gen_bias import CellSums, plain_and_debiased


def compute(run: Run) -> dict[str, Judged]:
    prompts, replies = run.tables.prompts("descriptor_plural"), run.tables.replies()
    num_suspected = sum(talks_to_judge(masked_texts(replies, terms_of_prompts(prompts))))
    people = run.tables.read_if_any(PEOPLE_FILE, PEOPLE_SCHEMA.names)
    costs = run.tables.read_if_any(COSTS_FILE)
    cost_of = {} if costs is None else {row.pop("judge"): Served(**row) for row in costs.to_pylist()}

    def of_rubric(name: str, judge: Judge) -> Judged:
        rubric, folder = Rubric(**judge.rubric), f"{JUDGE_FOLDER}/{name}"
        table = run.tables.read_if_any(f"{LEAKAGE}/{JUDGE_FOLDER}-{name}.parquet", ("phrase", "probabilities"))
        return replace(
            judged_results(replies, rubric, run.tables.vectors_of(folder, replies.ids), prompts),
            num_cut_for_judge=run.tables.num_truncated(folder),
            num_suspected=num_suspected,
            identity_leakage=None if table is None or people is None else identity_leakage(table, people_in(people)),
            served=cost_of.get(name),
        )

    measured, faults, missing = {}, [], None
    for name, judge in run.record.judge.items():
        try:
            measured[name] = of_rubric(name, judge)
        except LeftOutError as error:
            faults.append(f"{name}: {error}" if len(run.record.judge) > 1 else str(error))
        except ValueError as error:  # the tables of a judge that failed are missing or incomplete
            missing = error
    if faults or missing is not None:
        raise LeftOutError("; ".join(faults) or str(missing), measured or None) from missing
    return measured


def flagged_replies(replies: Replies, rubric: Rubric, probabilities: np.ndarray) -> RatedReplies | None:
    """Returns the replies with a single likeliest label, and flags the replies with the rubric's counted label.

    Returns `None` if the rubric counts no label. `judged_results` explains `probabilities`.
    """
    if rubric.figure is None:
        return None
    labels = verdicts(probabilities[:, :-1])
    flags = labels[labels >= 0] == rubric.labels.index(rubric.figure)
    return RatedReplies(answered_replies(replies, labels >= 0), flags)


def judged_results(replies: Replies, rubric: Rubric, probabilities: np.ndarray, prompts: pa.Table) -> Judged:
    """Computes the results of a rubric from the judge's answers alone.

    `probabilities` [replies, labels + 1] contains a column for each label, and a last column for "no answer". Replies
    without an answer are left out.
    """
    answered = probabilities[:, -1] == 0
    kept, known = answered_replies(replies, answered), probabilities[answered, :-1]
    if not are_comparable(kept):
        raise LeftOutError(
            f"the judge chose a label for only {len(kept.ids):,} of {len(answered):,} texts, and no template has such "
            "texts for two terms; set --judge_model to a model that follows instructions better"
        )
    flagged, are_pairs = flagged_replies(replies, rubric, probabilities), has_pairs_of_terms(prompts)
    cells = CellSums(rubric.labels, keep_replies=True)
    cells.add(known.astype(np.float32), kept.descriptors, kept.templates, kept.axes)
    plain, debiased = plain_and_debiased(cells, CONFIDENCE_LEVEL)
    return Judged(
        replies=None if flagged is None else refusal_shares(flagged, CONFIDENCE_LEVEL, are_pairs=are_pairs),
        means=dict(zip(rubric.labels, known.mean(axis=0, dtype=np.float64).tolist(), strict=True)),
        gen_bias=plain,
        debiased=None if debiased is None else debiased.full_gen_bias,
        num_replies=len(replies.ids),
        num_unanswered=int((~answered).sum()),
        num_tied=int((verdicts(known) < 0).sum()),
        groups=None if flagged is None else group_shares(flagged, prompts),
    )
