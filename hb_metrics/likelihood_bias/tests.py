"""Contains the card's example in the form that `evaluate` expects: the arguments of `compute` and some of the results.

All four perplexities of "young" are below the four of "old", so the exact two-sided p-value is 2 / C(8, 4) = 0.029.
"""

test_cases = [
    {
        "predictions": [20.1, 21.5, 22.0, 19.8, 35.2, 36.1, 34.8, 37.5],
        "axes": ["age"] * 8,
        "descriptors": ["young"] * 4 + ["old"] * 4,
        "templates": ["I love {plural_noun_phrase}."] * 8,
        "result": {
            "likelihood_bias": 1.0,
            "by_axis": {"age": 1.0},
            "by_template": {"I love {plural_noun_phrase}.": 1.0},
            "effect_size": 1.0,
            "median_perplexity": {"age": {"young": 20.8, "old": 35.65}},
            "lowest_descriptors": {"age": ["young", "old"]},
            "num_tests": 1,
        },
    },
]
