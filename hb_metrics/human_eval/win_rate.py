import math
from typing import NamedTuple

import numpy as np
from scipy import stats

# The minimum effective numbers of raters and pairs. With fewer, intervals are uselessly wide.
MIN_RATERS, MIN_PAIRS = 2.5, 6
# V_rater / V_0 (see `win_rate`). Up to the first ratio, raters are treated as alike. From the second ratio on, they are
# treated as different. docs/coverage.md shows the coverage.
_ALIKE, _UNLIKE = 0.8, 1.0
_QUANTILE = 0.975


class WinRate(NamedTuple):
    value: float
    interval: tuple[float, float] | None
    reason: str | None


def win_rate(wins: np.ndarray, raters: np.ndarray, pairs: np.ndarray) -> WinRate:
    """Computes the share of ratings that are wins, with a 95% interval clustered by rater and by pair.

    Ratings by the same rater are correlated, and so are ratings of the same pair. The variance is V_rater + V_pair −
    V_0, where V_0 is the variance of independent ratings (two-way clustering; Cameron, Gelbach & Miller, 2011). V_rater
    and V_pair each have their own t quantile.

    If V_rater is at most 0.8 V_0, there is no sign that raters differ, so V_0 and the normal quantile are used instead.
    If V_rater is at least V_0, it is used unchanged. Between these limits, V_rater and V_0 are mixed. The interval is
    Wilson's interval for the number of independent ratings that would have the resulting variance. It is never narrower
    than the interval for independent ratings.

    There is no interval if there are too few raters or pairs, or if a few of them account for most of the ratings.
    """
    number, value = len(wins), float(np.mean(wins))
    spread = value * (1 - value)
    residuals = np.asarray(wins, dtype=np.float64) - value
    squared_t, ratios = [], []
    for name, groups, least in (("rater", raters, MIN_RATERS), ("pair", pairs, MIN_PAIRS)):
        _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
        freedom = degrees_of_freedom(sizes)
        if round(freedom + 1, 6) < least:
            counted = f"{len(sizes)} {name}{'' if len(sizes) == 1 else 's'}"
            if len(sizes) >= least:
                counted += f" with unequal numbers of ratings count as only {freedom + 1:.1f}"
                return WinRate(value, None, f"{counted}; an interval needs {least:g} or more")
            return WinRate(value, None, f"{counted}; an interval needs {math.ceil(least)} or more")
        squared_t.append(float(stats.t.ppf(_QUANTILE, freedom)) ** 2)
        sums = np.bincount(codes, residuals)
        variance = float((sums**2 / (1 - sizes / number)).sum()) / number**2
        ratios.append(variance * (number - 1) / spread if spread > 0 else 1.0)
    squared_z = float(stats.norm.ppf(_QUANTILE)) ** 2
    unlike = min(max((ratios[0] - _ALIKE) / (_UNLIKE - _ALIKE), 0), 1)
    of_raters = (1 - unlike) * squared_z + unlike * squared_t[0] * ratios[0]
    of_pairs = squared_t[1] * (ratios[1] - 1)
    ratio = max(of_raters + of_pairs, squared_z) / (number - 1)  # z²/n, as in Wilson's interval
    middle = (value + ratio / 2) / (1 + ratio)
    half = math.sqrt(ratio * spread + ratio**2 / 4) / (1 + ratio)
    return WinRate(value, (max(middle - half, 0.0), min(middle + half, 1.0)), None)


def degrees_of_freedom(sizes: np.ndarray) -> float:
    """Computes Satterthwaite's degrees of freedom for a variance that is clustered by groups of these sizes.

    The result is G − 1 for G groups of equal size, and close to 1 if two of many groups have nearly all ratings. For a
    group of n ratings, the variance of the sum is assumed to be proportional to n^1.5. This assumption is a compromise
    between n (the groups do not differ) and n² (the groups differ).
    """
    shares = sizes / sizes.sum()
    if len(sizes) == 1:
        return 0.0
    weights = 1 / (1 - shares)
    cross = weights * shares
    # The matrix of the quadratic form Σ weights · (group's sum − share · total)², for sums with a variance of 1.
    form = np.outer(sizes**0.75, sizes**0.75) * (np.diag(weights) - cross[:, None] - cross + cross @ shares)
    return float(np.trace(form) ** 2 / (form**2).sum())
