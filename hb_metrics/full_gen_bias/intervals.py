"""Intervals by the bootstrap over replies, drawn within each cell.

From the N replies of a cell, N − 1 are drawn with replacement (the rescaled bootstrap of Rao and Wu, 1988): their mean
then varies by s²/N, as the cell's own mean does, where a draw of N would vary by less. Resampled values lie above the
plain one by the sampling noise that it already contains, so the reverse percentile interval, 2 × plain − quantiles, is
centred on the debiased value: it is an interval for the value with endless replies.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from .cell_sums import CellSums, rounded
from .style_clusters import read_metrics, with_cluster_sums

# How many draws of replies are held at a time (32 MB).
_DRAWS_AT_A_TIME = 2**22
# Up to so many multiplications, OpenBLAS uses one thread. Products of a cell of few replies are made in parts of that
# size: whole, the threads' waiting for each other would make them many times slower on a busy machine.
_ONE_THREAD = 2**18
_FEWEST_ROWS = 16


def resample(
    cells: CellSums, columns: Mapping[str, Sequence[int]], *, ddof: int, n_resamples: int, seed: int
) -> dict[str | None, np.ndarray]:
    """Computes the metrics `n_resamples` times, each on replies drawn anew within each cell.

    Cells of a single reply stay as they are.

    Args:
        cells: The replies, kept; at least one template has two descriptors.
        columns: The columns of each cluster.
        ddof: As in `gen_bias`.
        n_resamples: How many times to draw.
        seed: Of the draws. Neither the order of the replies nor their cut into batches changes them.

    Returns:
        Axis (`None`: all descriptors) → [resamples, metrics] values as of `read_metrics`, not scaled. Axes without two
        descriptors in a template are not among them.
    """
    generator = np.random.default_rng(seed)
    num_columns = (cells.num_styles or 0) + len(columns)
    scratch = np.empty((n_resamples, num_columns))
    found: dict[str | None, RunningMean] = {None: RunningMean()}
    for axes in cells.by_template().values():
        num_cells = sum(map(len, axes.values()))
        if num_cells < 2:
            continue
        # Sums over the template's cells of their means, and of the squares of these: [resamples, columns].
        sums, squares = np.zeros((2, n_resamples, num_columns))
        for axis, members in axes.items():
            axis_sums, axis_squares = np.zeros((2, n_resamples, num_columns))
            for cell in members:
                _draw_means(cells.replies(cell), columns, generator, out=scratch)
                axis_sums += scratch
                np.multiply(scratch, scratch, out=scratch)
                axis_squares += scratch
            if axis is not None and len(members) > 1:
                variances = _variances(axis_sums, axis_squares, len(members), ddof)
                found.setdefault(axis, RunningMean()).add(read_metrics(variances, columns))
            sums += axis_sums
            squares += axis_squares
        found[None].add(read_metrics(_variances(sums, squares, num_cells, ddof), columns))
    return {axis: mean.value() for axis, mean in found.items()}


def intervals(plain: np.ndarray, resampled: np.ndarray, confidence_level: float) -> np.ndarray:
    """Reverse percentile intervals.

    Args:
        plain: [metrics] the plain (not debiased) values.
        resampled: [resamples, metrics].
        confidence_level: Such as 0.95.

    Returns:
        [metrics, 2] lowest and highest value.
    """
    tail = (1 - confidence_level) / 2
    return (2 * plain - np.quantile(resampled, [1 - tail, tail], axis=0)).T


class RunningMean:
    """A mean over arrays that come one by one."""

    def __init__(self) -> None:
        self.total: np.ndarray | float = 0.0
        self.count = 0

    def add(self, values: np.ndarray) -> None:
        """Adds an array."""
        self.total = self.total + values
        self.count += 1

    def value(self) -> np.ndarray:
        """The mean over those added."""
        return np.asarray(self.total) / self.count


def _draw_means(
    replies: np.ndarray, columns: Mapping[str, Sequence[int]], generator: np.random.Generator, out: np.ndarray
) -> None:
    """Fills `out`, [resamples, styles + clusters], with means of a cell's replies drawn anew."""
    number = len(replies)
    if number == 1:
        out[:] = with_cluster_sums(replies, columns)
        return
    # Divided and rounded before the sum, which then is exact: the number of threads does not change a bit of it.
    shares = rounded(with_cluster_sums(replies, columns) / (number - 1))
    step = max(1, _DRAWS_AT_A_TIME // number)
    for low in range(0, len(out), step):
        part = out[low : low + step]
        drawn = generator.integers(number, size=(len(part), number - 1)) + number * np.arange(len(part))[:, None]
        times = np.bincount(drawn.ravel(), minlength=len(part) * number).reshape(len(part), number)
        times = times.astype(float)
        rows = _ONE_THREAD // shares.size
        if rows < _FEWEST_ROWS:
            rows = len(part)
        for first in range(0, len(part), rows):
            np.matmul(times[first : first + rows], shares, out=part[first : first + rows])


def _variances(sums: np.ndarray, squares: np.ndarray, number: int, ddof: int) -> np.ndarray:
    return (squares - sums**2 / number) / (number - ddof)
