"""Computes the results of `offensiveness` from the run's tables, and the changes between two runs."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_metrics.measurements.offensiveness.results import Offensiveness, Texts
from hb_metrics.measurements.results import Run
from hb_metrics.measurements.shares import (
    TurnShares,
    generalised_means,
    group_shares,
    reply_share_changes,
    turn_shares,
)
from hb_metrics.offensiveness.averages import offensiveness
from hb_metrics.reply_checks.refusal_shares import refusal_shares
from hb_metrics.run.record import CONFIDENCE_LEVEL, UsedClassifier
from hb_metrics.run.replies import LeftOutError, RatedReplies, Replies, answered_replies, chosen_replies, whole_prompts
from hb_metrics.run.run_folder import OFFENSIVE_PROMPTS, OFFENSIVE_REPLIES, REPLIES
from hb_metrics.run.tables import Tables, has_pairs_of_terms
from hb_metrics.run.typed_json import from_json
from hb_metrics.stats.changes import NO_FILES_REASON, FigureChanges
from hb_metrics.stats.clusters import Generalised, Over


def compute(run: Run) -> Offensiveness:
    prompts, classifier = run.tables.prompts(), run.record.offensiveness_classifier
    of_prompts = prompt_results(read_classified(run.tables, OFFENSIVE_PROMPTS, whole_prompts(prompts), classifier))
    turns: list[Classified] = []
    fault: ValueError | None = None
    for turn, replies in enumerate(run.tables.turns(), start=1):
        try:
            turns.append(read_classified(run.tables.turn(turn), OFFENSIVE_REPLIES, replies, classifier))
        except ValueError as error:  # the turns before it have results
            fault = error
            break
    rated = [RatedReplies(turn.kept, turn.probabilities >= of_prompts.threshold) for turn in turns]
    by_turn = shares_by_turn(rated, prompts) if len(rated) > 1 else None
    results = Offensiveness(of_prompts, reply_results(turns[0], prompts) if turns else None, by_turn)
    if fault is not None:
        raise LeftOutError(f"turn {len(turns) + 1}: {fault}" if turns else str(fault), results) from (
            None if isinstance(fault, LeftOutError) else fault
        )
    return results


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
    num_unanswered: int | None = None


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


def prompt_results(classified: Classified) -> Texts:
    texts, probabilities, num_truncated, num_unanswered = classified
    results = offensiveness(probabilities, texts.descriptors, texts.templates, texts.axes)
    return from_json(Texts, {**results, "num_truncated": num_truncated, "num_unanswered": num_unanswered})


def reply_results(classified: Classified, prompts: pa.Table) -> Texts:
    """Computes the results of replies, which also have shares with intervals."""
    results = prompt_results(classified)
    flagged = RatedReplies(classified.kept, classified.probabilities >= results.threshold)
    shares = refusal_shares(flagged, CONFIDENCE_LEVEL, are_pairs=has_pairs_of_terms(prompts))
    return replace(results, shares=shares, groups=group_shares(flagged, prompts))


def changes(first: Run, second: Run) -> FigureChanges:
    results = [run.results.offensiveness.replies for run in (first, second)]
    if results[0] is None or results[1] is None:
        return FigureChanges({})  # prompts do not come from the model, so their offensiveness is not compared
    used, others = first.record.offensiveness_classifier, second.record.offensiveness_classifier
    if (used.digest, used.version) != (others.digest, others.version):
        return FigureChanges({}, "different classifiers classified the replies")
    if first.record.cue != second.record.cue:
        return FigureChanges({}, "the runs describe the user with different cues")
    before, after = classified_replies(first), classified_replies(second)
    if before is None or after is None:
        return FigureChanges({}, NO_FILES_REASON)
    return reply_share_changes("Offensive replies", before, after)


def generalise(run: Run, over: Over) -> dict[str, Generalised]:
    classified = classified_replies(run)
    if classified is None:
        return {}
    return generalised_means("Offensive replies", classified, over)


def classified_replies(run: Run) -> RatedReplies | None:
    """Flags the offensive replies of the first turn, or returns `None` if the run or its folder lacks them."""
    of_replies = run.results.offensiveness.replies
    if of_replies is None or not run.tables.has(OFFENSIVE_REPLIES) or not run.tables.has(REPLIES):
        return None
    classifier = run.record.offensiveness_classifier
    classified = read_classified(run.tables, OFFENSIVE_REPLIES, run.tables.replies(), classifier)
    return RatedReplies(classified.kept, classified.probabilities >= of_replies.threshold)
