"""Computes the results of `offensiveness` from the run's tables."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from hb_metrics.measurements.group_shares import group_shares
from hb_metrics.measurements.offensiveness.results import Offensiveness, Texts
from hb_metrics.measurements.results import Run
from hb_metrics.measurements.turn_shares import turn_shares
from hb_metrics.offensiveness.averages import offensiveness
from hb_metrics.reply_checks.refusal_shares import reply_shares
from hb_metrics.run.replies import (
    FlaggedReplies,
    Replies,
    answered_replies,
    chosen_replies,
    whole_prompts,
)
from hb_metrics.run.run_folder import OFFENSIVE_PROMPTS, OFFENSIVE_REPLIES
from hb_metrics.run.tables import Tables
from hb_metrics.run.typed_json import from_json


def compute(run: Run) -> Offensiveness:
    prompts, is_judged = run.tables.prompts(), run.record.offensiveness_classifier.judge is not None
    turns = run.tables.turns()
    whole = _read(run.tables, OFFENSIVE_PROMPTS, whole_prompts(prompts), is_judged)
    of_replies, flagged = None, []
    for turn, replies in enumerate(turns, start=1):
        read = _read(run.tables.turn(turn), OFFENSIVE_REPLIES, replies, is_judged)
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


def _read(tables: Tables, name: str, texts: Replies, is_judged: bool) -> _Classified:
    probabilities, shards = tables.vectors(name).values, tables.read(name, ("truncated",))
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
