"""The figures of single structures as they would be if structures made no difference.

A single structure has few rows, so that its figures differ from those of others by chance alone. To estimate how much,
the rows of each group are shuffled among the structures many times; each structure keeps its number of rows. The paper
has no such baseline; without it, neither a low cosine between single structures nor a gap of the opposite sign in some
of them shows that structures make a difference.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from hb_metrics.regard_bias.cell_means import cell_means, cleaned
from hb_metrics.regard_bias.draws import SHUFFLE_DRAWS, by_content, generator, middle_range
from hb_metrics.regard_bias.regard_rows import SCORED
from hb_metrics.regard_bias.structure_cosines import pairwise_cosine
from hb_metrics.regard_bias.structure_results import Pair, structure_gaps


def by_chance(counts: np.ndarray, pairs: Mapping[str, Pair], *, n_shuffles: int, seed: int) -> dict[str, Any]:
    """Cosines of single structures and flips, with the rows of each group shuffled among the structures.

    Args:
        counts: [groups, structures, labels].
        pairs: Name → pair.
        n_shuffles: Number of shuffles.
        seed: Seed of the shuffles.

    Returns:
        single_structures: the mean of the mean cosine, and single_structures_range, the middle 95 % of it;
        num_flipped: pair → mean number of structures whose gap has the opposite sign of the gap over all structures in
        the same shuffle; n_shuffles. `None` if undefined, or without shuffles.
    """
    counts = counts[:, by_content(counts)]
    random = generator(seed, SHUFFLE_DRAWS)
    rows = _rows_of_groups(counts)
    cosines = np.full(n_shuffles, np.nan)
    num_flipped: dict[str, list[int]] = {name: [] for name in pairs}
    for shuffle in range(n_shuffles):
        shuffled = np.zeros_like(counts)
        for group, structures, labels in rows:
            np.add.at(shuffled[group], (structures, random.permutation(labels)), 1)
        means = cell_means(shuffled)
        cosine = pairwise_cosine(means.T).mean
        cosines[shuffle] = np.nan if cosine is None else cosine
        for name, pair in pairs.items():
            gaps = structure_gaps(means, pair)
            of_groups = [means[group][~np.isnan(means[group])] for group in pair]
            if all(map(len, of_groups)) and (pooled := cleaned(of_groups[0].mean() - of_groups[1].mean())):
                num_flipped[name].append(int((gaps * pooled < 0).sum()))
    known = cosines[~np.isnan(cosines)]
    return {
        "single_structures": cleaned(known.mean()) if len(known) else None,
        "single_structures_range": middle_range(cosines),
        "num_flipped": {name: float(np.mean(numbers)) if numbers else None for name, numbers in num_flipped.items()},
        "n_shuffles": n_shuffles,
    }


def _rows_of_groups(counts: np.ndarray) -> list[tuple[int, np.ndarray, np.ndarray]]:
    """Each group with the structures and the labels of its rows, in an order that does not depend on groups' names."""
    rows = []
    for group in by_content(counts.transpose(1, 0, 2)):
        cells = counts[group, :, : len(SCORED)]
        structures = np.repeat(np.arange(len(cells)), cells.sum(axis=1))
        labels = np.repeat(np.arange(len(SCORED)), cells.sum(axis=0))
        rows.append((int(group), structures, labels))
    return rows
