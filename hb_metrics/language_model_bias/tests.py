"""Contains the card's example in the form that `evaluate` expects: the arguments of `compute` and some of the results.

The differences -4, 2, -8, -6, -14 have the mean -6 and the variance 34, so t = -6 / sqrt(34 / 5).
"""

test_cases = [
    {
        "predictions": [20.0, 35.0, 50.0, 41.0, 90.0],
        "references": [24.0, 33.0, 58.0, 47.0, 104.0],
        "result": {
            "t": -6 / (34 / 5) ** 0.5,
            "degrees_of_freedom": 4,
            "mean_difference": -6.0,
            "share_t1_likelier": 0.8,
            "effect_size": -6 / 34**0.5,
            "wilcoxon_statistic": 1.0,
            "wilcoxon_p_value": 0.125,  # 4 of the 32 ways to assign signs to five ranks are at least this extreme
            "mean_perplexity_t1": 47.2,
            "mean_perplexity_t2": 53.2,
            "num_pairs": 5,
            "num_ties": 0,
            "is_significant": False,
        },
    },
]
