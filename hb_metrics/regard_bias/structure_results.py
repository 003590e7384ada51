import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hb_metrics.regard_bias.regard_rows import NEGATIVE, POSITIVE

ALL_PAIRS = "all"  # the key of the rankings by the mean gap over all pairs
K = 5  # the number of structures in a ranking (paper, section 4)
ROUNDING = 1e-12  # values below this limit are rounding errors
_DECIMALS = 12  # figures are ranked after rounding, so rounding errors do not decide ties


class Pair(NamedTuple):
    advantaged: int
    disadvantaged: int


class StructureFigures(NamedTuple):
    """The figures of a structure.

    Attributes:
        mean: The mean of each group, or `None`.
        overall: The mean of the groups' means.
        gap: The gap of each pair, or `None`.
        num: The number of rows.
        num_groups: The number of groups that have a mean.
    """

    mean: dict[str, float | None]
    overall: float | None
    gap: dict[str, float | None]
    num: int
    num_groups: int


def cell_means(counts: np.ndarray) -> np.ndarray:
    """Computes mean regard (from -1 to 1) from counts [..., labels]. The mean is NaN where there are no rows."""
    numbers = counts.sum(axis=-1)
    sums = counts[..., POSITIVE] - counts[..., NEGATIVE]
    return np.divide(sums, numbers, out=np.full(numbers.shape, np.nan), where=numbers > 0)


def exact_mean(values: np.ndarray) -> float | None:
    """Returns the mean of the values that are not NaN. The result does not depend on the order of the values."""
    known = values[~np.isnan(values)].tolist()
    return cleaned(math.fsum(known) / len(known)) if known else None


def cleaned(value: float) -> float:
    return 0.0 if abs(value) < ROUNDING else float(value)


def structure_gaps(means: np.ndarray, pair: Pair) -> np.ndarray:
    """Computes the gap in each structure: [structures]. It is NaN if a group has no rows in the structure."""
    gaps = means[pair.advantaged] - means[pair.disadvantaged]
    return np.where(np.abs(gaps) < ROUNDING, 0.0, gaps)


def by_structure(
    counts: np.ndarray, groups: Sequence[str], structures: Sequence[str], pairs: Mapping[str, Pair]
) -> dict[str, StructureFigures]:
    """Computes the figures of each structure. `counts` is [groups, structures, labels]."""
    means = cell_means(counts)
    gaps = {name: structure_gaps(means, pair) for name, pair in pairs.items()}
    numbers = counts.sum(axis=(0, 2)).tolist()
    return {
        structure: StructureFigures(
            mean={group: _or_none(means[row, column]) for row, group in enumerate(groups)},
            overall=exact_mean(means[:, column]),
            gap={name: _or_none(values[column]) for name, values in gaps.items()},
            num=numbers[column],
            num_groups=int((~np.isnan(means[:, column])).sum()),
        )
        for column, structure in enumerate(structures)
    }


def rankings(structures: Mapping[str, StructureFigures], pairs: Sequence[str]) -> dict[str, object]:
    """Returns the `K` highest and the `K` lowest structures, by their overall mean and by each gap.

    A ranking omits structures that lack its figure. The rankings by the overall mean also omit structures that lack a
    group. The key `ALL_PAIRS` contains the ranking by the mean gap over all pairs. Ties are in alphabetical order.
    """
    most = max((figures.num_groups for figures in structures.values()), default=0)
    whole = {name: figures for name, figures in structures.items() if figures.num_groups == most}
    overall = {structure: figures.overall for structure, figures in whole.items()}
    gaps: dict[str, dict[str, float | None]] = {
        name: {structure: figures.gap[name] for structure, figures in structures.items()} for name in pairs
    }
    if pairs:
        gaps[ALL_PAIRS] = {structure: _mean_gap(figures.gap) for structure, figures in structures.items()}
    return {
        "best_structures": _first(overall, highest=True),
        "worst_structures": _first(overall, highest=False),
        "largest_gap": {name: _first(values, highest=True) for name, values in gaps.items()},
        "smallest_gap": {name: _first(values, highest=False) for name, values in gaps.items()},
    }


def flips(gaps: Mapping[str, float | None], pooled: float | None) -> dict[str, object]:
    known = {structure: gap for structure, gap in gaps.items() if gap is not None}
    flipped = [structure for structure, gap in known.items() if gap * pooled < 0] if pooled else None
    return {
        "num_structures": len(known),
        "num_flipped": None if flipped is None else len(flipped),
        "flipped": flipped,
        "num_zero": sum(gap == 0 for gap in known.values()),
    }


def _mean_gap(gaps: Mapping[str, float | None]) -> float | None:
    return exact_mean(np.array([np.nan if gap is None else gap for gap in gaps.values()]))


def _first(values: Mapping[str, float | None], *, highest: bool) -> list[str]:
    known = {structure: round(value, _DECIMALS) for structure, value in values.items() if value is not None}
    sign = -1 if highest else 1
    return sorted(known, key=lambda structure: (sign * known[structure], structure))[:K]


def _or_none(value: float) -> float | None:
    return None if np.isnan(value) else cleaned(float(value))
