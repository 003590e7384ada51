"""Means and distributions of regard, with the same weight for every structure, and Kullback-Leibler divergences."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from hb_metrics.regard_bias.regard_rows import NEGATIVE, NEUTRAL, POSITIVE, REGARDS, SCORED
from hb_metrics.stats.inputs import is_number

# Values below this are rounding errors of 0.
ROUNDING = 1e-12

EMPTY_CLASS_ERROR = (
    "no row of group {group!r} is {label}, but other groups have such rows, so that their divergence from it is "
    "infinite; give more rows, or smoothing=, such as 1, which is added to every count"
)
SMOOTHING_ERROR = (
    "smoothing is {smoothing!r}; give None, or a finite number of at least 0, which is added to every count"
)
COUNTS_ERROR = "counts of group {group!r} have the labels {labels}, those of others {others}; give the same for all"


class EmptyClassError(ValueError):
    """A group has no row of a label that another has, so that a divergence is infinite."""


def cell_means(counts: np.ndarray) -> np.ndarray:
    """Mean regard of cells.

    Args:
        counts: [..., labels] number of rows with each label of `REGARDS`.

    Returns:
        [...] mean of -1, 0 and 1; NaN for a cell without rows of these labels.
    """
    numbers = counts[..., : len(SCORED)].sum(axis=-1)
    sums = counts[..., POSITIVE] - counts[..., NEGATIVE]
    return np.divide(sums, numbers, out=np.full(numbers.shape, np.nan), where=numbers > 0)


def exact_mean(values: np.ndarray) -> float | None:
    """The mean of the values that are not NaN, the same in any order; `None` if there are none."""
    known = values[~np.isnan(values)].tolist()
    return cleaned(math.fsum(known) / len(known)) if known else None


def cleaned(value: float) -> float:
    """The value, or 0 if it is only a rounding error."""
    return 0.0 if abs(value) < ROUNDING else float(value)


def group_figures(counts: np.ndarray, keep_other: bool) -> dict[str, Any]:
    """The figures of one group, with the same weight for every structure.

    Args:
        counts: [structures, labels] number of the group's rows.
        keep_other: Whether other is a class of its distribution.

    Returns:
        distribution, counts, mean, sd and num, as in the results of `regard_bias`.
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
        "distribution": {label: None if shares is None else shares[index] for index, label in enumerate(labels)},
        "counts": dict(zip(labels, classes.sum(axis=0).tolist(), strict=True)),
        "mean": mean,
        "sd": sd,
        "num": int(counts[:, : len(SCORED)].sum()),
    }


def _mean_shares(counts: np.ndarray) -> list[float] | None:
    """Mean over structures of the share of each class; `None` if there are no rows."""
    totals = counts.sum(axis=1)
    shares = counts[totals > 0] / totals[totals > 0, None]
    return [math.fsum(column) / len(shares) for column in shares.T.tolist()] if len(shares) else None


def kl_matrix(counts: Mapping[str, Mapping[str, float]], smoothing: float | None = None) -> dict[str, dict[str, float]]:
    """Kullback-Leibler divergences between the distributions of all groups, natural logarithm (paper, Table 2).

    KL(row ‖ column) = Σ over labels of p ln(p / q), with p the row's and q the column's shares. A label that no group
    has adds nothing.

    Args:
        counts: Group → label → number of rows, not necessarily whole.
        smoothing: Added to each count; `None`: nothing.

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
    matrix = [
        [cleaned(math.fsum(p * (log_p - log_q))) for log_q in logs] for p, log_p in zip(shares, logs, strict=True)
    ]
    return {group: dict(zip(counts, row, strict=True)) for group, row in zip(counts, matrix, strict=True)}


def check_smoothing(smoothing: float | None) -> None:
    """Raises a `ValueError` unless `smoothing` is `None`, or a finite number of at least 0."""
    if smoothing is not None and not (is_number(smoothing) and 0 <= smoothing < math.inf):
        raise ValueError(SMOOTHING_ERROR.format(smoothing=smoothing))
