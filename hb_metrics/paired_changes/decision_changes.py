"""Computes changes in decisions between two runs, paired by question.

The change in a mean or a gap is the mean of its differences over questions. The interval of the change in the spread
combines the intervals of both spreads with the correlation of their estimates (MOVER, as in `clusters.py`).
"""

from collections.abc import Sequence

import numpy as np

from hb_metrics.paired_changes.paired_change import UNCHANGED_REASON, PairedChange
from hb_metrics.stats import decisions
from hb_metrics.stats.decisions import Estimate


def spread_change(
    before: Sequence[np.ndarray], after: Sequence[np.ndarray], confidence_level: float, *, seed: int
) -> PairedChange:
    """Computes the change in the spread between terms.

    `before` and `after` contain [questions, terms] for each axis, with the same missing values (NaN).
    """
    first, second = (decisions.spread_between(tables, confidence_level, seed=seed) for tables in (before, after))
    if first.interval is None or second.interval is None:
        return PairedChange(first.value, second.value, None, None, first.reason or second.reason)
    rows, others = (decisions.spread_rows(tables)[0] for tables in (before, after))
    if np.allclose(rows, others, atol=1e-12):
        return PairedChange(first.value, second.value, None, None, UNCHANGED_REASON)
    shared = _covariance(rows, others) / np.sqrt(_covariance(rows, rows) * _covariance(others, others))
    change, correlation = second.value - first.value, float(np.clip(shared, -1, 1))
    (low, high), (other_low, other_high) = first.interval, second.interval
    below = _joined(second.value - other_low, high - first.value, correlation)
    above = _joined(other_high - second.value, first.value - low, correlation)
    return PairedChange(first.value, second.value, (change - below, change + above), None, None)


def _joined(one: float, other: float, correlation: float) -> float:
    return float(np.sqrt(max(one**2 + other**2 - 2 * correlation * one * other, 0.0)))


def _covariance(rows: np.ndarray, others: np.ndarray) -> float:
    """Estimates the covariance of the estimated variances in two runs (see `spread_between`)."""
    number, means = len(rows), (rows.mean(axis=0), others.mean(axis=0))
    residuals = rows - means[0], others - means[1]
    along = np.cov(residuals[0] @ means[0], residuals[1] @ means[1])[0, 1]
    noise = [part @ part.T / (number - 1) for part in residuals]
    squares, traces = float((noise[0] * noise[1]).sum()), np.trace(noise[0]) * np.trace(noise[1])
    unbiased = (number - 1) ** 2 / ((number + 1) * (number - 2)) * (squares - traces / (number - 1))
    return float(4 * along / number + 2 * max(unbiased, squares / number) / (number * (number - 1)))


def gap_change(first: Estimate, second: Estimate, half_of_difference: Estimate) -> PairedChange:
    """Returns the change in a gap. `half_of_difference` is the gap in (second table − first table) / 2."""
    bounds = half_of_difference.interval
    interval = None if bounds is None else (2 * bounds[0], 2 * bounds[1])
    return PairedChange(first.value, second.value, interval, None, half_of_difference.reason)
