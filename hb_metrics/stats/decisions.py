"""Estimates how much decisions differ between terms or groups of names. docs/decisions.md derives the intervals.

The random units are questions: intervals generalise to other questions of the same kind. A question's wordings are
averaged before, so they are one unit. Terms are fixed, and names are draws from the names of their group.

All values are fractions: a gap of 0.57 is 57 points.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

MIN_QUESTIONS = 8
FEW_QUESTIONS = f"fewer than {MIN_QUESTIONS} questions were answered"
FEW_NAMES = "a group has fewer than two names"
SAME_ANSWERS = "the differences are the same in all questions"
NUM_FLIPS = 1999
_NUM_DRAWS = 1999
_ZERO = 1e-12  # standard errors below this number are rounding errors
_CHUNK = 2**22  # the number of simulated values that are in memory at once

Bounds = tuple[float, float]


class Spread(NamedTuple):
    """How much the terms' mean decisions differ.

    Attributes:
        value: The standard deviation between the terms' true means: the square root of `variance`, or 0 if that is
            negative.
        variance: The unbiased estimate of the variance between the terms' true means (divisor: terms − 1).
        interval: The bounds of the standard deviation.
        reason: The reason why there is no interval.
        p_value: The p-value of the test that the terms' means are equal. `None` without an interval.
    """

    value: float
    variance: float
    interval: Bounds | None
    reason: str | None
    p_value: float | None = None


class Gap(NamedTuple):
    """A difference between two means, with its interval or the reason why it has none."""

    value: float
    interval: Bounds | None
    reason: str | None = None
    p_value: float | None = None


class LargestGap(NamedTuple):
    """The largest difference between two terms or groups.

    Attributes:
        high: The index of the term with the higher mean.
        low: The index of the term with the lower mean.
        gap: The difference. Its interval is simultaneous: it holds although this pair was chosen among all pairs.
        ratio: The lower mean divided by the higher mean, with a simultaneous interval.
    """

    high: int
    low: int
    gap: Gap
    ratio: Gap


def question_means(values: np.ndarray, questions: Sequence[str]) -> np.ndarray:
    """Averages a question's wordings.

    Args:
        values: [prompts, terms] NaN marks a missing value.
        questions: [prompts] The question of each prompt.

    Returns:
        [questions, terms] in the order in which the questions first occur. NaN if all of a question's values are
        missing.
    """
    numbers: dict[str, int] = {}
    of_prompts = [numbers.setdefault(question, len(numbers)) for question in questions]
    rows, columns = np.repeat(of_prompts, values.shape[1]), np.tile(np.arange(values.shape[1]), len(values))
    return mean_table(values.ravel(), rows, columns, (len(numbers), values.shape[1]))


def mean_table(values: np.ndarray, rows: Any, columns: Any, shape: tuple[int, int]) -> np.ndarray:
    """Averages the known values of each cell: [rows, columns], NaN if there are none.

    `values`, `rows` and `columns` have an item per value. NaN marks a missing value.
    """
    known = ~np.isnan(values)
    cells = np.asarray(rows)[known], np.asarray(columns)[known]
    sums, counts = np.zeros((2, *shape))
    np.add.at(sums, cells, values[known])
    np.add.at(counts, cells, 1)
    return np.divide(sums, counts, out=np.full(shape, np.nan), where=counts > 0)


def spread_between(tables: Sequence[np.ndarray], confidence_level: float = 0.95, *, seed: int) -> Spread:
    """Estimates the spread between terms, as the mean variance of one or more axes.

    With the differences δ_i between two terms' values in question i, the mean of δ_i δ_j over different questions is an
    unbiased estimate of the squared difference of their means. The variance is the mean of these estimates over pairs
    of terms, divided by 2. It is a U-statistic, whose variance is 4 L / I + 2 Q / (I (I − 1)) for I questions. L grows
    with the true variance θ, so the interval contains each θ with |estimate − θ| ≤ t √(variance at θ).

    The test of equal means exchanges the signs of all differences in a question, at random. It also holds if answers
    about some terms vary more than those about others. Permuting the terms of a question would not: with standard
    deviations of 3 to 0.3, it would reject 10 to 14 of 100 times at the 5 % level.

    Args:
        tables: For each axis, [questions, terms]. All axes have the same questions. NaN marks a missing value.
        confidence_level: The level of the interval.
        seed: The seed of the test's signs.
    """
    shared = [_pair_contributions(table) for table in tables if table.shape[1] > 1]
    parts = [part for part, _ in shared if part.shape[1]]
    number = len(tables[0]) if tables else 0
    if not parts or number < 2:
        return Spread(0.0, 0.0, None, FEW_QUESTIONS)
    weights = np.concatenate([np.full(part.shape[1], 0.5 / (part.shape[1] * len(parts))) for part in parts])
    rows = np.concatenate(parts, axis=1) * np.sqrt(weights)
    answered = int(np.count_nonzero(np.any([(~np.isnan(table)).sum(axis=1) > 1 for table in tables], axis=0)))
    return spread_of_rows(rows, answered, confidence_level, seed=seed)


def spread_of_rows(rows: np.ndarray, answered: int, confidence_level: float = 0.95, *, seed: int) -> Spread:
    """Estimates the spread whose variance is the squared length of the rows' mean (see `spread_between`).

    `answered` is the number of rows [questions, ...] that contribute.
    """
    number, products = len(rows), rows @ rows.T
    estimate = (products.sum() - np.trace(products)) / (number * (number - 1))
    value = float(np.sqrt(max(estimate, 0.0)))
    if answered < MIN_QUESTIONS:
        return Spread(value, float(estimate), None, FEW_QUESTIONS)
    mean = rows.mean(axis=0)
    residuals = rows - mean
    if np.allclose(residuals, 0, atol=1e-12):
        p_value = 2 * 0.5**number if mean.any() else 1.0
        return Spread(value, float(estimate), None, SAME_ANSWERS, p_value)
    noise = residuals @ residuals.T / (number - 1)  # its squares add up to the squares of the covariance matrix
    trace, squares = np.trace(noise), float((noise**2).sum())
    # The unbiased estimate of the trace of the squared covariance matrix (normal terms; Bai and Saranadasa, 1996).
    q = max((number - 1) ** 2 / ((number + 1) * (number - 2)) * (squares - trace**2 / (number - 1)), squares / number)
    along = float(np.var(residuals @ mean, ddof=1)) / float(mean @ mean)
    tail = (1 + confidence_level) / 2
    quantile = stats.t.ppf(tail, number - 1)
    a = quantile**2 * 4 * along / number
    # If the terms' means are equal, the estimate is skewed: like that of F − 1, with the freedom of the noise.
    freedom = max(trace**2 / q, 1.0)
    at_zero = trace / number * (stats.f.ppf(tail, freedom, freedom * (number - 1)) - 1)
    known = max(estimate, 0.0)
    low = known + a / 2 - np.sqrt(a * a / 4 + a * known + at_zero**2)
    high = known + a / 2 + np.sqrt(a * a / 4 + a * known + quantile**2 * 2 * q / (number * (number - 1)))
    low, high = np.sqrt(max(low, 0.0)), np.sqrt(high)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (NUM_FLIPS, number))
    flipped = (signs @ products * signs).sum(axis=1)
    # Sums of the same numbers in another order differ in their last digits.
    num_larger = np.count_nonzero(flipped >= products.sum() * (1 - 1e-9))
    p_value = float((1 + num_larger) / (1 + NUM_FLIPS))
    return Spread(value, float(estimate), (float(low), float(high)), None, p_value)


def gaps_to_mean(table: np.ndarray, confidence_level: float = 0.95) -> list[Gap]:
    """Compares each term's mean with the mean of the axis, paired by question (t-interval).

    With missing values, a term is compared with each other term in the questions that both have.
    """
    terms = table.shape[1]
    gaps = []
    for term in range(terms):
        differences = table[:, [term]] - table
        rows, fault = _completed(differences)
        gaps.append(_t_gap(rows.sum(axis=1) / terms, fault, confidence_level))
    return gaps


def difference(first: np.ndarray, second: np.ndarray, confidence_level: float = 0.95) -> Gap:
    """Compares two columns of values, paired by question: [questions] each, NaN if missing."""
    rows, fault = _completed((first - second)[:, None])
    return _t_gap(rows[:, 0], fault, confidence_level)


def largest_gap(table: np.ndarray, confidence_level: float = 0.95, *, seed: int) -> LargestGap | None:
    """Finds the two terms whose means differ most. Returns `None` if no two terms were compared in any question.

    The interval's quantile is that of the largest |t| over all pairs, from a multivariate t distribution with the
    pairs' estimated correlations, so the interval is simultaneous for all pairs.
    """
    parts, pairs = _pair_contributions(table)
    if not len(pairs):
        return None
    number = len(table)
    means = parts.mean(axis=0)
    best = int(np.argmax(np.abs(means)))
    low, high = pairs[best] if means[best] < 0 else pairs[best][::-1]
    gap, usable = float(abs(means[best])), np.isfinite(table[:, [low, high]]).all(axis=1)
    rates = np.nanmean(table[:, [low, high]][usable], axis=0)
    ratio = float(rates[0] / rates[1]) if rates[1] > 0 else np.nan
    errors = np.sqrt(parts.var(axis=0, ddof=1) / number) if number > 1 else np.zeros(len(pairs))
    if usable.sum() < MIN_QUESTIONS:
        return LargestGap(int(high), int(low), Gap(gap, None, FEW_QUESTIONS), Gap(ratio, None, FEW_QUESTIONS))
    if errors[best] < _ZERO:
        level = 1 - (1 - confidence_level) / len(pairs)
        return LargestGap(
            int(high), int(low), _constant_gap(gap, int(usable.sum()), level), Gap(ratio, None, SAME_ANSWERS)
        )
    quantile = _max_t_quantile(table, confidence_level, seed=seed)
    half = quantile * errors[best]
    return LargestGap(
        int(high),
        int(low),
        Gap(gap, (gap - half, min(gap + half, 1.0))),
        _ratio(table[usable][:, [low, high]], quantile),
    )


class NameGaps(NamedTuple):
    """The differences between groups of names.

    Attributes:
        groups: The names of the groups, sorted.
        largest: The largest difference, or `None` if there is only one group.
        p_value: The smallest p-value of a pair of groups, adjusted for the number of pairs. `None` without an interval.
    """

    groups: list[str]
    largest: LargestGap | None
    p_value: float | None


def name_gaps(table: np.ndarray, groups: Sequence[str], confidence_level: float = 0.95) -> NameGaps:
    """Compares groups of names, where questions and names are random.

    The variance of a difference is the variance over questions plus the variance over names, minus the variance of
    single answers, which both contain. Intervals and p-values are adjusted for the number of pairs (Bonferroni).
    Permuting names between groups would not do: if one of two groups has 4 names that differ much, and the other has 25
    names that differ little, it rejects 33 of 100 times at the 5 % level.

    Args:
        table: [questions, names] NaN marks a missing value.
        groups: [names] The group of each name.
        confidence_level: The level of the intervals.
    """
    answered = ~np.isnan(table).all(axis=0)
    known = sorted({group for group, has_answers in zip(groups, answered, strict=True) if has_answers})
    members = [np.array([group == one for group in groups]) & answered for one in known]
    pairs = [(one, other) for one in range(len(known)) for other in range(one)]
    if not pairs:
        return NameGaps(known, None, None)
    level = 1 - (1 - confidence_level) / len(pairs)
    gaps = {(one, other): _name_gap(table[:, members[one]], table[:, members[other]], level) for one, other in pairs}
    (high, low), gap = max(gaps.items(), key=lambda item: abs(item[1].value))
    if gap.value < 0:
        high, low = low, high
        interval = None if gap.interval is None else (-gap.interval[1], -gap.interval[0])
        gap = gap._replace(value=-gap.value, interval=interval)
    rates = [float(np.nanmean(row_means(table[:, members[group]]))) for group in (low, high)]
    ratio = rates[0] / rates[1] if rates[1] > 0 else np.nan
    largest = LargestGap(high, low, gap, Gap(ratio, None, "names are draws of their group"))
    p_values = [gap.p_value for gap in gaps.values() if gap.p_value is not None]
    return NameGaps(known, largest, min(1.0, len(pairs) * min(p_values)) if p_values else None)


def _name_gap(first: np.ndarray, second: np.ndarray, confidence_level: float) -> Gap:
    """Compares two groups of names: [questions, names] each."""
    rows, fault = _completed((row_means(first) - row_means(second))[:, None])
    number, value = len(rows), float(rows.mean())
    if fault is not None or min(first.shape[1], second.shape[1]) < 2:
        return Gap(value, None, fault or FEW_NAMES)
    over_questions = float(rows.var(ddof=1)) / number
    over_names, noise, shared = 0.0, over_questions**2 / (number - 1), 0.0
    for group in (first, second):
        size = group.shape[1]
        centred = group - row_means(group)[:, None]
        of_names = row_means(centred.T)
        part = float(of_names.var(ddof=1)) / size
        over_names += part
        noise += part**2 / (size - 1)
        singles = float(np.nanvar(centred - of_names)) * number / (number - 1) * size / (size - 1)
        shared += singles / (number * size)
    variance = max(over_questions + over_names - shared, over_questions, over_names)
    if math.sqrt(variance) < _ZERO:
        return _constant_gap(value, min(number, first.shape[1], second.shape[1]), confidence_level)
    freedom = (over_questions + over_names) ** 2 / noise
    return _interval(value, math.sqrt(variance), freedom, confidence_level)


def row_means(table: np.ndarray) -> np.ndarray:
    known = ~np.isnan(table)
    counts = known.sum(axis=1)
    sums = np.where(known, table, 0.0).sum(axis=1)
    return np.divide(sums, counts, out=np.full(len(table), np.nan), where=counts > 0)


def _completed(differences: np.ndarray) -> tuple[np.ndarray, str | None]:
    """Replaces missing differences so that means and their standard errors are those of the known differences.

    A known difference deviates from its column's mean; its deviation is scaled up by the share of known values, and a
    missing one deviates by 0. Also returns the reason why there can be no interval, or `None`.
    """
    known = ~np.isnan(differences)
    counts = known.sum(axis=0)
    filled = np.where(known, differences, 0.0)
    means = np.divide(filled.sum(axis=0), counts, out=np.zeros(len(counts)), where=counts > 0)
    scale = np.divide(len(differences), counts, out=np.zeros(len(counts)), where=counts > 0)
    rows = means + np.where(known, differences - means, 0.0) * scale
    return rows, FEW_QUESTIONS if counts.min(initial=len(differences)) < MIN_QUESTIONS else None


def _pair_contributions(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns each question's contribution to the difference between two terms: [questions, pairs], and the pairs.

    Omits pairs that have no question in common.
    """
    first, second = np.triu_indices(table.shape[1], 1)
    differences = table[:, first] - table[:, second]
    kept = (~np.isnan(differences)).any(axis=0)
    rows, _ = _completed(differences[:, kept])
    return rows, np.stack([first, second], axis=1)[kept]


def _t_gap(rows: np.ndarray, fault: str | None, confidence_level: float) -> Gap:
    value = float(rows.mean()) if len(rows) else 0.0
    error = float(np.sqrt(rows.var(ddof=1) / len(rows))) if len(rows) > 1 else 0.0
    if fault is not None or len(rows) < MIN_QUESTIONS:
        return Gap(value, None, FEW_QUESTIONS)
    if error < _ZERO:
        return _constant_gap(value, len(rows), confidence_level)
    return _interval(value, error, len(rows) - 1, confidence_level)


def _constant_gap(value: float, number: int, confidence_level: float) -> Gap:
    """Returns the interval of a difference that is the same in all of a number of questions.

    If other differences occurred in more than a share u of all questions, at least one would have been seen, except
    with probability (1 − u)^number. Decisions are from 0 to 1, so differences are from −1 to 1.
    """
    unseen = 1 - ((1 - confidence_level) / 2) ** (1 / number)
    interval = value - unseen * (1 + value), value + unseen * (1 - value)
    return Gap(value, interval, p_value=2 * 0.5**number if abs(value) > _ZERO else 1.0)


def _interval(value: float, error: float, freedom: float, confidence_level: float) -> Gap:
    half = float(stats.t.ppf((1 + confidence_level) / 2, freedom)) * error
    return Gap(value, (value - half, value + half), p_value=float(2 * stats.t.sf(abs(value) / error, freedom)))


def _max_t_quantile(table: np.ndarray, confidence_level: float, *, seed: int) -> float:
    """Returns the quantile of the largest |t| over all pairs of terms, each with its own standard error.

    The statistics are simulated from normal questions with the terms' estimated covariance matrix.
    """
    terms = table.shape[1]
    known = ~np.isnan(table)
    # With missing answers, the pair with the fewest common questions has the fewest degrees of freedom.
    common = known.T.astype(np.int64) @ known
    number = int(common[common >= MIN_QUESTIONS].min(initial=len(table)))
    rows = np.where(known, table, 0.0) - row_means(table)[:, None]
    effects = np.where(known, rows, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    rows = np.where(known, rows, effects)
    rows -= rows.mean(axis=0)
    _, sizes, directions = np.linalg.svd(rows / np.sqrt(len(rows) - 1), full_matrices=False)
    root = (sizes[:, None] * directions)[sizes > 1e-9 * sizes[0]]
    first, second = np.triu_indices(terms, 1)
    draws = np.random.default_rng(seed)
    step = max(_CHUNK // (number * terms + terms * terms), 1)
    largest = []
    for start in range(0, _NUM_DRAWS, step):
        made = draws.standard_normal((min(step, _NUM_DRAWS - start), number, len(root))) @ root
        means = made.mean(axis=1)
        made -= means[:, None]
        products = made.swapaxes(1, 2) @ made / (number * (number - 1))
        own = np.einsum("bii->bi", products)
        errors = own[:, first] + own[:, second] - 2 * products[:, first, second]
        with np.errstate(invalid="ignore"):
            scores = np.abs(means[:, first] - means[:, second]) / np.sqrt(np.maximum(errors, 1e-300))
        largest.append(scores.max(axis=1))
    return float(np.quantile(np.concatenate(largest), confidence_level))


def _ratio(rows: np.ndarray, quantile: float) -> Gap:
    """Computes the ratio of two paired means with Fieller's interval: [questions, 2], the lower mean first."""
    low, high = rows.mean(axis=0)
    if high <= 0:
        return Gap(np.nan, None, "the higher rate is 0")
    (v_low, shared), (_, v_high) = np.cov(rows.T) / len(rows) * quantile**2
    a, b, c = high**2 - v_high, low * high - shared, low**2 - v_low
    if a <= 0:
        return Gap(float(low / high), None, "the higher rate could be 0")
    root = np.sqrt(max(b * b - a * c, 0.0))
    return Gap(float(low / high), (max(float((b - root) / a), 0.0), float((b + root) / a)))
