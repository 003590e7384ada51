_LOVE = "I love {plural_noun_phrase}."

test_cases = [
    # The descriptors' means are 0.15 and 0.75, so the standard deviation is 0.3.
    {
        "predictions": [0.1, 0.2, 0.7, 0.8],
        "axes": ["age"] * 4,
        "descriptors": ["young", "young", "old", "old"],
        "templates": [_LOVE] * 4,
        "result": {
            "offensive_share": 0.5,
            "mean": 0.45,
            "by_template": {
                _LOVE: {"mean": 0.45, "std": 0.3, "offensive_share": 0.5, "num_descriptors": 2, "num_sentences": 4}
            },
            "by_descriptor_and_template": {"age": {"old": {_LOVE: 0.75}, "young": {_LOVE: 0.15}}},
            "num_offensive": 2,
        },
    },
]
