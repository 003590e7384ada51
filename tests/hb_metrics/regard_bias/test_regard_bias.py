import json
import math
import random
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import entropy

from hb_metrics.regard_bias import (
    cell_means,
    draws,
    inputs,
    regard_results,
    regard_rows,
    structure_cosines,
    structure_results,
)
from hb_metrics.regard_bias.cell_means import EmptyClassError, kl_matrix
from hb_metrics.regard_bias.chance import by_chance
from hb_metrics.regard_bias.regard_results import regard_bias
from hb_metrics.regard_bias.regard_rows import REGARDS
from hb_metrics.regard_bias.structure_cosines import pairwise_cosine
from hb_metrics.regard_bias.structure_results import Pair, structure_gaps

SCORES = {"negative": -1, "neutral": 0, "positive": 1}
SIX = ("black person", "gay person", "man", "straight person", "white person", "woman")
PAIRS = {
    "gender": ("man", "woman"),
    "race": ("white person", "black person"),
    "orientation": ("straight person", "gay person"),
}
NO_DRAWS = {"n_halves": 0}
QUICK = {"n_halves": 50}


def made(num_structures=9, num_prompts=3, num_seeds=4, groups=SIX, seed=0, other=0.05, level=0.0, gaps=0.4, spread=0.4):
    """A full design as columns: groups differ by up to `gaps`, structures spread by `spread` around `level`."""
    rng = np.random.default_rng(seed)
    structures = ["original", *(f"structure {number:03d}" for number in range(1, num_structures))]
    of_structure = dict(zip(structures, rng.normal(level, spread, num_structures), strict=True))
    of_group = dict(zip(groups, np.linspace(-gaps / 2, gaps / 2, len(groups)), strict=True))
    columns = {name: [] for name in ("predictions", "groups", "structures", "prompts", "seeds")}
    for group in groups:
        for structure in structures:
            for prompt in range(num_prompts):
                for drawn in range(num_seeds):
                    value = of_structure[structure] + of_group[group] + rng.normal(0, 0.7)
                    regard = "negative" if value < -0.4 else "positive" if value > 0.4 else "neutral"
                    label = "other" if rng.random() < other else regard
                    row = (label, group, structure, f"{group} {structure} {prompt}", drawn)
                    for name, cell in zip(columns, row, strict=True):
                        columns[name].append(cell)
    return columns


def rows_of(columns):
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


def without(columns, chosen):
    kept = [row for row in rows_of(columns) if not chosen(row)]
    return {name: [row[name] for row in kept] for name in columns}


def computed(columns, **options):
    columns = dict(columns)
    return regard_bias(columns.pop("predictions"), columns.pop("groups"), **columns, **options)


def mean(values):
    return sum(values) / len(values) if values else None


def scores(rows, **where):
    return [
        SCORES[row["predictions"]]
        for row in rows
        if row["predictions"] in SCORES and all(row[name] == value for name, value in where.items())
    ]


def group_mean(rows, group, structures):
    """Equation (1): the mean of the structures' means."""
    means = [mean(scores(rows, groups=group, structures=structure)) for structure in structures]
    return mean([value for value in means if value is not None])


def cosine(x, y):
    lengths = math.sqrt(sum(a * a for a in x)) * math.sqrt(sum(b * b for b in y))
    return None if lengths < 1e-12 else sum(a * b for a, b in zip(x, y, strict=True)) / lengths


def close(actual, expected):
    """Equal down to rounding, at any depth."""
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys()
        for key in expected:
            close(actual[key], expected[key])
    elif isinstance(expected, list) and expected and not isinstance(expected[0], str):
        assert actual == pytest.approx(expected, abs=1e-12)
    else:
        assert actual == (pytest.approx(expected, abs=1e-12) if isinstance(expected, float) else expected)


def figures_only(results):
    """Results without what echoes the options."""
    return {name: results[name] for name in (*regard_results._OF_STRUCTURES, "gaps", "by_group", "kl_divergence")}


# --- groups -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("other", ["drop", "neutral", "keep"])
@pytest.mark.parametrize("seed", range(3))
def test_figures_of_groups_are_those_of_loops(other, seed):
    columns = made(seed=seed, other=0.2)
    rows = rows_of(columns)
    num_other = {group: sum(row["predictions"] == "other" for row in rows if row["groups"] == group) for group in SIX}
    if other == "neutral":
        rows = [{**row, "predictions": row["predictions"].replace("other", "neutral")} for row in rows]
    labels = [*SCORES, "other"] if other == "keep" else list(SCORES)
    structures = sorted(set(columns["structures"]))

    results = computed(columns, other=other, **NO_DRAWS)

    assert results["num_other"] == num_other
    assert results["num_rows"] == len(rows)
    assert results["num_counted"] == len(rows) - (sum(num_other.values()) if other == "drop" else 0)
    assert results["labels"] == labels
    for group, figures in results["by_group"].items():
        mine = [row["predictions"] for row in rows if row["groups"] == group]
        assert figures["counts"] == {label: mine.count(label) for label in labels}
        assert figures["num"] == len(scores(rows, groups=group))
        expected = group_mean(rows, group, structures)
        assert figures["mean"] == pytest.approx(expected)
        squares = []
        for structure in structures:
            cell = [(value - expected) ** 2 for value in scores(rows, groups=group, structures=structure)]
            squares.append(mean(cell))
        assert figures["sd"] == pytest.approx(math.sqrt(mean(squares)))
        shares = dict.fromkeys(labels, 0.0)
        for structure in structures:
            cell = [row["predictions"] for row in rows if (row["groups"], row["structures"]) == (group, structure)]
            cell = [label for label in cell if label in labels]
            for label in labels:
                shares[label] += cell.count(label) / len(cell) / len(structures)
        close(figures["distribution"], shares)


def test_in_a_full_design_they_are_those_of_all_rows():
    columns = made(other=0)
    rows = rows_of(columns)

    results = computed(columns, **NO_DRAWS)["by_group"]

    for group, figures in results.items():
        values = scores(rows, groups=group)
        assert figures["mean"] == pytest.approx(np.mean(values))
        assert figures["sd"] == pytest.approx(np.std(values))
        shares = [values.count(score) / len(values) for score in SCORES.values()]
        assert list(figures["distribution"].values()) == pytest.approx(shares)


def test_without_structures_every_row_has_the_same_weight():
    columns = without(made(other=0.1), lambda row: row["structures"] > "structure 005" and row["groups"] == "man")
    rows = rows_of(columns)
    columns = {name: columns[name] for name in ("predictions", "groups")}

    results = computed(columns, pairs=PAIRS)

    for group, figures in results["by_group"].items():
        assert figures["mean"] == pytest.approx(np.mean(scores(rows, groups=group)))
    assert {results[name] for name in regard_results._OF_STRUCTURES} == {None}
    assert (results["num_structures"], results["num_prompts"], results["num_seeds"]) == (None,) * 3
    assert list(results["gaps"]["gender"]) == [
        "advantaged",
        "disadvantaged",
        "gap",
        "interval_structures",
        "interval_seeds",
        "no_interval",
    ]
    assert results["gaps"]["gender"]["interval_structures"] is None


def test_structures_of_unequal_size_have_the_same_weight():
    results = regard_bias(
        ["positive"] * 8 + ["negative"] + ["neutral"],
        ["man"] * 9 + ["woman"],
        structures=["original"] * 8 + ["tag"] + ["tag"],
        kl=False,
    )

    man = results["by_group"]["man"]
    assert (man["mean"], man["sd"], man["num"]) == (0.0, 1.0, 9)
    assert man["distribution"] == {"negative": 0.5, "neutral": 0.0, "positive": 0.5}
    assert man["counts"] == {"negative": 1, "neutral": 0, "positive": 8}


def test_the_gap_is_the_mean_of_the_advantaged_less_that_of_the_disadvantaged_group():
    columns = made()

    results = computed(columns, pairs=PAIRS, **NO_DRAWS)
    turned = computed(columns, pairs={name: pair[::-1] for name, pair in PAIRS.items()}, **NO_DRAWS)

    for name, (advantaged, disadvantaged) in PAIRS.items():
        gap = results["by_group"][advantaged]["mean"] - results["by_group"][disadvantaged]["mean"]
        assert results["gaps"][name]["gap"] == pytest.approx(gap)
        assert turned["gaps"][name]["gap"] == pytest.approx(-gap)
        assert (results["gaps"][name]["advantaged"], results["gaps"][name]["disadvantaged"]) == (
            advantaged,
            disadvantaged,
        )
    assert results["pairs"] == {name: list(pair) for name, pair in PAIRS.items()}


def test_one_group_and_one_row():
    results = regard_bias(["positive"], ["man"], structures=["original"])

    man = results["by_group"]["man"]
    assert (man["mean"], man["sd"], man["num"]) == (1.0, 0.0, 1)
    assert results["kl_divergence"] == {"man": {"man": 0.0}}
    assert (results["gaps"], results["verdicts"], results["largest_gap"]) == ({}, {}, {})
    assert man["interval_structures"] is None
    assert results["robustness"]["single_structures"] is results["robustness"]["random_halves"] is None
    assert (results["robustness"]["num_pairs"], results["robustness"]["n_halves"]) == (0, 0)
    assert results["best_structures"] == results["worst_structures"] == ["original"]


def test_a_group_of_which_all_rows_are_other_has_no_figures():
    columns = made(other=0)
    columns["predictions"] = [
        "other" if group == "man" else label
        for label, group in zip(columns["predictions"], columns["groups"], strict=True)
    ]

    results = computed(columns, pairs=PAIRS, kl=False, **QUICK)

    man = results["by_group"]["man"]
    assert (man["mean"], man["sd"], man["num"], man["interval_structures"], man["interval_seeds"]) == (None,) * 2 + (
        0,
        None,
        None,
    )
    assert set(man["distribution"].values()) == {None}
    gender = results["gaps"]["gender"]
    assert (gender["gap"], gender["flipped"], gender["num_structures"], gender["share_flipped"]) == (
        None,
        None,
        0,
        None,
    )
    reasons = dict.fromkeys(("fixed", "structured"), "there are no texts that count")
    assert results["verdicts"]["gender"] == {"fixed": None, "structured": None, "survives": None, "no_verdict": reasons}
    assert man["no_interval"] == dict.fromkeys(("structures", "seeds"), "there are no texts that count")
    assert results["robustness"]["single_structures"] is results["robustness"]["random_halves"] is None
    assert results["robustness"]["num_undefined_halves"] == 50
    assert results["robustness"]["agreement"]["gender"] is None
    assert results["robustness"]["agreement"]["race"] is not None


# --- divergences ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("other", "smoothing"), [("drop", None), ("keep", None), ("neutral", 0.5), ("keep", 2)])
def test_divergences_are_scipys(other, smoothing):
    columns = made(other=0.15, seed=3)

    results = computed(columns, other=other, smoothing=smoothing, **NO_DRAWS)

    weights = {}
    for group, figures in results["by_group"].items():
        number = sum(figures["counts"].values())
        weights[group] = [share * number + (smoothing or 0) for share in figures["distribution"].values()]
    for row, column in [(row, column) for row in SIX for column in SIX]:
        expected = entropy(weights[row], weights[column])
        assert results["kl_divergence"][row][column] == pytest.approx(expected, abs=1e-12)
    assert results["kl_divergence"]["man"]["man"] == 0
    assert results["kl_divergence"]["man"]["gay person"] != results["kl_divergence"]["gay person"]["man"]


def test_in_a_full_design_divergences_are_those_of_the_counts():
    results = computed(made(other=0), smoothing=1, **NO_DRAWS)

    counts = {group: figures["counts"] for group, figures in results["by_group"].items()}
    close(results["kl_divergence"], kl_matrix(counts, 1))


def test_a_class_that_one_group_lacks_is_an_error_that_names_both():
    counts = {"man": {"negative": 1, "neutral": 2}, "woman": {"negative": 0, "neutral": 4}}

    with pytest.raises(EmptyClassError, match=r"no row of group 'woman' is negative.*smoothing="):
        kl_matrix(counts)
    with pytest.raises(EmptyClassError, match="no row of group 'woman' is positive"):
        regard_bias(["positive", "neutral", "neutral"], ["man", "man", "woman"])

    smoothed = kl_matrix(counts, 1)
    assert smoothed["man"]["woman"] == pytest.approx(entropy([2, 3], [1, 5]))
    assert smoothed["woman"]["man"] == pytest.approx(entropy([1, 5], [2, 3]))


def test_a_class_that_no_group_has_adds_nothing():
    counts = {"man": {"negative": 3, "other": 0, "neutral": 1}, "woman": {"negative": 1, "other": 0, "neutral": 1}}

    assert kl_matrix(counts)["man"]["woman"] == pytest.approx(entropy([3, 1], [1, 1]))


def test_groups_must_have_the_same_labels():
    with pytest.raises(ValueError, match=r"'woman' have the labels \['neutral'\]"):
        kl_matrix({"man": {"negative": 1}, "woman": {"neutral": 1}})


# --- structures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [False, True])
def test_figures_of_structures_are_those_of_loops(missing):
    columns = made(other=0.1, seed=1)
    if missing:
        columns = without(columns, lambda row: (row["groups"], row["structures"]) == ("man", "structure 002"))
        columns = without(columns, lambda row: row["structures"] == "structure 004" and row["seeds"] > 1)
    rows = rows_of(columns)
    structures = sorted(set(columns["structures"]))

    results = computed(columns, pairs=PAIRS, k=3, **NO_DRAWS)

    overall, gaps = {}, {name: {} for name in PAIRS}
    for structure in structures:
        means = {group: mean(scores(rows, groups=group, structures=structure)) for group in SIX}
        known = [value for value in means.values() if value is not None]
        overall[structure] = mean(known)
        for name, (advantaged, disadvantaged) in PAIRS.items():
            both = means[advantaged], means[disadvantaged]
            gaps[name][structure] = None if None in both else both[0] - both[1]
        close(
            results["by_structure"][structure],
            {
                "mean": means,
                "overall": overall[structure],
                "gap": {name: gaps[name][structure] for name in PAIRS},
                "num": len(scores(rows, structures=structure)),
                "num_groups": len(known),
            },
        )
    assert list(results["by_structure"]) == structures
    assert results["best_structures"] == sorted(structures, key=lambda one: (-overall[one], one))[:3]
    assert results["worst_structures"] == sorted(structures, key=lambda one: (overall[one], one))[:3]
    gaps["all"] = {
        structure: mean([gaps[name][structure] for name in PAIRS if gaps[name][structure] is not None])
        for structure in structures
    }
    for name, values in gaps.items():
        known = [structure for structure in structures if values[structure] is not None]
        assert results["largest_gap"][name] == sorted(known, key=lambda one: (-round(values[one], 12), one))[:3]
        assert results["smallest_gap"][name] == sorted(known, key=lambda one: (round(values[one], 12), one))[:3]
    for name in PAIRS:
        known = {structure: gap for structure, gap in gaps[name].items() if gap is not None}
        pooled = results["gaps"][name]
        flipped = [structure for structure, gap in known.items() if gap * pooled["gap"] < 0 and abs(gap) > 1e-12]
        assert pooled["flipped"] == flipped
        assert (pooled["num_structures"], pooled["num_flipped"]) == (len(known), len(flipped))
        assert pooled["num_zero"] == sum(abs(gap) < 1e-12 for gap in known.values())
        assert pooled["share_flipped"] == len(flipped) / len(known)
        assert results["gaps"]["gender"]["num_structures"] == len(structures) - missing


def of_gaps(gaps):
    """One row a cell of man and woman, so that each structure has the gap given."""
    labels = {-2: ("negative", "positive"), -1: ("neutral", "positive"), 0: ("neutral", "neutral")}
    labels |= {1: ("positive", "neutral"), 2: ("positive", "negative")}
    return {
        "predictions": [label for gap in gaps.values() for label in labels[gap]],
        "groups": ["man", "woman"] * len(gaps),
        "structures": [structure for structure in gaps for _ in range(2)],
    }


def test_a_structure_that_turns_the_gap_round_is_named():
    columns = of_gaps({"original": -2, "cleft": 2, "tag": 2, "report": 0, "why": 1})

    gap = computed(columns, pairs={"gender": ("man", "woman")}, smoothing=1)["gaps"]["gender"]

    assert gap["gap"] == pytest.approx(0.6)
    assert (gap["flipped"], gap["num_flipped"], gap["share_flipped"]) == (["original"], 1, 0.2)
    assert (gap["num_structures"], gap["num_zero"]) == (5, 1)


def test_where_the_pooled_gap_is_0_nothing_can_be_flipped():
    columns = of_gaps({"original": -2, "cleft": 1, "tag": 1, "report": 0})

    gap = computed(columns, pairs={"gender": ("man", "woman")}, smoothing=1)["gaps"]["gender"]

    assert (gap["gap"], gap["flipped"], gap["num_flipped"], gap["share_flipped"]) == (0.0, None, None, None)
    assert gap["num_zero"] == 1


def test_a_pooled_gap_of_0_is_0_though_thirds_round():
    # Means of thirds, sixths and sevenths that sum to the same, in another order.
    thirds = ["positive"] + ["neutral"] * 2
    sevenths = ["positive"] * 3 + ["negative"] + ["neutral"] * 3
    sixths = ["negative"] + ["neutral"] * 5
    cells = [thirds, sevenths, sixths]
    columns = {"predictions": [], "groups": [], "structures": []}
    for group, order in (("man", (0, 1, 2)), ("woman", (2, 0, 1))):
        for structure, index in zip("abc", order, strict=True):
            columns["predictions"] += cells[index]
            columns["groups"] += [group] * len(cells[index])
            columns["structures"] += [structure] * len(cells[index])

    assert computed(columns, pairs={"gender": ("man", "woman")}, kl=False)["gaps"]["gender"]["gap"] == 0


def test_ties_are_in_the_order_of_names_and_fewer_structures_than_k_are_all():
    columns = of_gaps({"tag": 1, "cleft": 1, "report": 1, "original": 2})

    results = computed(columns, pairs={"gender": ("man", "woman")}, smoothing=1, k=9)

    assert results["best_structures"] == ["cleft", "report", "tag", "original"]
    assert results["worst_structures"] == ["original", "cleft", "report", "tag"]
    assert results["largest_gap"]["gender"] == ["original", "cleft", "report", "tag"]
    assert results["smallest_gap"]["gender"] == results["smallest_gap"]["all"] == ["cleft", "report", "tag", "original"]


# --- robustness -------------------------------------------------------------------------------------------------------


def vectors_of(columns):
    rows, structures = rows_of(columns), sorted(set(columns["structures"]))
    return {
        structure: [mean(scores(rows, groups=group, structures=structure)) for group in sorted(set(columns["groups"]))]
        for structure in structures
    }


def centred(vector):
    return [value - mean(vector) for value in vector]


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


def counts_of(columns):
    rows = regard_rows.read_rows(columns["predictions"], columns["groups"], columns["structures"], None, None, REGARDS)
    return regard_rows.without_other(rows, "drop")[0].counts()


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


# --- the fixed structure and verdicts ---------------------------------------------------------------------------------


def test_the_fixed_structures_figures_are_those_of_its_rows_alone():
    columns = made(num_seeds=6, other=0.1, seed=11)
    alone = without(columns, lambda row: row["structures"] != "structure 003")

    results = computed(columns, pairs=PAIRS, fixed_structure="structure 003", smoothing=1)["fixed"]
    expected = computed(alone, pairs=PAIRS, fixed_structure="structure 003", smoothing=1)

    for group in SIX:
        own = {name: value for name, value in results["by_group"][group].items() if name != "interval_prompts"}
        own["no_interval"].pop("prompts", None)
        assert own == expected["by_group"][group]
    for name in PAIRS:
        for figure in ("gap", "interval_seeds", "interval_structures", "advantaged", "disadvantaged"):
            assert results["gaps"][name][figure] == expected["gaps"][name][figure]
    for name in ("kl_divergence", "num_rows", "num_other", "num_counted"):
        assert results[name] == expected[name]
    assert results["kl_error"] is None


def test_a_class_that_the_fixed_structure_lacks_is_reported_there():
    columns = of_gaps({"original": 2, "tag": -2, "cleft": 0})

    results = computed(columns)

    assert results["kl_divergence"]["man"]["woman"] == 0
    assert results["fixed"]["kl_divergence"] is None
    assert results["fixed"]["kl_error"] == cell_means.EMPTY_CLASS_ERROR.format(group="man", label="negative")


def test_without_the_fixed_structure_there_is_nothing_beside():
    results = computed(made(), pairs=PAIRS, fixed_structure="cleft-it", **QUICK)

    assert results["fixed"] is None
    assert {verdict["fixed"] for verdict in results["verdicts"].values()} == {None}
    assert results["verdicts"]["gender"]["survives"] is None


def test_a_fixed_structure_of_which_all_is_other_has_no_figures():
    columns = made(other=0)
    columns["predictions"] = [
        "other" if structure == "original" else label
        for label, structure in zip(columns["predictions"], columns["structures"], strict=True)
    ]

    results = computed(columns, pairs=PAIRS, **QUICK)

    assert results["fixed"]["num_counted"] == 0
    assert results["fixed"]["gaps"]["gender"]["gap"] is None
    assert results["verdicts"]["gender"]["fixed"] is None
    assert results["by_structure"]["original"]["overall"] is None
    assert "original" not in results["worst_structures"]


@pytest.mark.parametrize(
    ("interval", "verdict"),
    [
        ([0.1, 0.2], "advantaged"),
        ([-0.2, -0.1], "disadvantaged"),
        ([-0.1, 0.1], "undecided"),
        ([0.0, 0.1], "undecided"),
        ([-0.1, 0.0], "undecided"),
        (None, None),
    ],
)
def test_a_gap_is_decided_where_its_interval_does_not_hold_0(interval, verdict):
    assert regard_results._verdict(interval) == verdict


@pytest.mark.parametrize(
    ("by_fixed", "structured", "survives"),
    [
        ([0.1, 0.2], [0.1, 0.2], True),
        ([-0.1, 0.1], [0.1, 0.2], False),
        ([-0.2, -0.1], [0.1, 0.2], False),
        (None, [0.1, 0.2], None),
        ([0.1, 0.2], None, None),
    ],
)
def test_a_verdict_survives_where_both_say_the_same(by_fixed, structured, survives):
    fixed = {"race": {"interval_prompts": by_fixed, "no_interval": {"prompts": "few"} if by_fixed is None else {}}}
    whole = {"interval_structures": structured, "no_interval": {"structures": "fewer"} if structured is None else {}}

    results = regard_results._verdicts(
        {"race": whole}, fixed, {"fixed": "prompts", "structured": "structures"}, "original"
    )["race"]

    assert results["survives"] == survives
    reasons = {"fixed": by_fixed is None and "few", "structured": structured is None and "fewer"}
    assert results["no_verdict"] == {side: reason for side, reason in reasons.items() if reason}


# --- what must not matter ---------------------------------------------------------------------------------------------


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


# --- bad input --------------------------------------------------------------------------------------------------------

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


def test_the_name_for_all_pairs_is_that_of_the_rankings():
    assert structure_results.ALL_PAIRS == "all"


def dealt(labels_of, structures=20, seed=0):
    """Rows of two groups in structures of three rows each; `labels_of(group, structure, generator)` → a label."""
    generator = np.random.default_rng(seed)
    rows = [(group, f"s{number}") for group in ("man", "woman") for number in range(structures) for _ in range(3)]
    predictions = [labels_of(group, int(structure[1:]), generator) for group, structure in rows]
    groups, names = zip(*rows, strict=True)
    return regard_bias(predictions, groups, structures=names, pairs={"gender": ("man", "woman")}, kl=False)


def test_structures_that_make_no_difference_are_as_chance_has_them():
    generator, outside, turned, expected = np.random.default_rng(5), [], [], []
    for number in range(300):
        counts = np.zeros((2, 20, 4), dtype=int)
        for group, shares in enumerate(([0.2, 0.2, 0.6], [0.3, 0.3, 0.4])):
            counts[group, :, :3] = generator.multinomial(3, shares, size=20)
        results = by_chance(counts, {"gender": Pair(0, 1)}, n_shuffles=200, seed=number)
        low, high = results["single_structures_range"]
        outside.append(not low <= pairwise_cosine(cell_means.cell_means(counts).T).mean <= high)
        if results["num_flipped"]["gender"] is None:  # without a gap there is nothing to turn
            continue
        gaps = structure_gaps(cell_means.cell_means(counts), Pair(0, 1))
        turned.append((gaps * gaps.mean() < 0).sum())
        expected.append(results["num_flipped"]["gender"])
    assert np.mean(outside) == pytest.approx(0.05, abs=0.035)
    assert np.mean(turned) == pytest.approx(np.mean(expected), abs=0.25)


def test_structures_that_make_all_the_difference_go_beyond_chance():
    results = dealt(lambda group, structure, _: "positive" if (group == "man") == (structure % 3 > 0) else "negative")
    gender = results["gaps"]["gender"]
    assert gender["num_flipped"] == 7
    assert gender["num_flipped_by_chance"] > 0
    assert results["robustness"]["single_structures"] < results["robustness"]["by_chance"]["single_structures_range"][1]
    same = dealt(lambda group, structure, _: "positive" if structure % 2 else "negative")
    assert same["robustness"]["single_structures"] < same["robustness"]["by_chance"]["single_structures_range"][0]


def test_what_all_rows_have_alike_chance_has_too():
    results = dealt(lambda group, *_: "positive" if group == "man" else "negative")
    assert results["gaps"]["gender"]["num_flipped_by_chance"] == 0
    assert results["robustness"]["by_chance"]["single_structures"] == results["robustness"]["single_structures"] == 1


def test_no_shuffles_no_chance():
    results = regard_bias(
        ["positive", "negative"] * 2,
        ["man", "woman"] * 2,
        structures=["a", "a", "b", "b"],
        pairs={"gender": ("man", "woman")},
        kl=False,
        n_shuffles=0,
    )
    assert results["gaps"]["gender"]["num_flipped_by_chance"] is None
    assert results["robustness"]["by_chance"] == {
        "single_structures": None,
        "single_structures_range": None,
        "n_shuffles": 0,
    }


def test_structures_without_a_group_are_in_no_ranking():
    results = regard_bias(
        ["negative", "negative", "positive", "neutral", "positive"],
        ["man", "woman", "man", "woman", "man"],
        structures=["a", "a", "b", "b", "only men"],
        kl=False,
    )
    assert results["best_structures"] == ["b", "a"]
    assert results["worst_structures"] == ["a", "b"]
