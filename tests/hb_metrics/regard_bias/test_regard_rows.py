import json
import math

import numpy as np

from hb_metrics.regard_bias import cell_means, regard_results, regard_rows, structure_cosines
from hb_metrics.regard_bias.regard_rows import REGARDS
from hb_metrics.stats import inputs
from tests.hb_metrics.regard_bias.rows import computed

ROWS = {"predictions": ["positive", "negative"], "groups": ["man", "woman"]}

PROBABILITIES = [[0.2, 0.3, 0.5, 0.0], [0.5, 0.3, 0.2, 0.0]]

BAD_INPUTS = [
    ({"predictions": [], "groups": []}, regard_rows.EMPTY_ERROR),
    ({"predictions": ["positive"]}, inputs.UNEQUAL_LENGTHS_ERROR.format("1 predictions, 2 groups")),
    ({"seeds": [1]}, inputs.UNEQUAL_LENGTHS_ERROR.format("2 predictions, 2 groups, 1 seeds")),
    ({"structures": ["original"]}, "2 predictions, 2 groups, 1 structures"),
    ({"prompts": []}, "2 predictions, 2 groups, 0 prompts"),
    ({"groups": "ab"}, "groups: a single string was given"),
    ({"predictions": "ab"}, "predictions: a single string was given"),
    ({"groups": ["man", None]}, regard_rows.NAME_ERROR.format(name="groups", value=None, row=1)),
    ({"groups": ["", "man"]}, regard_rows.NAME_ERROR.format(name="groups", value="", row=0)),
    ({"structures": ["original", 3]}, regard_rows.NAME_ERROR.format(name="structures", value=3, row=1)),
    ({"seeds": [1, None]}, regard_rows.NAME_ERROR.format(name="seeds", value=None, row=1)),
    ({"seeds": [1, 2.5]}, regard_rows.NAME_ERROR.format(name="seeds", value=2.5, row=1)),
    ({"groups": {"man", "woman"}}, "groups: a set, which has no order, was given"),
    ({"structures": {"a": 1, "b": 2}}, "structures: a mapping was given"),
    ({"groups": iter(["man", "woman"])}, "groups: a single value or an iterator (list_iterator) was given"),
    ({"groups": None}, "groups: nothing was given"),
    ({"predictions": 5}, "predictions: a single value or an iterator (int) was given"),
    ({"predictions": b"01"}, "predictions: a single string was given"),
    ({"predictions": [list("1000"), list("0100")]}, "cannot be read as probabilities (type <U1)"),
    (
        {"predictions": np.array([list("1000"), list("0100")])},
        "cannot be read as probabilities (type <U1)",
    ),
    (
        {"predictions": np.ma.array([[0.2, 0.3, 0.5, 0.0]] * 2, mask=[[0] * 4, [0, 0, 1, 0]])},
        inputs.MASKED_ERROR.format(name="predictions", row=1, count=1),
    ),
    (
        {"predictions": np.ma.array(["positive", "negative"], mask=[1, 1])},
        "masked values (2 rows, the first is 0)",
    ),
    ({"seeds": np.ma.array([1, 2], mask=[0, 1])}, "seeds has masked values (1 rows, the first is 1)"),
    ({"predictions": ["good", "bad"]}, "prediction 'good' in row 0 is not a label; allowed: negative, neutral"),
    ({"predictions": ["neutral", None]}, "prediction None in row 1 is not a label"),
    ({"predictions": ["other", "other"]}, regard_results.NONE_LEFT_ERROR.format(num=2)),
    (
        {"predictions": ["neutral", "other"], "labels": ("negative", "neutral", "positive")},
        "prediction 'other' in row 1 is not a label; allowed: negative, neutral, positive (1 rows",
    ),
    ({"predictions": [[0.5, 0.5], [1.0, 0.0]]}, "predictions have the shape (2, 2)"),
    ({"predictions": [0.5, 0.5]}, "predictions have the shape (2,)"),
    ({"predictions": [[0.5, 0.5], [1.0]]}, "predictions cannot be read as probabilities"),
    ({"predictions": [PROBABILITIES[0], "neutral"]}, "predictions cannot be read as probabilities"),
    ({"predictions": [PROBABILITIES[0], [math.nan, 1, 0, 0]]}, "probability nan in row 1, of negative"),
    ({"predictions": [[0, 0, -0.1, 1.1], PROBABILITIES[0]]}, "probability -0.1 in row 0, of positive"),
    ({"predictions": [[0, 0, 0.1, 0.1], PROBABILITIES[0]]}, "probabilities of row 0 sum to 0.2, not to 1 (1 rows"),
    ({"labels": ("negative", "positive")}, regard_rows.LABELS_ERROR.format(labels=("negative", "positive"))),
    (
        {"labels": ("negative", "neutral", "positive", "positive")},
        "give each of negative, neutral and positive once",
    ),
    ({"labels": set(REGARDS)}, "give each of negative, neutral and positive once"),
    ({"labels": 3}, regard_rows.LABELS_ERROR.format(labels=3)),
    ({"labels": ("bad", "neutral", "positive")}, "give each of negative, neutral and positive once"),
    ({"pairs": ["man", "woman"]}, regard_results.PAIRS_ERROR.format(pairs=["man", "woman"])),
    ({"pairs": {"gender": ["man"]}}, regard_results.PAIR_ERROR.format(name="gender", pair=["man"])),
    ({"pairs": {"gender": "ab"}}, regard_results.PAIR_ERROR.format(name="gender", pair="ab")),
    ({"pairs": {"gender": ("man", "man")}}, regard_results.PAIR_ERROR.format(name="gender", pair=("man", "man"))),
    ({"pairs": {"all": ("man", "woman")}}, regard_results.PAIR_NAME_ERROR.format(name="all")),
    (
        {"pairs": {"race": ("white person", "man")}},
        regard_results.PAIR_GROUP_ERROR.format(name="race", group="white person", groups="man, woman"),
    ),
    ({"pairs": {1: ("man", "woman")}}, "pairs are {1: ('man', 'woman')}"),
    ({"kl": "false"}, "kl is 'false'; give True or False"),
    ({"fixed_structure": 3}, regard_results.FIXED_STRUCTURE_ERROR.format(value=3)),
    ({"other": "skip"}, regard_rows.OTHER_ERROR.format(other="skip")),
    ({"smoothing": -1}, cell_means.SMOOTHING_ERROR.format(smoothing=-1)),
    ({"smoothing": -1, "kl": False}, cell_means.SMOOTHING_ERROR.format(smoothing=-1)),
    ({"smoothing": True}, "smoothing is True"),
    ({"smoothing": math.nan}, "smoothing is nan"),
    ({"smoothing": math.inf}, "smoothing is inf"),
    ({"k": 0}, regard_results.WHOLE_NUMBER_ERROR.format(name="k", value=0, least=1)),
    ({"k": 1.5}, "k is 1.5; give a whole number"),
    ({"k": True}, "k is True; give a whole number"),
    ({"n_shuffles": -1}, "n_shuffles is -1; give a whole number of at least 0"),
    ({"n_halves": -1}, "n_halves is -1"),
    ({"seed": -1}, "seed is -1"),
    ({"seed": 1.5}, "seed is 1.5; give a whole number"),
    ({"confidence_level": "0.95"}, regard_results.CONFIDENCE_LEVEL_ERROR.format(value="0.95")),
    ({"confidence_level": 1}, regard_results.CONFIDENCE_LEVEL_ERROR.format(value=1)),
    ({"confidence_level": math.nan}, "confidence_level is nan"),
    (
        {"num_sampled": 3, "structures": ["original", "tag"], "kl": False},
        structure_cosines.NUM_SAMPLED_ERROR.format(num_sampled=3, num=2),
    ),
    ({"num_sampled": 1, "structures": ["original", "tag"], "kl": False}, "num_sampled is 1"),
]


def test_bad_input_is_named():
    unexpected = []
    for changed, message in BAD_INPUTS:
        try:
            computed({**ROWS, **changed})
        except ValueError as error:
            if message not in str(error):
                unexpected.append((changed, str(error)))
        else:
            unexpected.append((changed, "no error"))
    assert unexpected == []


def test_settings_of_numpy_are_taken():
    settings = {"k": np.int64(1), "n_halves": np.int64(3), "n_shuffles": np.int64(2), "seed": np.int64(4)}
    settings |= {"smoothing": np.float32(1), "confidence_level": np.float32(0.5), "kl": np.True_}
    plain = {name: value.item() for name, value in settings.items()}
    columns = {**ROWS, "structures": ["original", "original"]}

    results = computed(columns, **settings)

    assert json.loads(json.dumps(results)) == results == computed(columns, **plain)
