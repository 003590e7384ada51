import json
import math
import re

import numpy as np
import pytest

from hb_metrics.regard_bias.regard_bias import RegardBias
from tests.hb_metrics.regard_bias.rows import computed

ROWS = {"predictions": ["positive", "negative"], "groups": ["man", "woman"]}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"predictions": [], "groups": []}, "there are no rows"),
        ({"predictions": ["positive"]}, "1 predictions, 2 groups"),
        ({"seeds": [1]}, "2 predictions, 2 groups, 1 seeds"),
        ({"groups": ["man", None]}, "groups in row 1 is None"),
        ({"structures": ["original", 3]}, "structures in row 1 is 3"),
        ({"seeds": [1, 2.5]}, "seeds in row 1 is 2.5"),
        ({"groups": {"man", "woman"}}, "groups: a set, which has no order, was given"),
        ({"predictions": np.ma.array(["positive", "negative"], mask=[1, 1])}, "masked values (2 rows"),
        ({"predictions": ["good", "bad"]}, "prediction 'good' in row 0 is not a label; allowed: negative, neutral"),
        ({"predictions": [[0.2, 0.3, 0.5]] * 2}, "pass the label with the highest"),
        ({"predictions": ["other", "other"]}, "all 2 rows have the label 'other'"),
        ({"pairs": ["man", "woman"]}, "pairs is ['man', 'woman']"),
        ({"pairs": {"gender": "ab"}}, "pair 'gender' is 'ab'"),
        ({"pairs": {"gender": ("man", "man")}}, "pair 'gender' is ('man', 'man')"),
        ({"pairs": {"race": ("white person", "man")}}, "The groups are: man, woman"),
        ({"pairs": {"all": ("man", "woman")}}, "a pair is named 'all'"),
        ({"smoothing": -1}, "smoothing is -1"),
        ({"smoothing": math.inf}, "smoothing is inf"),
        ({"confidence_level": "0.95"}, "confidence_level is '0.95'"),
    ],
)
def test_bad_input_is_named(changed, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        computed({**ROWS, **changed})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"predictions": [[0.5, 0.5]] * 2}, "predictions in row 0 is [0.5, 0.5]; pass a string"),
        ({"groups": ["man", math.nan]}, "groups in row 1 is nan; pass a string"),
        ({"groups": ["man"]}, "Mismatch in the number of predictions (2) and groups (1)"),
        ({"references": ["man"] * 2}, "takes no references; omit them"),
        ({"structure": ["tag"] * 2}, "unexpected keyword argument 'structure'"),
    ],
)
def test_the_module_rejects_other_columns(changed, message, tmp_path):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        RegardBias(cache_dir=str(tmp_path)).compute(**ROWS | changed)


def test_settings_of_numpy_are_taken():
    settings = {"smoothing": np.float32(1), "confidence_level": np.float32(0.5)}
    plain = {name: value.item() for name, value in settings.items()}
    columns = {**ROWS, "structures": ["original", "original"]}

    results = computed(columns, **settings)

    assert json.loads(json.dumps(results)) == results == computed(columns, **plain)
