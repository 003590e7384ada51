"""What intervals did to values of known truth in many sets."""

from typing import NamedTuple

import numpy as np


class Coverage(NamedTuple):
    """What came of many sets.

    Attributes:
        given: The share of sets with an interval.
        held: That of these whose interval holds the truth. NaN if there is none, as for the other values.
        width: The mean width in parts of 3.92 standard deviations of the estimate.
        error: How far the mean of the estimates is from the truth, in standard errors.
    """

    given: float
    held: float
    width: float
    error: float


def coverage(values, intervals, truth):
    """Of estimates with intervals, or `None`. The truth is one for all sets, or one for each."""
    errors, truths = np.array(values) - truth, np.broadcast_to(truth, len(values))
    rows = [(*bounds, true) for bounds, true in zip(intervals, truths, strict=True) if bounds is not None]
    if not rows:
        return Coverage(0.0, np.nan, np.nan, np.nan)
    low, high, true = np.transpose(rows)
    held, width = np.mean((low - 1e-12 <= true) & (true <= high + 1e-12)), np.mean(high - low) / 3.92 / errors.std()
    error = abs(errors.mean()) / errors.std() * np.sqrt(len(errors))
    return Coverage(len(rows) / len(errors), float(held), float(width), float(error))
