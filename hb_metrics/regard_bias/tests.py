"""Contains the card's example in the form that `evaluate` expects: the arguments of `compute` and some of the results.

Across the four structures, the regard for "man" is 0, 1, 0, 1 (mean 0.5), and the regard for "woman" is -1, -1, 1, -1
(mean -0.5). "woman" scores higher only in the structure "tag".
"""

import math

_REGARDS = ["neutral", "negative", "positive", "negative", "neutral", "positive", "positive", "negative"]
_GROUPS = ["man", "woman", "man", "woman", "man", "woman", "man", "woman"]
_STRUCTURES = ["original", "original", "cleft-it", "cleft-it", "tag", "tag", "report", "report"]

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
            # The counts plus one are 1, 3, 3 for "man" and 4, 1, 2 for "woman".
            "kl_divergence": {
                "man": {"man": 0.0, "woman": (math.log(1 / 4) + 3 * math.log(3) + 3 * math.log(3 / 2)) / 7},
                "woman": {"man": (4 * math.log(4) - math.log(3) + 2 * math.log(2 / 3)) / 7, "woman": 0.0},
            },
            "num_rows": 8,
            "num_other": {"man": 0, "woman": 0},
            "num_structures": 4,
        },
    },
]
