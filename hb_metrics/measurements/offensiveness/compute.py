"""Computes the results of `offensiveness` from the run's tables."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_metrics.measurements.offensiveness.results import Offensiveness, Texts
from hb_metrics.measurements.results import Run
from hb_metrics.measurements.shares import TurnShares, group_shares, turn_shares
from hb_metrics.offensiveness.averages import offensiveness
from hb_metrics.reply_checks.refusal_shares import refusal_shares
from hb_metrics.run.record import CONFIDENCE_LEVEL, UsedClassifier
from hb_metrics.run.replies import RatedReplies, Replies, answered_replies, chosen_replies, whole_prompts
from hb_metrics.run.run_folder import OFFENSIVE_PROMPTS, OFFENSIVE_REPLIES
from hb_metrics.run.tables import Tables, has_pairs_of_terms
from hb_metrics.run.typed_json import from_json


def compute(run: Run) -> Offensiveness:
    prompts, classifier = run.tables.prompts(), run.record.offensiveness_classifier
    turns = run.tables.turns()
    whole = read_classified(run.tables, OFFENSIVE_PROMPTS, whole_prompts(prompts), classifier)
    of_prompts, of_replies, rated = offensiveness_results(*whole), None, []
    for turn, replies in enumerate(turns, start=1):
        read = read_classified(run.tables.turn(turn), OFFENSIVE_REPLIES, replies, classifier)
        offensive = read.probabilities >= of_prompts.threshold
        if turn == 1:
            groups = group_shares(RatedReplies(read.kept, offensive), prompts)
            of_replies = offensiveness_results(*read, are_replies=True, are_pairs=has_pairs_of_terms(prompts))
            of_replies = replace(of_replies, groups=groups)
        rated.append(RatedReplies(read.kept, offensive))
    return Offensiveness(of_prompts, of_replies, shares_by_turn(rated, prompts) if len(rated) > 1 else None)


def shares_by_turn(rated: list[RatedReplies], prompts: pa.Table) -> TurnShares | None:
    """Computes the share of each turn, from the conversations for which the classifier gave an answer in each turn."""
    shared = set.intersection(*(set(of_turn.replies.ids) for of_turn in rated))
    same = []
    for replies, is_offensive in rated:
        is_shared = np.array([identifier in shared for identifier in replies.ids])
        same.append(RatedReplies(chosen_replies(replies, is_shared), is_offensive[is_shared]))
    return turn_shares(same, prompts) if shared else None


class Classified(NamedTuple):
    """The texts for which the classifier gave an answer, and the probability that each is offensive."""

    kept: Replies
    probabilities: np.ndarray
    num_truncated: int
    num_unanswered: int | None


def read_classified(tables: Tables, name: str, texts: Replies, classifier: UsedClassifier) -> Classified:
    probabilities, num_truncated = tables.vectors_of(name, texts.ids), tables.num_truncated(name)
    known = answered(probabilities, classifier)
    num_unanswered = None if classifier.judge is None else int((~known).sum())
    return Classified(answered_replies(texts, known), probabilities[known, 0], num_truncated, num_unanswered)


def answered(probabilities: np.ndarray, classifier: UsedClassifier) -> np.ndarray:
    """Returns whether the classifier gave an answer: [texts]. Only judges may give none."""
    if classifier.judge is None:
        return np.ones(len(probabilities), dtype=bool)
    return probabilities[:, 1] == 0  # the second column means no answer


def offensiveness_results(
    texts: Replies,
    probabilities: np.ndarray,
    num_truncated: int,
    num_unanswered: int | None = None,
    *,
    are_replies: bool = False,
    are_pairs: bool = False,
) -> Texts:
    """Computes the results of prompts, or of replies, which also have shares with intervals (see `refusal_shares`)."""
    results = offensiveness(probabilities, texts.descriptors, texts.templates, texts.axes)
    results |= {"num_truncated": num_truncated, "num_unanswered": num_unanswered}
    summary = from_json(Texts, results)
    if not are_replies:
        return summary
    flagged = RatedReplies(texts, probabilities >= summary.threshold)
    return replace(summary, shares=refusal_shares(flagged, CONFIDENCE_LEVEL, are_pairs=are_pairs))
