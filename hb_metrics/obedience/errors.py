"""Estimates how much a mean bias value would vary with other replies to the same terms and templates.

The mean bias value is a sum over replies, each multiplied by a vector that depends on the reply's descriptor. If the
directions of bias are estimated too, there is a second sum, over the replies from which the directions come. The
variance of the value is the variance of these sums within cells (a cell is a descriptor in a template). Replies of
several runs to the same prompt are treated as one unit.

The vectors are estimated from the same replies, so the sums contain products of errors. They contain the variance of
these products twice, but the value contains it only once. The variance is therefore subtracted once. As for Gen Bias,
descriptors are not treated as a sample.

A single reply does not show the variance within its cell. The cell is therefore assumed to have the variance of the
other cells. The product of its reply with itself is also part of the variance, but only the mean of this product is
known.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import stats

from hb_metrics.stats.bias_values import DescriptorKey

# The minimum degrees of freedom. With fewer, the variance is too uncertain for an interval.
MIN_FREEDOM = 5
# The minimum number of replies per cell. Two replies are always equally far from their mean.
MIN_REPLIES = 3


class RepliesOf(NamedTuple):
    """A run's replies. Each field is [replies]. The same prompt has the same id in all runs."""

    styles: np.ndarray
    ids: Sequence[str]
    descriptors: Sequence[DescriptorKey]
    templates: Sequence[str]


class Part(NamedTuple):
    """A mean of bias values over descriptors, which is added to other such means or subtracted from them.

    Attributes:
        replies: The replies that have bias values.
        vectors: The gradient of the mean with respect to each descriptor's mean style vector in `replies`.
        sources: The replies from which the directions are computed, or `None` if the directions are fixed.
        source_vectors: The gradient of the mean with respect to each descriptor's mean style vector in `sources`.
        sign: 1 if the mean is added, −1 if it is subtracted.
    """

    replies: RepliesOf
    vectors: Mapping[DescriptorKey, np.ndarray]
    sources: RepliesOf | None
    source_vectors: Mapping[DescriptorKey, np.ndarray]
    sign: int


def half_width(parts: Sequence[Part], confidence_level: float) -> float | None:
    """Computes the half-width of the Student's t interval for a sum of parts that have the same descriptors.

    Returns:
        The half-width, or `None` if half or more of the cells have fewer than `MIN_REPLIES` replies, or if the variance
        is too uncertain.
    """
    runs = [_gathered(replies) for replies in _distinct(parts)]
    vectors, factors = _vectors(parts), _factors(parts) / len(parts[0].vectors)
    variances, freedoms, of_single, lengths, num_few = [], [], [], [], 0
    num_cells, num_singles = np.zeros(len(vectors)), np.zeros(len(vectors))
    total, squares = np.zeros((len(runs) * runs[0].styles.shape[1],) * 2), 0.0
    for row, (key, of_key) in enumerate(vectors.items()):
        templates = [run.cells.get(key, {}) for run in runs]
        weights = np.array([1 / max(len(cells), 1) for cells in templates])
        errors = []
        for template in sorted({name for cells in templates for name in cells}):
            members = [cells.get(template, np.zeros(0, int)) for cells in templates]
            sizes = [len(rows) for rows in members if len(rows)]
            if min(sizes) < MIN_REPLIES:
                num_singles[row] += 1 / min(sizes)
                num_few += 1
                continue
            num_cells[row] += 1
            error = weights[:, None] * _errors(runs, members)
            number = max(sizes)
            products = np.einsum("irs,rq,iqs->i", error, factors, error)
            # The vectors also contain the error of the reply itself, so its product with itself is subtracted.
            amounts = (
                np.einsum("irs,rs->i", error, of_key) - 2 * np.sqrt(number * (number - 1)) / (number - 2) * products
            )
            amounts -= amounts.mean()
            variances.append(float(amounts @ amounts))
            freedoms.append(min(sizes) - 1)
            # The error that a single reply would have, and its product with itself.
            own = number**3 / (number - 1) * (products - products.mean())
            alone = np.sqrt(number * (number - 1)) * amounts + own
            of_single.append(float(alone @ alone) / (number - 1))
            lengths.append(number**2 * float(products.mean()))
            errors.append(error)
        if errors and factors.any():
            joined = np.concatenate(errors)
            mixed = np.einsum("irs,rq->iqs", joined, factors).reshape(len(joined), -1)
            joined = joined.reshape(len(joined), -1)
            squares += float(np.sum((mixed @ joined.T) ** 2))
            total += joined.T @ mixed
    num_single = num_singles.sum()
    if num_few >= len(variances) or not any(variances):
        return None
    known = np.array(variances)
    freedom = known.sum() ** 2 / (known**2 / freedoms).sum()
    if freedom < MIN_FREEDOM:
        return None
    variance = known.sum() + num_single * np.mean(of_single)
    # For cells with a single reply, the mean of the other cells replaces the product of the reply with itself.
    variance += (num_single + num_single**2 / len(known)) * np.var(lengths)
    # tr(V_d²) is estimated by the mean of tr(V_d V_e) over pairs of descriptors, which is unbiased.
    of_products = 2 * (float(np.sum(total * total.T)) - squares) / max(len(vectors) - 1, 1)
    # Only products of different replies count. A cell with a single reply therefore has no products within the cell.
    # Products within a cell of n replies have the factors 4n / (n − 2) in the variances and 2n / (n − 1) in the value.
    # Products between cells have the factors 4 and 2.
    numbers = np.array(freedoms) + 1
    within = np.mean(numbers * (2 / (numbers - 2) - 1 / (numbers - 1)) - 1)
    pairs = (num_cells + numbers.mean() * num_singles) ** 2 - numbers.mean() ** 2 * num_singles + within * num_cells
    variance -= of_products * pairs.mean() / num_cells.mean() ** 2
    quantile = float(stats.t.ppf((1 + confidence_level) / 2, freedom))
    return quantile * float(np.sqrt(variance)) if variance > 0 else None


def shared_noise(one: RepliesOf, other: RepliesOf) -> dict[DescriptorKey, float] | None:
    """Computes the covariance of each descriptor's mean style vectors in two runs, summed over styles.

    The covariance comes from replies to the same prompts. Only cells with such prompts count. Returns `None` if half or
    more of these cells have only one such prompt.
    """
    _, *pairs = np.intersect1d(np.asarray(one.ids), np.asarray(other.ids), return_indices=True)
    sizes = [Counter(zip(replies.descriptors, replies.templates, strict=True)) for replies in (one, other)]
    templates = [Counter(descriptor for descriptor, _ in cells) for cells in sizes]
    cells: dict[tuple[DescriptorKey, str], list[tuple[int, int]]] = {}
    for row, other_row in zip(*(rows.tolist() for rows in pairs), strict=True):
        cells.setdefault((one.descriptors[row], one.templates[row]), []).append((row, other_row))
    products: dict[tuple[DescriptorKey, str], float] = {}
    by_template: dict[str, list[float]] = {}
    for key, rows in cells.items():
        if len(rows) > 1:
            members, others = np.transpose(rows)
            first, second = one.styles[members].astype(float), other.styles[others].astype(float)
            products[key] = float(np.sum((first - first.mean(axis=0)) * second)) / (len(rows) - 1)
            by_template.setdefault(key[1], []).append(products[key])
    if cells and 2 * len(products) <= len(cells):
        return None
    everywhere = float(np.mean(list(products.values()))) if products else 0.0
    noise: dict[DescriptorKey, float] = {}
    for key, rows in cells.items():
        # A cell with a single common prompt gets the mean covariance of the template's other cells.
        product = products.get(key, float(np.mean(by_template.get(key[1], [everywhere]))))
        weight = len(rows) / (sizes[0][key] * sizes[1][key]) / (templates[0][key[0]] * templates[1][key[0]])
        noise[key[0]] = noise.get(key[0], 0.0) + weight * product
    return noise


class _Gathered(NamedTuple):
    styles: np.ndarray
    ids: np.ndarray
    cells: dict[DescriptorKey, dict[str, np.ndarray]]


def _distinct(parts: Sequence[Part]) -> list[RepliesOf]:
    runs = {id(replies): replies for part in parts for replies in (part.replies, part.sources) if replies is not None}
    return list(runs.values())


def _gathered(replies: RepliesOf) -> _Gathered:
    rows: dict[DescriptorKey, dict[str, list[int]]] = {}
    for row, (key, template) in enumerate(zip(replies.descriptors, replies.templates, strict=True)):
        rows.setdefault(key, {}).setdefault(template, []).append(row)
    cells = {key: {name: np.array(members) for name, members in of_key.items()} for key, of_key in rows.items()}
    return _Gathered(replies.styles, np.asarray(replies.ids), cells)


def _vectors(parts: Sequence[Part]) -> dict[DescriptorKey, np.ndarray]:
    """Returns the gradient of the sum with respect to each descriptor's mean style vectors: [runs, styles]."""
    order = {id(replies): index for index, replies in enumerate(_distinct(parts))}
    vectors: dict[DescriptorKey, np.ndarray] = {}
    for part in parts:
        for replies, of_part in ((part.replies, part.vectors), (part.sources, part.source_vectors)):
            if replies is None:
                continue
            for key, vector in of_part.items():
                vectors.setdefault(key, np.zeros((len(order), len(vector))))[order[id(replies)]] += vector
    return vectors


def _factors(parts: Sequence[Part]) -> np.ndarray:
    """Returns the factor by which the product of two runs' errors is multiplied: [runs, runs], symmetric."""
    order = {id(replies): index for index, replies in enumerate(_distinct(parts))}
    factors = np.zeros((len(order), len(order)))
    for part in parts:
        if part.sources is not None:
            factors[order[id(part.replies)], order[id(part.sources)]] += part.sign / 2
    return factors + factors.T


def _errors(runs: Sequence[_Gathered], members: Sequence[np.ndarray]) -> np.ndarray:
    """Splits the error of one cell's mean into one part per prompt: [prompts, runs, styles].

    The sum of the squared parts is an unbiased estimate of the variance of the mean.
    """
    names = np.unique(np.concatenate([run.ids[rows] for run, rows in zip(runs, members, strict=True)]))
    errors = np.zeros((len(names), len(runs), runs[0].styles.shape[1]))
    for index, (run, rows) in enumerate(zip(runs, members, strict=True)):
        if len(rows):
            styles = run.styles[rows].astype(np.float64)
            scale = np.sqrt(len(rows) * (len(rows) - 1))
            errors[np.searchsorted(names, run.ids[rows]), index] = (styles - styles.mean(axis=0)) / scale
    return errors
