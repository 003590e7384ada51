"""Uses people's labels for a few replies to correct a judge's rates, and to compare the judge with people.

People label a sample of the replies. A stratum contains the replies with the same axis and the same verdict from the
judge. In each stratum, a known number of replies is labelled. The corrected rate is (PPI++, Angelopoulos et al., 2023,
https://arxiv.org/abs/2311.01453)

    rate = mean of λ · score over all replies + Σ_h W_h · mean of (label − λ · score) over the labelled replies of h

W_h is the share of stratum h among all replies. The weight λ is between 0 and 1, and minimises the sampling variance.

Terms of the same axis are treated as a random sample, so intervals generalise to other terms and replies of the same
kind. They do not generalise to other raters. The variance of a stratum is never set below the variance that it would
have if half a label contradicted the judge. It is therefore above 0 even if no label contradicts the judge. Intervals
use Student's t for the effective number of labelled terms.
tests/hb_metrics/stats/calibration_designs.py simulates the intervals with known true values.
"""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

from hb_metrics.stats.clusters import Bounds, quantile, skewed_bounds, welch_freedom

_CONFIDENCE_LEVEL = 0.95  # as of the intervals of runs
# There is an interval only if one label moves the rate by at most p(1 − p) / 8, where p is the judge's rate. The rate
# in people's labels is not used here, because chance in the sample would then decide which rates have intervals.
MIN_STRENGTH = 8.0
MIN_FREEDOM = 4.0  # as of five terms with as many labels each
ENOUGH_TERMS = 6  # per axis, because labels never divide evenly among terms
MIN_ALPHA_TERMS = 10
# λ minimises the variance within strata, but the interval is clustered by term. It may therefore be wider than an
# interval that ignores the judge's scores. If it is wider by more than this factor, λ is set to 0.
MAX_WIDTH = 1.05
_HALF_LABEL = 0.5
_MAX_LEVERAGE = 0.9
_TINY = 1e-12
# The minimum number of replies for each t-test of the alternative annotator test (Calderon et al., 2025).
MIN_REPLIES_PER_RATER = 30
WINNING_RATE = 0.5
EPSILON = 0.15  # the margin of the alternative annotator test, for skilled raters


class CorrectedRate(NamedTuple):
    """The rate of a label in a group of replies, before and after correction. Intervals are 95 % intervals.

    Attributes:
        value: The corrected rate, or `None` if a stratum has too few labels.
        excess_interval: The interval of `judged - value`.
        num_needed: The number of labels in this group that would be enough for an interval. `None` if there is an
            interval, or if no number of labels is enough.
        weight: λ, the weight of the judge's scores.
        freedom: The degrees of freedom of the interval, or `None` if there is no interval.
    """

    value: float | None
    interval: Bounds | None
    judged: float
    excess_interval: Bounds | None
    reason: str | None
    num_needed: int | None
    num_labelled: int
    weight: float
    freedom: float | None = None


class Agreement(NamedTuple):
    """Krippendorff's alpha (1: agreement, 0: chance) and its 95 % interval, or the reason why either is missing."""

    alpha: float | None
    interval: Bounds | None
    reason: str | None


class AlternativeAnnotator(NamedTuple):
    """The results of the alternative annotator test, or the reason why there is no test.

    Attributes:
        epsilon: The margin of the test.
        winning_rate: The share of raters whom the judge may replace.
        advantage: The probability that the judge agrees with the other raters at least as well as a rater does,
            averaged over raters.
        passes: Whether `winning_rate` is at least `WINNING_RATE`.
    """

    epsilon: float
    winning_rate: float | None
    advantage: float | None
    passes: bool | None
    reason: str | None


def corrected_rate(
    labels: np.ndarray, scores: np.ndarray, verdicts: np.ndarray, terms: np.ndarray, axes: np.ndarray
) -> CorrectedRate:
    """Computes the corrected rate in a group of replies, such as all replies of a run or of an axis.

    Args:
        labels: [replies] The share of raters who gave the label, or NaN if nobody labelled the reply.
        scores: [replies] The probability of the label according to the judge.
        verdicts: [replies] 1 if the judge gives the label, otherwise 0.
        terms: [replies] The index of the term. A term on two axes has a different index on each axis.
        axes: [replies] The index of the axis.
    """
    rate = _rate(labels, scores, verdicts, terms, axes)
    alone = rate if rate.weight == 0 else _rate(labels, np.zeros(len(labels)), verdicts, terms, axes)
    for bounds, limits in ((rate.interval, alone.interval), (rate.excess_interval, alone.excess_interval)):
        if bounds and limits and bounds[1] - bounds[0] > MAX_WIDTH * (limits[1] - limits[0]):
            return alone
    return rate


def _rate(
    labels: np.ndarray, scores: np.ndarray, verdicts: np.ndarray, terms: np.ndarray, axes: np.ndarray
) -> CorrectedRate:
    seen = ~np.isnan(labels)
    number, judged, num_labelled = len(labels), float(verdicts.mean()), int(seen.sum())
    # In each stratum (an axis and a verdict), the labelled replies are a random sample, even if the group contains only
    # some of the axis's terms.
    stratum = _codes(2 * axes + verdicts)
    sizes, drawn = np.bincount(stratum), np.bincount(stratum[seen], minlength=stratum.max() + 1)
    if (drawn < np.minimum(sizes, 2)).any():
        reason = "for some axis and verdict, fewer than two replies were labelled"
        needed = int(np.maximum(drawn, np.minimum(sizes, 2)).sum())
        return CorrectedRate(None, None, judged, None, reason, needed, num_labelled, 0.0)
    shares, taken = sizes / number, drawn / sizes
    means = np.bincount(stratum, np.where(seen, labels, 0.0)) / drawn
    mean_scores = np.bincount(stratum, np.where(seen, scores, 0.0)) / drawn
    centred = scores - mean_scores[stratum]
    residuals = np.where(seen, labels - means[stratum], 0.0)
    # The variance of a stratum's mean is `unit` times the sum of its squared residuals.
    unit = shares**2 * (1 - taken) / np.maximum(drawn - 1, 1) / drawn
    pulls = np.where(seen, unit[stratum] * centred**2, 0.0)
    weight = 0.0
    if pulls.sum() > _TINY * number**-2:
        slope = (unit[stratum] * centred * residuals).sum() / pulls.sum()
        weight = float(min(max(slope, 0.0), 1.0))
    if weight > 0:  # the weight was fitted to these residuals, so they are too small
        leverage = np.minimum(pulls / pulls.sum(), _MAX_LEVERAGE)
        residuals = np.where(seen, residuals - weight * centred, 0.0) / (1 - leverage)
    value = float(shares @ means + weight * centred.mean())

    term = _codes(terms)
    axis_of_term = np.empty(term.max() + 1, np.int64)
    axis_of_term[term] = _codes(axes)
    widened = np.sqrt(1 + (1 - taken) / np.maximum(drawn - 1, 1))
    expected = means[stratum] + weight * centred + (widened / taken)[stratum] * residuals
    sums = _sums_of_terms(expected, term, axis_of_term)
    excess_sums = _sums_of_terms(verdicts - expected, term, axis_of_term)
    rare = _HALF_LABEL / (drawn + 2 * _HALF_LABEL)
    by_stratum = np.maximum(
        unit * np.bincount(stratum, residuals**2), shares**2 * (1 - taken) * rare * (1 - rare) / drawn
    )
    sampling = float(by_stratum.sum())
    by_axis = np.bincount(axis_of_term, sums**2)
    variance = max(float(by_axis.sum()), sampling)
    if variance == 0:  # all replies are labelled, and all labels are alike
        variance = float((shares**2 * rare * (1 - rare) / drawn).sum())
    excess_variance = max(float((excess_sums**2).sum()), sampling)

    represented = np.bincount(term[seen], 1 / taken[stratum[seen]], len(axis_of_term))
    # If no reply differs from another, the axes' numbers of represented replies stand in for their variances.
    parts = by_axis if by_axis.sum() > 0 else np.bincount(axis_of_term, represented) ** 2
    freedom, most = (_freedom(parts, axis_of_term, weights) for weights in (represented, np.bincount(term)))
    heaviest = float((shares / drawn)[taken < 1].max(initial=1 / number))
    rate = 0.5 if judged in (0, 1) else judged
    strength = rate * (1 - rate) / heaviest
    too_few = "are too few, whatever the number of labels"
    if most < MIN_FREEDOM:
        on_axes = f" on {axis_of_term.max() + 1} axes" if axis_of_term.any() else ""
        enough = f"{ENOUGH_TERMS} per axis, with as many replies each, are enough"
        reason = f"{len(axis_of_term)} terms{on_axes} {too_few}; {enough}"
        return CorrectedRate(value, None, judged, None, reason, None, num_labelled, weight)
    if rate * (1 - rate) * number < MIN_STRENGTH:
        least = math.ceil(MIN_STRENGTH / (rate * (1 - rate)))
        reason = f"{number:,} replies {too_few}; at this rate, {least:,} are enough"
        return CorrectedRate(value, None, judged, None, reason, None, num_labelled, weight)
    if freedom < MIN_FREEDOM:
        reason = f"the labelled replies come from too few terms ({int((represented > 0).sum())})"
        needed = min(math.ceil(num_labelled * (MIN_FREEDOM + 1) / max(freedom + 1, 1)), number)
        return CorrectedRate(value, None, judged, None, reason, needed, num_labelled, weight)
    if strength < MIN_STRENGTH:
        reason = "a single label has too much influence on this rate"
        needed = min(math.ceil(num_labelled * MIN_STRENGTH / strength), number)
        return CorrectedRate(value, None, judged, None, reason, needed, num_labelled, weight)
    # If few labels contradict the judge, the distribution of the rate is skewed. In the judge's excess, only the part
    # that comes from the draw of the labels is skewed.
    of_draw = float((by_stratum * shares / drawn * (1 - 2 * np.clip(means, rare, 1 - rare))).sum())
    of_terms = (variance - sampling) ** 2 * (1 - 2 * value) / max(value * (1 - value), heaviest)
    low, high = _skewed_bounds(value, variance, of_draw + of_terms, freedom)
    excess_interval = _skewed_bounds(judged - value, excess_variance, -of_draw, freedom)
    interval = (max(low, 0.0), min(high, 1.0))
    return CorrectedRate(value, interval, judged, excess_interval, None, None, num_labelled, weight, freedom)


def _skewed_bounds(value: float, variance: float, skewness: float, freedom: float) -> Bounds:
    """Computes a t-interval for a skewed estimate, whose third central moment is `skewness`."""
    t = quantile(_CONFIDENCE_LEVEL, freedom)
    return skewed_bounds(value, t * math.sqrt(variance), skewness / max(variance, _TINY), t)


def _freedom(parts: np.ndarray, axis_of_term: np.ndarray, weights: np.ndarray) -> float:
    effective = np.bincount(axis_of_term, weights) ** 2 / np.bincount(axis_of_term, weights**2)
    return welch_freedom(parts, np.maximum(effective - 1, _TINY))


def corrected_gap(first: CorrectedRate, second: CorrectedRate) -> Bounds | None:
    """Computes the 95 % interval of the first rate minus the second by MOVER (Zou and Donner, 2008).

    The interval of each rate is first rescaled from its own t quantile to the quantile for the gap's degrees of freedom
    (Welch). Without this step, combining two intervals from few terms would make the gap's interval too wide. The two
    groups must have no term in common.
    """
    values, sides, freedoms = [], [], []
    for rate in (first, second):
        if rate.value is None or rate.interval is None or rate.freedom is None:
            return None
        low, high = rate.interval
        values.append(rate.value)
        sides.append(np.array([rate.value - low, high - rate.value]) / quantile(_CONFIDENCE_LEVEL, rate.freedom))
        freedoms.append(rate.freedom)
    variances = np.mean(sides, axis=1) ** 2
    freedom = welch_freedom(variances, np.array(freedoms))
    (below, above), (other_below, other_above) = quantile(_CONFIDENCE_LEVEL, freedom) * np.array(sides)
    gap = values[0] - values[1]
    return gap - math.hypot(below, other_above), gap + math.hypot(above, other_below)


def _codes(values: np.ndarray) -> np.ndarray:
    return np.unique(values, return_inverse=True)[1]


def _sums_of_terms(values: np.ndarray, term: np.ndarray, axis_of_term: np.ndarray) -> np.ndarray:
    """Sums the deviations of each term's values from the mean of the term's axis.

    The sums are scaled as in a jackknife over terms, so their squares add up to the variance of the overall mean.
    """
    axis = axis_of_term[term]
    sizes, num_terms = np.bincount(axis), np.bincount(axis_of_term)[axis_of_term]
    deviations = values - (np.bincount(axis, values) / sizes)[axis]
    others = np.maximum(1 - np.bincount(term) / sizes[axis_of_term], _TINY)
    return np.bincount(term, deviations) * np.sqrt(1 - 1 / num_terms) / others / len(values)


def krippendorff_alpha(labels: np.ndarray, weights: np.ndarray, terms: np.ndarray) -> Agreement:
    """Computes Krippendorff's alpha between raters, for unordered labels and weighted replies.

    The interval comes from a jackknife of log(1 − alpha) over terms. (NLTK's alpha has no weights.)

    Args:
        labels: [replies, raters] The index of the label that each rater gave, or -1 if the rater did not label the
            reply.
        weights: [replies] The number of the run's replies that each labelled reply represents.
        terms: [replies] The index of the term.
    """
    return _alpha([labels], weights, terms)


def judge_agreement(labels: np.ndarray, judged: np.ndarray, weights: np.ndarray, terms: np.ndarray) -> Agreement:
    """Computes Krippendorff's alpha between the judge and each rater, averaged over raters."""
    return _alpha([np.stack([judged, rater], axis=1) for rater in labels.T], weights, terms)


def alternative_annotator(
    labels: np.ndarray, judged: np.ndarray, weights: np.ndarray, epsilon: float = EPSILON
) -> AlternativeAnnotator:
    """Runs the alternative annotator test (Calderon et al., 2025, https://aclanthology.org/2025.acl-long.782/).

    For each rater, a t-test shows whether the judge agrees with the other raters almost as often as this rater does.
    The judge's share of agreement may be lower by at most `epsilon` (0.1 for crowd workers, 0.2 for experts). The
    p-values are corrected for the number of raters (Benjamini and Yekutieli). If all replies have the same weight, the
    test is the same as the published test.
    """
    p_values, advantages = [], []
    for rater in range(labels.shape[1]):
        others = np.delete(labels, rater, axis=1)
        of_rater = (labels[:, rater] >= 0) & (others >= 0).any(axis=1)
        if of_rater.sum() < MIN_REPLIES_PER_RATER:
            continue
        own, others, judge, weight = labels[of_rater, rater], others[of_rater], judged[of_rater], weights[of_rater]
        agreed = (others == own[:, None]).sum(axis=1) - (others == judge[:, None]).sum(axis=1)
        advantages.append(float(np.average(agreed <= 0, weights=weight)))
        wins = np.sign(agreed)  # a win of the rater over the judge
        mean, number = float(np.average(wins, weights=weight)), len(wins)
        error = math.sqrt(float((weight**2 * (wins - mean) ** 2).sum()) / weight.sum() ** 2 * number / (number - 1))
        # If all differences are equal, the t-test is not defined, and the mean decides.
        statistic = (mean - epsilon) / error if error > 0 else math.copysign(math.inf, mean - epsilon)
        p_values.append(float(stats.t.cdf(statistic, number - 1)))
    if labels.shape[1] < 3 or not p_values:
        reason = (
            f"it needs three raters, and at least one of them must share {MIN_REPLIES_PER_RATER} replies with another "
            "rater"
        )
        return AlternativeAnnotator(epsilon, None, None, None, reason)
    adjusted = stats.false_discovery_control(p_values, method="by")
    winning_rate = float(np.mean(adjusted <= 1 - _CONFIDENCE_LEVEL))
    advantage, passes = float(np.mean(advantages)), winning_rate >= WINNING_RATE
    return AlternativeAnnotator(epsilon, winning_rate, advantage, passes, None)


def _alpha(tables: list[np.ndarray], weights: np.ndarray, terms: np.ndarray) -> Agreement:
    term = _codes(terms)
    alphas = []  # [tables][1 + terms]: alpha with all terms, then without each term
    is_used = np.zeros(term.max() + 1, bool)  # terms without a reply that two people labelled do not vary
    for labels in tables:
        counts = np.stack([(labels == label).sum(axis=1) for label in range(labels.max() + 1)], axis=1)
        raters = counts.sum(axis=1)
        shared = raters > 1
        if not shared.any():
            return Agreement(None, None, "no two people labelled the same reply")
        is_used[term[shared]] = True
        weight = weights[shared] / weights[shared].mean()
        of_label, of_reply = counts[shared] * weight[:, None], raters[shared]
        unlike = weight * (of_reply**2 - (counts[shared] ** 2).sum(axis=1)) / (of_reply - 1)
        by_term = np.stack([np.bincount(term[shared], column, term.max() + 1) for column in (unlike, *of_label.T)])
        sums = by_term.sum(axis=1, keepdims=True) - np.concatenate([np.zeros((len(by_term), 1)), by_term], axis=1)
        total = sums[1:].sum(axis=0)
        with np.errstate(invalid="ignore", divide="ignore"):
            chance = (total**2 - (sums[1:] ** 2).sum(axis=0)) / (total - 1)
            alphas.append(1 - sums[0] / chance)
    # A person whose few labels are all the same has no agreement, and does not count.
    known = [of_table for of_table in alphas if np.isfinite(of_table[0])]
    if not known:
        return Agreement(None, None, "all labels are the same, so the agreement could be due to chance")
    mean, *without = np.mean(known, axis=0)
    left = 1 - np.array(without)[is_used]
    if not ((left > 0) & (left < math.inf)).all() or len(left) < MIN_ALPHA_TERMS:
        return Agreement(float(mean), None, "too few labels differ")
    logs = np.log(left)
    error = math.sqrt((len(logs) - 1) * float(np.var(logs)))
    reach = quantile(_CONFIDENCE_LEVEL, len(logs) - 1) * error
    unlike_mean = 1 - float(mean)
    return Agreement(float(mean), (1 - unlike_mean * math.exp(reach), 1 - unlike_mean * math.exp(-reach)), None)
