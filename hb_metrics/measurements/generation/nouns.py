"""Computes the bias between nouns: how much the style of replies depends on the noun in the prompt.

The bias between nouns is Full Gen Bias with nouns in place of terms. For K nouns, the variance over nouns is (1 − 1/K)
/ 2 times the mean squared distance between the mean style vectors of two nouns.

The replies for a noun refer to several terms, and all nouns have the same terms. The formula for Full Gen Bias would
treat the differences between terms as noise, and subtract too much. Nouns are therefore compared within a term. In a
template, let δ_d be the difference between the mean style vectors of nouns n and m for term d. For two different terms,
E⟨δ_d, δ_e⟩ = |μ_n − μ_m|². The average over all n ≠ m and d ≠ e contains no noise and no differences between terms.

This average is a U-statistic over terms. Its kernel g_de is summed over the nouns that both terms have. It is also
summed over templates, because a term may have the same effect on nouns in all templates. The influence of term d is
2 Σ_e g_de. Let V be the variance of these influences (see `clusters.py`), and W = 2 Σ_{d≠e} g_de² after the mean of all
g_de has been subtracted. If nouns do not differ, W is the variance, and V is about 2 W. The variance is therefore
estimated by W + max(V − 2 W, 0). With the kernels of two runs, the same formula estimates the covariance.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_dataset.grouped import grouped
from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.run.schema import by_id
from hb_metrics.stats.changes import MIN_TERMS
from hb_metrics.stats.clusters import Estimate, cluster_errors, quantile, uncertainty
from hb_metrics.stats.gen_bias_intervals import SCALE

NEITHER = "neither"  # the gender recorded for nouns such as "person"
FEW_REASON = (
    f"in at least one template, fewer than {MIN_TERMS} terms have replies for two such nouns, or all replies are the "
    "same"
)
_DIGITS = 10  # results are rounded, because the last digits of a matrix product depend on the number of threads


@dataclass(frozen=True)
class Nouns(Estimate):
    """The bias between nouns. `value` is `None` if no template has two terms that share two nouns."""

    by_gender: dict[str, Estimate]


class Noun(NamedTuple):
    """A noun and its gender, which is "female", "male" or `NEITHER`."""

    gender: str
    noun: str


class Kernels(NamedTuple):
    """The kernel of each template. The entries of a kernel sum to the template's bias between nouns.

    Attributes:
        by_template: For each template, the kernel [terms, terms]. Its diagonal is 0.
        terms: For each template, the number of terms that have replies for two or more nouns.
    """

    by_template: dict[str, np.ndarray]
    terms: dict[str, int]

    @property
    def value(self) -> float:
        """Returns the bias between nouns, multiplied by `SCALE`."""
        return SCALE * float(np.mean([kernel.sum() for kernel in self.by_template.values()]))


def nouns_of(prompts: pa.Table, ids: Sequence[str]) -> list[Noun]:
    gender_of, noun_of = by_id(prompts, "noun_gender"), by_id(prompts, "noun")
    return [Noun(gender_of[identifier] or NEITHER, noun_of[identifier]) for identifier in ids]


def noun_kernels(
    style_probabilities: np.ndarray,
    nouns: Sequence[Noun],
    templates: Sequence[str],
    terms: Sequence[tuple[str, str]],
) -> dict[str | None, Kernels]:
    """Computes the kernels of all nouns (key `None`) and of the nouns of each gender.

    All arguments have one row per reply. A term is an axis and a descriptor. Each kernel contains all terms in
    alphabetical order. A gender is left out if no template has two terms that share two nouns of this gender.
    """
    term_of = {term: row for row, term in enumerate(sorted(set(terms)))}
    noun_names = sorted(set(nouns))
    noun_of = {noun: row for row, noun in enumerate(noun_names)}
    rows_of = grouped((template, row) for row, template in enumerate(templates))
    groups: dict[str | None, list[int]] = {None: list(range(len(noun_names)))}
    groups |= grouped((noun.gender, row) for row, noun in enumerate(noun_names))
    kernels: dict[str | None, Kernels] = {group: Kernels({}, {}) for group in groups}
    for template, rows in sorted(rows_of.items()):
        sums = np.zeros((len(term_of), len(noun_names), style_probabilities.shape[1]))
        counts = np.zeros(sums.shape[:2])
        places = [term_of[terms[row]] for row in rows], [noun_of[nouns[row]] for row in rows]
        np.add.at(sums, places, style_probabilities[rows].astype(float))
        np.add.at(counts, places, 1)
        means = sums / np.maximum(counts, 1)[..., None]
        for group, members in groups.items():
            kernel = _kernel(means[:, members], counts[:, members] > 0)
            if kernel is not None:
                kernels[group].by_template[template] = kernel
                kernels[group].terms[template] = int(((counts[:, members] > 0).sum(axis=1) > 1).sum())
    return {group: of_group for group, of_group in kernels.items() if of_group.by_template}


def noun_bias(kernels: Mapping[str | None, Kernels], missing: str | None = None) -> Nouns:
    """Computes all values. `missing` is the reason why no value has an interval, if there is one."""
    by_group = {gender: _result(of_gender, missing) for gender, of_gender in kernels.items()}
    whole = by_group.pop(None, Estimate(None, None, None))
    by_gender = {str(gender): of_gender for gender, of_gender in by_group.items()}
    return Nouns(**vars(whole), by_gender=by_gender)


def covariance(first: Kernels, second: Kernels) -> tuple[np.ndarray, np.ndarray] | None:
    """Computes the covariance matrix of two runs' values [2, 2], and the influences of terms on them [2, terms].

    Returns `None` if a template has too few terms. Terms that share nouns with no other term have no influence.
    """
    if min([*first.terms.values(), *second.terms.values()]) < MIN_TERMS:
        return None
    kernels = np.stack([np.sum(list(run.by_template.values()), axis=0) for run in (first, second)])
    kernels *= SCALE / len(first.by_template)
    kept = kernels.any(axis=(0, 1)) | (not kernels.any())
    kernels = kernels[:, kept][:, :, kept]
    influences, pairs = 2 * kernels.sum(axis=2), kernels[:, ~np.eye(kernels.shape[1], dtype=bool)]
    errors, pairs = cluster_errors(influences), pairs - pairs.mean(axis=1, keepdims=True)
    noise = 2 * pairs @ pairs.T
    sizes, directions = np.linalg.eigh(errors @ errors.T - 2 * noise)
    return (directions * np.maximum(sizes, 0)) @ directions.T + noise, influences


def _kernel(means: np.ndarray, known: np.ndarray) -> np.ndarray | None:
    """Computes the kernel of a template [terms, terms], or returns `None` if no two terms share two nouns.

    `means` [terms, nouns, styles] contains the mean style vectors. `known` [terms, nouns] is true where there are
    replies. Elsewhere, `means` must be 0.
    """
    number = known.any(axis=0).sum()
    replied = known.astype(float)
    shared = replied @ replied.T
    np.fill_diagonal(shared, 0)
    pairs = float((shared * (shared - 1)).sum())
    if not pairs:
        return None
    flat = means.reshape(len(means), -1)
    products = flat @ flat.T
    crossed = np.empty(products.shape)
    for row, mean in enumerate(means):
        own, others = replied @ mean, (replied[row : row + 1] @ means)[:, 0]  # sums over the nouns that two terms share
        crossed[row] = np.einsum("es,es->e", own, others)
    kernel = np.where(shared > 1, 2 * (shared * products - crossed), 0.0)
    return kernel / pairs * (1 - 1 / number) / 2


def _result(kernels: Kernels, missing: str | None) -> Estimate:
    known, value = covariance(kernels, kernels), round(kernels.value, _DIGITS)
    if missing is not None or known is None or not known[0][0, 0] > 0:
        return Estimate(value, None, missing or FEW_REASON)
    matrix, influences = known
    freedom = uncertainty(influences[0]).of_squares().freedom
    half = quantile(CONFIDENCE_LEVEL, freedom) * float(np.sqrt(matrix[0, 0]))
    return Estimate(value, (round(value - half, _DIGITS), round(value + half, _DIGITS)), None)
