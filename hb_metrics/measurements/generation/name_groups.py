"""Estimates the bias between groups of names. The names of a group are treated as a random sample.

Groups differ if names of different groups differ more than names of the same group. Each name has a mean style vector
for each question. G_ij is the mean product of a vector of name i and a vector of name j, over pairs of different
questions. G_ij therefore contains neither the sampling noise of replies nor a name's reaction to a single question.
H_gg is the mean of G_ij over pairs of different names in group g. H_gh is the mean of G_ij over pairs of a name in
group g and a name in group h. An unbiased estimate of the variance of the K groups' expected style vectors is

    (K − 1)/K² Σ_g H_gg − 1/K² Σ_{g≠h} H_gh.

This estimate is Full Gen Bias with groups in place of terms. The variance between the names of group g is the mean of
G_ii minus H_gg.

Let Σ_g be the covariance matrix of the mean style vectors of the n_g names of group g, and a_g = tr(Σ_g) / n_g. If the
groups do not differ, the plain variance of the groups' means has the expected value N = (K − 1)/K² Σ_g a_g and the
variance

    V_0 = 2 Σ_gh c_gh² tr(Σ_g Σ_h) / (n_g n_h)      c_gg = (K − 1)/K²      c_gh = 1/K² for g ≠ h.

The plain variance divided by the estimate of N is then compared with an F-distribution with 2N² / V_0 and 2N² / Var(N)
degrees of freedom (Brunner, Dette and Munk, 1997). With one style and two groups, this is Welch's test. Groups may have
different sizes and spreads.

If the true value is v, the variance of the estimate is V_0 + s·v. The slope s comes from the names' first-order
influences. The interval contains the values of v from which the estimate is at most t standard errors away, where t is
a quantile for Welch's degrees of freedom. Near v = 0, the lower limit uses the F-distribution instead.

If no names of the same group differ, there is no interval, because the spread of other names is unknown. The p-value
then comes from a permutation test: it is the share of all ways to assign names to groups of these sizes in which no
names of the same group differ. If N_c names have the c-th distinct vector, this share is at most K! Π_c N_c! / N!. It
has this value if all groups have the same size and differ.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy import special

from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.stats.clusters import Bounds, quantile, uncertainty
from hb_metrics.stats.gen_bias_intervals import SCALE, agreeing_values
from hb_metrics.stats.inputs import text_codes

MIN_NAMES = 4  # the minimum number of names in a group
_NO_SPREAD = 1e-12  # a variance that consists only of rounding errors
_DIGITS = 10  # results are rounded, because the last digits of a matrix product depend on the number of threads
_LEAST_SQUARE = 0.05  # N² is never estimated to be less than this part of its plain estimate


@dataclass(frozen=True)
class NameGroups:
    """The bias between groups of names.

    Attributes:
        within: The variance between the names of a group.
        p: The p-value of no difference between groups.
        reason: The reason why there is no value, or no interval.
        num_names: The number of names in each group.
        num_questions: The number of questions to which all names have replies.
        num_left_out: The number of all other questions.
    """

    value: float | None
    within: float | None
    interval: Bounds | None
    p: float | None
    reason: str | None
    num_names: dict[str, int]
    num_questions: int
    num_left_out: int


class _Noise(NamedTuple):
    """The variance between groups that do not differ: its expected value, its variance, and degrees of freedom."""

    expected: float
    variance: float
    freedoms: tuple[float, float]


def name_groups(
    style_probabilities: np.ndarray,
    names: Sequence[str],
    questions: Sequence[str],
    groups: Mapping[str, str],
) -> NameGroups:
    """Computes the bias between groups of names.

    `names` and `questions` [replies] describe the prompt of each reply. The shape of `style_probabilities` is [replies,
    styles].
    """
    called, rows = np.unique(names, return_inverse=True)
    columns, asked = text_codes("question", questions)  # an array of texts would be as wide as the longest one
    kinds, codes = np.unique([groups[name] for name in called.tolist()], return_inverse=True)
    counts = np.zeros((len(called), len(asked)))
    np.add.at(counts, (rows, columns), 1)
    known = (counts > 0).all(axis=0)
    sizes = dict(zip(kinds.tolist(), np.bincount(codes).tolist(), strict=True))
    result = NameGroups(
        *(None, None, None, None, None),
        num_names=sizes,
        num_questions=int(known.sum()),
        num_left_out=int((~known).sum()),
    )
    if min(sizes.values()) < MIN_NAMES:
        few = ", ".join(f"{group} {size}" for group, size in sizes.items() if size < MIN_NAMES)
        return replace(result, reason=f"each group needs at least {MIN_NAMES} names with replies ({few})")
    if known.sum() < 2:
        return replace(result, reason="fewer than two questions have replies to all names")
    means = np.zeros((*counts.shape, style_probabilities.shape[1]))
    np.add.at(means, (rows, columns), style_probabilities.astype(float))
    means = means[:, known] / counts[:, known, None]
    means -= means.mean(axis=0)  # this does not change the distances between names
    members = np.eye(len(kinds))[codes]
    vectors, apart = means.mean(axis=1), group_deviations(means.mean(axis=1), members)
    plain = float((apart**2).sum()) / len(kinds)
    if plain < _NO_SPREAD:
        return replace(result, reason="all groups have the same mean style vectors")
    number = int(known.sum())
    products = number**2 * vectors @ vectors.T - np.einsum("iqs,jqs->ij", means, means)
    value, within = group_variances(products / (number * (number - 1)), members)
    noise = _noise(vectors, members, within, number)
    if noise is None:
        alike = np.unique(vectors.round(_DIGITS), axis=0, return_counts=True)[1].tolist()
        p = math.factorial(len(kinds)) * math.prod(map(math.factorial, alike)) / math.factorial(len(called))
        reason = "names of the same group have the same mean style vector, so the spread of other names is unknown"
        value, p = round(SCALE * value, _DIGITS), round(min(p, 1.0), _DIGITS)
        return replace(result, value=value, within=0.0, p=p, reason=reason)
    p = special.fdtrc(*noise.freedoms, max(value + noise.expected, 0.0) / noise.expected)
    linear = uncertainty(group_influences(vectors, members, apart), codes)
    t, slope = quantile(CONFIDENCE_LEVEL, linear.welch), linear.variance / plain
    largest = special.fdtri(*noise.freedoms, CONFIDENCE_LEVEL) - 1  # of value / expected, if groups do not differ
    low, _ = agreeing_values(value, (largest * noise.expected / t) ** 2, slope, t)
    _, high = agreeing_values(value, noise.variance, slope, t)
    value, of_names, low, high = (round(SCALE * number, _DIGITS) for number in (value, float(within.mean()), low, high))
    return replace(result, value=value, within=of_names, interval=(low, high), p=round(float(p), _DIGITS))


def group_variances(products: np.ndarray, members: np.ndarray) -> tuple[float, np.ndarray]:
    """Computes the variance between groups, and the variance between the names of each group.

    `products` [names, names] is G. `members` [names, groups] is 1 where a name belongs to a group.
    """
    sizes, number = members.sum(axis=0), members.shape[1]
    sums, own = members.T @ products @ members, members.T @ np.diag(products)
    different = (np.diag(sums) - own) / (sizes * (sizes - 1))
    crossed = sums / np.outer(sizes, sizes)
    between = (number - 1) * different.sum() - crossed.sum() + np.trace(crossed)
    return float(between) / number**2, own / sizes - different


def group_deviations(vectors: np.ndarray, members: np.ndarray) -> np.ndarray:
    """Returns the groups' mean vectors minus the mean over groups: [groups, styles]."""
    means = members.T @ vectors / members.sum(axis=0)[:, None]
    return means - means.mean(axis=0)


def group_influences(vectors: np.ndarray, members: np.ndarray, apart: np.ndarray) -> np.ndarray:
    """Returns the influence of each name on twice the mean over groups of ⟨deviation of the group, `apart`⟩."""
    return 2 / members.shape[1] * np.einsum("is,is->i", vectors, members @ apart) / (members @ members.sum(axis=0))


def _noise(vectors: np.ndarray, members: np.ndarray, within: np.ndarray, num_questions: int) -> _Noise | None:
    """Estimates the noise. Returns `None` if no names of the same group differ."""
    sizes, number = members.sum(axis=0), members.shape[1]
    centred = vectors - members @ (members.T @ vectors / sizes[:, None])
    products = centred @ centred.T
    traces = members.T @ np.diag(products) / (sizes - 1)
    squares = members.T @ products**2 @ members / np.outer(sizes - 1, sizes - 1)  # tr(Σ_g Σ_h)
    corrected = np.diag(squares) - traces**2 / (sizes - 1)
    corrected *= (sizes - 1) ** 2 / ((sizes - 2) * (sizes + 1))  # unbiased if names are normally distributed
    np.fill_diagonal(squares, np.maximum(corrected, traces**2 / vectors.shape[1]))
    squares /= np.outer(sizes, sizes)
    weights = np.full((number, number), 1 / number**4)
    np.fill_diagonal(weights, ((number - 1) / number**2) ** 2)
    expected = (number - 1) / number**2 * float((traces / sizes).sum())
    of_expected = 2 * float((np.diag(weights * squares) / (sizes - 1)).sum())
    if expected < _NO_SPREAD:
        return None
    square = max(expected**2 - of_expected, _LEAST_SQUARE * expected**2)
    # The estimate uses only pairs of different questions, so what differs between questions adds to its variance.
    of_questions = max(1 - float(within.sum() / traces.sum()), 0.0)
    variance = 2 * float((weights * squares).sum()) * (1 + of_questions**2 / (num_questions - 1))
    return _Noise(expected, variance, (max(2 * square / variance, 1.0), 2 * square / of_expected))
