import numpy as np

from hb_metrics.layout.numbers import axis_groups
from hb_metrics.paired_changes.paired_change import PairedChange, share_change
from hb_metrics.run.replies import FlaggedReplies
from hb_metrics.stats.bias_values import DescriptorKey

OTHER_TERMS_REASON = "the terms or the templates differ between the runs"


def reply_share_changes(
    name: str, before: FlaggedReplies, after: FlaggedReplies, confidence_level: float
) -> dict[str, PairedChange] | None:
    """Computes the changes in the share of flagged replies, for all terms and each axis.

    Replies to the same prompt are paired.

    Returns:
        The change of each figure, by the figure's name, or `None` if the runs have different terms or templates. `name`
        is the name of the figure for all terms.
    """
    rows = [_rows(run) for run in (before, after)]
    about = [{row[:2] for row in run.values()} for run in rows]
    if any({key[place] for key in about[0]} != {key[place] for key in about[1]} for place in (0, 1)):
        return None
    known = {**rows[0], **rows[1]}
    terms = {key: row for row, key in enumerate(sorted({term for term, _, _ in known.values()}))}
    templates = {template: row for row, template in enumerate(sorted({template for _, template, _ in known.values()}))}
    counts = np.zeros((3, 3, len(terms), len(templates)), dtype=np.int64)
    for identifier, (term, template, _) in known.items():
        states = [run[identifier][2] if identifier in run else 2 for run in rows]
        counts[states[0], states[1], terms[term], templates[template]] += 1
    axes, codes = np.unique([str(key.axis) for key in terms], return_inverse=True)
    changes = {}
    for figure, members in axis_groups(name, codes, axes.tolist()).items():
        changes[figure] = share_change(counts[..., members, :], confidence_level)
    return changes


def _rows(run: FlaggedReplies) -> dict[str, tuple[DescriptorKey, str, int]]:
    replies = run.replies
    columns = zip(replies.ids, replies.axes, replies.descriptors, replies.templates, run.flags.tolist(), strict=True)
    return {
        identifier: (DescriptorKey(axis, term), template, int(flag))
        for identifier, axis, term, template, flag in columns
    }
