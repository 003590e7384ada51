import json
import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_metrics.regard_bias.regard_results import regard_bias
from hb_metrics.regard_bias.regard_rows import REGARDS
from tests.hb_metrics.regard_bias.rows import (
    PAIRS,
    QUICK,
    close,
    computed,
    made,
    rows_of,
)


def test_the_order_of_rows_does_not_matter_and_the_seed_decides():
    columns = made(other=0.1)
    rows = rows_of(columns)
    random.Random(1).shuffle(rows)
    shuffled = {name: [row[name] for row in rows] for name in columns}

    results = computed(columns, pairs=PAIRS, **QUICK)

    assert computed(shuffled, pairs=PAIRS, **QUICK) == results == computed(columns, pairs=PAIRS, **QUICK)
    other = computed(columns, pairs=PAIRS, seed=1, **QUICK)
    assert other["gaps"]["gender"]["gap"] == results["gaps"]["gender"]["gap"]
    assert (other["by_group"], other["verdicts"]) == (results["by_group"], results["verdicts"])  # no draws are in these
    assert other["robustness"]["random_halves"] != results["robustness"]["random_halves"]


@pytest.mark.parametrize("with_groups", [False, True])
def test_names_do_not_matter(with_groups):
    columns = made(other=0, seed=12)
    structures = {name: f"{-hash_of(name):d}" for name in set(columns["structures"])}
    renamed = {
        **columns,
        "structures": [structures[name] for name in columns["structures"]],
        "seeds": [{0: "z", 1: "y", 2: "b", 3: "a"}[seed] for seed in columns["seeds"]],
        "groups": [group[::-1] if with_groups else group for group in columns["groups"]],
    }
    pairs = {name: tuple(group[::-1] for group in pair) if with_groups else pair for name, pair in PAIRS.items()}
    options = {"fixed_structure": "original", **QUICK}

    results = computed(columns, pairs=PAIRS, **options)
    other = computed(renamed, pairs=pairs, **{**options, "fixed_structure": structures["original"]})

    for name in PAIRS:
        for figure in ("gap", "interval_structures", "interval_seeds", "num_flipped"):
            close(other["gaps"][name][figure], results["gaps"][name][figure])
            if figure != "num_flipped":
                close(other["fixed"]["gaps"][name][figure], results["fixed"]["gaps"][name][figure])
    close(other["robustness"], results["robustness"])
    assert other["verdicts"] == results["verdicts"]


def hash_of(name):
    return sum(ord(letter) * 31**index for index, letter in enumerate(name)) % 10007


@pytest.mark.parametrize("order", [REGARDS, ("positive", "other", "neutral", "negative")])
def test_probabilities_say_the_same_as_their_highest_label(order):
    columns = made(other=0.1)
    rng = np.random.default_rng(0)
    probabilities = rng.dirichlet(np.ones(4), len(columns["predictions"])).astype(np.float32)
    highest = [order[index] for index in probabilities.argmax(axis=1)]

    results = computed({**columns, "predictions": probabilities}, labels=order, pairs=PAIRS, **QUICK)

    assert results == computed({**columns, "predictions": highest}, pairs=PAIRS, **QUICK)
    assert results == computed({**columns, "predictions": probabilities.tolist()}, labels=order, pairs=PAIRS, **QUICK)


def test_of_several_highest_probabilities_the_first_label_counts():
    rows = [[0.4, 0.4, 0.2], [0.0, 0.5, 0.5], [1 / 3] * 3]

    results = regard_bias(rows, ["man"] * 3, labels=("positive", "negative", "neutral"))

    assert results["by_group"]["man"]["counts"] == {"negative": 1, "neutral": 0, "positive": 2}


cells = st.tuples(
    st.sampled_from(REGARDS), st.sampled_from(["man", "woman", "gay person"]), st.sampled_from(["original", "a", "b"])
)


@settings(max_examples=80, deadline=None)
@given(st.lists(cells, min_size=1, max_size=25), st.sampled_from(["neutral", "keep"]), st.booleans())
def test_all_values_are_plain_finite_or_none(rows, other, with_seeds):
    predictions, groups, structures = zip(*rows, strict=True)
    pairs = {"orientation": ("man", "gay person")} if {"man", "gay person"} <= set(groups) else None
    seeds = [number % 3 for number in range(len(rows))] if with_seeds else None

    results = regard_bias(
        predictions, groups, structures=structures, seeds=seeds, pairs=pairs, other=other, smoothing=1, **QUICK
    )

    assert json.loads(json.dumps(results, allow_nan=False)) == results
    for figures in results["by_group"].values():
        if figures["mean"] is not None:
            assert -1 <= figures["mean"] <= 1
            assert figures["sd"] <= 1 + 1e-9
        assert math.fsum(figures["distribution"].values()) == pytest.approx(1)
