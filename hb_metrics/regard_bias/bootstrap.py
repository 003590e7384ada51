"""Percentile intervals by the bootstrap over structures, seeds or prompts.

What is drawn with replacement are whole structures (seeds, prompts), the same for all groups: rows of one structure are
no independent draws. A draw is a weight for each, and the figures are worked out from counts of cells.
"""

from typing import NamedTuple

import numpy as np

from .cell_means import ROUNDING, cell_means
from .regard_rows import NEUTRAL, SCORED, Column, RegardRows

# Each kind of draw has random numbers of its own.
STRUCTURE_DRAWS, SEED_DRAWS, PROMPT_DRAWS, SAMPLE_DRAWS, HALF_DRAWS, SHUFFLE_DRAWS = range(6)

Interval = list[float] | None


class Sampling(NamedTuple):
    """How to draw.

    Attributes:
        n_resamples: How many times; 0: no intervals.
        confidence_level: Of the intervals.
        seed: Of the draws.
    """

    n_resamples: int
    confidence_level: float
    seed: int


class Resamples(NamedTuple):
    """Group means of each resample.

    Attributes:
        means: [resamples, groups]; NaN where a group has no row in a resample.
        confidence_level: Of the intervals.
    """

    means: np.ndarray
    confidence_level: float

    def of_group(self, group: int) -> Interval:
        """Interval of the mean of a group."""
        return percentile_interval(self.means[:, group], self.confidence_level)

    def of_gap(self, advantaged: int, disadvantaged: int) -> Interval:
        """Interval of the gap between two groups."""
        return percentile_interval(self.means[:, advantaged] - self.means[:, disadvantaged], self.confidence_level)

    def num_undefined(self) -> int:
        """Resamples in which some group that has rows has none."""
        undefined = np.isnan(self.means)
        return int(undefined[:, ~undefined.all(axis=0)].any(axis=1).sum())


def generator(seed: int, draws: int) -> np.random.Generator:
    """Random numbers of one kind of draws."""
    return np.random.default_rng([seed, draws])


def by_content(counts: np.ndarray) -> np.ndarray:
    """Order of structures, or what else is drawn, by what they hold, so that no name decides about a draw.

    Args:
        counts: [groups, units, labels].

    Returns:
        [units] places. First by totals over the groups, so that groups' names decide but where these are equal.
    """
    totals = counts.sum(axis=0)
    keys = np.concatenate([totals, *counts], axis=1)
    return np.lexsort(keys.T[::-1])


def resample_structures(counts: np.ndarray, sampling: Sampling) -> Resamples | None:
    """Draws structures.

    Args:
        counts: [groups, structures, labels].
        sampling: How to draw.

    Returns:
        Group means over the structures drawn; `None` with fewer than two structures, or no resamples.
    """
    number = counts.shape[1]
    if number < 2 or not sampling.n_resamples:
        return None
    means = cell_means(counts[:, by_content(counts)])
    weights = _weights(generator(sampling.seed, STRUCTURE_DRAWS), number, sampling.n_resamples)
    return Resamples(weighted_means(weights, means), sampling.confidence_level)


def weighted_means(weights: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Means over structures, each with a weight; what is NaN is left out.

    Args:
        weights: [times, structures].
        means: [groups, structures].

    Returns:
        [times, groups]; NaN where all weights are 0. By einsum, not BLAS, whose threads would round differently.
    """
    is_known = ~np.isnan(means)
    weights = weights.astype(float)
    sums = np.einsum("ts,gs->tg", weights, np.where(is_known, means, 0.0))
    totals = np.einsum("ts,gs->tg", weights, is_known.astype(float))
    return np.divide(sums, totals, out=np.full(sums.shape, np.nan), where=totals > 0)


def resample_units(rows: RegardRows, units: Column | None, sampling: Sampling, draws: int) -> Resamples | None:
    """Draws seeds, or prompts: those of a column.

    One that stands in several groups (as seeds do) is drawn for all of them at once; where each belongs to one group
    (as prompts that name it), each group's are drawn among themselves.

    Args:
        rows: The rows.
        units: Which seed or prompt each row is of; `None`: not known.
        sampling: How to draw.
        draws: Which kind of draws.

    Returns:
        Group means over the rows drawn, every structure with the same weight; `None` with fewer than two to draw from
        (in some group, where each belongs to one), or no resamples.
    """
    if units is None or not sampling.n_resamples:
        return None
    is_scored = rows.label < len(SCORED)
    if not is_scored.any():
        return None
    group, score = rows.group.codes[is_scored], rows.label[is_scored] - NEUTRAL
    structure = np.zeros_like(group) if rows.structure is None else rows.structure.codes[is_scored]
    present, unit = np.unique(units.codes[is_scored], return_inverse=True)
    drawn_together = _drawn_together(group, unit, score)
    if min(map(len, drawn_together)) < 2:
        return None
    random = generator(sampling.seed, draws)
    weights = np.zeros((sampling.n_resamples, len(present)))
    for together in drawn_together:
        weights[:, together] = _weights(random, len(together), sampling.n_resamples)

    # Rows of the same group, structure and unit are one entry.
    shape = len(rows.group.names), int(structure.max()) + 1, len(present)
    entries, entry_of = np.unique(np.ravel_multi_index((group, structure, unit), shape), return_inverse=True)
    numbers, sums = np.bincount(entry_of), np.bincount(entry_of, weights=score)
    cell_of, unit_of = np.divmod(entries, shape[2])
    means = np.empty((sampling.n_resamples, shape[0]))
    for place in range(sampling.n_resamples):
        times = weights[place, unit_of]
        totals = np.bincount(cell_of, weights=times * numbers, minlength=shape[0] * shape[1]).reshape(shape[:2])
        cell_sums = np.bincount(cell_of, weights=times * sums, minlength=shape[0] * shape[1]).reshape(shape[:2])
        of_cells = np.divide(cell_sums, totals, out=np.zeros(shape[:2]), where=totals > 0).sum(axis=1)
        num_cells = (totals > 0).sum(axis=1)
        means[place] = np.divide(of_cells, num_cells, out=np.full(shape[0], np.nan), where=num_cells > 0)
    return Resamples(means, sampling.confidence_level)


def _drawn_together(group: np.ndarray, unit: np.ndarray, score: np.ndarray) -> list[np.ndarray]:
    """The units in one array, or in one for each group where each belongs to one group; in the order of their content.

    All arguments are [rows].
    """
    members = np.unique(np.stack([group, unit]), axis=1)  # [2, places]: each unit of each group
    is_shared = len(np.unique(members[1])) < members.shape[1]
    # What belongs to one group has all its rows there: groups need not be told apart, and there may be many.
    rows_of = group if is_shared else np.zeros_like(group)
    shape = int(rows_of.max()) + 1, int(unit.max()) + 1, len(SCORED)
    cells = np.ravel_multi_index((rows_of, unit, score + NEUTRAL), shape)
    order = by_content(np.bincount(cells, minlength=int(np.prod(shape))).reshape(shape))
    if is_shared:
        return [order]
    group_of = members[0][np.argsort(members[1])]  # of each unit
    return [order[group_of[order] == one] for one in np.unique(group_of)]


def percentile_interval(values: np.ndarray, confidence_level: float) -> Interval:
    """[lowest, highest] of the middle `confidence_level` of the values that are not NaN; `None` where all are."""
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    known = np.where(np.abs(known) < ROUNDING, 0.0, known)
    tail = (1 - confidence_level) / 2
    return np.quantile(known, [tail, 1 - tail]).tolist()


def _weights(random: np.random.Generator, number: int, n_resamples: int) -> np.ndarray:
    """[resamples, number] how many times each is drawn."""
    return random.multinomial(number, np.full(number, 1 / number), size=n_resamples)
