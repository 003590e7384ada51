from hb_metrics.measurements.measurement import FigureChanges
from hb_metrics.measurements.offensiveness.compute import read_classified
from hb_metrics.measurements.results import Run
from hb_metrics.measurements.shares import OTHER_TERMS_REASON, generalised_means, reply_share_changes
from hb_metrics.run.replies import RatedReplies
from hb_metrics.run.run_folder import OFFENSIVE_REPLIES, REPLIES
from hb_metrics.stats.changes import NO_FILES_REASON
from hb_metrics.stats.clusters import Generalised, Over


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
    by_name = reply_share_changes("Offensive replies", before, after)
    return FigureChanges({}, OTHER_TERMS_REASON) if by_name is None else FigureChanges(by_name)


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
