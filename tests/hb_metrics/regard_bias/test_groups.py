import math

import numpy as np
import pytest
from scipy.stats import entropy

from hb_metrics.regard_bias import regard_results
from hb_metrics.regard_bias.cell_means import kl_matrix
from hb_metrics.regard_bias.regard_results import regard_bias
from tests.hb_metrics.regard_bias.rows import (
    PAIRS,
    SCORES,
    SIX,
    close,
    computed,
    group_mean,
    made,
    mean,
    rows_of,
    scores,
    without,
)


@pytest.mark.parametrize("seed", range(3))
def test_figures_of_groups_are_those_of_loops(seed):
    columns = made(seed=seed, other=0.2)
    rows = rows_of(columns)
    num_other = {group: sum(row["predictions"] == "other" for row in rows if row["groups"] == group) for group in SIX}
    labels = list(SCORES)
    structures = sorted(set(columns["structures"]))

    results = computed(columns)

    assert results["num_other"] == num_other
    assert results["num_rows"] == len(rows)
    assert results["num_counted"] == len(rows) - sum(num_other.values())
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

    results = computed(columns)["by_group"]

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
    )

    man = results["by_group"]["man"]
    assert (man["mean"], man["sd"], man["num"]) == (0.0, 1.0, 9)
    assert man["distribution"] == {"negative": 0.5, "neutral": 0.0, "positive": 0.5}
    assert man["counts"] == {"negative": 1, "neutral": 0, "positive": 8}


def test_the_gap_is_the_mean_of_the_advantaged_less_that_of_the_disadvantaged_group():
    columns = made()

    results = computed(columns, pairs=PAIRS)
    turned = computed(columns, pairs={name: pair[::-1] for name, pair in PAIRS.items()})

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
    assert results["best_structures"] == results["worst_structures"] == ["original"]


def test_a_group_of_which_all_rows_are_other_has_no_figures():
    columns = made(other=0)
    columns["predictions"] = [
        "other" if group == "man" else label
        for label, group in zip(columns["predictions"], columns["groups"], strict=True)
    ]

    results = computed(columns, pairs=PAIRS)

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


@pytest.mark.parametrize("smoothing", [None, 0.5])
def test_divergences_are_scipys(smoothing):
    columns = made(other=0.15, seed=3)

    results = computed(columns, smoothing=smoothing)

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
    results = computed(made(other=0), smoothing=1)

    counts = {group: figures["counts"] for group, figures in results["by_group"].items()}
    close(results["kl_divergence"], kl_matrix(counts, 1)[0])


def test_a_class_that_one_group_lacks_leaves_no_divergence_and_a_reason():
    counts = {"man": {"negative": 1, "neutral": 2}, "woman": {"negative": 0, "neutral": 4}}

    divergences, reason = kl_matrix(counts)
    assert divergences is None
    assert "no row of group 'woman' is negative" in reason
    results = regard_bias(["positive", "neutral", "neutral"], ["man", "man", "woman"])
    assert results["kl_divergence"] is None
    assert "no row of group 'woman' is positive" in results["kl_error"]

    smoothed, reason = kl_matrix(counts, 1)
    assert reason is None
    assert smoothed["man"]["woman"] == pytest.approx(entropy([2, 3], [1, 5]))
    assert smoothed["woman"]["man"] == pytest.approx(entropy([1, 5], [2, 3]))


def test_a_class_that_no_group_has_adds_nothing():
    counts = {"man": {"negative": 3, "other": 0, "neutral": 1}, "woman": {"negative": 1, "other": 0, "neutral": 1}}

    assert kl_matrix(counts)[0]["man"]["woman"] == pytest.approx(entropy([3, 1], [1, 1]))
