"""Computes the results of `offensiveness` from the run's tables."""

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from hb_metrics.measurements.offensiveness.results import Offensiveness, Texts
from hb_metrics.measurements.results import Run
from hb_metrics.measurements.shares import group_shares, turn_shares
from hb_metrics.offensiveness.averages import offensiveness
from hb_metrics.reply_checks.refusal_shares import reply_shares
from hb_metrics.run.finished_run import read_prompts, read_turns, read_vectors, stored_shards
from hb_metrics.run.replies import (
    FlaggedReplies,
    Replies,
    answered_replies,
    chosen_replies,
    whole_prompts,
)
from hb_metrics.run.run_folder import OFFENSIVENESS, turn_folder
from hb_metrics.run.typed_json import from_json


def compute(run: Run) -> Offensiveness:
    prompts, is_judged = read_prompts(run.folder), run.record.offensiveness_classifier.judge is not None
    turns = read_turns(run.folder, prompts)
    whole = _read(run.folder / OFFENSIVENESS / "prompts", whole_prompts(prompts), is_judged)
    of_replies, flagged = None, []
    for turn, replies in enumerate(turns, start=1):
        read = _read(turn_folder(run.folder, turn) / OFFENSIVENESS / "replies", replies, is_judged)
        if of_replies is None:
            of_replies = offensiveness_results(*read, run.confidence_level)
            flags = FlaggedReplies(read.kept, read.probabilities >= of_replies.threshold)
            of_replies = replace(of_replies, groups=group_shares(flags, prompts, run.confidence_level))
        remains = np.isin(read.kept.ids, turns[-1].ids)
        offensive = read.probabilities >= of_replies.threshold
        flagged.append(FlaggedReplies(chosen_replies(read.kept, remains), offensive[remains]))
    by_turn = turn_shares(flagged, run.confidence_level) if len(flagged) > 1 else None
    return Offensiveness(offensiveness_results(*whole), of_replies, by_turn)


class _Classified(NamedTuple):
    """The texts for which the classifier gave an answer, and the probability that each is offensive."""

    kept: Replies
    probabilities: np.ndarray
    num_truncated: int
    num_unanswered: int | None


def _read(folder: Path, texts: Replies, is_judged: bool) -> _Classified:
    probabilities, shards = read_vectors(folder).values, stored_shards(folder, ("truncated",))
    answered = probabilities[:, -1] == 0 if is_judged else np.ones(len(probabilities), dtype=bool)
    num_truncated, num_unanswered = sum(shards["truncated"].to_pylist()), int((~answered).sum()) if is_judged else None
    return _Classified(answered_replies(texts, answered), probabilities[answered, 0], num_truncated, num_unanswered)


def offensiveness_results(
    texts: Replies,
    probabilities: np.ndarray,
    num_truncated: int,
    num_unanswered: int | None = None,
    confidence_level: float | None = None,
) -> Texts:
    """Computes the results of some texts. The shares have intervals if `confidence_level` is set, as for replies."""
    results = offensiveness(probabilities, texts.descriptors, texts.templates, texts.axes)
    results |= {"num_truncated": num_truncated, "num_unanswered": num_unanswered}
    summary = from_json(Texts, results)
    if confidence_level is None:
        return summary
    flagged = FlaggedReplies(texts, probabilities >= summary.threshold)
    return replace(summary, shares=reply_shares(flagged, confidence_level))
