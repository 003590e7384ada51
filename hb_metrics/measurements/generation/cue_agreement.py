"""Measures whether different cues change the style of replies to a term in the same direction.

A cell is a term, a template and a question. Under each cue, each of D terms has a mean style vector over its cells. Let
m_d be the true value of this vector, and u_d = m_d − (mean of m over terms). For cues a and b, the product P_ab is Σ_d
⟨u_da, u_db⟩ / (D − 1). Then

    agreement of directions = P_ab / √(P_aa P_bb).

The agreement is a correlation between −1 (opposite directions) and 1 (the same direction). Sampling noise increases the
observed P_aa. It also increases the observed P_ab, because the replies to the same prompt under two cues share the noun
and may share random numbers. ⟨m_da, m_db⟩ is therefore estimated by the product of the two observed means, minus their
estimated covariance. Estimates and bounds below −1 or above 1 are set to −1 or 1.

The variance of the mean style vectors is split into three parts, as in a model with random effects:

* The first part, due to terms, is the mean of P_ab over pairs of cues.
* The second part, due to terms and cues together, is the mean of P_aa minus the first part.
* The third part, due to cues, is half the mean squared distance between two cues' means over all terms, minus the
  second part divided by D.

Intervals generalise to other terms of the same axes under the same cues, templates and questions. They are Fieller's
intervals for ratios. Their covariance matrix comes from a jackknife over the terms of each axis. No agreement is
computed if P_aa is not above 0 beyond chance, or if the interval contains all possible values.

In the same way, a cue with names is compared with a cue that states the group. Groups then take the place of terms. The
names of a group are treated as a random sample, so P_aa uses only products of different names (see `name_groups.py`).
Intervals generalise to other names from the same groups, and to other replies to the same statements. Their covariance
matrix comes from a jackknife over the names of each group, and from the first-order effects of the replies to
statements.
"""

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy import stats

from hb_metrics.measurements.generation.name_groups import group_variances, jackknife_errors, name_groups, without_each
from hb_metrics.paired_changes.paired_change import FEW_TERMS_REASON, MIN_TERMS, ratio_bounds
from hb_metrics.stats.generalising import MIN_EQUAL_TERMS, kurtosis, strata
from hb_metrics.stats.share_intervals import Bounds

# The lowest and the highest possible share of each part. The share of terms is negative if cues have opposite
# directions.
_LIMITS = {"term": (-1.0, 1.0), "both": (0.0, 2.0), "cue": (0.0, 1.0)}
UNRELIABLE_REASON = "under one of the cues, replies differ too little to distinguish their directions from chance"
_CLEAR = 0.05  # groups of names differ beyond chance if the p-value is at most this number


class CueReplies(NamedTuple):
    """The replies under one cue. They refer to the terms that all cues share, and each cell has at least two replies.

    Attributes:
        ids: [replies] The ids of the prompts.
        styles: [replies, styles] The style vectors.
        terms: [replies] The code of each reply's term. A term has the same code under all cues.
        cells: [replies] The code of each reply's template and question.
    """

    ids: np.ndarray
    styles: np.ndarray
    terms: np.ndarray
    cells: np.ndarray


class Estimate(NamedTuple):
    value: float | None
    interval: Bounds | None
    reason: str | None


class Reversal(NamedTuple):
    """The product P_ab of two cues over the terms of an axis, and the p-value (Holm) for a product below 0."""

    axis: int
    product: float
    p: float


class Agreements(NamedTuple):
    """The agreement and the reversals of each pair of cues, and three shares of variance ("term", "cue" and "both")."""

    pairs: dict[tuple[int, int], Estimate]
    reversals: dict[tuple[int, int], list[Reversal]]
    shares: dict[str, Estimate]


class _Means(NamedTuple):
    """The mean style vectors of terms under a cue.

    Attributes:
        means: [terms, styles] The mean style vectors.
        residuals: [replies, styles] The style vectors minus the mean of their cell.
        sizes: [replies] The number of replies in each reply's cell.
        number: The number of cells per term.
    """

    replies: CueReplies
    means: np.ndarray
    residuals: np.ndarray
    codes: np.ndarray
    sizes: np.ndarray
    number: int


def cue_agreements(cues: Sequence[CueReplies], axes: np.ndarray, confidence_level: float) -> Agreements:
    """Compares cues over the same terms. `axes` [terms] contains the code of each term's axis, from 0."""
    number = len(axes)
    means = [_means(cue, number) for cue in cues]
    vectors = np.stack([each.means for each in means], axis=1)  # [terms, cues, styles]
    shared = np.zeros((number, len(cues), len(cues)))
    for one in range(len(cues)):
        for other in range(one, len(cues)):
            shared[:, one, other] = shared[:, other, one] = _shared(means[one], means[other], number)
    products = vectors @ vectors.swapaxes(1, 2) - shared
    between, centres = _without_each(vectors, products, shared)

    pairs, reversals = {}, {}
    clear = [_is_clear(between[:, cue, cue], axes, confidence_level) for cue in range(len(cues))]
    for one, other in combinations(range(len(cues)), 2):
        both = between[:, one, one] * between[:, other, other]
        sizes = np.sqrt(np.maximum(both, 0)) if clear[one] and clear[other] else np.zeros(number + 1)
        pairs[one, other] = _ratio(between[:, one, other], sizes, axes, confidence_level, (-1.0, 1.0))
        reversals[one, other] = _reversals(
            means[one], means[other], products[:, one, other], shared[:, one, other], axes
        )
    own, cross = _own_and_cross(between)
    own_centre, cross_centre = _own_and_cross(centres)
    parts = {"term": cross, "both": own - cross}
    counts = np.append(number, np.full(number, number - 1))
    parts["cue"] = own_centre - cross_centre - parts["both"] / counts
    total = own + parts["cue"]
    return Agreements(
        pairs,
        adjusted(reversals),
        {name: _ratio(part, total, axes, confidence_level, _LIMITS[name]) for name, part in parts.items()},
    )


def group_agreement(
    names: CueReplies, groups: Sequence[str], statements: CueReplies, confidence_level: float
) -> Estimate:
    """Computes how well the directions of bias measured with names agree with those measured with stated groups.

    In `names`, each name takes the place of a term, and one reply per cell is enough. `groups` [names] contains the
    group of each name. In `statements`, the terms are the groups in alphabetical order.
    """
    if len(set(groups)) < 2:
        return Estimate(None, None, "fewer than two groups of names are also terms")
    asked = names.terms.astype(str).tolist(), names.cells.astype(str).tolist()
    group_of = {str(code): group for code, group in enumerate(groups)}
    tested = name_groups(names.styles, *asked, group_of, confidence_level)
    if tested["reason"] is not None or len(statements.ids) == 0:
        return Estimate(None, None, tested["reason"] or "no template and question has two replies to each group")
    number, codes = len(tested["num_names"]), np.unique(groups, return_inverse=True)[1]
    called, told = _means(names, len(groups)).means, _means(statements, number)
    members = np.eye(number)[codes]
    weights = np.concatenate([members[None], without_each(members)])  # [1 + names, names, groups]
    means = weights.swapaxes(1, 2) @ called / weights.sum(axis=1)[..., None]
    means -= means.mean(axis=1, keepdims=True)
    apart = told.means - told.means.mean(axis=0)
    noise = (number - 1) / number**2 * float(_shared(told, told, number).sum())
    between, own = group_variances(called @ called.T, weights)[0], float((apart**2).sum()) / number - noise
    products = np.einsum("igs,gs->i", means, apart) / number
    along = np.einsum("grs,rs->gr", np.stack([2 * apart, means[0]])[:, statements.terms], told.residuals)
    moves = along / (number * told.number * np.sqrt(told.sizes * (told.sizes - 1)))
    freedom = min(len(groups) - number, len(statements.ids) - number * told.number)
    is_clear = tested["p"] <= _CLEAR and own > stats.t.ppf(confidence_level, freedom) * np.linalg.norm(moves[0])
    if not is_clear or not (between > 0).all():
        return Estimate(None, None, UNRELIABLE_REASON)
    moves[0] *= math.sqrt(between[0] / own) / 2  # of √(P_aa P_bb)
    values = np.stack([np.sqrt(between * own), products], axis=1)
    moved = jackknife_errors(values[1:], members)
    covariance = moved.T @ moved + moves @ moves.T
    return _bounded(values[0].tolist(), covariance, freedom, confidence_level, (-1.0, 1.0))


def _means(cue: CueReplies, number: int) -> _Means:
    num_cells = int(cue.cells.max()) + 1
    codes = cue.terms * num_cells + cue.cells
    counts = np.bincount(codes, minlength=number * num_cells)
    means = np.zeros((number * num_cells, cue.styles.shape[1]))
    np.add.at(means, codes, cue.styles)
    means /= counts[:, None]
    by_term = means.reshape(number, num_cells, -1).mean(axis=1)
    return _Means(cue, by_term, cue.styles - means[codes], codes, counts[codes], num_cells)


def _shared(one: _Means, other: _Means, number: int) -> np.ndarray:
    """Computes, for each term, the trace of the covariance of its observed means under two cues: [terms].

    The means covary because both contain replies to the same prompts. If two cells have N and M replies, of which n
    belong to the same prompts, the expected product of two residuals is (1 − 1/N − 1/M + n/NM) times the covariance. If
    both cues are the same, the result is the variance.
    """
    _, rows, others = np.intersect1d(one.replies.ids, other.replies.ids, assume_unique=True, return_indices=True)
    cells = one.codes[rows] * (int(other.codes.max()) + 1) + other.codes[others]
    _, inverse, counts = np.unique(cells, return_inverse=True, return_counts=True)
    products = np.einsum("ij,ij->i", one.residuals[rows], other.residuals[others])
    products /= (one.sizes[rows] - 1) * (other.sizes[others] - 1) + counts[inverse] - 1
    return np.bincount(one.replies.terms[rows], products, number) / (one.number * other.number)


def _without_each(vectors: np.ndarray, products: np.ndarray, shared: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Computes P_ab and the products of the means over terms, with all terms and then without each term in turn.

    Both results have the shape [1 + terms, cues, cues].
    """
    number = len(vectors)
    total = vectors.sum(axis=0)
    crossed = vectors @ total.T
    sums = (total @ total.T - shared.sum(axis=0))[None]
    without = sums - crossed - crossed.swapaxes(1, 2) + products + 2 * shared
    sums = np.concatenate([sums, without])
    own = np.concatenate([products.sum(axis=0)[None], products.sum(axis=0) - products])
    counts = np.append(number, np.full(number, number - 1))[:, None, None]
    return (own - sums / counts) / (counts - 1), sums / counts**2


def _own_and_cross(products: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    number = products.shape[1]
    own = np.trace(products, axis1=1, axis2=2)
    return own / number, (products.sum(axis=(1, 2)) - own) / (number * (number - 1))


def _is_clear(values: np.ndarray, axes: np.ndarray, confidence_level: float) -> bool:
    """Tests whether an estimate is above 0 (one-sided). `values` [1 + terms] is as in `_moved`."""
    error = math.sqrt(float((_moved(values[:, None], axes) ** 2).sum()))
    return len(axes) >= MIN_TERMS and float(values[0]) > float(stats.t.ppf(confidence_level, _freedom(axes))) * error


def _moved(values: np.ndarray, axes: np.ndarray) -> np.ndarray:
    """Computes each term's contribution to estimates: [terms, estimates].

    The cross product of this array is the estimates' covariance matrix. `values` [1 + terms, estimates] contains the
    estimates with all terms, and then without each term in turn. Axes with only one term are combined, because a single
    term shows no variance.
    """
    groups = strata(axes)
    moved = (1 - 1 / len(axes)) * values[1:]
    for group in np.unique(groups):
        members = groups == group
        size = int(members.sum())
        moved[members] -= moved[members].mean(axis=0)
        moved[members] *= math.sqrt(size / max(size - 1, 1))
    return moved


def _freedom(axes: np.ndarray) -> int:
    return len(axes) - len(np.unique(strata(axes)))


def _ratio(
    numerators: np.ndarray, denominators: np.ndarray, axes: np.ndarray, confidence_level: float, limits: Bounds
) -> Estimate:
    """Computes the ratio of two estimates, with its interval.

    Numerators and denominators are [1 + terms]: the estimate with all terms, and then without each term in turn.
    """
    number = len(axes)
    if number < MIN_TERMS:
        return Estimate(None, None, FEW_TERMS_REASON)
    if not (denominators > 0).all():
        return Estimate(None, None, UNRELIABLE_REASON)
    moved = _moved(np.stack([denominators, numerators], axis=1), axes)
    covariance = moved.T @ moved
    ratio = float(numerators[0] / denominators[0])
    peakedness = kurtosis(moved @ (-ratio, 1))
    if number < MIN_EQUAL_TERMS * peakedness:
        return Estimate(None, None, "a few terms account for most of its variance")
    freedom = min(_freedom(axes), 2 * number / (peakedness - 1))
    return _bounded([float(denominators[0]), float(numerators[0])], covariance, freedom, confidence_level, limits)


def _bounded(values: list[float], covariance: np.ndarray, freedom: float, level: float, limits: Bounds) -> Estimate:
    denominator, numerator = values
    bounds = ratio_bounds(denominator, numerator, covariance, float(stats.t.ppf((1 + level) / 2, freedom)) ** 2)
    if bounds is None or (bounds[0] <= limits[0] and bounds[1] >= limits[1]):
        return Estimate(None, None, UNRELIABLE_REASON)
    ratio, low, high = np.clip([numerator / denominator, *bounds], *limits).tolist()
    return Estimate(ratio, (low, high), None)


def _reversals(
    one: _Means, other: _Means, products: np.ndarray, shared: np.ndarray, axes: np.ndarray
) -> list[Reversal]:
    """Computes the product P_ab within each axis, and its p-value.

    The p-value accounts for variation between replies to the same terms, but not between terms. The product is linear
    in the means of each cue. A reply contributes the inner product of its residual and the term's deviation under the
    other cue. These deviations also contain sampling noise. If neither cue has an effect, the estimated variance is
    therefore up to twice the true variance.
    """
    members = (axes == np.arange(axes.max() + 1)[:, None]).astype(float)  # [axes, terms]
    counts = members.sum(axis=1)
    sums = members @ one.means, members @ other.means
    values = members @ products - (np.einsum("ij,ij->i", *sums) - members @ shared) / counts
    moves = []
    for each, opposite, of_axes in ((one, other, sums[1]), (other, one, sums[0])):
        apart = opposite.means - (of_axes / counts[:, None])[axes]
        along = np.einsum("ij,ij->i", each.residuals, apart[each.replies.terms])
        moves.append(along / (each.number * np.sqrt(each.sizes * (each.sizes - 1))))
    _, rows, others = np.intersect1d(one.replies.ids, other.replies.ids, assume_unique=True, return_indices=True)
    moves[0][rows] += moves[1][others]
    moves[1][others] = 0
    variances, rough = np.zeros(len(counts)), np.zeros(len(counts))
    for each, of_each in zip((one, other), moves, strict=True):
        by_cell, sizes = np.bincount(each.codes, of_each**2), np.bincount(each.codes)
        of_axis = np.repeat(axes, each.number)
        variances += np.bincount(of_axis, by_cell, len(counts))
        rough += np.bincount(of_axis, by_cell**2 / (sizes - 1), len(counts))
    found = []
    for axis in np.flatnonzero((counts > 1) & (variances > 0)).tolist():
        p = stats.t.cdf(values[axis] / np.sqrt(variances[axis]), variances[axis] ** 2 / rough[axis])
        found.append(Reversal(axis, float(values[axis] / (counts[axis] - 1)), float(p)))
    return found


def adjusted(reversals: dict[tuple[int, int], list[Reversal]]) -> dict[tuple[int, int], list[Reversal]]:
    """Adjusts the p-values for the number of pairs and axes (Holm)."""
    every = sorted(reversal.p for of_pair in reversals.values() for reversal in of_pair)
    steps = np.maximum.accumulate([min(p * (len(every) - rank), 1.0) for rank, p in enumerate(every)])
    by_p = dict(zip(every, steps.tolist(), strict=True))
    return {pair: [each._replace(p=by_p[each.p]) for each in of_pair] for pair, of_pair in reversals.items()}
