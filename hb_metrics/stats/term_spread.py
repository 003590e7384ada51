"""Estimates the spread between terms, and tests whether it is 0. `decisions.py` states what is random."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import stats

from hb_metrics.stats.clusters import quantile
from hb_metrics.stats.decisions import (
    CHUNK,
    SAME_ANSWERS,
    ZERO,
    DecisionEstimate,
    constant_p_value,
    is_constant,
    unseen_share,
)
from hb_metrics.stats.question_tables import FEW_QUESTIONS, ONE_TERM, compared_terms, pair_contributions

NUM_FLIPS = 1999
# If so many of all `num_tests` · `NUM_FLIPS` statistics are larger, the adjusted p-value is above 1 %.
ENOUGH_LARGER = 20


def spread_between(
    tables: Sequence[np.ndarray], confidence_level: float = 0.95, *, seed: int, num_tests: int = 1
) -> DecisionEstimate:
    """Estimates the spread between terms: the square root of the mean variance of one or more axes.

    With the differences δ_i between two terms' values in question i, the mean of δ_i δ_j over different questions is an
    unbiased estimate of the squared difference of their means. The variance is the mean of these estimates over pairs
    of terms, divided by 2. It is a U-statistic, whose variance is 4 L / I + 2 Q / (I (I − 1)) for I questions. L grows
    with the true variance θ, so the interval contains each θ with |estimate − θ| ≤ t √(variance at θ).

    The test of equal means multiplies all differences in a question by a random weight. Signs suit symmetric
    differences, and the weights of Mammen (1993) suit skewed ones. The larger p-value counts. The answers about terms
    may vary by different amounts. Permuting the terms of a question would then reject too often: with standard
    deviations of 3 to 0.3, 10 to 14 of 100 times at the 5 % level.

    Args:
        tables: For each axis, [questions, terms]. All axes have the same questions. NaN marks a missing value.
        confidence_level: The level of the interval.
        seed: The seed of the test's weights.
        num_tests: The number of tests for which the p-value will be adjusted (Bonferroni). More need more draws.
    """
    rows, is_enough = spread_rows(tables)
    if len(rows) < 2 or not rows.shape[1]:
        is_alone = all(compared_terms(table)[1] == ONE_TERM for table in tables)
        return DecisionEstimate(math.nan, None, ONE_TERM if is_alone else FEW_QUESTIONS, None)
    spread = spread_of_rows(rows, is_enough, confidence_level, seed=seed, num_tests=num_tests)
    if spread.reason != SAME_ANSWERS:
        return spread
    largest = largest_spread(tables)
    half = unseen_share(len(rows), confidence_level) * (2 * spread.value if spread.value > ZERO else largest)
    return spread._replace(interval=(max(spread.value - half, 0.0), min(spread.value + half, largest)), reason=None)


def largest_spread(tables: Sequence[np.ndarray]) -> float:
    """Returns the largest possible spread between the compared terms: half of the decisions are 0, and half are 1."""
    compared = [compared_terms(table) for table in tables]
    sizes = [len(terms) for terms, reason in compared if reason is None]
    return float(np.sqrt(np.mean([(size // 2) * (size - size // 2) / (size * (size - 1)) for size in sizes])))


def spread_rows(tables: Sequence[np.ndarray]) -> tuple[np.ndarray, bool]:
    """Returns the weighted differences between the compared terms of axes: [questions, pairs of terms].

    The squared norm of the rows' true mean is the variance between terms. Questions without answers about two terms are
    left out. Also returns whether there are enough common questions for an interval.
    """
    compared = [(table[:, terms], reason) for table in tables for terms, reason in [compared_terms(table)]]
    enough = [table for table, reason in compared if reason is None]
    used = enough or [table for table, _ in compared]
    answered = np.any([(~np.isnan(table)).sum(axis=1) > 1 for table in used], axis=0)
    parts = [pair_contributions(table[answered])[0] for table in used]
    parts = [part for part in parts if part.shape[1]] or [np.zeros((0, 0))]
    scaled = [part * np.sqrt(0.5 / max(part.shape[1] * len(parts), 1)) for part in parts]
    return np.concatenate(scaled, axis=1), bool(enough)


def spread_of_rows(
    rows: np.ndarray, is_enough: bool, confidence_level: float = 0.95, *, seed: int, num_tests: int = 1
) -> DecisionEstimate:
    """Estimates the spread whose variance is the squared length of the rows' mean (see `spread_between`).

    `is_enough` states whether enough rows [questions, ...] contribute for an interval.
    """
    number, short = len(rows), shortened(rows)
    known = max(float((short.sum(axis=0) ** 2).sum() - (short**2).sum()) / (number * (number - 1)), 0.0)
    value = float(np.sqrt(known))
    if not is_enough:
        return DecisionEstimate(value, None, FEW_QUESTIONS, None)
    if is_constant(rows):
        p_value = constant_p_value(value, number) if rows.shape[1] else 1.0
        return DecisionEstimate(value, None, SAME_ANSWERS, min(1.0, rows.shape[1] * p_value))
    mean = short.mean(axis=0)
    residuals = short - mean
    noise = residuals.T @ residuals / (number - 1)
    trace, q = np.trace(noise), trace_of_product(residuals, residuals)
    # The variance along the true mean. If the differences cancel out, its direction is unknown, so the largest counts.
    size = float(mean @ mean)
    along = float(np.var(residuals @ mean, ddof=1)) / size if size > ZERO**2 else float(np.linalg.eigvalsh(noise)[-1])
    along = max(along, q / trace / 2)  # few questions may show none, as in `standard_errors`
    tail = (1 + confidence_level) / 2
    t = quantile(confidence_level, number - 1)
    a = t**2 * 4 * along / number
    # If the terms' means are equal, the estimate is skewed: like that of F − 1, with the freedom of the noise.
    freedom = max(trace**2 / q, 1.0)
    at_zero = trace / number * (stats.f.ppf(tail, freedom, freedom * (number - 1)) - 1)
    low = known + a / 2 - np.sqrt(a * a / 4 + a * known + at_zero**2)
    high = known + a / 2 + np.sqrt(a * a / 4 + a * known + t**2 * 2 * q / (number * (number - 1)))
    interval = float(np.sqrt(max(low, 0.0))), float(np.sqrt(high))
    return DecisionEstimate(value, interval, None, _p_value(short, np.random.default_rng(seed), num_tests))


def shortened(rows: np.ndarray) -> np.ndarray:
    """Returns rows with the same products with each other, and with at most as many columns as there are rows."""
    if len(rows) > rows.shape[1]:
        return rows
    triangle: Any = np.linalg.qr(rows.T, mode="r")  # numpy's types lack this mode
    return triangle.T


def trace_of_product(residuals: np.ndarray, others: np.ndarray) -> float:
    """Estimates the trace of the product of two covariance matrices, without bias for normal values.

    The arguments [rows, columns] are the rows' residuals (Bai and Saranadasa, 1996).
    """
    number = len(residuals)
    squares, traces = (
        float(product) / (number - 1) ** 2
        for product in (((residuals.T @ others) ** 2).sum(), (residuals**2).sum() * (others**2).sum())
    )
    unbiased = (number - 1) ** 2 / ((number + 1) * (number - 2)) * (squares - traces / (number - 1))
    return float(max(unbiased, squares / number))


def _p_value(rows: np.ndarray, draws: np.random.Generator, num_tests: int) -> float:
    root, larger, number = np.sqrt(5), np.zeros(2, dtype=np.int64), 0
    # Sums of the same numbers in another order differ in their last digits.
    least = (rows.sum(axis=0) ** 2).sum() * (1 - 1e-9)
    step = min(NUM_FLIPS, max(CHUNK // len(rows), 1))
    while number < NUM_FLIPS or (number < num_tests * NUM_FLIPS and larger.max() < ENOUGH_LARGER):
        signs = draws.choice([-1.0, 1.0], (step, len(rows)))
        skewed = np.where(draws.random(signs.shape) < (root + 1) / (2 * root), 1 - root, 1 + root) / 2
        larger += [np.count_nonzero(((weights @ rows) ** 2).sum(axis=1) >= least) for weights in (signs, skewed)]
        number += step
    return float((1 + larger.max()) / (1 + number))
