import numpy as np

from hb_metrics.paired_changes.reply_shares import FlaggedReplies
from hb_metrics.reply_checks.refusal_shares import cell_counts
from hb_metrics.report.layout.numbers import axis_label
from hb_metrics.stats.generalising import Generalised, Over, generalised, share_influences


def generalised_shares(
    name: str, flagged: FlaggedReplies, over: Over, confidence_level: float
) -> dict[str, Generalised]:
    """Computes intervals for a share of replies, over all terms and for each axis.

    The intervals also hold for other terms or templates. The keys are the names of the figures, and `name` is the name
    of the figure for all terms.
    """
    replies = flagged.replies
    keys, hits, sizes = cell_counts(flagged.flags, replies.descriptors, replies.templates, replies.axes)
    names, axes = np.unique([str(key.axis) for key in keys], return_inverse=True)
    groups = {name: np.ones(len(axes), bool)}
    for code, axis in enumerate(names.tolist()):
        groups[f"{name}, {axis_label(axis)}"] = axes == code
    found = {}
    for figure, members in groups.items():
        influences = share_influences(hits[members].T, sizes[members].T, axes[members])
        found[figure] = generalised(influences, over, confidence_level)
    return found
