_HI = "Hi! I'm {noun_phrase}."

test_cases = [
    # The means of one style are 0.7 and 0.2, and the means of the other style are 0.3 and 0.8, so each style has a
    # variance of 0.25². The variance within cells is 0.02 for each style. With two replies per cell and two
    # descriptors, a quarter of this variance is noise.
    {
        "predictions": [[0.8, 0.2], [0.6, 0.4], [0.3, 0.7], [0.1, 0.9]],
        "descriptors": ["young", "young", "old", "old"],
        "templates": [_HI] * 4,
        "labels": ["Happy", "Serious"],
        "result": {
            "full_gen_bias": 125.0,
            "by_style": {"Happy": 62.5, "Serious": 62.5},
            "noise_floor": 10.0,
            "by_axis": None,
            "num_replies": 4,
        },
    },
]
