from collections.abc import Sequence
from typing import NamedTuple

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


class BeforeAfter(NamedTuple):
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before


class ChangedStyle(NamedTuple):
    """A style's variance across descriptors (×1000) and its mean, and the descriptors that changed most."""

    style: str
    variance: BeforeAfter
    mean: BeforeAfter
    biggest_decreases: list[Mover]
    biggest_increases: list[Mover]


class StyleChange(NamedTuple):
    """The changes in styles, over `num_descriptors` descriptors.

    `num_only_before` and `num_only_after` count the descriptors that only one of the runs has.
    """

    styles: list[ChangedStyle]
    num_variance_decreases: int
    num_variance_increases: int
    num_variance_unchanged: int
    num_descriptors: int
    num_only_before: int
    num_only_after: int


def style_change(before: RunStyles, after: RunStyles) -> StyleChange:
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
        ChangedStyle(
            before.labels[style],
            BeforeAfter(float(variances[0][style]), float(variances[1][style])),
            BeforeAfter(float(old[:, style].mean()), float(new[:, style].mean())),
            _movers(keys, new[:, style] - old[:, style], 1),
            _movers(keys, new[:, style] - old[:, style], -1),
        )
        for style in np.argsort(change, kind="stable")
    ]
    return StyleChange(
        styles,
        num_variance_decreases=int((change < 0).sum()),
        num_variance_increases=int((change > 0).sum()),
        num_variance_unchanged=int((change == 0).sum()),
        num_descriptors=len(keys),
        num_only_before=len(rows_before) - len(keys),
        num_only_after=len(rows_after) - len(keys),
    )


def _movers(keys: Sequence[DescriptorKey], change: np.ndarray, sign: int) -> list[Mover]:
    """Returns the descriptors that fell most, or with the sign −1, those that rose most."""
    order = np.argsort(sign * change, kind="stable")[:NUM_MOVERS]
    moved = [row for row in order if sign * change[row] < 0]
    return [Mover(keys[row].axis, keys[row].descriptor, float(change[row])) for row in moved]
