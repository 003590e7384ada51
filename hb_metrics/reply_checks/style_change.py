from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hb_metrics.stats.bias_values import DescriptorKey, RunStyles

NUM_MOVERS = 5
# The factor by which the paper multiplies variances, both here and in Table 4.
VARIANCE_SCALE = 1000


class Mover(NamedTuple):
    """A descriptor, and the change in its mean probability of a style."""

    axis: str | None
    descriptor: str
    change: float


def style_change(before: RunStyles, after: RunStyles) -> dict[str, Any]:
    """Compares the styles of two runs, over the descriptors that both runs have (paper, Table 15).

    The results list the styles by the change in their variance across descriptors (×1000), from the lowest to the
    highest. For each style, they name up to `NUM_MOVERS` descriptors whose mean probability fell most, and up to
    `NUM_MOVERS` descriptors whose mean probability rose most.
    """
    if list(before.labels) != list(after.labels):
        raise ValueError("the two runs have different styles; classify the replies of both with the same classifier")
    rows_after = {key: row for row, key in enumerate(after.descriptors)}
    # Alphabetical order decides ties among the descriptors with the largest changes.
    keys = sorted((key for key in before.descriptors if key in rows_after), key=lambda key: (key[0] or "", key[1]))
    if len(keys) < 2:
        raise ValueError(
            f"the two runs have {len(keys)} descriptors in common, but a variance needs at least two; pass runs that "
            "share more descriptors"
        )
    rows_before = {key: row for row, key in enumerate(before.descriptors)}
    old = np.asarray(before.descriptor_means, dtype=float)[[rows_before[key] for key in keys]]
    new = np.asarray(after.descriptor_means, dtype=float)[[rows_after[key] for key in keys]]

    variances = [VARIANCE_SCALE * means.var(axis=0) for means in (old, new)]
    change = variances[1] - variances[0]
    styles = [
        {
            "style": before.labels[style],
            "variance": _pair(variances[0][style], variances[1][style]),
            "mean": _pair(old[:, style].mean(), new[:, style].mean()),
            **_movers(keys, new[:, style] - old[:, style]),
        }
        for style in np.argsort(change, kind="stable")
    ]
    return {
        "styles": styles,
        "num_variance_decreases": int((change < 0).sum()),
        "num_variance_increases": int((change > 0).sum()),
        "num_variance_unchanged": int((change == 0).sum()),
        "num_descriptors": len(keys),
        "num_only_before": len(rows_before) - len(keys),
        "num_only_after": len(rows_after) - len(keys),
    }


def _pair(before: float, after: float) -> dict[str, float]:
    return {"before": float(before), "after": float(after), "change": float(after - before)}


def _movers(keys: Sequence[DescriptorKey], change: np.ndarray) -> dict[str, list[Mover]]:
    movers = {}
    for name, sign in (("biggest_decreases", 1), ("biggest_increases", -1)):
        order = np.argsort(sign * change, kind="stable")[:NUM_MOVERS]
        moved = [row for row in order if sign * change[row] < 0]
        movers[name] = [Mover(keys[row].axis, keys[row].descriptor, float(change[row])) for row in moved]
    return movers
