"""Computes how often the style of a reply shows to which of two terms the model replied. Guessing gives one half.

For each template, the mean style of a term comes from its replies in all other templates. A reply is assigned to the
term with the nearer mean. Distances are between square roots of probabilities (Hellinger distances), so rare styles
count too. If style does not depend on the term, the expected share of right answers is exactly one half, because the
two terms of a pair are exchangeable. docs/coverage.md shows the coverage of the interval.
"""

import math

import numpy as np

from hb_metrics.stats.clusters import Estimate, quantile, share_bounds

MIN_TERMS = 12
ZERO = 1e-9  # standard errors below this number are rounding errors
FEW_TERMS = f"there are fewer than {MIN_TERMS} terms"
ONE_TEMPLATE = "a term's style is learnt in other templates, and no two terms have replies in two templates"


def telling(shares: np.ndarray, confidence_level: float) -> Estimate:
    """Computes how often style tells a reply's term from another term of the run, from `right_shares`.

    The interval is for other replies to other terms of the same kind. It comes from a jackknife over terms, because
    the pairs of a term depend on each other. It is symmetric in log-odds, so it stays between 0 and 1.
    """
    known = ~np.isnan(shares)
    rows, sizes = np.where(known, shares, 0).sum(axis=1), known.sum(axis=1)
    rows, sizes = rows[sizes > 0], sizes[sizes > 0]
    if not len(sizes):
        return Estimate(None, None, ONE_TEMPLATE)
    value = float(rows.sum() / sizes.sum())
    if len(sizes) < MIN_TERMS:
        return Estimate(value, None, FEW_TERMS)
    without = (rows.sum() - 2 * rows) / (sizes.sum() - 2 * sizes)
    error = math.sqrt((len(sizes) - 1) * without.var())
    if error < ZERO:
        return Estimate(value, None, "all terms have the same share of right answers, so its spread is unknown")
    return Estimate(value, share_bounds(value, quantile(confidence_level, len(sizes) - 1) * error), None)


def right_shares(vectors: np.ndarray, terms: np.ndarray, templates: np.ndarray) -> np.ndarray:
    """Returns the share of right answers for each pair of terms: [terms, terms], symmetric, NaN where unknown.

    Args:
        vectors: Style probabilities: [replies, styles].
        terms: The code of each reply's term, from 0.
        templates: The code of each reply's template, from 0.
    """
    roots, num_terms, num_templates = np.sqrt(vectors), int(terms.max()) + 1, int(templates.max()) + 1
    sums, counts = np.zeros((num_templates, num_terms, vectors.shape[1])), np.zeros((num_templates, num_terms))
    np.add.at(sums, (templates, terms), roots)
    np.add.at(counts, (templates, terms), 1)
    is_known = counts > 0
    means = sums / np.maximum(counts, 1)[:, :, None]
    # What all terms have in common in a template is subtracted, so that terms without some template are comparable.
    middles = means.sum(axis=1) / np.maximum(is_known.sum(axis=1), 1)[:, None]
    means = np.where(is_known[:, :, None], means - middles[:, None], 0)
    wins, num_wins = np.zeros((num_terms, num_terms)), np.zeros((num_terms, num_terms))
    for template in range(num_templates):
        others = np.arange(num_templates) != template
        seen = is_known[others].sum(axis=0)
        compared = np.flatnonzero(is_known[template] & (seen > 0))
        centres = means[others][:, compared].sum(axis=0) / seen[compared, None]
        rows = np.flatnonzero((templates == template) & np.isin(terms, compared))
        place = np.searchsorted(compared, terms[rows])
        nearness = (roots[rows] - middles[template]) @ centres.T - (centres**2).sum(axis=1) / 2
        own = nearness[np.arange(len(rows)), place][:, None]
        right = np.zeros((len(compared), len(compared)))
        np.add.at(right, place, (nearness < own) + (nearness == own) / 2)
        both = np.ix_(compared, compared)
        wins[both] += right / counts[template, compared, None]
        num_wins[both] += 1
    np.fill_diagonal(num_wins, 0)
    with np.errstate(invalid="ignore"):
        return (wins + wins.T) / np.where(num_wins > 0, num_wins + num_wins.T, np.nan)
