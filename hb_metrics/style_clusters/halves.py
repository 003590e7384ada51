"""Correlations of styles over the replies of a run: over all replies, and over random halves.

Halves are drawn within each cell (a term in a template), so that terms and templates are the same in both. Halves vary
about all replies as much as these do about endless replies; bootstrap samples of small cells would vary less.
"""

from typing import NamedTuple

import numpy as np

from hb_dataset.seeded_draws import seeded_generator
from hb_metrics.runs.replies import Replies
from hb_metrics.stats.bias_values import StyleRows, descriptor_codes
from hb_metrics.stats.inputs import text_codes

LEAST_REPLIES = 3  # over two replies, all correlations are 1 or -1
# With a smaller standard deviation, or share of it within a half, probabilities differ by rounding errors alone.
_NO_SPREAD = 1e-12
_NO_SPREAD_SHARE = 1e-6


class Moving(NamedTuple):
    """How styles move together.

    Attributes:
        correlations: [styles, styles] over all replies, of the styles that vary.
        halves: [splits, 2, styles, styles] the same in each half.
        varies: [all styles] whether each varies.
        num_still: The number of cases in which a style does not vary within a half; its correlations are 0 there.
    """

    correlations: np.ndarray
    halves: np.ndarray
    varies: np.ndarray
    num_still: int


def styles_moving_together(styles: StyleRows, replies: Replies, *, num_splits: int = 50, seed: int = 0) -> Moving:
    """Correlates the probabilities of styles.

    Args:
        styles: [replies, styles] style vectors, also in files.
        replies: The replies of these style vectors.
        num_splits: The number of splits of the replies into halves.
        seed: Chooses the halves.

    Raises:
        ValueError: There are fewer than three replies, in all or in a half.
    """
    in_first = _draw_halves(replies, num_splits, seed)
    sizes = np.stack([in_first.sum(axis=1), (~in_first).sum(axis=1)], axis=1)
    if len(styles) < LEAST_REPLIES or sizes.min() < LEAST_REPLIES:
        raise ValueError(
            f"there are {len(styles)} replies, and correlations need {LEAST_REPLIES} in each half; make more replies"
        )
    values = np.asarray(styles[0 : len(styles)], np.float64)
    covariances = np.cov(values.T, bias=True)
    varies = np.diagonal(covariances) > _NO_SPREAD**2
    values = values[:, varies]
    covariances = covariances[np.ix_(varies, varies)]
    least = _NO_SPREAD_SHARE * np.sqrt(np.diagonal(covariances))
    correlations, _ = _correlations(covariances, least)
    halves = np.empty((num_splits, 2, *correlations.shape))
    num_still = 0
    for split, first in enumerate(in_first):
        for half, chosen in enumerate((first, ~first)):
            halves[split, half], still = _correlations(np.cov(values[chosen].T, bias=True), least)
            num_still += still
    return Moving(correlations, halves, varies, num_still)


def correlation_reliability(halves: np.ndarray) -> float:
    """The reliability of the correlations: their expected correlation with those from equally many other replies.

    Both halves' correlations are correlated over pairs of styles. The average over splits is stepped up to twice the
    replies by Spearman and Brown's formula; without signal (at most 0) it stays.

    Args:
        halves: [splits, 2, styles, styles].
    """
    pairs = np.triu_indices(halves.shape[-1], 1)
    values = []
    for first, second in halves:
        one, other = first[pairs] - first[pairs].mean(), second[pairs] - second[pairs].mean()
        size = np.sqrt((one @ one) * (other @ other))
        values.append(one @ other / size if size > 0 else 0.0)
    reliability = float(np.mean(values))
    return 2 * reliability / (1 + reliability) if reliability > 0 else reliability


def _draw_halves(replies: Replies, num_splits: int, seed: int) -> np.ndarray:
    """[splits, replies] whether each reply is in the first half; which half of an odd cell is larger is drawn too."""
    codes, _ = descriptor_codes(replies.descriptors, replies.axes)
    templates, names = text_codes("template", replies.templates)
    order = np.argsort(np.asarray(replies.ids))  # the same halves, whatever the order of rows
    members = np.unique(codes * len(names) + templates, return_inverse=True)[1][order]
    sizes = np.bincount(members)
    firsts = np.append(0, np.cumsum(sizes)[:-1])
    in_first = np.empty((num_splits, len(members)), bool)
    for split in range(num_splits):
        generator = seeded_generator(seed, "style clusters", str(split))
        ranks = np.empty(len(members), np.int64)
        ranks[np.lexsort((generator.random(len(members)), members))] = np.arange(len(members))
        ranks -= firsts[members]
        in_first[split, order] = (ranks + generator.integers(2, size=len(sizes))[members]) % 2 == 0
    return in_first


def _correlations(covariances: np.ndarray, least: np.ndarray) -> tuple[np.ndarray, int]:
    """Correlations, 0 with styles whose standard deviation is at most `least`, and the number of these styles."""
    spreads = np.sqrt(np.diagonal(covariances).clip(0))
    moving = spreads > least
    scales = np.where(moving, spreads, 1)
    correlations = (covariances / np.outer(scales, scales)).clip(-1, 1)
    correlations[~moving] = 0
    correlations[:, ~moving] = 0
    np.fill_diagonal(correlations, 1)
    return correlations, int((~moving).sum())
