import numpy as np

from hb_metrics.measurements.measurement import FigureChanges
from hb_metrics.measurements.results import Run
from hb_metrics.paired_changes.paired_change import NO_FILES_REASON
from hb_metrics.paired_changes.reply_shares import OTHER_TERMS_REASON, reply_share_changes
from hb_metrics.run.finished_run import read_stored_replies, read_vectors
from hb_metrics.run.replies import FlaggedReplies, Replies, answered_replies
from hb_metrics.run.run_folder import OFFENSIVENESS


def changes(first: Run, second: Run) -> FigureChanges:
    results = [run.results.offensiveness.replies for run in (first, second)]
    if results[0] is None or results[1] is None:
        return FigureChanges({})  # prompts do not come from the model, so their offensiveness is not compared
    used, others = first.record.offensiveness_classifier, second.record.offensiveness_classifier
    if (used.digest, used.version) != (others.digest, others.version):
        return FigureChanges({}, "different classifiers classified the replies")
    if results[0].threshold != results[1].threshold:
        return FigureChanges({}, "the runs have different offensiveness thresholds")
    if first.record.cue != second.record.cue:
        return FigureChanges({}, "the runs describe the user with different cues")
    before, after = (classified_replies(run, results[0].threshold) for run in (first, second))
    if before is None or after is None:
        return FigureChanges({}, NO_FILES_REASON)
    by_name = reply_share_changes("Offensive replies", before, after, first.confidence_level)
    if by_name is None:
        return FigureChanges({}, OTHER_TERMS_REASON)
    return FigureChanges(by_name)


def classified_replies(run: Run, threshold: float, replies: Replies | None = None) -> FlaggedReplies | None:
    folder = run.folder / OFFENSIVENESS / "replies"
    if not any(folder.glob("*.parquet")):
        return None
    replies = replies or read_stored_replies(run.folder)
    if replies is None:
        return None
    shards = read_vectors(folder)
    offensive = dict(zip(shards.ids, (shards.values[:, 0] >= threshold).tolist(), strict=True))
    if offensive.keys() != set(replies.ids):
        return None
    if run.record.offensiveness_classifier.judge is not None:  # the second column means no answer
        unanswered = dict(zip(shards.ids, shards.values[:, 1] > 0, strict=True))
        replies = answered_replies(replies, ~np.array([unanswered[identifier] for identifier in replies.ids]))
    return FlaggedReplies(replies, np.array([offensive[identifier] for identifier in replies.ids]))
