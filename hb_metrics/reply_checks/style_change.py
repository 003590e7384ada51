"""The change of the styles of replies between two runs, such as by tuning (paper, Table 15)."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from hb_metrics.statistics.bias_values import DescriptorKey
from hb_metrics.statistics.inputs import check_ddof

NUM_MOVERS = 5
# The paper multiplies variances by this, here as in Table 4.
VARIANCE_SCALE = 1000

LABELS_ERROR = (
    "the two runs have different styles: style {index} is {before} before and {after} after; "
    "classify the replies of both with the same classifier"
)
SHAPE_ERROR = (
    "the run {name} has {descriptors} descriptors, {labels} labels and means of the shape {shape}; "
    "give [descriptors, styles]"
)
DUPLICATE_ERROR = "descriptor '{descriptor}' (axis {axis}) occurs twice in the run {name}; give each descriptor once"
NOT_FINITE_ERROR = "the mean of style '{style}' of descriptor '{descriptor}' in the run {name} is {value}"
TOO_FEW_ERROR = "the two runs have {count} descriptors in common; a variance across descriptors needs at least two"


class RunStyles(NamedTuple):
    """The styles of one run's replies, as `bias_values` returns them.

    Attributes:
        descriptors: The descriptors.
        descriptor_means: [descriptors, styles] mean style probabilities m_d, averaged over templates first.
        labels: [styles] the names of the styles.
    """

    descriptors: Sequence[DescriptorKey]
    descriptor_means: np.ndarray
    labels: Sequence[str]


def style_change(before: RunStyles, after: RunStyles, *, num_movers: int = NUM_MOVERS, ddof: int = 0) -> dict[str, Any]:
    """Compares the styles of two runs, such as before and after tuning (paper, Table 15).

    Everything is over the descriptors that both runs have.

    Args:
        before: The first run.
        after: The second.
        num_movers: The number of descriptors to name that moved most in each direction.
        ddof: Subtracted from the number of descriptors in the variance. The paper does not state it.

    Returns:
        Plain Python values:
        `styles`: in increasing order of the change in variance, each with its `style`; its `variance` across
        descriptors (×1000) and its `mean` over descriptors, both as `{before, after, change}`; and
        `biggest_decreases` and `biggest_increases`, up to `num_movers` descriptors as `{axis, descriptor, change}`, the
        biggest first;
        `num_variance_decreases`, `num_variance_increases` and `num_variance_unchanged`, of styles;
        `num_descriptors` in both runs, `num_only_before` and `num_only_after`; `variance_scale` and `ddof`.

    Raises:
        ValueError: The runs' styles differ, they have fewer than two descriptors in common, a run's shapes do not
            fit together, a descriptor occurs twice in a run, a mean is not finite, or `ddof` is neither 0 nor 1.
    """
    ddof = check_ddof(ddof)
    _check_run("before", before)
    _check_run("after", after)
    _check_same_labels(before.labels, after.labels)
    rows_after = {key: row for row, key in enumerate(after.descriptors)}
    # In alphabetical order, so that ties among the descriptors that moved most do not depend on the order of the runs.
    keys = sorted((key for key in before.descriptors if key in rows_after), key=lambda key: (key[0] or "", key[1]))
    if len(keys) < 2:
        raise ValueError(TOO_FEW_ERROR.format(count=len(keys)))
    rows_before = {key: row for row, key in enumerate(before.descriptors)}
    old = np.asarray(before.descriptor_means, dtype=float)[[rows_before[key] for key in keys]]
    new = np.asarray(after.descriptor_means, dtype=float)[[rows_after[key] for key in keys]]

    variances = [VARIANCE_SCALE * means.var(axis=0, ddof=ddof) for means in (old, new)]
    change = variances[1] - variances[0]
    styles = [
        {
            "style": before.labels[style],
            "variance": _pair(variances[0][style], variances[1][style]),
            "mean": _pair(old[:, style].mean(), new[:, style].mean()),
            **_movers(keys, new[:, style] - old[:, style], num_movers),
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
        "variance_scale": VARIANCE_SCALE,
        "ddof": ddof,
    }


def _pair(before: float, after: float) -> dict[str, float]:
    return {"before": float(before), "after": float(after), "change": float(after - before)}


def _movers(keys: Sequence[DescriptorKey], change: np.ndarray, num_movers: int) -> dict[str, list[dict[str, Any]]]:
    """The descriptors whose probability of one style fell and rose most; one that did not change is in neither list."""

    def named(order: np.ndarray) -> list[dict[str, Any]]:
        return [
            {"axis": keys[row].axis, "descriptor": keys[row].descriptor, "change": float(change[row])}
            for row in order[:num_movers]
        ]

    falling, rising = np.argsort(change, kind="stable"), np.argsort(-change, kind="stable")
    return {
        "biggest_decreases": named(falling[change[falling] < 0]),
        "biggest_increases": named(rising[change[rising] > 0]),
    }


def _check_run(name: str, run: RunStyles) -> None:
    means = np.asarray(run.descriptor_means)
    if means.shape != (len(run.descriptors), len(run.labels)):
        raise ValueError(
            SHAPE_ERROR.format(name=name, descriptors=len(run.descriptors), labels=len(run.labels), shape=means.shape)
        )
    seen: set[DescriptorKey] = set()
    for key in run.descriptors:
        if key in seen:
            raise ValueError(DUPLICATE_ERROR.format(descriptor=key.descriptor, axis=key.axis, name=name))
        seen.add(key)
    bad = np.argwhere(~np.isfinite(means))
    if len(bad):
        row, style = bad[0]
        raise ValueError(
            NOT_FINITE_ERROR.format(
                style=run.labels[style], descriptor=run.descriptors[row].descriptor, name=name, value=means[row, style]
            )
        )


def _check_same_labels(before: Sequence[str], after: Sequence[str]) -> None:
    for index in range(max(len(before), len(after))):
        old, new = (repr(labels[index]) if index < len(labels) else "missing" for labels in (before, after))
        if old != new:
            raise ValueError(LABELS_ERROR.format(index=index, before=old, after=new))
