"""Measures whether two cues change the style of replies in the same direction.

A cell is a term, a template and a question. Under cue a, term d has a mean style vector over its cells. Let u_da be the
true value of this vector minus its mean over the D terms. The product P_ab is Σ_d ⟨u_da, u_db⟩ / (D − 1), and

    agreement of directions = P_ab / √(P_aa P_bb).

The agreement is a correlation between −1 (opposite directions) and 1 (the same direction). Sampling noise increases the
observed P_aa. It also increases the observed P_ab, because the replies to the same prompt under two cues share the noun
and may share random numbers. A product of two observed means is therefore reduced by their estimated covariance.

`term_agreement.py` derives the interval. A cue with names is compared with a cue that states the group: groups then
take the place of terms, names are the clusters, and P_aa uses only products of different names.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from hb_metrics.measurements.generation.name_groups import (
    MIN_NAMES,
    group_deviations,
    group_influences,
    group_variances,
)
from hb_metrics.measurements.term_agreement import Agreement, agreement, ratio_agreement

NO_EFFECT_REASON = "under one of the cues, replies do not differ by more than chance, so they have no direction"


class CueReplies(NamedTuple):
    """The replies to the terms that both cues share: the ids of their prompts, and their style vectors.

    `terms` contains the codes of terms, which are the same under both cues. `cells` contains the codes of templates
    and questions. Each term has at least two replies in each cell.
    """

    ids: np.ndarray
    styles: np.ndarray
    terms: np.ndarray
    cells: np.ndarray


class _Means(NamedTuple):
    """The mean style vectors of terms [terms, styles], over `number` cells per term.

    For each reply, `residuals` is its style vector minus the mean of replies with the same code of term and cell.
    """

    replies: CueReplies
    means: np.ndarray
    residuals: np.ndarray
    codes: np.ndarray
    sizes: np.ndarray
    number: int


def cue_agreement(
    one: CueReplies, other: CueReplies, axes: np.ndarray, buckets: np.ndarray, confidence_level: float
) -> Agreement:
    """Compares two cues. `axes` [terms] contains each term's axis, and `buckets` [terms] its cluster on this axis."""
    few = f"{len(axes)} terms with two replies to each shared template and question under both cues"
    if len(axes) < 2:
        return agreement(np.zeros((3, len(axes))), axes, buckets, confidence_level, few=few, no_effect=NO_EFFECT_REASON)
    number, sides = len(axes), [_means(cue, len(axes)) for cue in (one, other)]
    apart = [side.means - side.means.mean(axis=0) for side in sides]
    products = []  # of each term; their means over terms are P_aa, P_bb and P_ab
    for a, b in ((0, 0), (1, 1), (0, 1)):
        along = np.einsum("ds,ds->d", apart[a], apart[b]) * number / (number - 1)
        products.append(along - _shared(sides[a], sides[b], number))
    return agreement(np.stack(products), axes, buckets, confidence_level, few=few, no_effect=NO_EFFECT_REASON)


def group_agreement(
    names: CueReplies, groups: Sequence[str], statements: CueReplies, confidence_level: float
) -> Agreement:
    """Compares names, which need one reply per cell, with statements of their `groups`, in alphabetical order."""
    kinds, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    number = len(kinds)
    if number < 2:
        return Agreement(None, None, "fewer than two groups of names are also terms")
    if sizes.min() < MIN_NAMES:
        return Agreement(None, None, f"each group needs at least {MIN_NAMES} names with replies")
    if len(names.ids) == 0 or len(statements.ids) == 0:
        return Agreement(None, None, "no template and question has replies to each name, and two replies to each group")
    members = np.eye(number)[codes]
    called, told = _means(names, len(groups)).means, _means(statements, number)
    between, _ = group_variances(called @ called.T, members)
    named, stated = group_deviations(called, members), told.means - told.means.mean(axis=0)
    noise = (number - 1) / number**2 * float(_shared(told, told, number).sum())
    own = float((stated**2).sum()) / number - noise
    if min(between, own) <= 0:
        return Agreement(None, None, NO_EFFECT_REASON)
    size = math.sqrt(between * own)
    of_names = [group_influences(called, members, side) for side in (named * size / between, stated)]
    along = np.einsum("grs,rs->gr", np.stack([stated * size / own, named])[:, statements.terms], told.residuals)
    along /= number * told.number * told.sizes
    samples = (np.stack(of_names) / 2, codes, None), (along, told.codes, None)
    return ratio_agreement(size, float((named * stated).sum()) / number, confidence_level, *samples)


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

    If two cells have N and M replies, of which n belong to the same prompts, the expected product of two residuals is
    (1 − 1/N − 1/M + n/NM) times the covariance.
    """
    _, rows, others = np.intersect1d(one.replies.ids, other.replies.ids, assume_unique=True, return_indices=True)
    cells = one.codes[rows] * (int(other.codes.max()) + 1) + other.codes[others]
    _, inverse, counts = np.unique(cells, return_inverse=True, return_counts=True)
    products = np.einsum("ij,ij->i", one.residuals[rows], other.residuals[others])
    products /= (one.sizes[rows] - 1) * (other.sizes[others] - 1) + counts[inverse] - 1
    return np.bincount(one.replies.terms[rows], products, number) / (one.number * other.number)
