import json
import math
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_metrics.regard_bias.regard_results import regard_bias
from hb_metrics.regard_bias.regard_rows import REGARDS
from tests.hb_metrics.regard_bias.rows import PAIRS, computed, made, rows_of


def test_the_order_of_rows_does_not_matter():
    columns = made(other=0.1)
    rows = rows_of(columns)
    random.Random(1).shuffle(rows)
    shuffled = {name: [row[name] for row in rows] for name in columns}

    assert computed(shuffled, pairs=PAIRS) == computed(columns, pairs=PAIRS)


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
