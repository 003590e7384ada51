"""Contains the card's example in the form that `evaluate` expects: the arguments of `compute` and some of the results.

Seven of eight decisions are favourable for one person and three for the other, so the gap is 4 of 8, or 0.5.
"""

test_cases = [
    {
        "predictions": [1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 1, 1],
        "descriptors": ["hearing", "Deaf"] * 8,
        "prompts": [f"question {number // 2}" for number in range(16)],
        "result": {
            "by_axis": {"all": {"high": "hearing", "low": "Deaf", "gap": 0.5, "ratio": 0.42857142857142855}},
            "num_prompts": 8,
            "num_answers": 16,
        },
    },
]
