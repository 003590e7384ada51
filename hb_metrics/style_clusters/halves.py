"""How styles move together over the replies of a run, or over the means of its terms: in all replies, and in halves.

Halves are drawn at random within each cell (a term in a template), so that terms and templates are the same in both.
Means over a random half vary about the means over all as much as these do about those of endless replies, whatever the
size of cells: bootstrap samples of cells of a few replies vary less.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
from scipy import sparse

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.runs.replies import Replies
from hb_metrics.statistics.bias_values import BATCH_SIZE, StyleRows, descriptor_codes
from hb_metrics.statistics.inputs import text_codes

Samples = Literal["replies", "descriptors"]
LEAST_SAMPLES = 3  # over two samples, all correlations are 1 or -1
# With a smaller standard deviation, or share of it within a half, probabilities differ by rounding errors alone.
_NO_SPREAD = 1e-12
_NO_SPREAD_SHARE = 1e-6

FEW_SAMPLES_ERROR = "there are {number} {samples}, and correlations over them need {least}; {remedy}"
FEW_IN_HALF_ERROR = (
    "a half of the replies has {number} {samples}, and correlations over them need {least}; make more replies"
)
REMEDIES = {
    "replies": "make more of them (--replies_per_cell)",
    "descriptors": "measure more terms, or take --samples replies",
}


class Moving(NamedTuple):
    """How styles move together.

    Attributes:
        correlations: [styles, styles] over all samples, of the styles that vary.
        halves: [splits, 2, styles, styles] the same in each half.
        varies: [all styles] which of them vary.
        num_samples: Replies or descriptors.
        num_still: How often one of these styles does not vary within a half; its correlations are 0 there.
        means_reliability: The share of signal in the variance of the descriptors' mean style vectors, all styles
            together; `None`: samples are replies.
    """

    correlations: np.ndarray
    halves: np.ndarray
    varies: np.ndarray
    num_samples: int
    num_still: int
    means_reliability: float | None


class _Cells(NamedTuple):
    """The cells of replies: [replies] index of the cell and of the descriptor of each; [cells] descriptor of each."""

    members: np.ndarray
    codes: np.ndarray
    owners: np.ndarray


def styles_moving_together(
    styles: StyleRows, replies: Replies, *, samples: Samples = "replies", num_splits: int = 50, seed: int = 0
) -> Moving:
    """Correlates the probabilities of styles.

    Args:
        styles: [replies, styles] style vectors, also in files: read twice in blocks of rows.
        replies: What these are the styles of.
        samples: "replies": each sample is the style vector of a reply. "descriptors": each is the mean style vector of
            a descriptor, the mean over its templates of the mean in each.
        num_splits: How often replies are split into halves.
        seed: Chooses the halves.

    Raises:
        ValueError: There are fewer than three samples, in all or in a half.
    """
    codes, keys = descriptor_codes(replies.descriptors, replies.axes)
    number = len(codes) if samples == "replies" else len(keys)
    if number < LEAST_SAMPLES:
        about = {"number": number, "samples": samples, "least": LEAST_SAMPLES, "remedy": REMEDIES[samples]}
        raise ValueError(FEW_SAMPLES_ERROR.format(**about))
    templates, names = text_codes("template", replies.templates)
    distinct, members = np.unique(codes * len(names) + templates, return_inverse=True)
    cells = _Cells(members, codes, distinct // len(names))
    order = np.argsort(np.asarray(replies.ids))
    in_first = np.stack([_halves(members[order], seed, split) for split in range(num_splits)])
    in_first = in_first[:, np.argsort(order)]
    middle = sum(block.sum(axis=0) for _, block in _blocks(styles)) / len(codes)
    if samples == "replies":
        covariances, half_covariances, sizes = _over_replies(styles, middle, in_first)
        reliability = None
    else:
        covariances, half_covariances, sizes, reliability = _over_descriptors(styles, middle, in_first, cells)
    if sizes.min() < LEAST_SAMPLES:
        raise ValueError(FEW_IN_HALF_ERROR.format(number=sizes.min(), samples=samples, least=LEAST_SAMPLES))
    varies = np.diagonal(covariances) > _NO_SPREAD**2
    chosen = np.ix_(varies, varies)
    least = _NO_SPREAD_SHARE * np.sqrt(np.diagonal(covariances)[varies])
    correlations, _ = _correlations(covariances[chosen], least)
    halves = np.empty((num_splits, 2, *correlations.shape))
    num_still = 0
    for split in range(num_splits):
        for half in (0, 1):
            halves[split, half], still = _correlations(half_covariances[split, half][chosen], least)
            num_still += still
    return Moving(correlations, halves, varies, number, num_still, reliability)


def correlation_reliability(halves: np.ndarray) -> float:
    """The reliability of the correlations from all replies, as what they are estimated to share with other replies.

    It is the correlation of both halves' correlations over pairs of styles, averaged over splits, for twice the replies
    by Spearman and Brown's formula; without signal (at most 0), as it is.

    Args:
        halves: [splits, 2, styles, styles].
    """
    pairs = np.triu_indices(halves.shape[-1], 1)
    values = []
    for first, second in halves:
        one, other = (part[pairs] - part[pairs].mean() for part in (first, second))
        size = np.sqrt((one @ one) * (other @ other))
        values.append(one @ other / size if size > 0 else 0.0)
    return spearman_brown(float(np.mean(values)))


def spearman_brown(reliability: float) -> float:
    """The reliability of the whole from that of its halves; without signal (at most 0), as it is."""
    return 2 * reliability / (1 + reliability) if reliability > 0 else reliability


def _halves(members: np.ndarray, seed: int, split: int) -> np.ndarray:
    """[replies] whether each reply is in the first half; which half of an odd cell is larger is drawn too."""
    generator = seeded_generator(seed, "style clusters", str(split))
    sizes = np.bincount(members)
    firsts = np.append(0, np.cumsum(sizes)[:-1])
    order = np.lexsort((generator.random(len(members)), members))
    ranks = np.empty(len(members), np.int64)
    ranks[order] = np.arange(len(members)) - firsts[members[order]]
    return (ranks + generator.integers(2, size=len(sizes))[members]) % 2 == 0


def _blocks(styles: StyleRows) -> Iterator[tuple[slice, np.ndarray]]:
    for first in range(0, len(styles), BATCH_SIZE):
        rows = slice(first, min(first + BATCH_SIZE, len(styles)))
        yield rows, np.asarray(styles[rows], dtype=np.float64)


def _over_replies(
    styles: StyleRows, middle: np.ndarray, in_first: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Covariances [styles, styles] and [splits, 2, styles, styles], and [splits, 2] how many replies halves have."""
    width, num_splits = len(middle), len(in_first)
    whole = np.zeros((width, width))
    products, sums = np.zeros((num_splits, 2, width, width)), np.zeros((num_splits, 2, width))
    for rows, block in _blocks(styles):
        values = block - middle
        of_block = values.T @ values
        whole += of_block
        for split in range(num_splits):
            chosen = in_first[split, rows]
            part = values[chosen]
            product = part.T @ part
            products[split] += np.stack([product, of_block - product])
            sums[split] += np.stack([part.sum(axis=0), values[~chosen].sum(axis=0)])
    sizes = np.stack([in_first.sum(axis=1), (~in_first).sum(axis=1)], axis=1)
    number = np.maximum(sizes, 1)[:, :, None]
    means = sums / number
    halves = products / number[..., None]
    halves -= means[..., :, None] * means[..., None, :]
    return whole / in_first.shape[1], halves, sizes


def _over_descriptors(
    styles: StyleRows, middle: np.ndarray, in_first: np.ndarray, cells: _Cells
) -> tuple[np.ndarray, np.ndarray, np.ndarray, float]:
    """As `_over_replies` over descriptors, and the reliability of their means."""
    num_splits, number = len(in_first), int(cells.owners.max()) + 1
    masks = [np.ones((1, in_first.shape[1]), bool), *(np.stack([first, ~first]) for first in in_first)]
    scales = [[_cell_scales(mask, cells) for mask in pair] for pair in masks]
    means = [np.zeros((len(pair), number, len(middle))) for pair in masks]
    for rows, block in _blocks(styles):
        values = block - middle
        codes, members, columns = cells.codes[rows], cells.members[rows], np.arange(len(values))
        for pair, pair_scales, sums in zip(masks, scales, means, strict=True):
            for half, (mask, scale) in enumerate(zip(pair, pair_scales, strict=True)):
                weights = np.where(mask[rows], scale[members], 0)
                sums[half] += sparse.csr_array((weights, (codes, columns)), shape=(number, len(values))) @ values
    halves = np.empty((num_splits, 2, len(middle), len(middle)))
    sizes = np.empty((num_splits, 2), np.int64)
    shared, total = 0.0, 0.0
    for split in range(num_splits):
        known = np.stack([np.bincount(cells.owners, weights=part, minlength=number) > 0 for part in scales[split + 1]])
        for half in (0, 1):
            sizes[split, half] = known[half].sum()
            halves[split, half] = _covariances(means[split + 1][half][known[half]])
        one, other = (part[known.all(axis=0)] for part in means[split + 1])
        if len(one):
            one, other = one - one.mean(axis=0), other - other.mean(axis=0)
            shared += float((one * other).sum())
            total += float((one**2).sum() + (other**2).sum()) / 2
    reliability = spearman_brown(shared / total) if total > 0 else 0.0
    return _covariances(means[0][0]), halves, sizes, reliability


def _cell_scales(mask: np.ndarray, cells: _Cells) -> np.ndarray:
    """[cells] what a reply counts in its descriptor's mean: 1 / (replies of the cell × templates of the descriptor).

    It is 0 in a cell none of whose replies is among those of `mask`.
    """
    sizes = np.bincount(cells.members[mask], minlength=len(cells.owners))
    templates = np.bincount(cells.owners[sizes > 0], minlength=int(cells.owners.max()) + 1)
    return np.where(sizes > 0, 1 / np.maximum(sizes * templates[cells.owners], 1), 0)


def _covariances(means: np.ndarray) -> np.ndarray:
    if not len(means):
        return np.zeros((means.shape[1], means.shape[1]))
    centred = means - means.mean(axis=0)
    return centred.T @ centred / len(means)


def _correlations(covariances: np.ndarray, least: np.ndarray) -> tuple[np.ndarray, int]:
    """Correlations, 0 with a style that does not vary (its standard deviation is `least`), and how many do not."""
    spreads = np.sqrt(np.diagonal(covariances).clip(0))
    moving = spreads > least
    scales = np.where(moving, spreads, 1)
    correlations = (covariances / np.outer(scales, scales)).clip(-1, 1)
    correlations[~moving] = 0
    correlations[:, ~moving] = 0
    np.fill_diagonal(correlations, 1)
    return correlations, int((~moving).sum())
