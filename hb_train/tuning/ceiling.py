"""The ceiling of labels: the Full Gen Bias of the replies that the directions of other replies tag "no_bias".

A model that learnt its labels perfectly would reply like the replies tagged "no_bias". Their debiased Full Gen Bias is
therefore the lowest value that the labels can reach. The ceiling is cross-fitted: the replies of each cell (a
descriptor in a template) are split into random halves, and the directions m_d − m̄ of one half tag the other half.
Without cross-fitting, a reply would contribute to its own direction and lie further along it by chance. The remaining
replies would then look less biased than a model trained on them.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse, stats

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.stats.bias_values import StyleRows, descriptor_codes
from hb_metrics.stats.inputs import check_lengths, text_codes

# Shares of the replies that are tagged "no_bias". Changes are relative to the first share, which is all replies.
SHARES = (1.0, 0.98, 0.95, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.3)
NUM_SPLITS = 20
# The reliabilities of the directions for which the ceiling states the required number of replies.
TARGETS = (0.5, 0.8)
SCALE = 1000
# The maximum share of cells with fewer than two replies. Above this share, no value is computed. A single reply takes
# its noise from other cells, and the cells that lose all their replies are those with the most "bias" tags.
MOST_FEW = 0.15
# If a descriptor is closer than this to the overall mean, its direction consists of rounding errors.
_NO_DIRECTION = 1e-12

FEW_REPLIES = (
    "there are too few replies, since the estimate of sampling noise needs two replies per term and template in each "
    "half; make at least 4 replies for each of two or more terms (--replies_per_cell)"
)


class Point(NamedTuple):
    """The debiased Full Gen Bias (×1000) of the share of replies tagged "no_bias", and its change from all replies.

    `few` is the mean share of cells in which a half has fewer than two such replies. If it is above `MOST_FEW`, all
    later fields are `None`. Standard errors are over replies and splits.
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
    """The results of `label_ceiling`, as plain Python values.

    `lowest` is the share with the lowest value. `helps` states whether the interval of its change, widened for the
    number of shares, lies below 0. `half_reliability` is the share of signal in the squared length of the directions
    that half of the replies give. `reliability` extends this share to all replies (Spearman–Brown). `replies_needed`
    maps reliabilities to the required number of replies per descriptor, which is `None` if there is no signal.
    """

    curve: list[Point]
    lowest: float | None
    helps: bool
    replies_per_descriptor: float
    half_reliability: float
    half_reliability_interval: tuple[float, float]
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
    """Replies in the order of their templates, descriptors and ids.

    `rows` are float32 style vectors. `templates` contains the index of each template's first reply and, at the end, the
    number of replies.
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
    style_probabilities: np.ndarray | StyleRows,
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

    Returns `None` if there are too few replies. The standard errors are those of the mean over splits, with descriptors
    and templates fixed. The two halves of a split share no reply, so their difference estimates the variance of a
    split. The spread over splits shows how much averaging reduces this variance. Halves depend only on the seed and the
    ids. The first of `shares` must be 1.
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
    reliability, interval = _reliability(directions, confidence_level)
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
        half_reliability_interval=interval,
        reliability=2 * reliability / (1 + reliability) if reliability > 0 else 0.0,
        replies_needed=needed,
        confidence_level=confidence_level,
    )


def _grouped(
    styles: np.ndarray | StyleRows,
    codes: np.ndarray,
    num_descriptors: int,
    templates: np.ndarray,
    ids: Sequence[str],
) -> _Cells:
    order = np.lexsort((np.asarray(ids), codes, templates))
    rows = np.asarray(styles[: len(order)], np.float32)[order]
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
    """Splits each cell into random halves, 0 and 1. If the cell's size is odd, a random half is larger."""
    number = len(cells.cells)
    sizes = np.bincount(cells.cells)
    firsts = np.append(0, np.cumsum(sizes)[:-1])
    order = np.lexsort((generator.random(number), cells.cells))
    ranks = np.empty(number, np.int64)
    ranks[order] = np.arange(number) - firsts[cells.cells]
    return (ranks + generator.integers(2, size=len(sizes))[cells.cells]) % 2


def _directions(cells: _Cells, splits: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Computes m_d − m̄, [splits, halves, descriptors, styles], and m̄, [splits, halves, styles].

    If a descriptor has no replies in a half, its direction in this half is 0.
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
    """Computes each reply's bias value along the directions of the other half, [splits, replies]."""
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
    """Computes each descriptor's part of the debiased Full Gen Bias of a half's replies tagged "no_bias".

    Returns:
        The parts, [splits, halves, shares, descriptors], whose sum over descriptors is the Full Gen Bias (NaN if it is
        undefined). Also, for each share of replies, the share of cells with fewer than two such replies.
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
    """Computes the summands of one template's debiased Full Gen Bias.

    `groups` combines two indices for each reply: the index of the smallest share that tags the reply "no_bias", times
    the number of cells, plus the index of the reply's cell. `squares` are the squared lengths of the style vectors.

    Returns:
        The cells' summands for each share, and the number of cells with fewer than two replies. The summand of a cell
        without replies is 0. The summands are `None` if fewer than two cells have replies, and NaN if no cell has two
        replies.
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
        # As in `gen_bias`, a cell with a single reply takes the mean spread of the other cells in its template.
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
    """Computes a value, its standard error and its interval from the descriptors' parts, [splits, halves, descriptors].

    The halves share no reply, so (half of the difference)², summed over descriptors, is the variance of one split's
    value. Averaging over splits reduces this variance by the variance between splits of the same replies. The reduction
    is at most about half, since a split contains half of the pairs of replies.
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
    """Whether a change is significantly below 0, given that it is the lowest of several changes."""
    if point.change is None or point.change_standard_error is None:
        return False
    tail = 1 - (1 - confidence_level) / 2 / num_tried
    return point.change + float(stats.t.ppf(tail, num_descriptors - 1)) * point.change_standard_error < 0


def _reliability(directions: np.ndarray, confidence_level: float) -> tuple[float, tuple[float, float]]:
    """Computes the reliability of directions, [splits, halves, descriptors, styles], and its interval."""
    first, second = directions[:, 0], directions[:, 1]
    products = np.einsum("kds,kds->kd", first, second)
    lengths = np.einsum("kds,kds->kd", first, first), np.einsum("kds,kds->kd", second, second)
    signal, whole = products.mean(axis=0), ((lengths[0] + lengths[1]) / 2).mean(axis=0)
    if not whole.sum() > 0:
        return 0.0, (0.0, 0.0)
    ratio = float(signal.sum() / whole.sum())
    number = len(signal)
    errors = (signal - ratio * whole) / whole.sum()
    error = math.sqrt(number / max(number - 1, 1) * float(errors @ errors))
    half = float(stats.t.ppf((1 + confidence_level) / 2, max(number - 1, 1))) * error
    return ratio, (ratio - half, ratio + half)
