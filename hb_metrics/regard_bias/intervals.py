"""Computes Student's t intervals for mean regard and for gaps, over structures, seeds or prompts.

A unit is a structure, a seed or a prompt. The rows of one unit are not independent, so whole units are treated as a
random sample. To first order, the mean of a group is a sum with one part per unit. The sum of the squared parts
estimates the variance of the mean (the CR2 estimate of Bell and McCaffrey, 2002). The estimate is unbiased if rows are
independent. If a unit occurs in both groups of a gap, its contribution is the difference of its two parts, so an effect
on both groups cancels out. Degrees of freedom follow Welch and Satterthwaite.

Student's t is valid for sums of many small parts, but not if a single text or a few units dominate the figure. The
interval is then replaced with a reason. It is also replaced if there are too few units to detect such dominance.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from hb_metrics.regard_bias.regard_rows import NEUTRAL, ROUNDING, SCORED, Column, Pair, RegardRows, cell_means

# The minimum number of units. With fewer units, their variance and skewness cannot be estimated reliably.
MIN_UNITS = 5
# The minimum standard error, in steps. A step is the smallest change in the figure when the label of one text changes.
# For a share p, this limit is the common rule that n·p·(1 − p) must be at least 6.
MIN_STEPS = 2.5
# The maximum skewness of the figure's distribution. With more skewness, the coverage of Student's t is too low.
MAX_SKEWNESS = 0.4
# A structure with a single seed or prompt does not show how much seeds or prompts differ. At least this share of a
# mean's variance must come from the other structures. The rest of the variance is extrapolated.
MIN_SEEN = 0.5


class Interval(NamedTuple):
    bounds: list[float] | None
    reason: str | None = None


class Parts(NamedTuple):
    """The parts that units contribute to the mean of one group.

    Attributes:
        units: [units] The code of each unit.
        values: [units] The part of each unit. The squares of these parts sum to the variance of the mean.
        step: The smallest possible change in the mean when the label of one text changes.
        share_seen: The share of the variance that comes from structures with several units.
    """

    units: np.ndarray
    values: np.ndarray
    step: float
    share_seen: float = 1.0


class UnitSpread(NamedTuple):
    """The variation of means over units of one kind, from which intervals are computed.

    `name` is "structures", "seeds" or "prompts". `groups` contains the parts of each group, or is empty if there are no
    such units.
    """

    name: str
    groups: list[Parts]
    confidence_level: float

    def of_mean(self, mean: float | None, group: int) -> Interval:
        if not self.groups:
            return Interval(None, f"no {self.name} are given")
        parts = self.groups[group]
        number = len(parts.units)
        return self._interval(mean, [parts], parts.values, number - 1, 1.0)

    def of_gap(self, gap: float | None, pair: Pair) -> Interval:
        if not self.groups:
            return Interval(None, f"no {self.name} are given")
        both = [self.groups[group] for group in pair]
        present, unit = np.unique(np.concatenate([parts.units for parts in both]), return_inverse=True)
        signed = np.concatenate([both[0].values, -both[1].values])
        return self._interval(gap, both, np.bincount(unit, signed, len(present)), _gap_freedom(*both), 2.0)

    def _interval(
        self, value: float | None, groups: list[Parts], parts: np.ndarray, freedom: float, limit: float
    ) -> Interval:
        if value is None:
            return Interval(None, "no text is labelled negative, neutral or positive")
        number = min(len(group.units) for group in groups)
        unit = self.name[:-1]
        units = self.name if number != 1 else unit
        if number < MIN_UNITS:
            return Interval(None, f"only {number} {units}, and an interval needs at least {MIN_UNITS}")
        if min(group.share_seen for group in groups) < MIN_SEEN:
            return Interval(None, f"too many structures have texts from only one {unit}")
        error = math.sqrt(math.fsum(parts**2))
        if error < ROUNDING:
            reason = f"all {number} {units} have the same figure, so it is unknown how much other {units} would differ"
            return Interval(None, reason)
        # `ROUNDING` is added to the limits, because a value exactly at a limit is allowed.
        if error < (MIN_STEPS - ROUNDING) * max(group.step for group in groups):
            return Interval(None, "so few texts differ from the rest that a single text has too much influence")
        if abs(math.fsum((parts / error) ** 3)) > MAX_SKEWNESS + ROUNDING:
            return Interval(None, f"a few of the {number} {units} account for most of the variation; pass more {units}")
        half = float(stdtrit(freedom, (1 + self.confidence_level) / 2)) * error
        return Interval([max(value - half, -limit), min(value + half, limit)])


def spread_over_structures(counts: np.ndarray, confidence_level: float) -> UnitSpread:
    """Computes the variation of means over structures, which all have the same weight."""
    groups = []
    for means, of_labels in zip(cell_means(counts), counts.sum(axis=1), strict=True):
        units = np.flatnonzero(~np.isnan(means))
        known = means[units]
        centred = known - math.fsum(known) / max(len(known), 1)
        groups.append(Parts(units, centred / math.sqrt(max(len(known) * (len(known) - 1), 1)), _step(of_labels)))
    return UnitSpread("structures", groups, confidence_level)


def spread_over_units(rows: RegardRows, units: Column | None, name: str, confidence_level: float) -> UnitSpread:
    """Computes the variation of means over seeds or prompts, for fixed structures.

    No row may have the label "other".
    """
    if units is None:
        return UnitSpread(name, [], confidence_level)
    group, score = rows.group.codes, rows.label - NEUTRAL
    structure = np.zeros_like(group) if rows.structure is None else rows.structure.codes
    num_structures, num_units = int(structure.max(initial=0)) + 1, len(units.names)
    # Rows with the same group, structure and unit are one entry.
    keys, entry_of = np.unique((group * num_structures + structure) * num_units + units.codes, return_inverse=True)
    sizes = np.bincount(entry_of, minlength=len(keys))
    sums = np.bincount(entry_of, weights=score, minlength=len(keys))
    cells, cell_of = np.unique(keys // num_units, return_inverse=True)
    cell_sizes = np.bincount(cell_of, weights=sizes, minlength=len(cells))[cell_of]
    cell_sums = np.bincount(cell_of, weights=sums, minlength=len(cells))[cell_of]
    num_cells = np.bincount(cells // num_structures, minlength=len(rows.group.names))
    group_of, unit_of = keys // num_units // num_structures, keys % num_units
    # The distance by which an entry moves the mean of the group. The division corrects for the entry's own part in its
    # cell's mean.
    is_seen = sizes < cell_sizes
    residuals = (sums - sizes * (cell_sums / cell_sizes)) / (cell_sizes * num_cells[group_of])
    residuals = np.divide(residuals, np.sqrt(1 - sizes / cell_sizes), out=np.zeros(len(keys)), where=is_seen)
    # If rows are independent, an entry's part of the variance of the cell's mean is proportional to its number of rows.
    variances = sizes / cell_sizes**2
    num_groups = len(rows.group.names)
    labels = np.bincount(group * len(SCORED) + score + NEUTRAL, minlength=num_groups * len(SCORED))
    starts = np.searchsorted(group_of, np.arange(num_groups + 1))
    groups = []
    for index in range(num_groups):
        entries = slice(starts[index], starts[index + 1])
        present, of_unit = np.unique(unit_of[entries], return_inverse=True)
        total, seen = math.fsum(variances[entries]), math.fsum(variances[entries][is_seen[entries]])
        values = np.bincount(of_unit, residuals[entries], len(present)) / math.sqrt(seen / total if seen else 1.0)
        step = _step(labels[index * len(SCORED) : (index + 1) * len(SCORED)])
        groups.append(Parts(present, values, step, seen / total if total else 1.0))
    return UnitSpread(name, groups, confidence_level)


def _step(of_labels: np.ndarray) -> float:
    """Returns the smallest change in a mean when one label changes: 1 (2 if no text is neutral) / (number of texts)."""
    number = of_labels.sum()
    return float((1 if of_labels[NEUTRAL] else 2) / number) if number else 0.0


def _gap_freedom(first: Parts, second: Parts) -> float:
    """Computes Satterthwaite's degrees of freedom for the variance of a gap.

    The variance of each mean is a quadratic form of the units: V / (n - 1) times the projection that subtracts the mean
    over the group's n units. The trace of the product of the two projections accounts for units in both groups.
    """
    sizes = len(first.units), len(second.units)
    if min(sizes) < MIN_UNITS:
        return math.nan  # NaN means that there is no interval
    shared = len(np.intersect1d(first.units, second.units, assume_unique=True))
    in_common = shared - shared / sizes[0] - shared / sizes[1] + shared**2 / (sizes[0] * sizes[1])
    a, b = (math.fsum(parts.values**2) / (size - 1) for parts, size in zip((first, second), sizes, strict=True))
    squares = a**2 * (sizes[0] - 1) + b**2 * (sizes[1] - 1) + 2 * a * b * in_common
    return (a * (sizes[0] - 1) + b * (sizes[1] - 1)) ** 2 / squares if squares else math.nan
