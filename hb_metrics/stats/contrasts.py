"""Separates how likely a term is from what sentences say about it.

L[term, noun, template] is a sentence's log-likelihood. The likelihood of the term itself is the same in all templates.
It cancels in the contrast of a pair of templates, such as L("I love …") − L("I hate …"). docs/measurements.md explains
the figures, and states what is random in each interval.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, special, stats

from hb_metrics.stats.clusters import MIN_FREEDOM, Bounds, Estimate, quantile, uncertainty
from hb_metrics.stats.decisions import SAME_ANSWERS
from hb_metrics.stats.likelihood_tables import (
    FEW_NOUNS,
    MIN_NOUNS,
    NO_DIFFERENCE,
    NO_TERMS,
    ROUNDING,
    SAME,
    LikelihoodTable,
    have_few_nouns,
    known_members,
    num_nouns,
    without_noun_effects,
)
from hb_metrics.stats.term_spread import spread_of_rows

NONCE_AXIS = "nonce"  # the axis of words without a meaning
# The pairs agree if at least this correlation between two pairs' contrasts is certain.
MIN_AGREEMENT = 0.5
MIN_NONCE_WORDS = 4


@dataclass(frozen=True)
class TermContrast:
    """The attitude contrast of a term, in nats, minus the mean of the nonce words, or of all terms without them.

    `adjusted_p` is the p-value of the hypothesis that the term is like a nonce word (Benjamini–Hochberg). It is `None`
    for nonce words, and if there are too few of them.
    """

    axis: str
    term: str
    contrast: Estimate
    adjusted_p: float | None


@dataclass(frozen=True)
class AxisContrast:
    """The differences between the terms of an axis.

    Attributes:
        num_terms: The number of terms of which all pairs are known.
        spread: The standard deviation of the contrast between terms, in nats, without the noise of the nouns.
        control: The same for the control pairs. `None` if there are none.
        ratio: The standard deviation divided by that of the nonce words, both with the noise of the nouns. `None` for
            the nonce words, and if there are none.
    """

    num_terms: int
    spread: Estimate
    control: Estimate | None
    ratio: Estimate | None


@dataclass(frozen=True)
class Contrasts:
    """The attitude contrasts of a run.

    Attributes:
        pairs: The favourable and the unfavourable template of each pair.
        controls: Pairs that differ in meaning but not in attitude.
        spread: The square root of the mean variance between terms, over all axes except the nonce words.
        agreement: The mean correlation between the contrasts of two pairs, over the terms of an axis.
        nonce_range: The range of 95 of 100 nonce words, relative to their mean. `None` if it is unknown.
        num_left_out: The number of terms that lack a template of a pair, or a second noun in it.
    """

    pairs: list[tuple[str, str]]
    controls: list[tuple[str, str]]
    confidence_level: float
    spread: Estimate
    control: Estimate | None
    agreement: Estimate
    by_axis: dict[str, AxisContrast]
    terms: list[TermContrast]
    nonce_range: tuple[float, float] | None
    num_left_out: int

    @property
    def agree(self) -> bool:
        return self.agreement.interval is not None and self.agreement.interval[0] >= MIN_AGREEMENT


def contrasts(
    table: LikelihoodTable,
    pairs: Sequence[tuple[str, str]],
    controls: Sequence[tuple[str, str]] = (),
    confidence_level: float = 0.95,
) -> Contrasts | None:
    """Computes the attitude contrasts of all terms. Returns `None` if the table contains none of the pairs.

    Args:
        table: The log-likelihoods.
        pairs: The favourable and the unfavourable template of each pair.
        controls: Pairs that differ in meaning but not in attitude.
        confidence_level: The level of the intervals.
    """
    pairs, controls = known_pairs(table, pairs), known_pairs(table, controls)
    if not pairs:
        return None
    counts, rows = pair_contrasts(table, pairs)
    means, members = rows.mean(axis=0), known_members(table.axes, rows)
    control_counts, of_controls = pair_contrasts(table, controls) if controls else (counts, None)
    axes = [axis for axis in members if axis != NONCE_AXIS]
    excess = _excess_kurtosis(means.mean(axis=0), list(members.values()))

    def control_spread(groups: Sequence[np.ndarray]) -> Estimate | None:
        if of_controls is None:
            return None
        return _spread(of_controls.mean(axis=0), control_counts, groups, confidence_level)

    by_axis = {}
    for axis, of_axis in members.items():
        ratio = None
        if axis != NONCE_AXIS in members:
            ratio = _ratio(means.mean(axis=0), members, axis, excess, confidence_level)
        of_terms = _spread(means, counts, [of_axis], confidence_level)
        by_axis[axis] = AxisContrast(len(of_axis), of_terms, control_spread([of_axis]), ratio)
    groups = [members[axis] for axis in axes]
    used = np.flatnonzero(np.isfinite(rows).all(axis=(0, 1)))
    nonce = members.get(NONCE_AXIS, np.zeros(0, int))
    if len(used):
        rows = rows - rows[:, :, nonce if len(nonce) else used].mean(axis=2, keepdims=True)
    estimates = _term_estimates(rows[:, :, used], counts[used], confidence_level)
    bounds, adjusted = _nonce_null(rows.mean(axis=0), nonce, used, excess, confidence_level)
    terms = [
        TermContrast(str(table.axes[term]), str(table.terms[term]), estimate, adjusted_p)
        for term, estimate, adjusted_p in zip(used, estimates, adjusted, strict=True)
    ]
    return Contrasts(
        pairs=pairs,
        controls=controls,
        confidence_level=confidence_level,
        spread=_spread(means, counts, groups, confidence_level),
        control=control_spread(groups),
        agreement=_agreement(rows.mean(axis=1), groups, confidence_level),
        by_axis=by_axis,
        terms=terms,
        nonce_range=bounds,
        num_left_out=len(table.terms) - len(used),
    )


def known_pairs(table: LikelihoodTable, pairs: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    return [pair for pair in pairs if {*pair} <= {*table.templates}]


def pair_contrasts(table: LikelihoodTable, pairs: Sequence[tuple[str, str]]) -> tuple[np.ndarray, np.ndarray]:
    """Returns the smallest number of nouns of each term, and the contrasts without noun effects [pairs, nouns, terms].

    Terms without two nouns in each pair are NaN.
    """
    of = {template: table.values[row] for row, template in enumerate(table.templates)}
    values = np.stack([of[favourable] - of[unfavourable] for favourable, unfavourable in pairs])
    rows = np.stack([without_noun_effects(of_pair) for of_pair in values])
    return num_nouns(values), rows


def _spread(rows: np.ndarray, counts: np.ndarray, groups: Sequence[np.ndarray], level: float) -> Estimate:
    """Estimates the standard deviation between the terms of each group, from rows [nouns, terms]."""
    groups = [members for members in groups if np.isfinite(rows[:, members]).all()]
    if not groups:
        return Estimate(None, None, NO_TERMS)
    centred = [rows[:, members] - rows[:, members].mean(axis=1, keepdims=True) for members in groups]
    scaled = [own / np.sqrt((own.shape[1] - 1) * len(groups)) for own in centred]
    estimate = spread_of_rows(np.concatenate(scaled, axis=1), not have_few_nouns(counts, groups), level, seed=0)
    reason = SAME if estimate.reason == SAME_ANSWERS else estimate.reason and FEW_NOUNS
    return Estimate(estimate.value, estimate.interval, reason)


def spread_without_nouns(rows: np.ndarray, groups: Sequence[np.ndarray]) -> tuple[float, np.ndarray]:
    """Returns the spread between the terms of the groups, and the spread without each of the nouns: [nouns]."""
    number, products = len(rows), np.zeros((len(rows), len(rows)))
    for members in groups:
        own = rows[:, members] - rows[:, members].mean(axis=1, keepdims=True)
        products += own @ own.T / ((len(members) - 1) * len(groups))
    others = products.sum(axis=1) - np.diag(products)
    without = (others.sum() - 2 * others) / ((number - 1) * (number - 2))
    return float(np.sqrt(max(others.sum() / (number * (number - 1)), 0.0))), np.sqrt(np.maximum(without, 0.0))


def _ratio(means: np.ndarray, members: dict[str, np.ndarray], axis: str, excess: float, level: float) -> Estimate:
    """Compares the standard deviation of an axis with that of the nonce words. Terms and nonce words are random.

    Both contain the noise of the nouns. The interval is that of an F-test, with fewer degrees of freedom if terms have
    heavier tails than the normal distribution.
    """
    sizes = np.array([len(members[axis]), len(members[NONCE_AXIS])])
    own, null = (float(means[members[of]].var(ddof=1)) for of in (axis, NONCE_AXIS))
    if null < ROUNDING**2:
        return Estimate(None, None, "the nonce words do not differ")
    if sizes[1] < MIN_NONCE_WORDS:
        return Estimate(float(np.sqrt(own / null)), None, f"fewer than {MIN_NONCE_WORDS} nonce words")
    freedom = (sizes - 1) / (1 + excess * (sizes - 1) / (2 * sizes))
    tail = (1 + level) / 2
    low, high = (float(np.sqrt(own / null / stats.f.ppf(share, *freedom))) for share in (tail, 1 - tail))
    return Estimate(float(np.sqrt(own / null)), (low, high), None)


def _excess_kurtosis(means: np.ndarray, groups: Sequence[np.ndarray]) -> float:
    """Returns the excess kurtosis of terms, pooled over groups by unbiased cumulants, or 0 if it is negative."""
    large = [means[members] for members in groups if len(members) >= MIN_NONCE_WORDS]
    fourth = sum(float(stats.kstat(of, 4)) for of in large)
    squares = sum(float(stats.kstat(of, 2)) ** 2 - float(stats.kstatvar(of, 2)) for of in large)
    return max(fourth / squares, 0.0) if squares > 0 else 0.0


def _nonce_null(
    rows: np.ndarray, nonce: np.ndarray, used: np.ndarray, excess: float, level: float
) -> tuple[Bounds | None, list[float | None]]:
    """Returns the range of nonce words, and the adjusted p-value of each term that is used.

    Under the null hypothesis, a term is one more draw from the nonce words. t has their degrees of freedom, and fewer
    if terms have heavier tails than the normal distribution.
    """
    means = rows.mean(axis=0)
    adjusted: list[float | None] = [None] * len(used)
    if len(nonce) < MIN_NONCE_WORDS or (deviation := float(means[nonce].std(ddof=1))) < ROUNDING:
        return None, adjusted
    # t has this excess kurtosis with 4 + 6 / excess degrees of freedom. Twice their reciprocal also covers skewness.
    freedom = 1 / (1 / (len(nonce) - 1) + 2 * excess / (4 * excess + 6))
    error = deviation * float(np.sqrt(1 + 1 / len(nonce)))
    tested = np.flatnonzero(~np.isin(used, nonce))
    p_values = 2 * stats.t.sf(np.abs(means[used[tested]]) / error, freedom)
    for place, p in zip(tested, stats.false_discovery_control(p_values) if len(tested) else [], strict=True):
        adjusted[place] = float(p)
    half = quantile(level, freedom) * error
    return (-half, half), adjusted


def _agreement(means: np.ndarray, groups: Sequence[np.ndarray], level: float) -> Estimate:
    """Computes the mean correlation between pairs, from their contrasts [pairs, terms].

    Terms are random: the interval is a jackknife over the terms of each axis, on Fisher's scale.
    """
    if len(means) < 2:
        return Estimate(None, None, "the run has only one pair")
    if not groups:
        return Estimate(None, None, NO_TERMS)
    own = np.concatenate([means[:, of] - means[:, of].mean(axis=1, keepdims=True) for of in groups], axis=1)
    if own.std(axis=1).min() < ROUNDING:
        return Estimate(None, None, NO_DIFFERENCE)
    sizes = np.array([len(of) for of in groups])
    axes = np.repeat(np.arange(len(groups)), sizes)
    number = sizes[axes]
    products = np.einsum("pt,qt->tpq", own, own)
    total = products.sum(axis=0)
    # The sums of products without a term, from its axis's other terms around their own mean.
    value, *without = _mean_correlations(
        np.concatenate([total[None], total - (number / (number - 1))[:, None, None] * products])
    )
    of_value = uncertainty((number - 1) / number * (np.arctanh(value) - np.arctanh(without)), axes)
    if of_value.by_weight < MIN_FREEDOM:
        return Estimate(value, None, f"fewer than {MIN_FREEDOM + len(groups)} terms")
    if of_value.variance < ROUNDING:
        return Estimate(value, None, "the pairs have the same contrasts")
    half = of_value.of_squares().half_width(level)
    return Estimate(value, (float(np.tanh(np.arctanh(value) - half)), float(np.tanh(np.arctanh(value) + half))), None)


def _mean_correlations(products: np.ndarray) -> list[float]:
    """Returns the mean correlation of two different pairs from each matrix of sums of products: [n, pairs, pairs]."""
    deviations = np.sqrt(np.einsum("tpp->tp", products))
    first, second = np.triu_indices(products.shape[1], 1)
    correlations = products[:, first, second] / np.maximum(deviations[:, first] * deviations[:, second], ROUNDING**2)
    return np.clip(correlations.mean(axis=1), -1 + 1e-9, 1 - 1e-9).tolist()


def _term_estimates(rows: np.ndarray, counts: np.ndarray, level: float) -> list[Estimate]:
    """Estimates the means of terms from rows [pairs, nouns, terms], of which `counts` nouns are known.

    Nouns are random, and so are pairs if there are several: the variance is V_pairs + V_nouns − V_cells (Owen, 2007). A
    term has few pairs, so V_pairs is moderated by that of all terms (Smyth, 2004).
    """
    num_pairs, num_nouns, _ = rows.shape
    of_pairs, of_nouns = rows.mean(axis=1), rows.mean(axis=0)
    values = of_pairs.mean(axis=0)
    if num_nouns < MIN_NOUNS:
        return [Estimate(float(value), None, FEW_NOUNS) for value in values]
    variance, freedom = of_nouns.var(axis=0, ddof=1) / num_nouns, counts - 1.0
    if num_pairs > 1:
        residuals = rows - of_pairs[:, None] - of_nouns + values
        cells = (residuals**2).sum(axis=(0, 1)) / ((num_pairs - 1) * (num_nouns - 1) * num_pairs * num_nouns)
        over_pairs, pair_freedom = moderated(of_pairs.var(axis=0, ddof=1) / num_pairs, num_pairs - 1)
        beyond = np.maximum(variance - cells, 0.0)
        variance = over_pairs + beyond
        noise = over_pairs**2 / pair_freedom + beyond**2 / freedom
        freedom = np.divide(variance**2, noise, out=np.ones(len(values)), where=noise > 0)
    halves = special.stdtrit(freedom, (1 + level) / 2) * np.sqrt(variance)
    estimates = []
    for value, half in zip(values.tolist(), halves.tolist(), strict=True):
        bounds = (value - half, value + half) if half > ROUNDING else None
        estimates.append(Estimate(value, bounds, None if bounds else SAME))
    return estimates


def moderated(variances: np.ndarray, freedom: int) -> tuple[np.ndarray, float]:
    """Shrinks variances toward a common one. Returns them with their degrees of freedom.

    True variances are assumed to be draws of a scaled inverse χ² distribution, whose parameters come from the mean and
    the variance of the logarithms (Smyth, 2004, https://doi.org/10.2202/1544-6115.1027).
    """
    logs = np.log(variances[variances > 0]) - special.digamma(freedom / 2) + np.log(freedom / 2)
    if len(logs) < 3:
        return variances, float(freedom)
    beyond = float(logs.var(ddof=1)) - float(special.polygamma(1, freedom / 2))
    prior = 2 * optimize.brentq(lambda half: special.polygamma(1, half) - beyond, 1e-3, 1e4) if beyond > 1e-3 else 1e4
    common = np.exp(logs.mean() + special.digamma(prior / 2) - np.log(prior / 2))
    return (prior * common + freedom * variances) / (prior + freedom), float(prior + freedom)
