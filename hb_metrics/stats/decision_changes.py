"""Computes changes in decisions between two runs, paired by question. docs/decisions.md describes the intervals."""

import math
from collections.abc import Mapping, Sequence
from itertools import permutations, product

import numpy as np
from scipy import stats

from hb_metrics.stats.changes import PairedChange
from hb_metrics.stats.decisions import ZERO, is_constant, standard_errors, unseen_share
from hb_metrics.stats.name_gaps import name_gaps, sum_of_groups
from hb_metrics.stats.question_tables import compared_terms, pair_contributions, row_means
from hb_metrics.stats.term_spread import largest_spread, shortened, spread_between, spread_rows, trace_of_product

_Tables = Sequence[np.ndarray]
_Members = Mapping[int, np.ndarray]  # of each group of names, [questions, names]


def spread_change(before: _Tables, after: _Tables, level: float, *, seed: int) -> PairedChange | None:
    """Computes the change in the spread between terms. Returns `None` if there are too few answers for a spread.

    `before` and `after` contain [questions, terms] for each axis, with the same missing values (NaN). The interval
    combines the intervals of both spreads with the correlation of their estimates (MOVER). This assumes symmetric
    errors. If a lower end is 0, or the answers to all questions are the same, the change ends at the
    difference between the ends.
    """
    first, second = (spread_between(tables, level, seed=seed) for tables in (before, after))
    if math.isnan(first.value) or math.isnan(second.value):
        return None
    if first.interval is None or second.interval is None:
        return PairedChange(first.value, second.value, None, None, first.reason or second.reason)
    rows, others = (spread_rows(tables)[0] for tables in (before, after))
    change, ((low, high), (other_low, other_high)) = second.value - first.value, (first.interval, second.interval)
    if np.allclose(rows, others, atol=1e-12):
        reach = 2 * unseen_share(len(rows), level) * largest_spread(before)
        bounds = max(other_low - high, -reach), min(other_high - low, reach)
        return PairedChange(first.value, second.value, bounds, None, None)
    lowest, highest = other_low - high, other_high - low
    if not (is_constant(rows) or is_constant(others)):
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
    number, parts = len(rows), (shortened(rows), shortened(others))
    means = [part.mean(axis=0) for part in parts]
    residuals = [part - mean for part, mean in zip(parts, means, strict=True)]
    along = np.cov(residuals[0] @ means[0], residuals[1] @ means[1])[0, 1]
    return float(4 * along / number + 2 * trace_of_product(*residuals) / (number * (number - 1)))


def largest_gap_change(before: _Tables, after: _Tables, level: float) -> PairedChange | None:
    """Computes the change in the largest gap between two terms of an axis. Returns `None` if there are no two terms.

    `before` and `after` contain [questions, terms] for each axis, with the same missing values (NaN).

    With g_p and h_q, the gaps of pairs of terms before and after, the largest gap is max h − max g. For the pair p that
    has the largest gap after, this is at most h_p − g_q for any pair q. The upper end is therefore the largest upper
    bound of h_p − g_q over all p, and the smallest one over q: the pair with the largest gap before, the pair p, or no
    pair at all (a largest gap is never below 0). In the bound, the error of g_q is multiplied by the quantile of all
    pairs (Bonferroni), because q was chosen, and the error of h_p by that of a single pair. The lower end is the same
    with the runs exchanged.
    """
    chosen = [(*compared_terms(table), table, other) for table, other in zip(before, after, strict=True)]
    axes = [(reason, table[:, terms], other[:, terms]) for terms, reason, table, other in chosen if len(terms) > 1]
    if not axes:
        return None
    fault = next((reason for reason, *_ in axes if reason is not None), None)
    # Axes with enough answers take precedence, as in the largest gap of a run.
    _, *tables = zip(*([axis for axis in axes if axis[0] is None] or axes), strict=True)
    rows, others = (np.concatenate([pair_contributions(table)[0] for table in of_run], axis=1) for of_run in tables)
    if not rows.shape[1]:
        return None
    first, second = (float(np.abs(of_run.mean(axis=0)).max()) for of_run in (rows, others))
    if fault is not None:
        return PairedChange(first, second, None, None, fault)
    known = [(~np.isnan(table)).astype(np.int64) for table in tables[0]]
    number = min(int((of_axis.T @ of_axis).min()) for of_axis in known)
    # What the questions may not have shown of runs in which the answers to all of them are the same.
    slack = is_constant(rows) * (1 + first) + is_constant(others) * (1 + second)
    high = min(_highest_change(rows, others, number, slack, level), 1.0)
    low = -min(_highest_change(others, rows, number, slack, level), 1.0)
    return PairedChange(first, second, (low, high), None, None)


def _highest_change(before: np.ndarray, after: np.ndarray, number: int, slack: float, level: float) -> float:
    """Returns the upper end of the change: `before` and `after` contain [questions, pairs]."""
    tail = (1 - level) / 2
    single, every = stats.t.ppf([1 - tail, 1 - tail / before.shape[1]], number - 1)
    unseen = unseen_share(number, level)
    before, after = (np.concatenate([rows, -rows], axis=1) for rows in (before, after))
    best, bounds = before[:, [np.argmax(before.mean(axis=0))]], []
    for others, weight, reach in ((best, single, 2), (before, single, 2), (before, every, 2), (0 * best, single, 1)):
        known = (after - others).mean(axis=0)
        errors = standard_errors(weight * after - every * others) + unseen * slack
        bounds.append(known + (unseen * (reach - known) if is_constant(after - others) else errors))
    return float(np.min(bounds, axis=0).max())


def name_gap_change(before: np.ndarray, after: np.ndarray, groups: Sequence[str], level: float) -> PairedChange | None:
    """Computes the change in the largest gap between two groups of names, as `largest_gap_change` does for terms.

    `before` and `after` contain [questions, names], with the same missing values (NaN).
    """
    gaps = [name_gaps(table, groups, level) for table in (before, after)]
    largest = [of_run.largest for of_run in gaps if of_run.largest is not None]
    if len(largest) < 2:
        return None
    first, second = (of_run.gap.value for of_run in largest)
    if largest[0].gap.reason is not None:
        return PairedChange(first, second, None, None, largest[0].gap.reason)
    answered = ~np.isnan(before).all(axis=0)
    columns = {group: np.equal(groups, gaps[0].groups[group]) & answered for group in gaps[0].compared}
    runs = [{group: table[:, of_group] for group, of_group in columns.items()} for table in (before, after)]
    is_same = [all(np.nanmax(table) - np.nanmin(table) < ZERO for table in run.values()) for run in runs]
    slack = is_same[0] * (1 + first) + is_same[1] * (1 + second)
    best = [(of_run.high, of_run.low) for of_run in largest]
    high = min(_highest_change_of_names(runs[0], runs[1], best[0], slack, level), 1.0)
    low = -min(_highest_change_of_names(runs[1], runs[0], best[1], slack, level), 1.0)
    return PairedChange(first, second, (low, high), None, None)


def _highest_change_of_names(
    before: _Members, after: _Members, best: tuple[int, ...], slack: float, level: float
) -> float:
    """Returns the upper end of the change."""
    pairs, tail, bounds = list(permutations(after, 2)), (1 - level) / 2, []
    for pair, other in product(pairs, (best, None, ())):
        other = pair if other is None else other
        tables = _summands(before, after, other, pair, (1, 1))
        _, variance, freedom = sum_of_groups(tables)
        known = sum(float(row_means(table).mean()) for table in tables)
        unseen = unseen_share(min(min(table.shape) for table in tables), level)
        if math.sqrt(variance) < ZERO:
            bounds.append(known + unseen * ((2 if other else 1) - known))
            continue
        single, every = stats.t.ppf([1 - tail, 1 - 2 * tail / len(pairs)], freedom)
        _, variance, _ = sum_of_groups(_summands(before, after, other, pair, (every, single)))
        bounds.append(known + math.sqrt(variance) + unseen * slack)
    return float(np.min(np.reshape(bounds, (len(pairs), -1)), axis=1).max())


def _summands(
    before: _Members, after: _Members, other: tuple[int, ...], pair: tuple[int, ...], weights: tuple[float, float]
) -> list[np.ndarray]:
    """Returns a table for each group. Their means sum up to the gap of `pair` after minus that of `other` before."""
    tables: dict[int, np.ndarray] = {}
    for run, chosen, weight in ((before, other, -weights[0]), (after, pair, weights[1])):
        for group, signed in zip(chosen, (weight, -weight), strict=False):
            tables[group] = tables.get(group, np.zeros_like(run[group])) + signed * run[group]
    known = np.all([np.isfinite(table).any(axis=1) for table in tables.values()], axis=0)
    return [table[known] for table in tables.values()]
