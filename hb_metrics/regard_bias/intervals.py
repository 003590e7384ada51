"""Computes intervals for mean regard and for gaps, over structures, seeds or prompts.

A unit is a structure, a seed or a prompt. The rows of one unit are not independent, so whole units are treated as a
random sample. To first order, the mean of a group is a sum with one influence per unit. If a unit occurs in both groups
of a gap, its influence is the difference of two, so an effect on both groups cancels out. Units of both groups, and
those of only one, are separate strata. `clusters.py` computes the interval from these influences.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hb_metrics.regard_bias.regard_rows import NEUTRAL, ROUNDING, Column, RegardRows, cell_means
from hb_metrics.stats.clusters import Interval, mean_bounds, uncertainty

# The minimum number of units. With fewer units, their variance and skewness cannot be estimated reliably.
MIN_UNITS = 5
# A structure with a single seed or prompt does not show how much seeds or prompts differ. At least this share of a
# mean's variance must come from the other structures. The rest of the variance is extrapolated.
MIN_SEEN = 0.5


class UnitSpread(NamedTuple):
    """The variation of means over units of one kind, from which intervals are computed.

    Attributes:
        name: "structures", "seeds" or "prompts".
        influences: [groups, units] The influence of each unit on the mean of each group, or NaN if the group lacks the
            unit. There are no units if the rows have no column for them.
        share_seen: [groups] The share of the variance that comes from structures with several units.
        confidence_level: The level of the intervals.
    """

    name: str
    influences: np.ndarray
    share_seen: np.ndarray
    confidence_level: float

    def interval(self, value: float | None, groups: Sequence[int]) -> Interval:
        """Computes the interval of the mean of a group, or of the first group's mean minus the second's."""
        influences = self.influences[list(groups)]
        known = ~np.isnan(influences)
        number, unit = int(known.sum(axis=1).min()), self.name[:-1]
        units = self.name if number != 1 else unit
        if not self.influences.size:
            return Interval(None, f"no {self.name} are given")
        if value is None:
            return Interval(None, "no text is labelled negative, neutral or positive")
        if number < MIN_UNITS:
            return Interval(None, f"only {number} {units}, and an interval needs at least {MIN_UNITS}")
        if self.share_seen[list(groups)].min() < MIN_SEEN:
            return Interval(None, f"too many structures have texts from only one {unit}")
        present = known.any(axis=0)
        first, *others = np.nan_to_num(influences[:, present])
        of_value = uncertainty(first - sum(others), known[:, present].sum(axis=0) + 2 * known[0, present])
        if of_value.variance < ROUNDING**2:
            reason = f"all {number} {units} have the same figure, so it is unknown how much other {units} would differ"
            return Interval(None, reason)
        low, high = mean_bounds(value, of_value, self.confidence_level)
        return Interval([max(low, -float(len(groups))), min(high, float(len(groups)))])


def spread_over_structures(rows: RegardRows, confidence_level: float) -> UnitSpread:
    """Computes the variation of means over structures, which all have the same weight."""
    if rows.structure is None:
        return spread_over_units(rows, None, "structures", confidence_level)
    means = cell_means(rows.counts())
    numbers = np.maximum((~np.isnan(means)).sum(axis=1, keepdims=True), 1)
    centres = np.nansum(means, axis=1, keepdims=True) / numbers
    return UnitSpread("structures", (means - centres) / numbers, np.ones(len(means)), confidence_level)


def spread_over_units(rows: RegardRows, units: Column | None, name: str, confidence_level: float) -> UnitSpread:
    """Computes the variation of means over seeds or prompts, for fixed structures.

    No row may have the label "other".
    """
    num_groups = len(rows.group.names)
    if units is None:
        return UnitSpread(name, np.zeros((num_groups, 0)), np.ones(num_groups), confidence_level)
    structure = np.zeros_like(units.codes) if rows.structure is None else rows.structure.codes
    shape = num_groups, int(structure.max(initial=0)) + 1, len(units.names)
    # Rows with the same group, structure and unit are one entry.
    entries = np.ravel_multi_index((rows.group.codes, structure, units.codes), shape)
    sizes, sums = (
        np.bincount(entries, weights, math.prod(shape)).reshape(shape) for weights in (None, rows.label - NEUTRAL)
    )
    in_cells = np.maximum(sizes.sum(axis=2, keepdims=True), 1)
    num_cells = np.maximum((sizes.sum(axis=2, keepdims=True) > 0).sum(axis=1, keepdims=True), 1)
    shares = sizes / in_cells
    is_seen = shares < 1
    # The distance by which an entry moves the mean of the group. The division corrects for the entry's own part in its
    # cell's mean.
    moves = (sums - shares * sums.sum(axis=2, keepdims=True)) / (in_cells * num_cells)
    moves = np.divide(moves, np.sqrt(1 - shares), out=np.zeros(shape), where=is_seen)
    # If rows are independent, an entry's part of the variance of the cell's mean is proportional to its number of rows.
    variances = shares / in_cells
    total, seen = variances.sum(axis=(1, 2)), np.where(is_seen, variances, 0).sum(axis=(1, 2))
    share_seen = np.divide(seen, total, out=np.ones(num_groups), where=total > 0)
    present = sizes.any(axis=1)
    numbers = np.maximum(present.sum(axis=1), 1)
    # `uncertainty` corrects for the number of units, which the division above has done already.
    factors = np.sqrt((1 - 1 / numbers) / np.where(share_seen > 0, share_seen, 1.0))
    influences = np.where(present, moves.sum(axis=1) * factors[:, None], np.nan)
    return UnitSpread(name, influences, share_seen, confidence_level)
