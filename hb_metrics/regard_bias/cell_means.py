"""Means and distributions of regard, every structure with the same weight, and Kullback-Leibler divergences."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from .inputs import is_number
from .regard_rows import NEGATIVE, NEUTRAL, POSITIVE, REGARDS, SCORED

# What is smaller than this is a trace of rounding, and 0.
ROUNDING = 1e-12

EMPTY_CLASS_ERROR = (
    "no row of group {group!r} is {label}, and other groups have such rows: their divergence from it is infinite; "
    "give more rows, or smoothing=, such as 1, which is added to every count"
)
SMOOTHING_ERROR = "smoothing is {smoothing!r}; give None, or a finite number of at least 0 to add to every count"
COUNTS_ERROR = "counts of group {group!r} have the labels {labels}, those of others {others}; give the same to all"


class EmptyClassError(ValueError):
    """A group has no row of a label that another has, so that a divergence is infinite."""


def cell_means(counts: np.ndarray) -> np.ndarray:
    """Mean regard of cells.

    Args:
        counts: [..., labels] rows of each label of `REGARDS`.

    Returns:
        [...] mean of -1, 0 and 1; NaN where a cell has no row with a score.
    """
    numbers = counts[..., : len(SCORED)].sum(axis=-1)
    sums = counts[..., POSITIVE] - counts[..., NEGATIVE]
    return np.divide(sums, numbers, out=np.full(numbers.shape, np.nan), where=numbers > 0)


def exact_mean(values: np.ndarray) -> float | None:
    """The mean of those that are not NaN, whatever their order; `None` where there are none."""
    known = values[~np.isnan(values)].tolist()
    return cleaned(math.fsum(known) / len(known)) if known else None


def cleaned(value: float) -> float:
    """The value, 0 where it is but a trace of rounding."""
    return 0.0 if abs(value) < ROUNDING else float(value)


def group_figures(counts: np.ndarray, keep_other: bool) -> dict[str, Any]:
    """The figures of one group. Every structure has the same weight.

    Args:
        counts: [structures, labels] rows of the group.
        keep_other: Whether other is a class of its distribution.

    Returns:
        distribution, counts, mean, sd and num, as `regard_bias` says.
    """
    labels = REGARDS if keep_other else SCORED
    classes = counts[:, : len(labels)]
    shares = _mean_shares(classes)
    scored = _mean_shares(counts[:, : len(SCORED)])
    mean = exact_mean(cell_means(counts))
    sd = None
    if mean is not None and scored is not None:
        squares = scored[NEGATIVE] * (mean + 1) ** 2 + scored[NEUTRAL] * mean**2 + scored[POSITIVE] * (mean - 1) ** 2
        sd = cleaned(math.sqrt(squares))
    return {
        "distribution": {label: None if shares is None else shares[place] for place, label in enumerate(labels)},
        "counts": dict(zip(labels, classes.sum(axis=0).tolist(), strict=True)),
        "mean": mean,
        "sd": sd,
        "num": int(counts[:, : len(SCORED)].sum()),
    }


def _mean_shares(counts: np.ndarray) -> list[float] | None:
    """Mean over structures of the share of each class; `None` where there is no row."""
    totals = counts.sum(axis=1)
    some = counts[totals > 0] / totals[totals > 0, None]
    return [math.fsum(column) / len(some) for column in some.T.tolist()] if len(some) else None


def kl_matrix(counts: Mapping[str, Mapping[str, float]], smoothing: float | None = None) -> dict[str, dict[str, float]]:
    """Kullback-Leibler divergences between the distributions of all groups, natural logarithm (paper, Table 2).

    KL(row ‖ column) = Σ over labels of p ln(p / q), with p the row's and q the column's. A label that no group has adds
    nothing.

    Args:
        counts: group → label → rows; need not be whole numbers.
        smoothing: Added to each count.

    Returns:
        Row group → column group → divergence.

    Raises:
        EmptyClassError: A group has no row of a label that another has, and `smoothing` adds none.
        ValueError: `smoothing` is negative, or groups have different labels.
    """
    check_smoothing(smoothing)
    labels = list(next(iter(counts.values()))) if counts else []
    for group, row in counts.items():
        if list(row) != labels:
            raise ValueError(COUNTS_ERROR.format(group=group, labels=list(row), others=labels))
    table = np.array([[row[label] for label in labels] for row in counts.values()], dtype=float) + (smoothing or 0)
    is_empty = (table == 0) & (table > 0).any(axis=0)
    if is_empty.any():
        row_index, column = np.argwhere(is_empty)[0]
        raise EmptyClassError(EMPTY_CLASS_ERROR.format(group=list(counts)[row_index], label=labels[column]))
    known = table[:, (table > 0).any(axis=0)]
    shares = known / known.sum(axis=1, keepdims=True)
    logs = np.log(shares)
    found = [[cleaned(math.fsum(p * (log_p - log_q))) for log_q in logs] for p, log_p in zip(shares, logs, strict=True)]
    return {group: dict(zip(counts, row, strict=True)) for group, row in zip(counts, found, strict=True)}


def check_smoothing(smoothing: float | None) -> None:
    """Raises a `ValueError` unless `smoothing` is `None`, or a finite number of at least 0."""
    if smoothing is not None and not (is_number(smoothing) and 0 <= smoothing < math.inf):
        raise ValueError(SMOOTHING_ERROR.format(smoothing=smoothing))
