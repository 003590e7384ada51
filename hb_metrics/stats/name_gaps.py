"""Compares groups of names, where questions and names are random. Names are draws from the names of their group."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize

from hb_metrics.stats.clusters import quantile
from hb_metrics.stats.decisions import (
    SAME_ANSWERS,
    ZERO,
    DecisionEstimate,
    LargestGap,
    constant_gap,
    fieller_ratio,
    scaled_to,
    t_interval,
    with_unseen,
)
from hb_metrics.stats.question_tables import compared_terms, pair_means, row_means, term_means

MIN_NAMES = 4
_LEAST_FREEDOM = 0.5
FEW_NAMES = f"fewer than two groups have {MIN_NAMES} names with answers"


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
    rate, higher = pair_means(rows).tolist()
    value, number = float((rows[:, 1] - rows[:, 0]).mean()), len(rows)
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
        gap=gap, ratio=fieller_ratio(np.array([rate, higher]), unsigned, quantile(confidence_level, freedom))
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
    effective = np.array([_effective_number(group) for group in members])
    centred = [group - rate[:, None] for group, rate in zip(members, rates, strict=True)]
    of_names = [row_means(group.T) for group in centred]
    variances = np.array([np.nanvar(means, ddof=1) for means in of_names])
    is_small = variances < variances.mean() / 2
    parts = np.maximum(variances, variances.mean() / 2) / effective
    freedoms = np.maximum(effective - 1, _LEAST_FREEDOM)
    noise = over_questions**2 / (number - 1)
    noise += parts.sum() ** 2 / freedoms[~is_small].min() if is_small.any() else (parts**2 / freedoms).sum()
    for place, (group, means, size) in enumerate(zip(centred, of_names, sizes, strict=True)):
        singles = float(np.nanvar(group - means)) * number / (number - 1) * size / (size - 1)
        covariance[place, place] += max(parts[place] - singles / (number * size), 0.0)
    variance = max(float(covariance.sum()), float(parts.sum()))
    return covariance, variance, variance**2 / float(noise) if noise else math.inf


def more_questions(
    table: np.ndarray, groups: Sequence[str], rows: np.ndarray, scale: float, draws: np.random.Generator
) -> np.ndarray:
    """Draws questions again, with new single answers, to predict intervals from more questions.

    A question that is drawn twice would have the same single answers twice, so their noise would count as variance
    between names. Therefore, in each drawn question, the residuals of a group's names change places. The names' effects
    shrink to the variance that the noise of single answers does not explain, over all groups. Few names and questions
    estimate this variance poorly.

    Args:
        table: [questions, names] NaN marks a missing value.
        groups: [names] The group of each name.
        rows: The indices of the drawn questions.
        scale: The factor by which half-widths are multiplied later. It is not needed for the effects of names.
        draws: The source of the random order.
    """
    drawn = table[rows]
    answered, of_group, explained, total = ~np.isnan(table).all(axis=0), [], 0.0, 0.0
    for group in sorted(set(groups)):
        names = np.flatnonzero(np.array([one == group for one in groups]) & answered)
        centred = table[:, names] - row_means(table[:, names])[:, None]
        effects, known = row_means(centred.T), ~np.isnan(centred)
        residuals = centred - effects
        of_group.append((names, effects, residuals))
        freedom = known.sum() - known.any(axis=1).sum() - len(names) + 1
        if freedom > 0:
            single = np.nansum(residuals**2) / freedom
            explained += float((single / known.sum(axis=0)).mean())
            total += float(effects.var(ddof=1))
    kept = math.sqrt(max(1 - explained / total, 0.0)) / scale if total else 0.0
    for names, effects, residuals in of_group:
        old = residuals[rows]
        order = np.argsort(np.where(np.isnan(old), np.inf, draws.random(old.shape)), axis=1)  # missing values are last
        places = np.argsort(np.isnan(old), axis=1, kind="stable")
        new = np.empty_like(old)
        np.put_along_axis(new, places, np.take_along_axis(old, order, axis=1), axis=1)
        drawn[:, names] += new - old + (kept - 1) * effects
    return drawn


def _effective_number(group: np.ndarray) -> float:
    """Returns the number of names with equal weights that would vary as much: [questions, names].

    A question's mean is over the names with answers to it, so a name with many answers has a greater weight.
    """
    known = ~np.isnan(group)
    weights = (known / known.sum(axis=1, keepdims=True)).mean(axis=0)
    return float(1 / (weights**2).sum())
