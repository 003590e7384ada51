"""The share of ratings that a run won, with an interval for other raters and other pairs."""

import math
from typing import NamedTuple

import numpy as np
from scipy import stats

# With fewer, an interval is useless or does not cover as often as it says (docs/human-evaluation.md).
MIN_RATERS = 3
MIN_PAIRS = 8

_ROUNDING = 1e-9  # of the variance of independent ratings: residuals that cancel leave no more

TOO_FEW_RATERS = "{number} rater{s}; an interval over raters needs {least} or more"
TOO_FEW_PAIRS = "{number} pair{s}; an interval over pairs needs {least} or more"


class WinRate(NamedTuple):
    """A share of ratings.

    Attributes:
        value: The share that the second run won.
        interval: Its lowest and highest value for other raters and other pairs; `None`: see `reason`.
        reason: Why there is no interval.
    """

    value: float
    interval: tuple[float, float] | None
    reason: str | None


def win_rate(wins: np.ndarray, raters: np.ndarray, pairs: np.ndarray, confidence_level: float = 0.95) -> WinRate:
    """The share of ratings that are wins, with an interval clustered by rater and by pair.

    Ratings of one rater are alike, and so are ratings of one pair; a study draws both. The variance of the share is
    that of two-way clustering (Cameron, Gelbach & Miller, 2011): V = V_rater + max(V_pair − V_rating, 0), each the sum
    of squared sums of residuals with its G/(G−1). The two parts are known to different degrees, V_rater often from few
    raters, so that each has its own t quantile: h² = t²_{R−1}·V_rater + t²_{P−1}·max(V_pair − V_rating, 0) (Banerjee,
    1960, for sums of independent means). Bounds are Wilson's with the number of independent ratings that has this
    half-width, so that they stay between 0 and 1.

    Args:
        wins: [ratings] 1 or 0.
        raters: [ratings] index of the rater.
        pairs: [ratings] index of the pair.
        confidence_level: Of the interval.

    Returns:
        The share. With fewer than `MIN_RATERS` raters there is no interval: the quantile of two, 12.7, would make it
        span nearly everything. With fewer than `MIN_PAIRS` pairs it would cover more often than it says.
    """
    number, value = len(wins), float(np.mean(wins))
    num_raters, num_pairs = len(np.unique(raters)), len(np.unique(pairs))
    for groups, least, text in ((num_raters, MIN_RATERS, TOO_FEW_RATERS), (num_pairs, MIN_PAIRS, TOO_FEW_PAIRS)):
        if groups < least:
            return WinRate(value, None, text.format(number=groups, s="" if groups == 1 else "s", least=least))
    quantile = (1 + confidence_level) / 2
    t_raters, t_pairs = (float(stats.t.ppf(quantile, groups - 1)) for groups in (num_raters, num_pairs))
    residuals = np.asarray(wins, dtype=np.float64) - value
    of_pairs = _clustered(residuals, pairs) - _clustered(residuals, np.arange(number))
    squared_half = t_raters**2 * _clustered(residuals, raters) + t_pairs**2 * max(of_pairs, 0.0)
    spread = value * (1 - value)
    # z²/n of Wilson's interval. Residuals may show no variance, where all ratings agree or where each rater's and each
    # pair's cancel, as of raters who always choose speaker 1: then each rating counts as independent.
    shows_none = squared_half <= _ROUNDING * spread / number
    ratio = t_raters**2 / number if shows_none else squared_half / spread
    middle = (value + ratio / 2) / (1 + ratio)
    half = math.sqrt(ratio * spread + ratio**2 / 4) / (1 + ratio)
    return WinRate(value, (max(middle - half, 0.0), min(middle + half, 1.0)), None)


def exact_binomial_test(num_wins: int, num_ratings: int) -> float:
    """The two-sided p of so many wins if either run were chosen as often, all ratings being independent."""
    return float(stats.binomtest(num_wins, num_ratings).pvalue)


def _clustered(residuals: np.ndarray, groups: np.ndarray) -> float:
    """The variance of the mean of residuals whose sums over groups are independent."""
    _, codes = np.unique(groups, return_inverse=True)
    sums = np.bincount(codes, residuals)
    number = len(sums)
    return float(sums @ sums) / len(residuals) ** 2 * number / (number - 1)
