"""Estimates the covariance matrix of the debiased Gen Bias values of one run or two runs. docs/intervals.md derives it.

A cell is a descriptor in a template. Cell d has N_d replies in one run and M_d in the other, and n_d prompts have
replies in both. G_d is the covariance matrix of the two replies to such a prompt. m_d is the difference between the
cell's mean style vector and the mean of the template's other cells in one run, and l_d is this difference in the other
run. With D descriptors, c = 1 / (D − ddof), P = 1 − 1/D, and

    w_d = n_d / (N_d M_d)      q_d = n_d (n_d − 1) / (N_d (N_d − 1) M_d (M_d − 1)),

the template's debiased values are U-statistics with the covariance

    c² P² [ 4 Σ_d w_d m_d'G_dl_d  +  2 Σ_d q_d tr(G_dG_d')  +  2/(D − 1)² Σ_{d≠e} w_d w_e tr(G_dG_e') ].

The variance in one run is the covariance of the run with itself. Templates are independent.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

# The averages over different replies of a cell require this number of replies. A cell with fewer replies is assumed to
# be like the mean of the template's other cells.
MIN_REPLIES = 4
# Two replies to a prompt are the same if no probability differs by more than this number.
_SAME = 1e-4


class Paired(NamedTuple):
    """The replies of two runs to the same prompts of a template, or the replies of one run.

    Attributes:
        vectors: [runs, prompts, styles] The style vectors, sorted by cell.
        counts: [cells] The number of prompts.
    """

    vectors: np.ndarray
    counts: np.ndarray


class Covariance(NamedTuple):
    """The covariance matrix [runs, runs] of the values of a template in one run or two runs, or of their means.

    Attributes:
        linear_cells: [cells, runs, runs] The first sum, by cell. It contains twice the third sum as noise.
        plug_in_cells: [cells, runs, runs] The first sum with sample means in place of means. It contains more noise.
        pair_cells: [cells, runs, runs] The second sum, by cell.
        across: [runs, runs] The third sum.
        counts: [cells] The number of replies. Of two runs, the smaller one.
        lengths: The squared distance of a reply from its cell's mean in the first run, summed over replies.
        fourths: The sum of the squares of these distances.
        changed: The number of prompts whose replies differ between two runs, or which one run answered. Infinite for
            one run.
    """

    linear_cells: np.ndarray
    plug_in_cells: np.ndarray
    pair_cells: np.ndarray
    across: np.ndarray
    counts: np.ndarray
    lengths: float
    fourths: float
    changed: float

    @property
    def at_zero(self) -> np.ndarray:
        """Returns the matrix if the true values are 0."""
        return self.pair_cells.sum(axis=0) + self.across

    @property
    def linear(self) -> np.ndarray:
        """Returns the part that grows with the true values. It is unbiased, so its diagonal can be negative."""
        return self.linear_cells.sum(axis=0) - 2 * self.across

    @property
    def matrix(self) -> np.ndarray:
        return self.at_zero + self.linear

    @property
    def effective(self) -> float:
        """Returns the number of equally long distances from the cells' means that would be as uncertain."""
        return self.lengths**2 / self.fourths if self.fourths > 0 else 0.0

    def freedom(self, weights: Sequence[float] = (1.0,)) -> float:
        """Computes the degrees of freedom for the variance of a weighted sum of the values.

        If most replies are the same in both runs, the number of changed replies limits the degrees of freedom. An
        estimated variance of m normal numbers among many zeros has 2m/3.
        """
        own = stratum_freedom(self.linear_cells + self.pair_cells, self.counts, weights)
        return 1 / (1 / own + 1.5 / self.changed) if own and self.changed else 0.0


def stratum_freedom(parts: np.ndarray, counts: np.ndarray, weights: Sequence[float] = (1.0,)) -> float:
    """Computes the degrees of freedom of a sum over cells (Welch–Satterthwaite).

    Each cell is a stratum. The cells with too few replies are one stratum, because they share their moments.
    `parts` is [cells, runs, runs].
    """
    of_cells = np.maximum(parts @ weights @ weights, 0)
    full = counts >= MIN_REPLIES
    noise = np.sum(of_cells[full] ** 2 / (counts[full] - 1))
    noise += of_cells[~full].sum() ** 2 / max(np.count_nonzero(full) - 1, 1)
    return float(of_cells.sum() ** 2 / noise) if noise > 0 else 0.0


def groups_of(sizes: Mapping[str | None, int]) -> dict[str | None, slice]:
    """Returns the cells of each axis, and of all descriptors (`None`), in a template. Omits groups of one cell.

    `sizes` contains the number of cells on each axis. The cells are sorted by axis, in the same order.
    """
    groups: dict[str | None, slice] = {None: slice(0, sum(sizes.values()))}
    start = 0
    for axis, size in sizes.items():
        if axis is not None:
            groups[axis] = slice(start, start + size)
        start += size
    return {axis: members for axis, members in groups.items() if members.stop - members.start > 1}


def template_covariances(
    templates: Iterable[tuple[Mapping[str | None, int], Sequence[Paired]]],
    columns: Mapping[str, Sequence[int]],
    ddof: int = 0,
) -> dict[str | None, list[list[Covariance]]]:
    """Computes the covariance matrices of the Gen Bias values of each template.

    Args:
        templates: The number of cells on each axis, and the replies, sorted by axis: one run's replies, or the first
            run's replies, the replies to prompts that both runs answered, and the second run's replies.
        columns: The columns of each cluster's styles.
        ddof: In the variance over descriptors, the divisor is their number minus `ddof`.

    Returns:
        For each axis (`None`: all descriptors), [templates][metrics], with the metrics in the order of `read_metrics`.
        Axes of two runs have only Full Gen Bias, because comparisons show no other changes of an axis.
    """
    gathered: dict[str | None, list[list[Covariance]]] = {}
    for sizes, template in templates:
        by_metric = [list(template)]
        for summed in (False, True):
            for styles in map(list, columns.values()):
                by_metric.append([_chosen(paired, styles, summed) for paired in template])
        for axis, members in groups_of(sizes).items():
            used = by_metric if axis is None or len(template) == 1 else by_metric[:1]
            of_axis = [[_cells(paired, members) for paired in metric] for metric in used]
            gathered.setdefault(axis, []).append([_covariance(metric, ddof) for metric in of_axis])
    return gathered


def mean_covariance(templates: Sequence[Covariance]) -> Covariance:
    """Computes the covariance matrix of the means over templates."""
    number = len(templates)

    def gathered(parts: Iterable[np.ndarray]) -> np.ndarray:
        return np.concatenate(list(parts)) / number**2

    return Covariance(
        linear_cells=gathered(of.linear_cells for of in templates),
        plug_in_cells=gathered(of.plug_in_cells for of in templates),
        pair_cells=gathered(of.pair_cells for of in templates),
        across=np.sum([of.across for of in templates], axis=0) / number**2,
        counts=np.concatenate([of.counts for of in templates]),
        lengths=sum(of.lengths for of in templates),
        fourths=sum(of.fourths for of in templates),
        changed=sum(of.changed for of in templates),
    )


def _chosen(paired: Paired, styles: list[int], summed: bool) -> Paired:
    vectors = paired.vectors[..., styles]
    return paired._replace(vectors=vectors.sum(axis=2, keepdims=True) if summed else vectors)


def _cells(paired: Paired, members: slice) -> Paired:
    ends = np.append(0, np.cumsum(paired.counts))
    return Paired(paired.vectors[:, ends[members.start] : ends[members.stop]], paired.counts[members])


def _covariance(template: Sequence[Paired], ddof: int) -> Covariance:
    runs = template[::2]
    counts, number, size = [run.counts for run in runs], len(runs[0].counts), len(runs)
    means = [np.add.reduceat(run.vectors[0], _starts(run.counts)) / run.counts[:, None] for run in runs]
    others = [(mean.sum(axis=0) - mean) / (number - 1) for mean in means]
    sums, across = np.zeros((3, number, size, size)), np.zeros((size, size))
    lengths = []
    for paired, one, other in zip(template, *np.triu_indices(size), strict=True):
        of_cells, across[one, other], distances = _pair(
            paired, (counts[one], counts[other]), (others[one], others[other])
        )
        sums[..., one, other] = sums[..., other, one] = of_cells
        across[other, one] = across[one, other]
        lengths.append(distances)
    scale = ((1 - 1 / number) / (number - ddof)) ** 2
    linear, plug_in, pairs = scale * sums
    return Covariance(
        linear_cells=linear,
        plug_in_cells=plug_in,
        pair_cells=pairs,
        across=scale * across,
        counts=np.min(counts, axis=0),
        lengths=float(lengths[0].sum()),
        fourths=float((lengths[0] ** 2).sum()),
        changed=math.inf if size == 1 else _num_changed(template),
    )


def _num_changed(template: Sequence[Paired]) -> int:
    first, both, second = template
    differ = np.abs(both.vectors[0] - both.vectors[1]).max(axis=1, initial=0) > _SAME
    return int(np.count_nonzero(differ) + first.counts.sum() + second.counts.sum() - 2 * both.counts.sum())


def _pair(
    paired: Paired, sizes: tuple[np.ndarray, np.ndarray], others: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, float, np.ndarray]:
    """Computes the sums for two runs, or for one run with itself.

    `sizes` contains the number of replies in each run, and `others` the mean style vectors [cells, styles] of the
    template's other cells.

    Returns:
        [3, cells] The first sum, the first sum with sample means, and the second sum. Then the third sum. Then the
        squared distance of each reply of the first run from its cell's mean, in the cells with enough replies.
    """
    full = paired.counts >= MIN_REPLIES
    if not full.any():
        # A run's variance is then unknown. Replies of two runs to the same prompts count as independent.
        unknown = math.nan if len(paired.vectors) == 1 else 0.0
        return np.full((3, len(full)), unknown), unknown, np.zeros(0)
    kept, counts = np.repeat(full, paired.counts), paired.counts[full]
    of_runs = [_residuals(rows[kept], counts, apart[full]) for rows, apart in zip(paired.vectors, others, strict=False)]
    (residuals, lengths, along), (other_residuals, other_lengths, other_along) = of_runs[0], of_runs[-1]
    norms = _squared_norms(residuals, other_residuals, counts)
    _, three, four = _averages((lengths, along), (other_lengths, other_along), norms, counts)
    linear, plug_in = three - four, np.add.reduceat(along * other_along, _starts(counts)) / (counts - 1)
    two, three, four = _averages((lengths, 0.0), (other_lengths, 0.0), norms, counts)
    moments = np.stack([linear, plug_in, two - 2 * three + four])
    filled = np.repeat(moments.mean(axis=1)[:, None], len(full), axis=1)
    filled[:, full] = moments
    weights = paired.counts / (sizes[0] * sizes[1])
    both = (paired.counts - 1) / np.maximum((sizes[0] - 1) * (sizes[1] - 1), 1)
    sums = filled * np.stack([4 * weights, 4 * weights, 2 * weights * both])
    single = (sizes[0] == 1) & (sizes[1] == 1) & (paired.counts == 1)
    if single.any():
        sums[2, single] = _of_single(lengths, other_lengths, counts, int(single.sum()))
    moved = (weights[full] + weights[~full].sum() / len(counts)) / (counts - 1)
    product = (residuals * np.repeat(moved, counts)[:, None]).T @ other_residuals
    across = 2 / (len(full) - 1) ** 2 * float(np.sum(product**2) - np.sum(moved**2 * norms))
    return sums, across, lengths


def _averages(
    one: tuple[np.ndarray, np.ndarray | float],
    other: tuple[np.ndarray, np.ndarray | float],
    norms: np.ndarray,
    counts: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Averages a_ij b_ij, a_ij b_ik and a_ij b_kl over different prompts i, j, k and l of each cell.

    With residuals r, a_ij is r_i'r_j + u_i + u_j in one run. `one` contains the squared lengths of r, and u. b_ij is
    the same for the other run. `norms` contains the sum of (r_i'r_j)(s_i's_j) over all i and j, with the residuals s of
    the other run.
    """
    (lengths, u), (other_lengths, v) = one, other

    def total(values: np.ndarray) -> np.ndarray:
        return np.add.reduceat(values, _starts(counts))

    number = np.repeat(counts, counts)
    rows, other_rows = lengths - (number - 2) * u, other_lengths - (number - 2) * v
    crossed = lengths * other_lengths + 2 * (lengths * v + other_lengths * u) - 2 * (number - 2) * u * v
    same = norms - total(crossed)
    chained = total(rows * other_rows) - same
    apart = total(lengths) * total(other_lengths) - 4 * chained - 2 * same
    pairs = counts * (counts - 1)
    return same / pairs, chained / (pairs * (counts - 2)), apart / (pairs * (counts - 2) * (counts - 3))


def _of_single(lengths: np.ndarray, others: np.ndarray, counts: np.ndarray, number: int) -> float:
    """Computes the second sum's part of each of `number` cells with a single reply.

    Gen Bias subtracts the other cells' mean variance from the squared length of the single reply's error. The part
    consists of the covariance of this squared length, and of the covariance of the mean variance.
    """
    unbiased = np.repeat(counts / (counts - 1), counts)
    of_replies = np.stack([lengths, others]) * unbiased
    of_cells = np.add.reduceat(of_replies, _starts(counts), axis=1) / counts
    products, cell_products = (
        np.prod(rows - rows.mean(axis=1, keepdims=True), axis=0) for rows in (of_replies, of_cells)
    )
    # Fourth moments of residuals are too small by about the factor 1 - 1/N.
    return float((unbiased * products).mean() + number * cell_products.mean() / max(len(counts) - 1, 1))


def _residuals(rows: np.ndarray, counts: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Subtracts the mean of its cell from each row.

    Also returns the squared lengths of these residuals, and their products with the cell's mean minus `others`.
    """
    # The cell's first reply is subtracted from all of its replies. If the replies do not vary, the residuals are
    # therefore exactly 0.
    first = rows[_starts(counts)]
    residuals = rows - np.repeat(first, counts, axis=0)
    shifts = np.add.reduceat(residuals, _starts(counts)) / counts[:, None]
    residuals -= np.repeat(shifts, counts, axis=0)
    apart = np.repeat(first + shifts - others, counts, axis=0)
    return residuals, np.einsum("ij,ij->i", residuals, residuals), np.einsum("ij,ij->i", residuals, apart)


def _squared_norms(residuals: np.ndarray, others: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Computes ‖Σ_i r_i s_i'‖² for each cell: [cells].

    If a cell has fewer replies than columns, the norm is computed from the smaller matrices of the products of replies.
    """
    norms, starts = np.empty(len(counts)), _starts(counts)
    for number in np.unique(counts):
        chosen = np.flatnonzero(counts == number)
        rows = starts[chosen][:, None] + np.arange(number)
        one, other = residuals[rows], others[rows]
        if number <= one.shape[2]:
            products = one @ one.swapaxes(1, 2), other @ other.swapaxes(1, 2)
        else:
            products = (one.swapaxes(1, 2) @ other,) * 2
        norms[chosen] = np.einsum("dij,dij->d", *products)
    return norms


def _starts(counts: np.ndarray) -> np.ndarray:
    return np.cumsum(counts) - counts
