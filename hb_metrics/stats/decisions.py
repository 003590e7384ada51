"""Estimates how much decisions differ between terms or groups of names. docs/decisions.md derives the intervals.

The random units are questions: intervals generalise to other questions of the same kind. A question's wordings are
averaged before, so they are one unit. Terms are fixed. Names are draws from the names of their group.

All values are fractions: a gap of 0.57 is 57 points.
"""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import optimize, stats

from hb_metrics.stats.clusters import Bounds, quantile

MIN_QUESTIONS = 8
FEW_QUESTIONS = f"fewer than {MIN_QUESTIONS} questions have answers to compare"
ONE_TERM = "only one term has answers"
SAME_ANSWERS = "the differences are the same in all questions"
MIN_NAMES = 4
FEW_NAMES = f"fewer than two groups have {MIN_NAMES} names with answers"
NUM_FLIPS = 1999
# If so many of all `num_tests` · `NUM_FLIPS` statistics are larger, the adjusted p-value is above 1 %.
ENOUGH_LARGER = 20
_NUM_DRAWS = 1999
ZERO = 1e-12  # standard errors below this number are rounding errors
_CHUNK = 2**22  # the number of simulated values that are in memory at once


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


def question_means(values: np.ndarray, questions: Sequence[str]) -> np.ndarray:
    """Averages a question's wordings.

    If values are missing, a term's mean is adjusted for the wordings that it lacks: a term that lacks a wording which
    most terms answer less favourably is not better off. Wordings are assumed to raise all terms by the same amount.

    Args:
        values: [prompts, terms] NaN marks a missing value.
        questions: [prompts] The question of each prompt.

    Returns:
        [questions, terms] in the order in which the questions first occur. NaN if all of a question's values are
        missing.
    """
    numbers: dict[str, int] = {}
    of_prompts = [numbers.setdefault(question, len(numbers)) for question in questions]
    return np.array([_adjusted_means(values[np.equal(of_prompts, number)]) for number in range(len(numbers))])


def _adjusted_means(values: np.ndarray) -> np.ndarray:
    """Fits the sum of an effect of the term and one of the wording: [wordings, terms] to [terms]."""
    known = ~np.isnan(values)
    if known.all():
        return values.mean(axis=0)
    counts = known.sum(axis=0)
    sums = np.where(known, values - row_effects(values, known)[:, None], 0.0).sum(axis=0)
    return np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)


def row_effects(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Fits the effects of rows in a table whose values are the sum of an effect of the row and one of the column.

    The fit to the known values is by least squares, and the effects [rows] have the smallest possible norm.
    """
    divisors = np.maximum(known.sum(axis=0), 1)
    filled = np.where(known, values, 0.0)
    centred = np.where(known, filled - filled.sum(axis=0) / divisors, 0.0)
    effects: np.ndarray = np.linalg.lstsq(_normal_matrix(known), centred.sum(axis=1), rcond=None)[0]
    return effects


def _normal_matrix(known: np.ndarray) -> np.ndarray:
    return np.diag(known.sum(axis=1)) - (known / np.maximum(known.sum(axis=0), 1)) @ known.T


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
        The indices of the terms, and `None`. If fewer than two terms are left, the indices of the terms that have at
        least one question in common with each other, and the reason why they cannot be compared.
    """
    known = (~np.isnan(table)).astype(np.int64)
    kept = _in_common(known, MIN_QUESTIONS)
    if len(kept) > 1:
        return kept, None
    return _in_common(known, 1), ONE_TERM if known.any(axis=0).sum() == 1 else FEW_QUESTIONS


def _in_common(known: np.ndarray, least: int) -> np.ndarray:
    lacks = known.T @ known < least
    kept = np.arange(known.shape[1])
    while len(kept) and lacks[np.ix_(kept, kept)].any():
        number = lacks[np.ix_(kept, kept)].sum(axis=1) - known[:, kept].mean(axis=0) / 2
        kept = np.delete(kept, np.argmax(number))
    return kept


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


def spread_of_rows(
    rows: np.ndarray, is_enough: bool, confidence_level: float = 0.95, *, seed: int, num_tests: int = 1
) -> DecisionEstimate:
    """Estimates the spread whose variance is the squared length of the rows' mean (see `spread_between`).

    `is_enough` states whether enough rows [questions, ...] contribute for an interval.
    """
    number, products = len(rows), rows @ rows.T
    known = max(float(products.sum() - np.trace(products)) / (number * (number - 1)), 0.0)
    value = float(np.sqrt(known))
    if not is_enough:
        return DecisionEstimate(value, None, FEW_QUESTIONS, None)
    mean = rows.mean(axis=0)
    residuals = rows - mean
    if is_constant(rows):
        p_value = constant_p_value(value, number) if len(mean) else 1.0
        return DecisionEstimate(value, None, SAME_ANSWERS, min(1.0, len(mean) * p_value))
    noise = residuals @ residuals.T / (number - 1)  # its squares add up to the squares of the covariance matrix
    trace, q = np.trace(noise), trace_of_product(noise, noise)
    # The variance along the true mean. If the differences cancel out, its direction is unknown, so the largest counts.
    size = float(mean @ mean)
    along = float(np.var(residuals @ mean, ddof=1)) / size if size > ZERO**2 else float(np.linalg.eigvalsh(noise)[-1])
    tail = (1 + confidence_level) / 2
    t = quantile(confidence_level, number - 1)
    a = t**2 * 4 * along / number
    # If the terms' means are equal, the estimate is skewed: like that of F − 1, with the freedom of the noise.
    freedom = max(trace**2 / q, 1.0)
    at_zero = trace / number * (stats.f.ppf(tail, freedom, freedom * (number - 1)) - 1)
    low = known + a / 2 - np.sqrt(a * a / 4 + a * known + at_zero**2)
    high = known + a / 2 + np.sqrt(a * a / 4 + a * known + t**2 * 2 * q / (number * (number - 1)))
    interval = float(np.sqrt(max(low, 0.0))), float(np.sqrt(high))
    return DecisionEstimate(value, interval, None, _p_value(products, np.random.default_rng(seed), num_tests))


def trace_of_product(noise: np.ndarray, other: np.ndarray) -> float:
    """Estimates the trace of the product of two covariance matrices, without bias for normal values.

    The arguments [rows, rows] are the products of the rows' residuals, divided by the number of rows minus 1 (Bai and
    Saranadasa, 1996).
    """
    number, squares, traces = len(noise), float((noise * other).sum()), np.trace(noise) * np.trace(other)
    unbiased = (number - 1) ** 2 / ((number + 1) * (number - 2)) * (squares - traces / (number - 1))
    return float(max(unbiased, squares / number))


def _p_value(products: np.ndarray, draws: np.random.Generator, num_tests: int) -> float:
    root, larger, number = np.sqrt(5), np.zeros(2, dtype=np.int64), 0
    # Sums of the same numbers in another order differ in their last digits.
    least = products.sum() * (1 - 1e-9)
    while number < num_tests * NUM_FLIPS and larger.max() < ENOUGH_LARGER:
        signs = draws.choice([-1.0, 1.0], (NUM_FLIPS, len(products)))
        skewed = np.where(draws.random(signs.shape) < (root + 1) / (2 * root), 1 - root, 1 + root) / 2
        larger += [np.count_nonzero((weights @ products * weights).sum(axis=1) >= least) for weights in (signs, skewed)]
        number += NUM_FLIPS
    return float((1 + larger.max()) / (1 + number))


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


def gaps_to_mean(table: np.ndarray, confidence_level: float = 0.95) -> list[DecisionEstimate | None]:
    """Compares each term's mean with the mean of the axis, paired by question (t-interval).

    With missing values, a term is compared with each other term in the questions that both have. Questions then have
    different weights, and the degrees of freedom are those of their effective number. The gap is `None` if the term
    cannot be compared (see `compared_terms`).
    """
    kept, reason = compared_terms(table)
    gaps: list[DecisionEstimate | None] = [None] * table.shape[1]
    if len(kept) < 2:
        return gaps
    differences = [table[:, [term]] - table[:, kept[kept != term]] for term in kept]
    rows = np.stack([_completed(of_term).sum(axis=1) / len(kept) for of_term in differences], axis=1)
    for place, (value, error) in enumerate(zip(rows.mean(axis=0), standard_errors(rows), strict=True)):
        known = ~np.isnan(differences[place])
        weights = (known * filling_scales(known) ** 2).sum(axis=1)
        number = float(weights.sum() ** 2 / (weights**2).sum()) if weights.any() else 1.0
        gaps[kept[place]] = _t_gap(float(value), float(error), number, reason, confidence_level)
    return gaps


def mean_over_questions(table: np.ndarray, confidence_level: float = 0.95) -> DecisionEstimate:
    """Computes the mean decision of all terms, with a t-interval over questions.

    A term that lacks answers counts as much as the others, because a decision is assumed to be the sum of an effect of
    the question and one of the term. The degrees of freedom are those of the effective number of questions.

    Args:
        table: [questions, terms] NaN marks a missing value.
        confidence_level: The level of the interval.
    """
    rows, number = _question_contributions(table)
    mean = _t_mean(rows, number, confidence_level)
    interval = mean.interval
    if interval is not None and is_constant(rows):  # unlike a difference, no mean is below 0
        unseen = unseen_share(number, confidence_level)
        interval = mean.value * (1 - unseen), mean.value + unseen * (1 - mean.value)
    return mean._replace(interval=interval and (max(interval[0], 0.0), interval[1]), p_value=None)


def mean_difference(table: np.ndarray, confidence_level: float = 0.95) -> DecisionEstimate:
    """Computes the mean of differences of decisions as `mean_over_questions` does: [questions, terms]."""
    return _t_mean(*_question_contributions(table), confidence_level)


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
    adjusted = table - _term_effects(table)
    means = row_means(adjusted)
    # How much the terms' effects add to the mean, and so how much each answer adds to it through them.
    slopes = np.linalg.lstsq(_normal_matrix(known.T), (known / counts[:, None]).sum(axis=0), rcond=None)[0]
    weights = np.where(known, 1 / counts[:, None] - slopes + (known @ slopes / counts)[:, None], 0.0)
    of_questions = (weights**2).sum(axis=1)
    number = float(of_questions.sum() ** 2 / (of_questions**2).sum())
    return means + np.where(known, weights * (adjusted - means[:, None]), 0.0).sum(axis=1), number


def term_means(table: np.ndarray) -> np.ndarray:
    """Returns the mean of each term, adjusted for the questions that it lacks: [questions, terms] to [terms].

    The mean of a term that cannot be compared (see `compared_terms`) is that of its answers, NaN if it has none.
    """
    means, (kept, _) = row_means(table.T), compared_terms(table)
    if len(kept) and np.isnan(table[:, kept]).any():
        effects = _term_effects(table[:, kept])
        means[kept] = np.clip(np.nanmean(row_means(table[:, kept] - effects)) + effects, 0.0, 1.0)
    return means


def _term_effects(table: np.ndarray) -> np.ndarray:
    """Fits the effects of terms on decisions (see `row_effects`): [questions, terms] to [terms]."""
    return row_effects(table.T, ~np.isnan(table.T))


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
    value, rates = float(abs(means[best])), both.mean(axis=0)
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


def row_means(table: np.ndarray) -> np.ndarray:
    known = ~np.isnan(table)
    counts = known.sum(axis=1)
    sums = np.where(known, table, 0.0).sum(axis=1)
    return np.divide(sums, counts, out=np.full(len(table), np.nan), where=counts > 0)


def _completed(differences: np.ndarray) -> np.ndarray:
    """Replaces missing differences so that means and their standard errors are those of the known differences.

    A known difference deviates from its column's mean, and its deviation is scaled up. A missing one deviates by 0.
    """
    known = ~np.isnan(differences)
    counts = known.sum(axis=0)
    filled = np.where(known, differences, 0.0)
    means = np.divide(filled.sum(axis=0), counts, out=np.zeros(len(counts)), where=counts > 0)
    return means + np.where(known, differences - means, 0.0) * filling_scales(known)


def filling_scales(known: np.ndarray) -> np.ndarray:
    """Returns the scale √(N (N − 1) / (n (n − 1))) of deviations in columns with n known of N values: [columns]."""
    counts, number = known.sum(axis=0), len(known)
    return np.sqrt(number * (number - 1) / np.maximum(counts * (counts - 1), 1))


def pair_contributions(table: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns each question's contribution to the difference between two terms: [questions, pairs], and the pairs.

    Omits pairs that have no question in common.
    """
    first, second = np.triu_indices(table.shape[1], 1)
    differences = table[:, first] - table[:, second]
    kept = (~np.isnan(differences)).any(axis=0)
    return _completed(differences[:, kept]), np.stack([first, second], axis=1)[kept]


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
    low, high = unseen_differences(np.array(value))
    return float(value - share * (value - low)), float(value + share * (high - value))


def unseen_differences(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns between which differences those in unseen questions are assumed to be, if all others are equal `values`.

    They are assumed to be at most as far from a value as the opposite difference is. If there is no difference, they
    can have any size. Decisions are from 0 to 1, so differences are from −1 to 1.
    """
    reach = np.where(np.abs(values) > ZERO, 2 * np.abs(values), 1.0)
    return np.maximum(values - reach, -1.0), np.minimum(values + reach, 1.0)


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
    step = max(_CHUNK // (number * terms + terms * terms), 1)
    largest = []
    for start in range(0, _NUM_DRAWS, step):
        made = draws.standard_normal((min(step, _NUM_DRAWS - start), number, len(root))) @ root
        means = made.mean(axis=1)
        made -= means[:, None]
        products = made.swapaxes(1, 2) @ made / (number * (number - 1))
        own = np.einsum("bii->bi", products)
        errors = own[:, first] + own[:, second] - 2 * products[:, first, second]
        largest.append((np.abs(means[:, first] - means[:, second]) / np.sqrt(errors)).max(axis=1))
    return np.concatenate(largest)


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


class NameGaps(NamedTuple):
    """The differences between groups of names.

    Attributes:
        groups: The names of the groups, sorted.
        means: The mean of each group (see `term_means`).
        compared: The indices of the groups that were compared.
        largest: The largest difference, or `None` if there is only one group.
        p_value: The smallest p-value of a pair of groups, adjusted for the number of pairs. `None` without an interval.
    """

    groups: list[str]
    means: np.ndarray
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
    p_values = [largest.gap.p_value for largest in gaps if largest.gap.p_value is not None]
    p_value = min(1.0, len(pairs) * min(p_values)) if p_values else None
    largest = max(gaps, key=lambda of_pair: of_pair.gap.value, default=None)
    return NameGaps(known, term_means(rates), compared, largest, p_value)


def _name_gap(
    one: int, other: int, members: Sequence[np.ndarray], rates: np.ndarray, reason: str | None, confidence_level: float
) -> LargestGap:
    """Compares two groups of names.

    `members` contains [questions, names] for each group, and `rates` their means: [questions, groups].
    """
    both = np.isfinite(rates[:, [one, other]]).all(axis=1)
    low, high = (one, other) if rates[both, one].mean() < rates[both, other].mean() else (other, one)
    rows = rates[both][:, [low, high]]
    rate, higher = rows.mean(axis=0).tolist()
    value, number = higher - rate, len(rows)
    ratio = DecisionEstimate(rate / higher if higher > 0 else np.nan, None, reason, None)
    largest = LargestGap(high, low, ratio._replace(value=value), (rate, higher), ratio)
    if reason is not None:
        return largest
    signed = [-members[low][both], members[high][both]]
    covariance, variance, freedom = sum_of_groups(signed)
    if math.sqrt(variance) < ZERO:
        sizes = [of_group.shape[1] for of_group in signed]
        if value < ZERO:
            gap = constant_gap(value, min(number, *sizes), confidence_level)
        else:
            gap = _constant_gap_of_names(value, sizes, number, confidence_level)
        return largest._replace(gap=gap, ratio=ratio._replace(reason=SAME_ANSWERS))
    gap = t_interval(value, math.sqrt(variance), freedom, confidence_level)
    unsigned = scaled_to(covariance * [[1, -1], [-1, 1]], variance)
    return largest._replace(
        gap=gap, ratio=fieller_ratio(rows.mean(axis=0), unsigned, quantile(confidence_level, freedom))
    )


def _constant_gap_of_names(
    value: float, sizes: Sequence[int], number: int, confidence_level: float
) -> DecisionEstimate:
    """Returns the interval of a gap if the names of a group, and the questions, all have the same answers.

    Other names and questions may differ. If their shares were u, the chance that none of the n that were drawn differ
    is Π (1 − u)^n. A name of one of the two groups changes a gap half as much as the opposite answers of both. The
    interval contains all gaps whose shares have a chance of at least half of 1 − `confidence_level`.
    """
    numbers, weights = np.array([*sizes, number]), np.array([0.5, 0.5, 1.0])

    # Among shares with the same weighted sum, these have the highest chance.
    def kept(scale: float) -> np.ndarray:
        return np.minimum(scale * numbers / weights, 1.0)

    def chance(scale: float) -> float:
        return float(numbers @ np.log(kept(scale)))

    def unseen(scale: float) -> float:
        return float(weights @ (1 - kept(scale)))

    least, most = 1e-9, float((weights / numbers).max())
    bound = optimize.brentq(lambda scale: chance(scale) - math.log((1 - confidence_level) / 2), least, most)
    none = optimize.brentq(lambda scale: unseen(scale) - 0.5, least, most)  # where the interval reaches a gap of 0
    return DecisionEstimate(value, with_unseen(value, unseen(bound)), None, min(1.0, 2 * math.exp(chance(none))))


def sum_of_groups(members: Sequence[np.ndarray]) -> tuple[np.ndarray, float, float]:
    """Estimates the variance of the sum of groups' means, where questions and names are random.

    Few names may all be treated alike by chance. So a group's variance between names counts as at least half of the
    mean variance of all groups, and the degrees of freedom are then those of the other groups.

    Args:
        members: For each group, values with their sign: [questions, names]. Each question has a value of each group.

    Returns:
        The covariance matrix of the groups' means, the variance of their sum, and its degrees of freedom.
    """
    rates = np.stack([row_means(of_group) for of_group in members])
    number = rates.shape[1]
    covariance = np.cov(rates) / number
    over_questions = float(covariance.sum())
    sizes = np.array([group.shape[1] for group in members])
    centred = [group - rate[:, None] for group, rate in zip(members, rates, strict=True)]
    of_names = [row_means(group.T) for group in centred]
    variances = np.array([np.nanvar(means, ddof=1) for means in of_names])
    is_small = variances < variances.mean() / 2
    parts = np.maximum(variances, variances.mean() / 2) / sizes
    noise = over_questions**2 / (number - 1)
    noise += parts.sum() ** 2 / (sizes[~is_small].min() - 1) if is_small.any() else (parts**2 / (sizes - 1)).sum()
    for place, (group, means, size) in enumerate(zip(centred, of_names, sizes, strict=True)):
        singles = float(np.nanvar(group - means)) * number / (number - 1) * size / (size - 1)
        covariance[place, place] += max(parts[place] - singles / (number * size), 0.0)
    variance = max(float(covariance.sum()), float(parts.sum()))
    return covariance, variance, variance**2 / float(noise) if noise else math.inf
