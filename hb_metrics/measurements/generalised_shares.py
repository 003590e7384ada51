import numpy as np

from hb_metrics.layout.numbers import axis_groups
from hb_metrics.reply_checks.refusal_shares import cell_counts
from hb_metrics.run.replies import FlaggedReplies
from hb_metrics.stats.generalising import Generalised, Over, generalised, share_influences


def generalised_shares(
    name: str, flagged: FlaggedReplies, over: Over, confidence_level: float
) -> dict[str, Generalised]:
    """Computes intervals for a share of replies among all terms, and among the terms of each axis.

    The intervals generalise to other terms or templates. The keys of the result are the names of the figures. `name` is
    the name of the figure for all terms.
    """
    keys, hits, sizes = cell_counts(flagged)
    names, axes = np.unique([str(key.axis) for key in keys], return_inverse=True)
    found = {}
    for figure, members in axis_groups(name, axes, names.tolist()).items():
        influences = share_influences(hits[members].T, sizes[members].T, axes[members])
        found[figure] = generalised(influences, over, confidence_level)
    return found
