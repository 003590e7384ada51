"""Estimates the correlation of two measured effects of terms, corrected for the noise in both.

Let P_ab be the mean product of two effects over terms. The correlation is P_ab / √(P_aa P_bb), where products of an
effect with itself are reduced by its sampling variance. The interval generalises to other buckets of near-synonyms on
the same axes. It is Fieller's interval of a ratio. If the true P_aa may be 0, it contains all values from −1 to 1.
"""

import math

import numpy as np

from hb_metrics.run.record import CONFIDENCE_LEVEL
from hb_metrics.stats.changes import ratio_bounds
from hb_metrics.stats.clusters import Estimate, cluster_errors, quantile, uncertainty

MIN_FREEDOM = 10  # the minimum effective number of clusters, minus the number of axes
# The influences of clusters on √(P_aa P_bb) and P_ab [2, clusters], the strata, and the weights of clusters.
Sample = tuple[np.ndarray, np.ndarray, np.ndarray | None]


def agreement(products: np.ndarray, axes: np.ndarray, buckets: np.ndarray, *, few: str, no_effect: str) -> Estimate:
    """Computes the correlation from the products of effects.

    Args:
        products: [3, terms] For each term, the contributions to P_aa, P_bb and P_ab, which are their means over terms.
        axes: [terms] Each term's axis.
        buckets: [terms] Each term's cluster on this axis.
        few: The words for the terms, if they are too few.
        no_effect: The reason why there is no correlation, if P_aa or P_bb is not above 0.
    """
    _, first, codes, weights = np.unique(buckets, return_index=True, return_inverse=True, return_counts=True)
    by_weight = uncertainty(weights.astype(float), axes[first], weights).by_weight if len(axes) else 0.0
    if by_weight < MIN_FREEDOM:
        needed = f"{MIN_FREEDOM + 1} groups of similar terms on one axis"
        return Estimate(None, None, f"{few} count as only {by_weight + 1:.0f} of at least {needed}")
    own, opposite, shared = (float(of_terms.mean()) for of_terms in products)
    if min(own, opposite) <= 0:
        return Estimate(None, None, no_effect)
    size = math.sqrt(own * opposite)
    influences = np.stack([(products[0] / own + products[1] / opposite) * size / 2, products[2]]) / len(axes)
    by_bucket = np.stack([np.bincount(codes, row) for row in influences])
    return ratio_agreement(size, shared, (by_bucket, axes[first], weights))


def ratio_agreement(size: float, product: float, *samples: Sample) -> Estimate:
    """Computes the agreement, product / size, where `size` is √(P_aa P_bb) and `product` is P_ab."""
    ratio, covariance, variance, noise = product / size, np.zeros((2, 2)), 0.0, 0.0
    for influences, strata, weights in samples:
        errors = cluster_errors(influences, strata, weights)
        covariance += errors @ errors.T
        of_ratio = uncertainty(influences[1] - ratio * influences[0], strata, weights)
        variance, noise = variance + of_ratio.variance, noise + of_ratio.variance**2 / of_ratio.freedom
    squared = quantile(CONFIDENCE_LEVEL, variance**2 / noise if noise > 0 else math.inf) ** 2
    bounds = ratio_bounds(size, product, covariance, squared) or (-1.0, 1.0)
    value, low, high = np.clip([ratio, *bounds], -1, 1).tolist()
    return Estimate(value, (low, high), None)


def own_products(rows: np.ndarray, axes: np.ndarray, times: float = 1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns each term's effect, its contribution to P_aa, and the factor of products for its axis: [terms] each.

    An effect is the mean of a column minus the mean of its axis. A term that is alone on its axis has no effect.
    An effect's sampling variance is the variance of a mean of the rows, multiplied by `times`: [rows, terms], NaN if
    missing.
    """
    _, codes, counts = np.unique(axes, return_inverse=True, return_counts=True)
    factors = np.divide(counts, counts - 1, out=np.zeros(len(counts)), where=counts > 1)[codes]
    centred = rows.copy()
    for code in range(len(counts)):
        centred[:, codes == code] -= np.nanmean(rows[:, codes == code], axis=1, keepdims=True)
    effects = np.nanmean(centred, axis=0)
    noise = times * np.nanvar(centred, axis=0, ddof=1) / (~np.isnan(centred)).sum(axis=0)
    return effects, (effects**2 - noise) * factors, factors


def column_agreement(
    first: np.ndarray,
    second: np.ndarray,
    axes: np.ndarray,
    buckets: np.ndarray,
    *,
    times: float = 1.0,
    few: str,
    no_effect: str,
) -> Estimate:
    """Compares the columns of two tables with independent rows: [rows, terms] each. `times` is for the second one."""
    (effects, own, factors), (others, opposite, _) = own_products(first, axes), own_products(second, axes, times)
    products = np.stack([own, opposite, effects * others * factors])
    return agreement(products, axes, buckets, few=few, no_effect=no_effect)
