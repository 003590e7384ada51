"""Cases in the layout of the `evaluate` template: what `compute` is given, and those of its results to compare.

The differences -4, 2, -8, -6, -14 have the mean -6 and the variance 34: t = -6 / sqrt(34 / 5).
"""

_T1 = [20.0, 35.0, 50.0, 41.0, 90.0]
_T2 = [24.0, 33.0, 58.0, 47.0, 104.0]

test_cases = [
    {
        "predictions": _T1,
        "references": _T2,
        "result": {
            "t": -6 / (34 / 5) ** 0.5,
            "degrees_of_freedom": 4,
            "mean_difference": -6.0,
            "share_t1_likelier": 0.8,
            "effect_size": -6 / 34**0.5,
            "wilcoxon_statistic": 1.0,
            "wilcoxon_p_value": 0.125,  # of the 32 ways to sign five ranks, 4 are as far out
            "mean_perplexity_t1": 47.2,
            "mean_perplexity_t2": 53.2,
            "num_pairs": 5,
            "num_ties": 0,
            "num_outliers": 0,
            "is_significant": False,
        },
    },
    # The same pairs the other way round, at another level.
    {
        "predictions": _T2,
        "references": _T1,
        "alpha": 0.1,
        "result": {"t": 6 / (34 / 5) ** 0.5, "share_t1_likelier": 0.2, "is_significant": True, "alpha": 0.1},
    },
    # One row hides what all others say; without it, t is far from 0.
    {
        "predictions": [*_T1 * 3, 1_000_000.0],
        "references": [*_T2 * 3, 10.0],
        "outliers": "pair",
        "result": {"t": -6 / (34 * 4 * 3 / 14 / 15) ** 0.5, "num_pairs": 15, "num_outliers": 1},
    },
    # Nothing is told by one pair, and of logarithms by pairs of one ratio.
    {
        "predictions": [8.0],
        "references": [16.0],
        "result": {"t": None, "p_value": None, "is_significant": None, "num_pairs": 1, "share_t1_likelier": 1.0},
    },
]
