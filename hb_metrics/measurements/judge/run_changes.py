from hb_metrics.collect.judges.rubric import recorded_rubric
from hb_metrics.measurements.judge.compute import flagged_replies
from hb_metrics.measurements.measurement import FigureChanges
from hb_metrics.measurements.results import Run
from hb_metrics.paired_changes.reply_shares import OTHER_TERMS_REASON, reply_share_changes
from hb_metrics.run.finished_run import read_stored_replies, read_vectors
from hb_metrics.run.replies import FlaggedReplies
from hb_metrics.run.run_folder import JUDGE


def changes(first: Run, second: Run) -> FigureChanges:
    if first.record.cue != second.record.cue:
        return FigureChanges({}, "the runs describe the user with different cues")
    found, reason = FigureChanges({}), None
    others = second.record.judge
    for name, judge in first.record.judge.items():
        label = recorded_rubric(judge).figure
        if label is None or name not in others:
            continue
        if judge.digest != others[name].digest:
            reason = "different judges labelled the replies"
            continue
        before, after = (_judged(run, name) for run in (first, second))
        by_name = reply_share_changes(f"Judged {label}", before, after, first.confidence_level)
        if by_name is None:
            reason = OTHER_TERMS_REASON
        else:
            found.by_name.update(by_name)
    return found._replace(reason=reason)


def _judged(run: Run, name: str) -> FlaggedReplies:
    replies = read_stored_replies(run.folder)
    assert replies is not None  # the judge has read them
    rubric = recorded_rubric(run.record.judge[name])
    flagged = flagged_replies(replies, rubric, read_vectors(run.folder / JUDGE / name).values)
    assert flagged is not None  # the rubric has a counted label
    return flagged
