import math
from itertools import combinations

import numpy as np
import pytest

from hb_metrics.regard_bias import draws, structure_cosines
from tests.hb_metrics.regard_bias.rows import (
    NO_DRAWS,
    PAIRS,
    SIX,
    centred,
    computed,
    cosine,
    counts_of,
    made,
    mean,
    of_gaps,
    vectors_of,
    without,
)


def test_cosines_of_single_structures_are_those_of_a_loop():
    columns = made(other=0.1, seed=2)
    vectors = list(vectors_of(columns).values())

    results = computed(columns, **NO_DRAWS)["robustness"]

    pairs = list(combinations(vectors, 2))
    assert results["single_structures"] == pytest.approx(mean([cosine(*pair) for pair in pairs]))
    expected = mean([cosine(centred(x), centred(y)) for x, y in pairs])
    assert results["centred"]["single_structures"] == pytest.approx(expected)
    assert (results["num_pairs"], results["num_undefined"]) == (len(pairs), 0)
    assert (results["random_halves"], results["random_halves_range"], results["n_halves"]) == (None, None, 0)


def test_zero_vectors_and_missing_groups_have_no_cosine_and_are_counted():
    columns = of_gaps({"original": 1, "cleft": 1, "tag": 0, "report": 2, "why": 2})
    columns = without(columns, lambda row: (row["structures"], row["groups"]) == ("why", "man"))

    results = computed(columns, kl=False)["robustness"]

    # (1, 0), (1, 0) and (1, -1): tag is 0, and why lacks a group.
    assert results["single_structures"] == pytest.approx((1 + 2 / math.sqrt(2)) / 3)
    assert (results["num_pairs"], results["num_undefined"]) == (3, 7)


def test_vectors_that_are_all_0_have_no_cosine():
    columns = of_gaps({"original": 0, "cleft": 0, "tag": 0, "report": 0})

    results = computed(columns, pairs={"gender": ("man", "woman")}, n_halves=7)["robustness"]

    assert (results["single_structures"], results["random_halves"], results["random_halves_range"]) == (None,) * 3
    assert (results["num_pairs"], results["num_undefined"], results["num_undefined_halves"]) == (0, 6, 7)
    assert results["agreement"] == {"gender": 1.0}  # 0 in both


def test_cosines_of_two_halves_are_those_of_a_loop(monkeypatch):
    columns = made(other=0.1, seed=4)
    order = draws.by_content(counts_of(columns))
    splits = []
    halves = structure_cosines._halves

    def remembered(means, n_halves, seed):
        results = halves(means, n_halves, seed)
        drawn = np.tile(np.arange(means.shape[1]) < means.shape[1] // 2, (n_halves, 1))
        splits.append(draws.generator(seed, draws.HALF_DRAWS).permuted(drawn, axis=1))
        return results

    monkeypatch.setattr(structure_cosines, "_halves", remembered)
    vectors = list(vectors_of(columns).values())
    groups = sorted(SIX)

    results = computed(columns, pairs=PAIRS, n_halves=40)["robustness"]

    cosines, cosines_centred, agreed = [], [], dict.fromkeys(PAIRS, 0)
    for in_first in splits[0]:
        both = []
        for side in (in_first, ~in_first):
            chosen = [vectors[index] for index in order[side]]
            both.append([mean([vector[index] for vector in chosen]) for index in range(6)])
        assert sorted([in_first.sum(), (~in_first).sum()]) == [4, 5]
        cosines.append(cosine(*both))
        cosines_centred.append(cosine(*map(centred, both)))
        for name, (advantaged, disadvantaged) in PAIRS.items():
            gaps = [half[groups.index(advantaged)] - half[groups.index(disadvantaged)] for half in both]
            agreed[name] += gaps[0] * gaps[1] > 0
    assert len({tuple(split) for split in splits[0]}) > 20
    assert results["random_halves"] == pytest.approx(np.mean(cosines))
    assert results["random_halves_range"] == pytest.approx(np.quantile(cosines, [0.025, 0.975]).tolist())
    assert results["centred"]["random_halves"] == pytest.approx(np.mean(cosines_centred))
    assert results["agreement"] == {name: agreed[name] / 40 for name in PAIRS}


def test_structures_drawn_for_single_cosines_are_some_of_all():
    columns = made(other=0.05, num_structures=12)
    every = computed(columns, n_halves=5)["robustness"]
    pairs = list(combinations(vectors_of(columns).values(), 2))

    ten = [computed(columns, num_sampled=10, n_halves=5, seed=seed)["robustness"] for seed in range(5)]
    two = [computed(columns, num_sampled=2, n_halves=5, seed=seed)["robustness"] for seed in range(5)]

    assert {results["num_pairs"] for results in ten} == {45}
    assert {results["num_sampled"] for results in ten} == {10}
    for results in two:
        assert any(cosine(*pair) == pytest.approx(results["single_structures"]) for pair in pairs)
    assert len({results["single_structures"] for results in ten}) > 1
    whole = computed(columns, num_sampled=12, n_halves=5)["robustness"]
    assert whole["single_structures"] == pytest.approx(every["single_structures"])


def test_noisy_structures_are_unlike_and_their_halves_alike():
    columns = made(num_structures=60, num_prompts=2, num_seeds=2, gaps=1.0, spread=0.6, seed=7)

    results = computed(columns, pairs=PAIRS, n_halves=200)

    assert results["robustness"]["single_structures"] < 0.5
    assert results["robustness"]["random_halves"] > 0.9
    assert results["robustness"]["agreement"]["gender"] == 1
    assert results["verdicts"]["gender"]["structured"] == "disadvantaged"
    assert results["gaps"]["gender"]["num_flipped"] > 0


def test_a_level_that_all_groups_share_makes_cosines_high_where_groups_do_not_differ():
    columns = made(num_structures=60, num_prompts=4, level=0.8, gaps=0.0, spread=0.1, seed=8)

    results = computed(columns, pairs=PAIRS, n_halves=200)["robustness"]

    assert results["single_structures"] > 0.85
    assert results["random_halves"] > 0.99
    assert abs(results["centred"]["single_structures"]) < 0.1
    assert results["centred"]["random_halves"] < 0.6
    assert min(results["agreement"].values()) < 0.6
