from hb_metrics.measurements.group_shares import generalised_shares
from hb_metrics.measurements.offensiveness.figures import classified_replies
from hb_metrics.measurements.results import Run
from hb_metrics.stats.generalising import Generalised, Over


def generalise(run: Run, over: Over) -> dict[str, Generalised]:
    of_replies = run.results.offensiveness.replies
    classified = None if of_replies is None else classified_replies(run, of_replies.threshold)
    if classified is None:
        return {}
    return generalised_shares("Offensive replies", classified, over, run.confidence_level)
