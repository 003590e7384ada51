"""How similar the group means of single structures are, and those of random halves of all structures (paper, 7)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from hb_metrics.regard_bias.cell_means import ROUNDING, cell_means, cleaned
from hb_metrics.regard_bias.draws import HALF_DRAWS, SAMPLE_DRAWS, by_content, generator, middle_range, weighted_means
from hb_metrics.regard_bias.structure_results import Pair
from hb_metrics.stats.inputs import is_whole

NUM_SAMPLED_ERROR = "num_sampled is {num_sampled!r}; give None (all), or a whole number from 2 to the {num} structures"


class Cosines(NamedTuple):
    """Cosines of pairs of vectors.

    Attributes:
        mean: Their mean; `None` if no pair has a cosine.
        num: Number of pairs with a cosine.
        num_undefined: Number of pairs without a cosine.
    """

    mean: float | None
    num: int
    num_undefined: int


def robustness(
    counts: np.ndarray, pairs: Mapping[str, Pair], *, n_halves: int, num_sampled: int | None, seed: int
) -> dict[str, Any]:
    """The paper's section 7: mean cosines between vectors of group means.

    Args:
        counts: [groups, structures, labels].
        pairs: Name → pair of groups; whether the halves agree in the sign of its gap is reported.
        n_halves: Number of random splits of the structures into two halves.
        num_sampled: Number of single structures to draw, 10 in the paper; `None`: all.
        seed: Seed of the draws.

    Returns:
        robustness, as in the results of `regard_bias`.

    Raises:
        ValueError: `num_sampled` is not a whole number from 2 to the number of structures.
    """
    number = counts.shape[1]
    if num_sampled is not None and not (is_whole(num_sampled) and 2 <= num_sampled <= number):
        raise ValueError(NUM_SAMPLED_ERROR.format(num_sampled=num_sampled, num=number))
    means = cell_means(counts[:, by_content(counts)])
    singles = means
    if num_sampled is not None:
        chosen = generator(seed, SAMPLE_DRAWS).choice(number, num_sampled, replace=False)
        singles = means[:, np.sort(chosen)]
    pairwise = pairwise_cosine(singles.T)
    first, second = _halves(means, n_halves if number > 1 else 0, seed)
    halves = _cosines(first, second)
    centred = _cosines(_centred(first), _centred(second))
    return {
        "single_structures": pairwise.mean,
        "num_pairs": pairwise.num,
        "num_undefined": pairwise.num_undefined,
        **_halves_figures(halves),
        "n_halves": len(first),
        "agreement": {name: _agreement(first, second, pair) for name, pair in pairs.items()},
        "centred": {
            "single_structures": pairwise_cosine(_centred(singles.T)).mean,
            **_halves_figures(centred),
        },
        "num_sampled": num_sampled,
    }


def _halves(means: np.ndarray, n_halves: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """[halves, groups] group means of each half; with an odd number of structures the second half has one more."""
    number = means.shape[1]
    in_first = np.tile(np.arange(number) < number // 2, (n_halves, 1))
    in_first = generator(seed, HALF_DRAWS).permuted(in_first, axis=1)
    return weighted_means(in_first, means), weighted_means(~in_first, means)


def _halves_figures(cosines: np.ndarray) -> dict[str, Any]:
    known = cosines[~np.isnan(cosines)]
    return {
        "random_halves": cleaned(known.mean()) if len(known) else None,
        "random_halves_range": middle_range(cosines),
        "num_undefined_halves": len(cosines) - len(known),
    }


def pairwise_cosine(vectors: np.ndarray) -> Cosines:
    """Mean cosine of all pairs of vectors [vectors, groups]; a vector that is 0 or lacks a group has no cosine."""
    lengths = _lengths(vectors)
    units = vectors[lengths > 0] / lengths[lengths > 0, None]
    num, num_all = (size * (size - 1) // 2 for size in (len(units), len(vectors)))
    # The square of the sum of unit vectors contains every pair twice, and every vector with itself.
    total = (np.square(units.sum(axis=0)).sum() - len(units)) / 2
    mean = cleaned(np.clip(total / num, -1, 1)) if num else None
    return Cosines(mean, num, num_all - num)


def _cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """[splits] cosine of the two vectors of each split, both [splits, groups]; NaN if one is 0 or lacks a group."""
    lengths = _lengths(first) * _lengths(second)
    products = np.where(lengths > 0, (first * second).sum(axis=1), 0.0)
    cosines = np.divide(products, lengths, out=np.full(len(first), np.nan), where=lengths > 0)
    return np.clip(cosines, -1, 1)


def _lengths(vectors: np.ndarray) -> np.ndarray:
    """[vectors] lengths; 0 if a vector is 0 except for rounding, or lacks a group."""
    lengths = np.sqrt(np.square(vectors).sum(axis=1))
    return np.where(lengths >= ROUNDING, lengths, 0.0)


def _centred(vectors: np.ndarray) -> np.ndarray:
    """The vectors without their mean over the groups, which all groups have in common."""
    return vectors - vectors.mean(axis=1, keepdims=True)


def _agreement(first: np.ndarray, second: np.ndarray, pair: Pair) -> float | None:
    """Share of splits in which the gap has the same sign in both halves; 0 counts as a third sign."""
    signs = []
    for half in (first, second):
        gaps = half[:, pair.advantaged] - half[:, pair.disadvantaged]
        signs.append(np.sign(np.where(np.abs(gaps) < ROUNDING, 0.0, gaps)))
    is_known = ~np.isnan(signs[0]) & ~np.isnan(signs[1])
    return float((signs[0] == signs[1])[is_known].mean()) if is_known.any() else None
