"""How alike the group means of single structures are, and those of random halves of all structures (paper, 7)."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .cell_means import ROUNDING, cell_means, cleaned
from .draws import HALF_DRAWS, SAMPLE_DRAWS, by_content, generator, middle_range, weighted_means
from .inputs import is_whole
from .structure_figures import Pair

NUM_SAMPLED_ERROR = "num_sampled is {num_sampled!r}; give None (all), or a whole number from 2 to the {num} structures"


class Cosines(NamedTuple):
    """The mean cosine of pairs of vectors, how many pairs have one, and how many have none."""

    mean: float | None
    num: int
    num_undefined: int


def robustness(
    counts: np.ndarray, pairs: Mapping[str, Pair], *, n_halves: int, num_sampled: int | None, seed: int
) -> dict[str, Any]:
    """The paper's section 7: mean cosines between vectors of group means.

    Args:
        counts: [groups, structures, labels].
        pairs: Name → pair of groups whose gap's sign the halves may agree in.
        n_halves: How many times to split the structures in two at random.
        num_sampled: How many single structures to draw, as the paper does (10); `None`: all.
        seed: Of the draws.

    Returns:
        What `regard_bias` says of robustness.

    Raises:
        ValueError: `num_sampled` is not a number from 2 to that of the structures.
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
    """[halves, groups] group means of either half; of an odd number of structures the second has one more."""
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
    """Mean cosine of all pairs of vectors, [vectors, groups]; those that are 0, or lack a group, have none."""
    lengths = _lengths(vectors)
    units = vectors[lengths > 0] / lengths[lengths > 0, None]
    num, every = (size * (size - 1) // 2 for size in (len(units), len(vectors)))
    # The square of the sum of unit vectors holds every pair twice, and each with itself.
    total = (np.square(units.sum(axis=0)).sum() - len(units)) / 2
    mean = cleaned(np.clip(total / num, -1, 1)) if num else None
    return Cosines(mean, num, every - num)


def _cosines(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """[times] cosine of the vectors of a row each, [times, groups]; NaN where one is 0 or lacks a group."""
    lengths = _lengths(first) * _lengths(second)
    products = np.where(lengths > 0, (first * second).sum(axis=1), 0.0)
    cosines = np.divide(products, lengths, out=np.full(len(first), np.nan), where=lengths > 0)
    return np.clip(cosines, -1, 1)


def _lengths(vectors: np.ndarray) -> np.ndarray:
    """[vectors] lengths; 0 where a vector is 0 but for rounding, or lacks a group."""
    lengths = np.sqrt(np.square(vectors).sum(axis=1))
    return np.where(lengths >= ROUNDING, lengths, 0.0)


def _centred(vectors: np.ndarray) -> np.ndarray:
    """Each vector without what all groups have in common: the mean over its groups."""
    return vectors - vectors.mean(axis=1, keepdims=True)


def _agreement(first: np.ndarray, second: np.ndarray, pair: Pair) -> float | None:
    """Share of splits in which the gap has the same sign in both halves (0 is a sign of its own)."""
    signs = []
    for half in (first, second):
        gaps = half[:, pair.advantaged] - half[:, pair.disadvantaged]
        signs.append(np.sign(np.where(np.abs(gaps) < ROUNDING, 0.0, gaps)))
    is_known = ~np.isnan(signs[0]) & ~np.isnan(signs[1])
    return float((signs[0] == signs[1])[is_known].mean()) if is_known.any() else None
