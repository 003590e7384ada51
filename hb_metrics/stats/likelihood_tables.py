"""Arranges log-likelihoods of sentences, and computes how much of their differences comes with the term."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy import sparse

from hb_metrics.stats.clusters import Estimate, quantile
from hb_metrics.stats.inputs import text_codes
from hb_metrics.stats.question_tables import MIN_QUESTIONS as MIN_NOUNS
from hb_metrics.stats.question_tables import completed, mean_table, row_effects

FEW_NOUNS = f"most terms have fewer than {MIN_NOUNS} nouns"
NO_TERMS = "no axis has two terms with two nouns in common in each of the templates"
SAME = "it is the same for all nouns"
NO_DIFFERENCE = "the terms do not differ beyond noise"
ROUNDING = 1e-10  # differences in nats below this number are rounding errors


@dataclass(frozen=True)
class TermShare:
    """The share of the differences in log-likelihood between the terms of an axis that is common to all templates."""

    whole: Estimate
    by_axis: dict[str, Estimate]
    num_left_out: int


class LikelihoodTable(NamedTuple):
    """Log-likelihoods: [templates, nouns, terms], NaN if there is no such sentence. `axes` and `terms` are sorted."""

    values: np.ndarray
    templates: list[str]
    axes: np.ndarray
    terms: np.ndarray


def likelihood_table(
    log_likelihoods: np.ndarray,
    axes: Sequence[str],
    terms: Sequence[str],
    nouns: Sequence[str | None],
    templates: Sequence[str],
) -> LikelihoodTable:
    """Arranges the log-likelihoods of sentences. Averages sentences that agree in all columns."""
    keys, columns = np.unique(np.array([axes, terms], dtype=str), axis=1, return_inverse=True)
    layers, kinds = text_codes("template", templates)  # an array of texts would be as wide as the longest one
    words, rows = np.unique(np.array(["" if noun is None else noun for noun in nouns]), return_inverse=True)
    shape = len(kinds), len(words), keys.shape[1]
    flat = mean_table(log_likelihoods, layers * shape[1] + rows, columns.ravel(), (shape[0] * shape[1], shape[2]))
    return LikelihoodTable(flat.reshape(shape), kinds, keys[0], keys[1])


def term_share(table: LikelihoodTable, confidence_level: float = 0.95) -> TermShare:
    """Computes the share of the variance between terms that is common to all templates.

    The variance of the mean over templates is divided by the mean of the variances in each template. Both are without
    the noise of the nouns, which are the random units of the interval (jackknife).
    """
    rows = np.stack([without_noun_effects(of_template) for of_template in table.values])
    counts, members_of, parts = num_nouns(table.values), known_members(table.axes, rows), {}
    for axis, members in members_of.items():
        own = rows[:, :, members]
        own = (own - own.mean(axis=2, keepdims=True)) / np.sqrt(len(members) - 1)
        common = own.mean(axis=0)
        parts[axis] = np.stack([common @ common.T, np.einsum("kit,kjt->ij", own, own) / len(own)])
    whole = Estimate(None, None, NO_TERMS)
    if parts:
        whole = _share(np.sum(list(parts.values()), axis=0), counts, [*members_of.values()], confidence_level)
    by_axis = {axis: _share(parts[axis], counts, [members], confidence_level) for axis, members in members_of.items()}
    return TermShare(whole, by_axis, int(np.isnan(rows).any(axis=(0, 1)).sum()))


def _share(products: np.ndarray, counts: np.ndarray, groups: Sequence[np.ndarray], level: float) -> Estimate:
    """Computes a share from the products of nouns in its numerator and in its denominator: [2, nouns, nouns]."""
    number = products.shape[1]
    own = np.einsum("pii->pi", products)
    sums = products.sum(axis=(1, 2)) - own.sum(axis=1)
    if sums[1] <= number * ROUNDING:
        return Estimate(None, None, NO_DIFFERENCE)
    share = float(sums[0] / sums[1])
    value = min(max(share, 0.0), 1.0)
    if have_few_nouns(counts, groups):
        return Estimate(value, None, FEW_NOUNS)
    without = sums[:, None] - 2 * (products.sum(axis=2) - own)
    error = float(np.sqrt((number - 1) * (without[0] / without[1]).var()))
    if error < ROUNDING:
        return Estimate(value, None, SAME)
    low, high = np.clip(share + quantile(level, number - 1) * error * np.array([-1, 1]), 0, 1)
    return Estimate(value, (float(low), float(high)), None)


def without_noun_effects(values: np.ndarray) -> np.ndarray:
    """Subtracts the nouns' effects from a table [nouns, terms], and fills the gaps of terms with fewer nouns.

    The effects are the least-squares estimates of the model term + noun, so terms with other nouns are comparable. In a
    filled column, the mean and its standard error are those of the known values. Terms without two nouns are NaN, and
    so are terms that share no nouns with most others, directly or through other terms.
    """
    known = ~np.isnan(values)
    known &= known.sum(axis=0) > 1
    links = known.astype(float)
    _, component = sparse.csgraph.connected_components(sparse.csr_matrix(links @ links.T), directed=False)
    of_terms = component[np.argmax(known, axis=0)]
    largest = np.argmax(np.bincount(of_terms[known.any(axis=0)], minlength=1))
    known &= of_terms == largest
    rows = completed(np.where(known, values - row_effects(values, known)[:, None], np.nan))
    return np.where(known.sum(axis=0) > 1, rows, np.nan)


def known_members(axes: np.ndarray, rows: np.ndarray) -> dict[str, np.ndarray]:
    """Returns the terms of each axis that are known in all layers of the rows. Omits axes with fewer than two."""
    known = np.isfinite(rows).all(axis=(0, 1))
    by_axis = {str(axis): np.flatnonzero(known & (axes == axis)) for axis in np.unique(axes)}
    return {axis: members for axis, members in by_axis.items() if len(members) > 1}


def num_nouns(values: np.ndarray) -> np.ndarray:
    """Returns the smallest number of nouns of each term: [layers, nouns, terms] to [terms]."""
    numbers: np.ndarray = (~np.isnan(values)).sum(axis=1).min(axis=0)
    return numbers


def have_few_nouns(counts: np.ndarray, groups: Sequence[np.ndarray]) -> bool:
    """Returns whether most terms of the groups have too few nouns for an interval, given the number of each term."""
    return float(np.median(counts[np.concatenate(groups)])) < MIN_NOUNS
