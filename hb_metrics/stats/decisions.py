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
MIN_NAMES = 4
FEW_NAMES = f"fewer than two groups have {MIN_NAMES} names with answers"
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


def compared_terms(table: np.ndarray) -> tuple[np.ndarray, str | None]:
    """Finds the terms that have at least `MIN_QUESTIONS` answered questions in common with each other.

    The term that lacks the most partners is left out first.

    Args:
        table: [questions, terms] NaN marks a missing value.

    Returns:
        The indices of the terms, and `None`. If fewer than two terms are left, the indices of all terms with answers,
        and the reason why they cannot be compared.
    """
    known = (~np.isnan(table)).astype(np.int64)
    lacks = known.T @ known < MIN_QUESTIONS
    kept = np.arange(table.shape[1])
    while len(kept) and lacks[np.ix_(kept, kept)].any():
        number = lacks[np.ix_(kept, kept)].sum(axis=1) - known[:, kept].mean(axis=0) / 2
        kept = np.delete(kept, np.argmax(number))
    return (kept, None) if len(kept) > 1 else (np.flatnonzero(known.any(axis=0)), FEW_QUESTIONS)


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
    rows, is_enough = spread_rows(tables)
    number = len(rows)
    if number < 2 or not rows.shape[1]:
        return Spread(0.0, 0.0, None, FEW_QUESTIONS)
    products = rows @ rows.T
    estimate = (products.sum() - np.trace(products)) / (number * (number - 1))
    value = float(np.sqrt(max(estimate, 0.0)))
    if not is_enough:
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


def spread_rows(tables: Sequence[np.ndarray]) -> tuple[np.ndarray, bool]:
    """Returns the weighted differences between the compared terms of axes: [questions, pairs of terms].

    The squared norm of the rows' true mean is the variance between terms. Also returns whether there are enough common
    questions for an interval.
    """
    compared = [(table[:, terms], reason) for table in tables for terms, reason in [compared_terms(table)]]
    enough = [table for table, reason in compared if reason is None]
    parts = [_pair_contributions(table)[0] for table in enough or [table for table, _ in compared]]
    parts = [part for part in parts if part.shape[1]] or [np.zeros((0, 0))]
    scaled = [part * np.sqrt(0.5 / max(part.shape[1] * len(parts), 1)) for part in parts]
    return np.concatenate(scaled, axis=1), bool(enough)


def gaps_to_mean(table: np.ndarray, confidence_level: float = 0.95) -> list[Gap | None]:
    """Compares each term's mean with the mean of the axis, paired by question (t-interval).

    With missing values, a term is compared with each other term in the questions that both have. The gap is `None` if
    the term cannot be compared (see `compared_terms`).
    """
    kept, reason = compared_terms(table)
    gaps: list[Gap | None] = [None] * table.shape[1]
    for term in kept:
        rows = _completed(table[:, [term]] - table[:, kept])
        gaps[term] = _t_gap(rows.sum(axis=1) / len(kept), reason, confidence_level)
    return gaps


def mean_over_questions(table: np.ndarray, confidence_level: float = 0.95) -> Gap:
    """Computes the mean decision, with a t-interval over questions: [questions, terms]."""
    rows = row_means(table)
    rows = rows[np.isfinite(rows)]
    found = _t_gap(rows, FEW_QUESTIONS if len(rows) < MIN_QUESTIONS else None, confidence_level)
    bounds = found.interval and (max(found.interval[0], 0.0), found.interval[1])
    return found._replace(interval=bounds, p_value=None)


def difference(first: np.ndarray, second: np.ndarray, confidence_level: float = 0.95) -> Gap:
    """Compares two columns of values, paired by question: [questions] each, NaN if missing."""
    differences = (first - second)[:, None]
    fault = FEW_QUESTIONS if np.isfinite(differences).sum() < MIN_QUESTIONS else None
    return _t_gap(_completed(differences)[:, 0], fault, confidence_level)


def largest_gap(table: np.ndarray, confidence_level: float = 0.95, *, seed: int) -> LargestGap | None:
    """Finds the two terms whose means differ most. Returns `None` if no two terms were compared in any question.

    The interval's quantile is that of the largest |t| over all pairs, from a multivariate t distribution with the
    pairs' estimated correlations, so the interval is simultaneous for all pairs.
    """
    kept, reason = compared_terms(table)
    chosen = table[:, kept]
    parts, pairs = _pair_contributions(chosen)
    if not len(pairs):
        return None
    number, means = len(table), parts.mean(axis=0)
    best = int(np.argmax(np.abs(means)))
    low, high = pairs[best] if means[best] < 0 else pairs[best][::-1]
    both = chosen[:, [low, high]]
    both = both[np.isfinite(both).all(axis=1)]
    value, rates = float(abs(means[best])), both.mean(axis=0)
    gap, ratio = Gap(value, None, reason), Gap(float(rates[0] / rates[1]) if rates[1] > 0 else np.nan, None, reason)
    error = float(np.sqrt(parts[:, best].var(ddof=1) / number)) if number > 1 else 0.0
    if reason is None and error < _ZERO:
        gap = _constant_gap(value, len(both), 1 - (1 - confidence_level) / len(pairs))
        ratio = ratio._replace(reason=SAME_ANSWERS)
    elif reason is None:
        quantile = _max_t_quantile(chosen, confidence_level, seed=seed)
        gap, ratio = Gap(value, _possible(value, quantile * error)), _ratio(rates, np.cov(both.T) / len(both), quantile)
    return LargestGap(int(kept[high]), int(kept[low]), gap, ratio)


class NameGaps(NamedTuple):
    """The differences between groups of names.

    Attributes:
        groups: The names of the groups, sorted.
        compared: The indices of the groups that were compared.
        largest: The largest difference, or `None` if there is only one group.
        p_value: The smallest p-value of a pair of groups, adjusted for the number of pairs. `None` without an interval.
    """

    groups: list[str]
    compared: np.ndarray
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
    answered, known = ~np.isnan(table).all(axis=0), sorted(set(groups))
    members = [table[:, np.array([group == one for group in groups]) & answered] for one in known]
    rates = np.stack([row_means(of_group) for of_group in members], axis=1)
    has_names = np.array([of_group.shape[1] >= MIN_NAMES for of_group in members])
    compared, reason = compared_terms(np.where(has_names, rates, np.nan))
    if reason is not None:
        compared = compared_terms(rates)[0]
        reason = reason if has_names.sum() > 1 else FEW_NAMES
    both = np.isfinite(rates).astype(int).T @ np.isfinite(rates)
    pairs = [(one, other) for one in compared for other in compared if one > other and both[one, other]]
    level = 1 - (1 - confidence_level) / max(len(pairs), 1)
    gaps = [_name_gap(one, other, members, rates, reason, level) for one, other in pairs]
    p_values = [found.gap.p_value for found in gaps if found.gap.p_value is not None]
    p_value = min(1.0, len(pairs) * min(p_values)) if p_values else None
    return NameGaps(known, compared, max(gaps, key=lambda found: found.gap.value, default=None), p_value)


def _name_gap(
    one: int, other: int, members: Sequence[np.ndarray], rates: np.ndarray, reason: str | None, confidence_level: float
) -> LargestGap:
    """Compares two groups of names.

    `members` contains [questions, names] for each group, and `rates` their means: [questions, groups].
    """
    both = np.isfinite(rates[:, [one, other]]).all(axis=1)
    low, high = (one, other) if rates[both, one].mean() < rates[both, other].mean() else (other, one)
    rows = rates[both][:, [low, high]]
    means, number = rows.mean(axis=0), len(rows)
    value = float(means[1] - means[0])
    ratio = Gap(float(means[0] / means[1]) if means[1] > 0 else np.nan, None, reason)
    if reason is not None:
        return LargestGap(high, low, Gap(value, None, reason), ratio)
    covariance = np.cov(rows.T) / number
    over_questions = float(_contrast(covariance))
    over_names, noise = 0.0, over_questions**2 / (number - 1)
    for place, group in enumerate((members[low][both], members[high][both])):
        size = group.shape[1]
        centred = group - row_means(group)[:, None]
        of_names = row_means(centred.T)
        part = float(np.nanvar(of_names, ddof=1)) / size
        over_names += part
        # A few names show too little of a skewed distribution, so half of the usual freedom is used.
        noise += 2 * part**2 / (size - 1)
        singles = float(np.nanvar(centred - of_names)) * number / (number - 1) * size / (size - 1)
        covariance[place, place] += max(part - singles / (number * size), 0.0)
    variance = max(_contrast(covariance), over_names)
    if math.sqrt(variance) < _ZERO:
        fewest = min(number, members[low].shape[1], members[high].shape[1])
        return LargestGap(
            high, low, _constant_gap(value, fewest, confidence_level), ratio._replace(reason=SAME_ANSWERS)
        )
    freedom = variance**2 / noise
    gap = _interval(value, math.sqrt(variance), freedom, confidence_level)
    quantile = float(stats.t.ppf((1 + confidence_level) / 2, freedom))
    return LargestGap(high, low, gap, _ratio(means, covariance * variance / _contrast(covariance), quantile))


def _contrast(covariance: np.ndarray) -> float:
    return float(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])


def row_means(table: np.ndarray) -> np.ndarray:
    known = ~np.isnan(table)
    counts = known.sum(axis=1)
    sums = np.where(known, table, 0.0).sum(axis=1)
    return np.divide(sums, counts, out=np.full(len(table), np.nan), where=counts > 0)


def _completed(differences: np.ndarray) -> np.ndarray:
    """Replaces missing differences so that means and their standard errors are those of the known differences.

    A known difference deviates from its column's mean; its deviation is scaled up by the share of known values, and a
    missing one deviates by 0.
    """
    known = ~np.isnan(differences)
    counts = known.sum(axis=0)
    filled = np.where(known, differences, 0.0)
    means = np.divide(filled.sum(axis=0), counts, out=np.zeros(len(counts)), where=counts > 0)
    scale = np.divide(len(differences), counts, out=np.zeros(len(counts)), where=counts > 0)
    return means + np.where(known, differences - means, 0.0) * scale


def _pair_contributions(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns each question's contribution to the difference between two terms: [questions, pairs], and the pairs.

    Omits pairs that have no question in common.
    """
    first, second = np.triu_indices(table.shape[1], 1)
    differences = table[:, first] - table[:, second]
    kept = (~np.isnan(differences)).any(axis=0)
    return _completed(differences[:, kept]), np.stack([first, second], axis=1)[kept]


def _t_gap(rows: np.ndarray, fault: str | None, confidence_level: float) -> Gap:
    value = float(rows.mean()) if len(rows) else 0.0
    error = float(np.sqrt(rows.var(ddof=1) / len(rows))) if len(rows) > 1 else 0.0
    if fault is not None:
        return Gap(value, None, fault)
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
    return Gap(value, _possible(value, half), p_value=float(2 * stats.t.sf(abs(value) / error, freedom)))


def _possible(value: float, half: float) -> Bounds:
    """Returns value ± half. Decisions are from 0 to 1, so differences are from −1 to 1."""
    return max(value - half, -1.0), min(value + half, 1.0)


def _max_t_quantile(table: np.ndarray, confidence_level: float, *, seed: int) -> float:
    """Returns the quantile of the largest |t| over all pairs of terms, each with its own standard error.

    The statistics are simulated from normal questions with the terms' estimated covariance matrix.
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


def _ratio(means: np.ndarray, covariance: np.ndarray, quantile: float) -> Gap:
    """Computes the ratio of two means with Fieller's interval, the lower mean first."""
    low, high = means
    if high <= 0:
        return Gap(np.nan, None, "the higher rate is 0")
    (v_low, shared), (_, v_high) = covariance * quantile**2
    a, b, c = high**2 - v_high, low * high - shared, low**2 - v_low
    if a <= 0:
        return Gap(float(low / high), None, "the higher rate could be 0")
    root = np.sqrt(max(b * b - a * c, 0.0))
    return Gap(float(low / high), (max(float((b - root) / a), 0.0), float((b + root) / a)))
