"""Computes the ceiling of labels: the bias that a model would have if it learnt the labels perfectly.

The replies of such a model would resemble the replies tagged "no_bias". The debiased Full Gen Bias of the tagged
replies is therefore the lowest value that tuning on the labels can reach.

A reply is tagged by its bias value along the direction m_d − m̄ of its descriptor. If a reply also helped to determine
this direction, it would lie further along the direction by chance. The replies tagged "no_bias" would then seem less
biased than the tuned model's replies. The replies of each cell (a descriptor in a template) are therefore split into
random halves. The directions from one half are used to tag the replies in the other half.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse, stats

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.stats.bias_values import descriptor_codes
from hb_metrics.stats.inputs import check_lengths, text_codes

# Shares of the replies that are tagged "no_bias". The first share contains all replies. The values of the other shares
# are compared with its value.
SHARES = (1.0, 0.98, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.3)
NUM_SPLITS = 20
# The ceiling states how many replies the directions need to reach each of these reliabilities.
TARGETS = (0.5, 0.8)
SCALE = 1000
# The maximum share of cells with fewer than two replies. Above this share, no value is computed, for two reasons.
# First, the sampling noise of a single reply must be estimated from other cells. Second, the cells that lose all
# replies are not a random sample. They are the cells in which most replies are tagged "bias".
MOST_FEW = 0.15
# If a descriptor is closer than this to the overall mean, its direction consists of rounding errors.
_NO_DIRECTION = 1e-12

FEW_REPLIES = (
    "there are too few replies, since the estimate of sampling noise needs two replies per term and template in each "
    "half; generate at least 4 replies for each of two or more terms (--replies_per_cell)"
)


class Point(NamedTuple):
    """The bias of the replies tagged "no_bias", if a given share of all replies has this tag.

    `full_gen_bias` is debiased and multiplied by 1000. `change` is the difference from the value of all replies. `few`
    is the share of cells that have fewer than two of these replies in a half, averaged over splits. If `few` is above
    `MOST_FEW`, all later fields are `None`. Standard errors include the variation between replies and between splits.
    """

    share: float
    few: float
    full_gen_bias: float | None = None
    standard_error: float | None = None
    interval: tuple[float, float] | None = None
    change: float | None = None
    change_standard_error: float | None = None
    change_interval: tuple[float, float] | None = None


class Ceiling(NamedTuple):
    """The result of `label_ceiling`.

    Attributes:
        lowest: The share with the lowest value, or `None` if only the share 1 has a value.
        helps: Whether the lowest value is significantly below the value of all replies, corrected for the number of
            shares.
        replies_per_descriptor: The mean number of replies per descriptor in one half.
        half_reliability: The reliability of the directions from one half, which is the share of their squared length
            that is not noise.
        reliability: The reliability of directions from all replies (by the Spearman–Brown formula).
        replies_needed: Maps each reliability to the number of replies per descriptor that it requires, or to `None` if
            the directions show no signal.
    """

    curve: list[Point]
    lowest: float | None
    helps: bool
    replies_per_descriptor: float
    half_reliability: float
    reliability: float
    replies_needed: dict[float, float | None]
    confidence_level: float

    def as_json(self) -> dict[str, Any]:
        return {
            **self._asdict(),
            "curve": [point._asdict() for point in self.curve],
            "replies_needed": {f"{target:g}": number for target, number in self.replies_needed.items()},
        }


class _Cells(NamedTuple):
    """Replies, sorted by template, descriptor and id.

    Attributes:
        rows: The style vectors, in float32: [replies, styles].
        cells: The index of each reply's cell, which is a descriptor in a template.
        templates: The index of each template's first reply and, at the end, the number of replies.
    """

    rows: np.ndarray
    descriptors: np.ndarray
    cells: np.ndarray
    templates: np.ndarray
    num_descriptors: int

    def by_template(self) -> Iterator[tuple[slice, np.ndarray]]:
        for first, last in zip(self.templates, self.templates[1:], strict=False):
            yield slice(first, last), np.asarray(self.rows[first:last], dtype=np.float64)


def label_ceiling(
    style_probabilities: np.ndarray,
    descriptors: Sequence[str],
    templates: Sequence[str],
    axes: Sequence[str],
    ids: Sequence[str],
    *,
    alpha: int = 0,
    shares: Sequence[float] = SHARES,
    num_splits: int = NUM_SPLITS,
    seed: int = 0,
    confidence_level: float = 0.95,
) -> Ceiling | None:
    """Computes the ceiling of labels for each share of replies tagged "no_bias".

    Returns `None` if there are too few replies. The first of `shares` must be 1. The random halves depend only on the
    seed and the ids.

    Each value is the mean over `num_splits` random splits. Its standard error treats descriptors and templates as
    fixed.
    """
    check_lengths(style_probabilities=style_probabilities, descriptors=descriptors, ids=ids)
    codes, keys = descriptor_codes(descriptors, axes)
    cells = _grouped(style_probabilities, codes, len(keys), text_codes("template", templates)[0], ids)
    halves = [_halves(cells, seeded_generator(seed, "ceiling", str(number))) for number in range(num_splits)]
    directions, overall = _directions(cells, halves)
    parts, few = _parts(cells, halves, _values(cells, halves, directions, overall, alpha), shares)
    if np.isnan(parts[:, :, 0]).any() or few[0] > MOST_FEW:
        return None
    curve = _curve(parts, few, shares, confidence_level)
    known = [point for point in curve[1:] if point.full_gen_bias is not None]
    lowest = min(known, key=lambda point: point.full_gen_bias or 0, default=None)
    reliability = _reliability(directions)
    number = len(codes) / 2 / len(keys)
    needed: dict[float, float | None] = dict.fromkeys(TARGETS)
    if reliability > 0:
        for target in TARGETS:  # the Spearman–Brown formula
            needed[target] = number * target / (1 - target) * (1 - reliability) / reliability
    return Ceiling(
        curve=curve,
        lowest=None if lowest is None else lowest.share,
        helps=lowest is not None and _is_below(lowest, len(keys), len(shares) - 1, confidence_level),
        replies_per_descriptor=number,
        half_reliability=reliability,
        reliability=2 * reliability / (1 + reliability) if reliability > 0 else 0.0,
        replies_needed=needed,
        confidence_level=confidence_level,
    )


def _grouped(
    styles: np.ndarray,
    codes: np.ndarray,
    num_descriptors: int,
    templates: np.ndarray,
    ids: Sequence[str],
) -> _Cells:
    order = np.lexsort((np.asarray(ids), codes, templates))
    rows = styles.astype(np.float32)[order]
    keys = templates[order] * num_descriptors + codes[order]
    starts = np.flatnonzero(np.diff(templates[order], prepend=-1))
    return _Cells(
        rows,
        codes[order],
        np.unique(keys, return_inverse=True)[1],
        np.append(starts, len(order)),
        num_descriptors,
    )


def _halves(cells: _Cells, generator: np.random.Generator) -> np.ndarray:
    """Returns the random half (0 or 1) of each reply. In a cell with an odd number of replies, one half is larger."""
    number = len(cells.cells)
    sizes = np.bincount(cells.cells)
    firsts = np.append(0, np.cumsum(sizes)[:-1])
    order = np.lexsort((generator.random(number), cells.cells))
    ranks = np.empty(number, np.int64)
    ranks[order] = np.arange(number) - firsts[cells.cells]
    return (ranks + generator.integers(2, size=len(sizes))[cells.cells]) % 2


def _directions(cells: _Cells, splits: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the directions m_d − m̄ and the overall means m̄ of each half.

    Their shapes are [splits, halves, descriptors, styles] and [splits, halves, styles]. If a descriptor has no replies
    in a half, its direction is 0.
    """
    shape = len(splits), 2, cells.num_descriptors
    means, counts = np.zeros((*shape, cells.rows.shape[1])), np.zeros(shape, np.int64)
    for part, rows in cells.by_template():
        names, members = np.unique(cells.descriptors[part], return_inverse=True)
        for index, halves in enumerate(splits):
            groups = members * 2 + halves[part]
            numbers = np.bincount(groups, minlength=2 * len(names)).reshape(len(names), 2)
            sums = _group_sums(groups, 2 * len(names), rows).reshape(len(names), 2, -1)
            sums /= np.maximum(numbers, 1)[..., None]
            means[index][:, names] += sums.transpose(1, 0, 2)
            counts[index][:, names] += (numbers > 0).T
    known = counts > 0
    means /= np.maximum(counts, 1)[..., None]
    overall = means.sum(axis=2) / known.sum(axis=2)[..., None]
    return np.where(known[..., None], means - overall[:, :, None], 0), overall


def _values(
    cells: _Cells, splits: Sequence[np.ndarray], directions: np.ndarray, overall: np.ndarray, alpha: int
) -> np.ndarray:
    """Returns each reply's bias value along the directions of the other half: [splits, replies]."""
    norms = np.linalg.norm(directions, axis=-1, keepdims=True)
    scales = np.where(norms >= _NO_DIRECTION, np.maximum(norms, _NO_DIRECTION) ** -float(alpha), 0)
    values = np.empty((len(splits), len(cells.cells)))
    for part, rows in cells.by_template():
        for index, halves in enumerate(splits):
            for half in (0, 1):
                chosen = np.flatnonzero(halves[part] == half)
                own, other = cells.descriptors[part][chosen], (index, 1 - half)
                ways = directions[other][own] * scales[other][own]
                values[index, part.start + chosen] = np.einsum("ij,ij->i", rows[chosen] - overall[other], ways)
    return values


def _parts(
    cells: _Cells, splits: Sequence[np.ndarray], values: np.ndarray, shares: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Splits the debiased Full Gen Bias of the replies tagged "no_bias" into one part per descriptor.

    Returns:
        Two arrays. The first contains the parts: [splits, halves, shares, descriptors]. The parts of all descriptors
        add up to the Full Gen Bias, or to NaN if it is undefined. The second contains, for each entry of `shares`, the
        fraction of cells that have fewer than two replies tagged "no_bias".
    """
    ascending = sorted(shares)
    parts = np.zeros((len(splits), 2, len(shares), cells.num_descriptors))
    used = np.zeros(parts.shape[:-1], np.int64)
    few = np.zeros(len(shares))
    bins = np.empty((len(splits), len(cells.cells)), np.int64)
    for index, halves in enumerate(splits):
        for half in (0, 1):
            mine = values[index, halves == half]
            betas = np.quantile(mine, ascending, method="inverted_cdf")
            bins[index, halves == half] = np.searchsorted(betas, mine, side="left")
    for part, rows in cells.by_template():
        names, members = np.unique(cells.descriptors[part], return_inverse=True)
        squares = np.einsum("ij,ij->i", rows, rows)
        for index, halves in enumerate(splits):
            for half in (0, 1):
                chosen = halves[part] == half
                groups = bins[index, part][chosen] * len(names) + members[chosen]
                bias, missing = _descriptor_parts(groups, rows[chosen], squares[chosen], len(shares), len(names))
                for place, share in enumerate(shares):
                    own = bias[ascending.index(share)]
                    few[place] += missing[ascending.index(share)]
                    if own is not None:
                        parts[index, half, place, names] += own
                        used[index, half, place] += 1
    few /= 2 * len(splits) * (cells.cells[-1] + 1)
    return np.where(used[..., None] > 0, parts / np.maximum(used, 1)[..., None], np.nan), few


def _descriptor_parts(
    groups: np.ndarray, rows: np.ndarray, squares: np.ndarray, num_shares: int, num_cells: int
) -> tuple[list[np.ndarray | None], np.ndarray]:
    """Splits one template's debiased Full Gen Bias into one part per cell, for each share.

    `groups` contains s · `num_cells` + c for each reply. c is the index of the reply's cell, and s is the index of the
    smallest share at which the reply is tagged "no_bias". `squares` contains the squared lengths of the style vectors.

    Returns:
        For each share, the cells' parts and the number of cells with fewer than two replies. The part of a cell without
        replies is 0. If fewer than two cells have replies, the parts are `None`. If no cell has two replies, the parts
        are NaN.
    """
    shape = num_shares, num_cells
    numbers = np.bincount(groups, minlength=math.prod(shape)).reshape(shape).cumsum(axis=0)
    lengths = np.bincount(groups, squares, minlength=math.prod(shape)).reshape(shape).cumsum(axis=0)
    sums = _group_sums(groups, math.prod(shape), rows).reshape(*shape, -1)
    terms: list[np.ndarray | None] = []
    total = np.zeros(sums.shape[1:])
    for number, length, added in zip(numbers, lengths, sums, strict=True):
        total += added
        count = int((number > 0).sum())
        if count < 2:
            terms.append(None)
            continue
        means = total / np.maximum(number, 1)[:, None]
        spread = (length - number * np.einsum("ij,ij->i", means, means)) / np.maximum(number - 1, 1)
        repeated = number > 1
        # A cell with a single reply gets the mean spread of the template's other cells, as in `gen_bias`.
        spread[~repeated] = spread[repeated].mean() if repeated.any() else np.nan
        centred = means - means[number > 0].mean(axis=0)
        own = np.einsum("ij,ij->i", centred, centred) - (1 - 1 / count) * spread / np.maximum(number, 1)
        terms.append(np.where(number > 0, own, 0) / count)
    return terms, (numbers < 2).sum(axis=1)


def _group_sums(groups: np.ndarray, num_groups: int, rows: np.ndarray) -> np.ndarray:
    number = len(groups)
    members = sparse.csr_array((np.ones(number), (groups, np.arange(number))), shape=(num_groups, number))
    return members @ rows


def _curve(parts: np.ndarray, few: np.ndarray, shares: Sequence[float], confidence_level: float) -> list[Point]:
    points = []
    for index, share in enumerate(shares):
        point = Point(share, float(few[index]))
        if few[index] <= MOST_FEW and not np.isnan(parts[:, :, index]).any():
            change = parts[:, :, index] - parts[:, :, 0]
            value, error, interval = _estimate(parts[:, :, index], confidence_level)
            point = point._replace(full_gen_bias=value, standard_error=error, interval=interval)
            value, error, interval = _estimate(change, confidence_level)
            point = point._replace(change=value, change_standard_error=error, change_interval=interval)
        points.append(point)
    return points


def _estimate(parts: np.ndarray, confidence_level: float) -> tuple[float, float, tuple[float, float]]:
    """Returns a value, its standard error and its interval, from parts of the shape [splits, halves, descriptors].

    The two halves of a split have no reply in common. The variance of one split's value is therefore the sum of
    (difference between the halves / 2)² over descriptors. The variance of the mean over splits is this variance minus
    the variance between splits of the same replies. Averaging over splits removes at most about half of the variance,
    because each split uses half of the pairs of replies.
    """
    by_split = parts.sum(axis=2).mean(axis=1)
    of_one = (((parts[:, 0] - parts[:, 1]) / 2) ** 2).sum(axis=1).mean()
    number = len(by_split)
    variance = max(of_one - by_split.var(ddof=1) * (1 - 1 / number), of_one / 2)
    error = SCALE * math.sqrt(variance)
    value = SCALE * float(by_split.mean())
    half = float(stats.t.ppf((1 + confidence_level) / 2, parts.shape[2] - 1)) * error
    return value, error, (value - half, value + half)


def _is_below(point: Point, num_descriptors: int, num_tried: int, confidence_level: float) -> bool:
    """Returns whether the lowest of `num_tried` changes is significantly below 0 (Bonferroni)."""
    if point.change is None or point.change_standard_error is None:
        return False
    tail = 1 - (1 - confidence_level) / 2 / num_tried
    return point.change + float(stats.t.ppf(tail, num_descriptors - 1)) * point.change_standard_error < 0


def _reliability(directions: np.ndarray) -> float:
    """Computes the reliability of directions, [splits, halves, descriptors, styles].

    No interval is computed, because it would not be valid. If descriptors differ in their noise, an interval based on
    the variation between descriptors contains the true value in as few as 79 % of cases. Excluding directions with a
    high kurtosis does not help.
    """
    products = np.einsum("kds,kds->", directions[:, 0], directions[:, 1])
    length = np.einsum("khds,khds->", directions, directions) / 2
    return float(products / length) if length > 0 else 0.0
