"""Computes changes in decisions between two runs, paired by question. docs/decisions.md describes the intervals."""

import math
from collections.abc import Mapping, Sequence
from itertools import permutations

import numpy as np
from scipy import stats

from hb_metrics.paired_changes.paired_change import PairedChange
from hb_metrics.stats import decisions
from hb_metrics.stats.decisions import ZERO, Estimate, row_means
from hb_metrics.stats.name_gaps import name_gaps, sum_of_groups


def spread_change(
    before: Sequence[np.ndarray], after: Sequence[np.ndarray], confidence_level: float, *, seed: int
) -> PairedChange | None:
    """Computes the change in the spread between terms. Returns `None` if there are too few answers for a spread.

    `before` and `after` contain [questions, terms] for each axis, with the same missing values (NaN). The interval
    combines the intervals of both spreads with the correlation of their estimates (MOVER, as in `clusters.py`). This
    assumes symmetric errors. If a lower end is 0, or the answers to all questions are the same, the change ends at the
    difference between the ends.
    """
    first, second = (decisions.spread_between(tables, confidence_level, seed=seed) for tables in (before, after))
    if math.isnan(first.value) or math.isnan(second.value):
        return None
    if first.interval is None or second.interval is None:
        return PairedChange(first.value, second.value, None, None, first.reason or second.reason)
    rows, others = (decisions.spread_rows(tables)[0] for tables in (before, after))
    change, ((low, high), (other_low, other_high)) = second.value - first.value, (first.interval, second.interval)
    if np.allclose(rows, others, atol=1e-12):
        reach = 2 * decisions.unseen_share(len(rows), confidence_level) * decisions.largest_spread(before)
        bounds = max(other_low - high, -reach), min(other_high - low, reach)
        return PairedChange(first.value, second.value, bounds, None, None)
    lowest, highest = other_low - high, other_high - low
    if not (decisions.is_constant(rows) or decisions.is_constant(others)):
        shared = _covariance(rows, others) / np.sqrt(_covariance(rows, rows) * _covariance(others, others))
        correlation = float(np.clip(shared, -1, 1))
        if other_low > 0:
            lowest = change - _joined(second.value - other_low, high - first.value, correlation)
        if low > 0:
            highest = change + _joined(other_high - second.value, first.value - low, correlation)
    return PairedChange(first.value, second.value, (lowest, highest), None, None)


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


def largest_gap_change(
    before: Sequence[np.ndarray], after: Sequence[np.ndarray], confidence_level: float
) -> PairedChange | None:
    """Computes the change in the largest gap between two terms of an axis. Returns `None` if there are no two terms.

    `before` and `after` contain [questions, terms] for each axis, with the same missing values (NaN).

    With g_p and h_q, the gaps of pairs of terms before and after, the largest gap is max h − max g. For the pair p that
    has the largest gap after, this is at most h_p − g_q for any pair q. The upper end is therefore the largest upper
    bound of h_p − g_q over all p, and the smallest one over q: the pair with the largest gap before, the pair p, or no
    pair at all (a largest gap is never below 0). In the bound, the error of g_q is multiplied by the quantile of all
    pairs (Bonferroni), because q was chosen, and the error of h_p by that of a single pair. The lower end is the same
    with the runs exchanged.
    """
    chosen = [(*decisions.compared_terms(table), table, other) for table, other in zip(before, after, strict=True)]
    axes = [(reason, table[:, terms], other[:, terms]) for terms, reason, table, other in chosen if len(terms) > 1]
    if not axes:
        return None
    reasons, *tables = zip(*axes, strict=True)
    rows, others = (
        np.concatenate([decisions.pair_contributions(table)[0] for table in of_run], axis=1) for of_run in tables
    )
    if not rows.shape[1]:
        return None
    first, second = (float(np.abs(of_run.mean(axis=0)).max()) for of_run in (rows, others))
    reason = next(filter(None, reasons), None)
    if reason is not None:
        return PairedChange(first, second, None, None, reason)
    known = [(~np.isnan(table)).astype(np.int64) for table in tables[0]]
    number = min(int((of_axis.T @ of_axis).min()) for of_axis in known)
    high = _highest_change(rows, others, number, confidence_level)
    bounds = -_highest_change(others, rows, number, confidence_level), high
    return PairedChange(first, second, bounds, None, None)


def _highest_change(before: np.ndarray, after: np.ndarray, number: int, confidence_level: float) -> float:
    """Returns the upper end of the change: `before` and `after` contain [questions, pairs].

    If answers are the same in all questions, the bounds allow for what `number` questions may not have shown.
    """
    tail = (1 - confidence_level) / 2
    single, every = stats.t.ppf([1 - tail, 1 - tail / before.shape[1]], number - 1)
    unseen = decisions.unseen_share(number, confidence_level)
    before, after = (np.concatenate([rows, -rows], axis=1) for rows in (before, after))
    best, means = before[:, [np.argmax(before.mean(axis=0))]], after.mean(axis=0)
    bounds = []
    for others, weight in ((best, single), (before, single), (before, every), (0 * best, single)):
        of_others = others.mean(axis=0)
        known, highest = means - of_others, decisions.unseen_differences(means)[1]
        lowest = decisions.unseen_differences(of_others)[0] if others.any() else of_others
        errors = decisions.standard_errors(weight * after - every * others)
        if decisions.is_constant(after - others):
            largest = highest - lowest if decisions.is_constant(after) else 2 if others.any() else 1
            errors = unseen * (largest - known)
        else:
            errors = errors + unseen * (decisions.is_constant(after) * (highest - means))
            errors = errors + unseen * (decisions.is_constant(before) * (of_others - lowest))
        bounds.append(known + errors)
    return float(np.min(bounds, axis=0).max())


def name_gap_change(
    before: np.ndarray, after: np.ndarray, groups: Sequence[str], confidence_level: float
) -> PairedChange | None:
    """Computes the change in the largest gap between two groups of names, as `largest_gap_change` does for terms.

    `before` and `after` contain [questions, names], with the same missing values (NaN).
    """
    first, second = (name_gaps(table, groups, confidence_level) for table in (before, after))
    if first.largest is None or second.largest is None:
        return None
    gaps = first.largest.gap.value, second.largest.gap.value
    if first.largest.gap.interval is None:
        return PairedChange(*gaps, None, None, first.largest.gap.reason)
    answered = ~np.isnan(before).all(axis=0)
    members = [
        {group: table[:, np.equal(groups, first.groups[group]) & answered] for group in first.compared}
        for table in (before, after)
    ]
    best = [(found.high, found.low) for found in (first.largest, second.largest)]
    high = _highest_change_of_names(members[0], members[1], best[0], confidence_level)
    low = -_highest_change_of_names(members[1], members[0], best[1], confidence_level)
    return PairedChange(*gaps, (low, high), None, None)


def _highest_change_of_names(
    before: Mapping[int, np.ndarray], after: Mapping[int, np.ndarray], best: tuple[int, int], confidence_level: float
) -> float:
    """Returns the upper end of the change: `before` and `after` contain [questions, names] for each group."""
    pairs, tail, bounds = list(permutations(after, 2)), (1 - confidence_level) / 2, []
    is_same = [all(np.nanmax(table) - np.nanmin(table) < ZERO for table in run.values()) for run in (before, after)]
    for pair in pairs:
        of_pair = []
        for other in (best, pair, None):
            tables = _weighted(before, after, other, pair, (1, 1))
            _, variance, freedom = sum_of_groups(tables)
            gap, gap_before = _gap(after, pair), _gap(before, other) if other else 0.0
            above = float(decisions.unseen_differences(np.array(gap))[1]) - gap
            below = gap_before - float(decisions.unseen_differences(np.array(gap_before))[0]) if other else 0.0
            known = sum(float(row_means(table).mean()) for table in tables)
            unseen = decisions.unseen_share(min(min(table.shape) for table in tables), confidence_level)
            if math.sqrt(variance) < ZERO:
                largest = above + below if all(is_same) else (1 if other is None else 2) - known
                of_pair.append(known + unseen * largest)
                continue
            single, every = stats.t.ppf([1 - tail, 1 - tail / (len(pairs) / 2)], freedom)
            _, variance, _ = sum_of_groups(_weighted(before, after, other, pair, (every, single)))
            unseen *= is_same[1] * above + is_same[0] * below
            of_pair.append(known + math.sqrt(variance) + unseen)
        bounds.append(min(of_pair))
    return max(bounds)


def _gap(members: Mapping[int, np.ndarray], pair: tuple[int, int]) -> float:
    high, low = (row_means(members[group]) for group in pair)
    return float(np.nanmean(high - low))


def _weighted(
    before: Mapping[int, np.ndarray],
    after: Mapping[int, np.ndarray],
    other: tuple[int, int] | None,
    pair: tuple[int, int],
    weights: tuple[float, float],
) -> list[np.ndarray]:
    """Returns the tables of groups whose means sum up to the gap of `pair` after minus that of `other` before."""
    factors = {group: [0.0, 0.0] for group in (*(other or ()), *pair)}
    for run, of_run in enumerate((other or (), pair)):
        for group, sign in zip(of_run, (2 * run - 1, 1 - 2 * run), strict=False):
            factors[group][run] = sign * weights[run]
    tables = [first * before[group] + second * after[group] for group, (first, second) in factors.items()]
    known = np.all([np.isfinite(table).any(axis=1) for table in tables], axis=0)
    return [table[known] for table in tables]


def gap_change(first: Estimate, second: Estimate, half_of_difference: Estimate) -> PairedChange:
    """Returns the change in a gap. `half_of_difference` is the gap in (second table − first table) / 2."""
    bounds = half_of_difference.interval
    interval = None if bounds is None else (2 * bounds[0], 2 * bounds[1])
    return PairedChange(first.value, second.value, interval, None, half_of_difference.reason)
