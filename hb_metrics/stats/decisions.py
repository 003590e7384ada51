"""Estimates how much decisions differ between terms. docs/decisions.md derives the intervals.

The random units are questions: intervals generalise to other questions of the same kind. A question's wordings are
averaged before, so they are one unit. Terms are fixed (`term_spread.py` has the spread between them). Names are draws
from the names of their group (`name_gaps.py`).

All values are fractions: a gap of 0.57 is 57 points.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from hb_metrics.stats.clusters import Bounds, jeffreys_bounds, quantile
from hb_metrics.stats.question_tables import (
    FEW_QUESTIONS,
    MIN_QUESTIONS,
    compared_terms,
    completed,
    filling_scales,
    normal_matrix,
    pair_contributions,
    pair_means,
    row_effects,
    row_means,
)

SAME_ANSWERS = "the differences are the same in all questions"
_NUM_DRAWS = 1999
ZERO = 1e-12  # standard errors below this number are rounding errors
CHUNK = 2**22  # the number of simulated values that are in memory at once


class DecisionEstimate(NamedTuple):
    """A mean, a difference between means, or a spread, with its interval or the reason why it has none.

    `value` is NaN if there are too few answers to estimate it. `p_value` is that of the test that the means are equal.
    It is `None` without an interval.
    """

    value: float
    interval: Bounds | None
    reason: str | None
    p_value: float | None


class LargestGap(NamedTuple):
    """The largest difference between two terms or groups.

    Attributes:
        high: The index of the term with the higher mean.
        low: The index of the term with the lower mean.
        gap: The difference. Its interval is simultaneous: it holds although this pair was chosen among all pairs.
        means: The lower and the higher mean, over the questions that both have.
        ratio: The lower mean divided by the higher mean, with a simultaneous interval.
    """

    high: int
    low: int
    gap: DecisionEstimate
    means: tuple[float, float]
    ratio: DecisionEstimate


def gaps_to_mean(table: np.ndarray, confidence_level: float = 0.95) -> list[DecisionEstimate | None]:
    """Compares each term's mean with the mean of the axis, paired by question (t-interval).

    If values are missing, a term is compared with every other term on the questions both have. Questions then have
    different weights, and the degrees of freedom are those of their effective number. The gap is `None` if the term
    cannot be compared (see `compared_terms`).
    """
    kept, reason = compared_terms(table)
    gaps: list[DecisionEstimate | None] = [None] * table.shape[1]
    if len(kept) < 2:
        return gaps
    differences = [table[:, [term]] - table[:, kept[kept != term]] for term in kept]
    rows = np.stack([completed(of_term).sum(axis=1) / len(kept) for of_term in differences], axis=1)
    for place, (value, error) in enumerate(zip(rows.mean(axis=0), standard_errors(rows), strict=True)):
        known = ~np.isnan(differences[place])
        weights = (known * filling_scales(known) ** 2).sum(axis=1)
        number = float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 1.0
        gaps[kept[place]] = _t_gap(float(value), float(error), number, reason, confidence_level)
    return gaps


def mean_over_questions(table: np.ndarray, confidence_level: float = 0.95) -> DecisionEstimate:
    """Computes the mean decision of all terms, with an interval over questions.

    A term that lacks answers counts as much as the others, because a decision is assumed to be the sum of an effect of
    the question and one of the term. If most decisions are alike, errors are skewed, so the interval is Jeffreys's, for
    the number of independent decisions that would be as uncertain.

    Args:
        table: [questions, terms] NaN marks a missing value.
        confidence_level: The level of the interval.
    """
    rows, number = _question_contributions(table)
    mean = _t_mean(rows, number, confidence_level)
    mean = mean._replace(value=float(np.clip(mean.value, 0.0, 1.0)))
    if mean.interval is None:
        return mean
    value, variance = mean.value, float(standard_errors(rows[:, None])[0]) ** 2
    if min(variance, value * (1 - value)) > ZERO:
        normal, t = quantile(confidence_level), quantile(confidence_level, number - 1)
        number = value * (1 - value) / variance * (normal / t) ** 2
    return DecisionEstimate(value, jeffreys_bounds(value, number, confidence_level), None, None)


def mean_difference(table: np.ndarray, confidence_level: float = 0.95) -> DecisionEstimate:
    """Computes the mean of differences of decisions as `mean_over_questions` does: [questions, terms].

    If only m questions have a difference, the degrees of freedom f become 1 / (1/f + 1.5/m), as in `u_statistic.py`.
    """
    rows, number = _question_contributions(table)
    different = np.count_nonzero((np.abs(table) > ZERO).any(axis=1))  # contributions also differ by missing answers
    if 0 < different < len(rows) and number > 1:
        number = 1 + 1 / (1 / (number - 1) + 1.5 / different)
    return _t_mean(rows, number, confidence_level)


def _t_mean(rows: np.ndarray, number: float, confidence_level: float) -> DecisionEstimate:
    fault = FEW_QUESTIONS if len(rows) < MIN_QUESTIONS else None
    value = float(rows.mean()) if len(rows) else math.nan
    return _t_gap(value, float(standard_errors(rows[:, None])[0]), number, fault, confidence_level)


def _question_contributions(table: np.ndarray) -> tuple[np.ndarray, float]:
    """Returns the contributions of the answered questions to the mean over terms, and their effective number."""
    known = ~np.isnan(table)
    table, known = table[known.any(axis=1)], known[known.any(axis=1)]
    if known.all():
        return table.mean(axis=1), len(table)
    counts = known.sum(axis=1)
    adjusted = table - row_effects(table.T, known.T)
    means = row_means(adjusted)
    # How much the terms' effects add to the mean, and so how much each answer adds to it through them.
    slopes = np.linalg.lstsq(normal_matrix(known.T), (known / counts[:, None]).sum(axis=0), rcond=None)[0]
    weights = np.where(known, 1 / counts[:, None] - slopes + (known @ slopes / counts)[:, None], 0.0)
    of_questions = (weights**2).sum(axis=1)
    number = float(of_questions.sum() ** 2 / (of_questions**2).sum())
    return means + np.where(known, weights * (adjusted - means[:, None]), 0.0).sum(axis=1), number


def largest_gap(table: np.ndarray, confidence_level: float = 0.95, *, seed: int) -> LargestGap | None:
    """Finds the two terms whose means differ most. Returns `None` if no two terms were compared in any question.

    The interval's quantile is that of the largest |t| over all pairs, from a multivariate t distribution with the
    pairs' estimated correlations, so the interval is simultaneous for all pairs.
    """
    kept, reason = compared_terms(table)
    chosen = table[:, kept]
    parts, pairs = pair_contributions(chosen)
    if not len(pairs):
        return None
    means = parts.mean(axis=0)
    best = int(np.argmax(np.abs(means)))
    low, high = pairs[best] if means[best] < 0 else pairs[best][::-1]
    both = chosen[:, [low, high]]
    both = both[np.isfinite(both).all(axis=1)]
    value, rates = float(abs(means[best])), pair_means(both)
    error = float(standard_errors(parts)[best])
    gap = DecisionEstimate(value, None, reason, None)
    ratio = gap._replace(value=float(rates[0] / rates[1]) if rates[1] > 0 else np.nan)
    if reason is None and error < ZERO:
        gap = constant_gap(value, len(both), 1 - (1 - confidence_level) / len(pairs))
        gap = gap._replace(p_value=min(1.0, len(pairs) * constant_p_value(value, len(both))))
        ratio = ratio._replace(reason=SAME_ANSWERS)
    elif reason is None:
        scores = _largest_scores(chosen, seed=seed)
        limit = float(np.quantile(scores, confidence_level))
        p_value = float((1 + np.count_nonzero(scores >= value / error)) / (1 + len(scores)))
        gap = gap._replace(interval=_possible(value, limit * error), p_value=p_value)
        ratio = fieller_ratio(rates, scaled_to(np.cov(both.T) / len(both), error**2), limit)
    return LargestGap(int(kept[high]), int(kept[low]), gap, (float(rates[0]), float(rates[1])), ratio)


def standard_errors(rows: np.ndarray) -> np.ndarray:
    """Returns the standard errors of the columns' means: [questions, columns].

    If a decision is rare, few questions may show none for some terms, whose variance then seems to be near 0. So a
    column's variance counts as at least half of the mean of all columns' variances.
    """
    if len(rows) < 2 or not rows.shape[1]:
        return np.zeros(rows.shape[1])
    variances = rows.var(axis=0, ddof=1) / len(rows)
    errors: np.ndarray = np.sqrt(np.maximum(variances, variances.mean() / 2))
    return errors


def _t_gap(value: float, error: float, number: float, fault: str | None, confidence_level: float) -> DecisionEstimate:
    if fault is not None:
        return DecisionEstimate(value, None, fault, None)
    if error < ZERO:
        return constant_gap(value, number, confidence_level)
    return t_interval(value, error, number - 1, confidence_level)


def constant_gap(value: float, number: float, confidence_level: float) -> DecisionEstimate:
    """Returns the interval of a difference that is the same in all of a number of questions."""
    interval = with_unseen(value, unseen_share(number, confidence_level))
    return DecisionEstimate(value, interval, None, constant_p_value(value, number))


def with_unseen(value: float, share: float) -> Bounds:
    """Returns the bounds of a mean difference that is `value` in all questions, except for an unseen share of them.

    Unseen differences are assumed to be at most as far from the value as the opposite difference is. If there is no
    difference, they can have any size.
    """
    low, high = _possible(value, 2 * abs(value) if abs(value) > ZERO else 1.0)
    return value - share * (value - low), value + share * (high - value)


def is_constant(rows: np.ndarray) -> bool:
    return bool(np.allclose(rows, rows.mean(axis=0), rtol=0, atol=ZERO))


def unseen_share(number: float, confidence_level: float) -> float:
    """Returns the largest share u of all questions that may differ from a number of questions, which are all the same.

    If other questions were more than a share u, at least one would have been seen, except with probability
    (1 − u)^number, which is half of 1 − `confidence_level`.
    """
    return float(1 - ((1 - confidence_level) / 2) ** (1 / number))


def constant_p_value(value: float, number: float) -> float:
    """Returns the p-value of a difference that is the same in all questions: the test that inverts `constant_gap`.

    It is also that of the sign test: 2 · 0.5^number.
    """
    return min(1.0, 2 * 0.5**number) if abs(value) > ZERO else 1.0


def t_interval(value: float, error: float, freedom: float, confidence_level: float) -> DecisionEstimate:
    half = quantile(confidence_level, freedom) * error
    return DecisionEstimate(value, _possible(value, half), None, float(2 * stats.t.sf(abs(value) / error, freedom)))


def _possible(value: float, half: float) -> Bounds:
    """Returns value ± half. Decisions are from 0 to 1, so differences are from −1 to 1."""
    return max(value - half, -1.0), min(value + half, 1.0)


def _largest_scores(table: np.ndarray, *, seed: int) -> np.ndarray:
    """Simulates the largest |t| over all pairs of terms, each with its own standard error.

    The questions are normal, with the terms' estimated covariance matrix. Pairs without variance have no |t|.
    """
    terms = table.shape[1]
    known = ~np.isnan(table)
    # With missing answers, the pair with the fewest common questions has the fewest degrees of freedom.
    common = known.T.astype(np.int64) @ known
    number = int(common.min())
    rows = np.where(known, table, 0.0) - row_means(table)[:, None]
    effects = np.where(known, rows, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    rows = np.where(known, rows, effects)
    rows -= rows.mean(axis=0)
    _, sizes, directions = np.linalg.svd(rows / np.sqrt(len(rows) - 1), full_matrices=False)
    root = (sizes[:, None] * directions)[sizes > 1e-9 * sizes[0]]
    first, second = np.triu_indices(terms, 1)
    variances = ((root[:, first] - root[:, second]) ** 2).sum(axis=0)
    varies = variances > 1e-9 * variances.max()
    first, second = first[varies], second[varies]
    draws = np.random.default_rng(seed)
    step = max(CHUNK // (len(root) ** 2 + terms**2), 1)
    largest = []
    for start in range(0, _NUM_DRAWS, step):
        size = min(step, _NUM_DRAWS - start)
        means = draws.standard_normal((size, len(root))) @ root / np.sqrt(number)
        made = _wishart_roots(draws, size, number - 1, len(root)) @ root
        products = made.swapaxes(1, 2) @ made / (number * (number - 1))
        own = np.einsum("bii->bi", products)
        errors = own[:, first] + own[:, second] - 2 * products[:, first, second]
        largest.append((np.abs(means[:, first] - means[:, second]) / np.sqrt(errors)).max(axis=1))
    return np.concatenate(largest)


def _wishart_roots(draws: np.random.Generator, size: int, freedom: int, rank: int) -> np.ndarray:
    """Draws matrices R for which R'R has a Wishart distribution with the identity: [size, min(freedom, rank), rank].

    With more degrees of freedom, R is triangular (Bartlett's decomposition), so its size does not depend on questions.
    """
    roots: np.ndarray = draws.standard_normal((size, min(freedom, rank), rank))
    if freedom > rank:
        roots = np.triu(roots)
        places = np.arange(rank)
        roots[:, places, places] = np.sqrt(draws.chisquare(freedom - places, (size, rank)))
    return roots


def scaled_to(covariance: np.ndarray, variance: float) -> np.ndarray:
    """Scales a covariance matrix [2, 2] so that the difference has a given variance."""
    own = covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1]
    scaled: np.ndarray = covariance * (variance / own) if own > ZERO**2 else covariance
    return scaled


def fieller_ratio(means: np.ndarray, covariance: np.ndarray, t: float) -> DecisionEstimate:
    """Computes the ratio of two means with Fieller's interval, the lower mean first."""
    low, high = means
    if high <= 0:
        return DecisionEstimate(np.nan, None, "the higher rate is 0", None)
    if low < ZERO:
        return DecisionEstimate(0.0, None, "the lower rate is 0", None)
    (v_low, shared), (_, v_high) = covariance * t**2
    a, b, c = high**2 - v_high, low * high - shared, low**2 - v_low
    if a <= 0:
        return DecisionEstimate(float(low / high), None, "the higher rate could be 0", None)
    root = np.sqrt(max(b * b - a * c, 0.0))
    return DecisionEstimate(float(low / high), (max(float((b - root) / a), 0.0), float((b + root) / a)), None, None)
