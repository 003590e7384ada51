"""What figures of single structures would be if structures made no difference.

A single structure has few rows, so that its figures differ from those of others by chance alone. How much: the rows of
each group are dealt out anew among the structures, as many to each as it had, many times over. The paper has no such
baseline; without it, a low cosine between single structures says as little as a gap that some of them turn.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from .cell_means import cell_means, cleaned
from .draws import SHUFFLE_DRAWS, by_content, generator, middle_range
from .regard_rows import SCORED
from .robustness import pairwise_cosine
from .structure_figures import Pair, structure_gaps


def by_chance(counts: np.ndarray, pairs: Mapping[str, Pair], *, n_shuffles: int, seed: int) -> dict[str, Any]:
    """Cosines of single structures and flips, with the rows of each group dealt out anew.

    Args:
        counts: [groups, structures, labels].
        pairs: Name → pair.
        n_shuffles: How many times.
        seed: Of the shuffles.

    Returns:
        single_structures: the mean of the mean cosine, and single_structures_range, the middle 95 % of it;
        num_flipped: pair → mean number of structures whose gap has the other sign than the mean of that shuffle;
        n_shuffles. `None` where undefined, or without shuffles.
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
