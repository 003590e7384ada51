"""Bias values: how far each reply's style lies along the direction that is typical of its descriptor (paper, C.1)."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from hb_metrics.stats.inputs import check_lengths, text_codes

# The number of rows in memory at a time: 14 MB in float64 with 217 styles.
BATCH_SIZE = 8192
# If a descriptor is closer than this to the overall mean, its direction of bias consists of rounding errors.
_NO_DIRECTION = 1e-12


class StyleRows(Protocol):
    """Style vectors, [replies, styles], read in slices of rows from an array or from files that can be sliced alike."""

    @property
    def shape(self) -> tuple[int, ...]: ...

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice) -> np.ndarray: ...


class DescriptorKey(NamedTuple):
    """The identity of a descriptor. A term on two axes is two descriptors. `axis` is `None` if there are no axes."""

    axis: str | None
    descriptor: str


class BiasValues(NamedTuple):
    """The results of `bias_values`. Descriptors are in alphabetical order of axis and term.

    Attributes:
        values: [replies] the bias value b_tdi of each reply.
        descriptor_codes: [replies] the index of each reply's descriptor in `descriptors`.
        mean_values: [descriptors] the mean bias value over a descriptor's replies.
        descriptor_means: [descriptors, styles] the mean style probabilities m_d.
        overall_mean: [styles] m̄.
    """

    values: np.ndarray
    descriptors: list[DescriptorKey]
    descriptor_codes: np.ndarray
    mean_values: np.ndarray
    descriptor_means: np.ndarray
    overall_mean: np.ndarray


def bias_values(
    style_probabilities: np.ndarray | StyleRows,
    descriptors: Sequence[str],
    templates: Sequence[str],
    axes: Sequence[str] | None = None,
    *,
    alpha: int = 0,
    batch_size: int = BATCH_SIZE,
) -> BiasValues:
    """Computes the bias value of each reply (paper, C.1).

    b_tdi = (p_tdi − m̄)·(m_d − m̄) / ‖m_d − m̄‖^α. m_d is the mean, over the descriptor's templates, of the mean p_tdi
    in each template. m̄ is the unweighted mean of m_d over the descriptors. The mean of a descriptor excludes templates
    in which it has no replies.

    If a descriptor's m_d equals m̄, as it always does for a single descriptor, there is no direction of bias, and the
    descriptor's replies get 0. For α = 0, the formula gives 0. For α = 1 and 2, it gives 0/0; the value 0 then means
    that no reply moves in a missing direction.

    Args:
        style_probabilities: [replies, styles] p_tdi, read twice in blocks of rows and never copied as a whole.
        descriptors: [replies] the descriptor in each reply's prompt.
        templates: [replies] the template of each reply's prompt.
        axes: [replies] the demographic axis of each reply's prompt. With `None`, a term is one descriptor on any axis.
        alpha: The exponent α: 0, 1 or 2. The paper uses 0.
        batch_size: The number of rows in a block, which limits the memory and affects no value.

    Raises:
        ValueError: Lengths differ, a value is missing, or a probability is not within [0, 1].
    """
    check_lengths(style_probabilities=style_probabilities, descriptors=descriptors, templates=templates, axes=axes)
    codes, keys = descriptor_codes(descriptors, axes)
    means = _descriptor_means(style_probabilities, codes, text_codes("template", templates)[0], len(keys), batch_size)
    overall_mean = means.mean(axis=0)

    directions = means - overall_mean
    norms = np.linalg.norm(directions, axis=1)
    directions[norms < _NO_DIRECTION] = 0
    directions /= np.where(norms < _NO_DIRECTION, 1, norms)[:, None] ** alpha
    values = np.empty(len(codes))
    for rows, block in _blocks(style_probabilities, batch_size):
        values[rows] = ((block - overall_mean) * directions[codes[rows]]).sum(axis=1)
    mean_values = np.bincount(codes, weights=values) / np.bincount(codes)
    return BiasValues(values, keys, codes, mean_values, means, overall_mean)


def descriptor_codes(
    descriptors: Sequence[str], axes: Sequence[str] | None = None
) -> tuple[np.ndarray, list[DescriptorKey]]:
    """Returns the index of each row's descriptor, and the descriptors in alphabetical order of axis and term."""
    check_lengths(descriptors=descriptors, axes=axes)
    descriptor, names = text_codes("descriptor", descriptors)
    axis, axis_names = (np.zeros_like(descriptor), [None]) if axes is None else text_codes("axis", axes)
    distinct, codes = np.unique(axis * len(names) + descriptor, return_inverse=True)
    return codes, [DescriptorKey(axis_names[key // len(names)], names[key % len(names)]) for key in distinct]


def _descriptor_means(
    style_probabilities: np.ndarray | StyleRows,
    codes: np.ndarray,
    templates: np.ndarray,
    num_descriptors: int,
    batch_size: int,
) -> np.ndarray:
    """Computes m_d, [descriptors, styles], as a sum over replies, weighted by 1 / (N_td · T_d)."""
    cells = codes * (templates.max() + 1) + templates
    _, cell, sizes = np.unique(cells, return_inverse=True, return_counts=True)
    num_templates = np.bincount(np.unique(cells) // (templates.max() + 1), minlength=num_descriptors)
    weights = 1 / (sizes[cell] * num_templates[codes])
    means = np.zeros((num_descriptors, style_probabilities.shape[1]))
    for rows, block in _blocks(style_probabilities, batch_size):
        bad = np.argwhere(~((block >= 0) & (block <= 1)))
        if len(bad):
            row, style = bad[0]
            raise ValueError(
                f"style probability {style} of reply {rows.start + row} is {block[row, style]}, which is not a "
                "number from 0 to 1; classify this reply again or omit it"
            )
        # Rows are added one by one, so the rounding does not depend on the size of the blocks.
        np.add.at(means, codes[rows], block * weights[rows, None])
    return means


def _blocks(style_probabilities: np.ndarray | StyleRows, batch_size: int) -> Iterator[tuple[slice, np.ndarray]]:
    for start in range(0, len(style_probabilities), batch_size):
        rows = slice(start, min(start + batch_size, len(style_probabilities)))
        yield rows, np.asarray(style_probabilities[rows], dtype=np.float64)
