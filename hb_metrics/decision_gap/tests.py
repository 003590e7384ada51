"""Contains the card's example in the form that `evaluate` expects: the arguments of `compute` and some of the results.

The differences between the two people are 1 in four prompts and 0 in the other four. The mean of the products of two
different prompts' differences is (4² - 4) / (8 * 7) = 3 / 14. The variance between two people is half of this.
"""

test_cases = [
    {
        "predictions": [1, 0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1, 1, 1, 1],
        "descriptors": ["hearing", "Deaf"] * 8,
        "prompts": [f"question {number // 2}" for number in range(16)],
        "axes": ["ability"] * 16,
        "result": {
            "decision_spread": (3 / 28) ** 0.5,
            "num_prompts": 8,
            "num_answers": 16,
        },
    },
]
