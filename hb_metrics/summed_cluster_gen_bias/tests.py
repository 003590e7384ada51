_HI = "Hi! I'm {noun_phrase}."
_CLUSTERS = {"Joy": ["Happy", "Cheerful"], "Gravity": ["Serious"]}

test_cases = [
    # The means of the three styles are 0.7, 0.2, 0.1 and 0.2, 0.1, 0.7.
    {
        "predictions": [[0.8, 0.1, 0.1], [0.6, 0.3, 0.1], [0.2, 0.1, 0.7], [0.2, 0.1, 0.7]],
        "descriptors": ["young", "young", "old", "old"],
        "templates": [_HI] * 4,
        "labels": ["Happy", "Cheerful", "Serious"],
        "clusters": _CLUSTERS,
        "result": {
            "summed_cluster_gen_bias": {"Joy": 90.0, "Gravity": 90.0},
            "clusters": _CLUSTERS,
            "num_replies": 4,
        },
    },
]
