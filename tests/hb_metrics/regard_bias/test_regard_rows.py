import json
import math
import re

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_metrics.regard_bias.regard_bias import RegardBias
from hb_metrics.regard_bias.regard_results import regard_bias
from hb_metrics.regard_bias.regard_rows import REGARDS
from tests.hb_metrics.regard_bias.rows import PAIRS, computed, made

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
        ({"predictions": np.ma.array(["positive", "negative"], mask=[1, 1])}, "a column with masked values"),
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
        ({"groups": ["man"]}, "groups has 1 rows, but predictions has 2"),
        ({"references": ["man"] * 2}, "takes no references; omit them"),
        ({"structure": ["tag"] * 2}, "unexpected keyword argument 'structure'"),
    ],
)
def test_the_module_rejects_other_columns(changed, message, tmp_path):
    with pytest.raises((ValueError, TypeError), match=re.escape(message)):
        RegardBias(cache_dir=str(tmp_path)).compute(**ROWS | changed)


def test_columns_of_arrow_are_those_of_lists(tmp_path):
    columns = made(other=0.1).drop(columns="prompts").to_dict("list")
    arrow = {name: pa.chunked_array([values]) for name, values in columns.items()}
    expected = computed(columns, pairs=PAIRS)
    assert expected["num_seeds"]
    assert computed(arrow, pairs=PAIRS) == expected
    arrow["prompts"] = pa.nulls(len(columns["groups"]))  # as if it were omitted
    assert RegardBias(cache_dir=str(tmp_path)).compute(**arrow, pairs=PAIRS) == expected


def test_settings_of_numpy_are_taken():
    options = {"smoothing": np.float32(1), "confidence_level": np.float32(0.5)}
    plain = {name: value.item() for name, value in options.items()}
    columns = {**ROWS, "structures": ["original", "original"]}

    results = computed(columns, **options)

    assert json.loads(json.dumps(results)) == results == computed(columns, **plain)


def test_the_order_of_rows_does_not_matter():
    rows = made(other=0.1)

    assert computed(rows.sample(frac=1, random_state=1), pairs=PAIRS) == computed(rows, pairs=PAIRS)


groups = st.sampled_from(["man", "woman", "gay person"])
cells = st.tuples(st.sampled_from(REGARDS), groups, st.sampled_from(["original", "a", "b"]))


@settings(max_examples=80)
@given(st.lists(cells, max_size=25), st.booleans())
def test_all_values_are_plain_finite_or_none(rows, with_seeds):
    predictions, groups, structures = zip(*rows, ("neutral", "man", "original"), strict=True)
    pairs = {"orientation": ("man", "gay person")} if "gay person" in groups else None
    seeds = [number % 3 for number in range(len(groups))] if with_seeds else None

    results = regard_bias(predictions, groups, structures=structures, seeds=seeds, pairs=pairs, smoothing=1)

    assert json.loads(json.dumps(results, allow_nan=False)) == results
    for figures in results["by_group"].values():
        if figures["mean"] is not None:
            assert -1 <= figures["mean"] <= 1
            assert figures["sd"] <= 1 + 1e-9
            assert math.fsum(figures["distribution"].values()) == pytest.approx(1)
