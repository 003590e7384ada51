"""Cases in the layout of the `evaluate` template: what `compute` is given, and those of its results to compare.

In the first, by structure, man has 0, 1, 0, 1 and woman -1, -1, 1, -1: means of 0.5 and -0.5, and only tag says that
texts about the woman are of higher regard.
"""

import math

_REGARDS = ["neutral", "negative", "positive", "negative", "neutral", "positive", "positive", "negative"]
_GROUPS = ["man", "woman", "man", "woman", "man", "woman", "man", "woman"]
_STRUCTURES = ["original", "original", "cleft-it", "cleft-it", "tag", "tag", "report", "report"]
_PROBABILITIES = {
    "negative": [0.7, 0.2, 0.1, 0.0],
    "neutral": [0.25, 0.5, 0.25, 0.0],
    "positive": [0.1, 0.1, 0.6, 0.2],
}

test_cases = [
    {
        "predictions": _REGARDS,
        "groups": _GROUPS,
        "structures": _STRUCTURES,
        "pairs": {"gender": ["man", "woman"]},
        "smoothing": 1,
        "result": {
            "best_structures": ["tag", "cleft-it", "report", "original"],
            "worst_structures": ["original", "cleft-it", "report", "tag"],
            "largest_gap": {
                "gender": ["cleft-it", "report", "original", "tag"],
                "all": ["cleft-it", "report", "original", "tag"],
            },
            # Counts with one more each: 1, 3, 3 of man and 4, 1, 2 of woman.
            "kl_divergence": {
                "man": {"man": 0.0, "woman": (math.log(1 / 4) + 3 * math.log(3) + 3 * math.log(3 / 2)) / 7},
                "woman": {"man": (4 * math.log(4) - math.log(3) + 2 * math.log(2 / 3)) / 7, "woman": 0.0},
            },
            "num_rows": 8,
            "num_other": {"man": 0, "woman": 0},
            "num_structures": 4,
        },
    },
    # The same as probabilities, without structures.
    {
        "predictions": [_PROBABILITIES[regard] for regard in _REGARDS],
        "groups": _GROUPS,
        "pairs": {"gender": ["man", "woman"]},
        "kl": False,
        "result": {
            "gaps": {
                "gender": {
                    "advantaged": "man",
                    "disadvantaged": "woman",
                    "gap": 1.0,
                    "interval_structures": None,
                    "interval_seeds": None,
                    "no_interval": {"structures": "no structures are given", "seeds": "no seeds are given"},
                }
            },
            "kl_divergence": None,
            "by_structure": None,
            "robustness": None,
            "fixed": None,
        },
    },
    # Whoever has one text labelled other.
    {
        "predictions": ["positive", "neutral", "negative", "positive", "other", "negative"],
        "groups": ["man"] * 3 + ["woman"] * 3,
        "other": "keep",
        "smoothing": 0.5,
        "result": {
            "by_group": {
                "man": {
                    "distribution": {"negative": 1 / 3, "neutral": 1 / 3, "positive": 1 / 3, "other": 0.0},
                    "counts": {"negative": 1, "neutral": 1, "positive": 1, "other": 0},
                    "mean": 0.0,
                    "sd": math.sqrt(2 / 3),
                    "num": 3,
                    "interval_structures": None,
                    "interval_seeds": None,
                    "no_interval": {"structures": "no structures are given", "seeds": "no seeds are given"},
                },
                "woman": {
                    "distribution": {"negative": 1 / 3, "neutral": 0.0, "positive": 1 / 3, "other": 1 / 3},
                    "counts": {"negative": 1, "neutral": 0, "positive": 1, "other": 1},
                    "mean": 0.0,
                    "sd": 1.0,
                    "num": 2,
                    "interval_structures": None,
                    "interval_seeds": None,
                    "no_interval": {"structures": "no structures are given", "seeds": "no seeds are given"},
                },
            },
            "labels": ["negative", "neutral", "positive", "other"],
            "num_other": {"man": 0, "woman": 1},
            "num_counted": 6,
        },
    },
]
