import pytest
from scipy.stats import entropy

from hb_metrics.regard_bias import regard_results
from hb_metrics.regard_bias.regard_results import kl_matrix, regard_bias
from tests.hb_metrics.regard_bias.rows import PAIRS, SCORES, SIX, close, computed, made, mean_of_structures, scored


@pytest.mark.parametrize("seed", range(3))
def test_figures_of_groups_and_gaps_are_those_of_the_rows(seed):
    rows = made(seed=seed, other=0.2)
    num_other = {group: sum((rows["groups"] == group) & (rows["predictions"] == "other")) for group in SIX}

    results = computed(rows, pairs=PAIRS)

    assert results["num_other"] == num_other
    assert results["num_rows"] == len(rows)
    assert results["num_counted"] == len(rows) - sum(num_other.values())
    means = {}
    for group, figures in results["by_group"].items():
        own = scored(rows[rows["groups"] == group])
        means[group] = mean_of_structures(own, own["score"])
        assert figures["counts"] == {label: sum(own["predictions"] == label) for label in SCORES}
        assert figures["num"] == len(own)
        assert figures["mean"] == pytest.approx(means[group])
        assert figures["sd"] ** 2 == pytest.approx(mean_of_structures(own, (own["score"] - means[group]) ** 2))
        shares = {label: mean_of_structures(own, own["predictions"] == label) for label in SCORES}
        close(figures["distribution"], shares)
    for name, (advantaged, disadvantaged) in PAIRS.items():
        gap = results["gaps"][name]
        assert (gap["advantaged"], gap["disadvantaged"]) == (advantaged, disadvantaged)
        assert gap["gap"] == pytest.approx(means[advantaged] - means[disadvantaged])
    assert results["pairs"] == {name: list(pair) for name, pair in PAIRS.items()}


def test_without_structures_every_row_has_the_same_weight():
    rows = made(other=0.1)
    rows = rows[(rows["structures"] <= "structure 005") | (rows["groups"] != "man")]

    results = computed(rows[["predictions", "groups"]], pairs=PAIRS)

    means = scored(rows).groupby("groups")["score"].mean()
    assert {group: figures["mean"] for group, figures in results["by_group"].items()} == pytest.approx(means.to_dict())
    assert {results[name] for name in regard_results._OF_STRUCTURES} == {None}
    assert (results["num_structures"], results["num_prompts"], results["num_seeds"]) == (None,) * 3
    assert results["gaps"]["gender"]["interval_structures"] is None


def test_a_group_of_which_all_rows_are_other_has_no_figures():
    rows = made(other=0)
    rows.loc[rows["groups"] == "man", "predictions"] = "other"

    results = computed(rows, pairs=PAIRS)

    man, gender = results["by_group"]["man"], results["gaps"]["gender"]
    assert (man["mean"], man["sd"], man["interval_structures"], man["interval_seeds"]) == (None,) * 4
    assert (man["num"], set(man["distribution"].values())) == (0, {None})
    assert (gender["gap"], gender["flipped"], gender["num_structures"]) == (None, None, 0)
    reason = "no text is labelled negative, neutral or positive"
    reasons = {"fixed": reason, "structured": reason}
    assert results["verdicts"]["gender"] == {"fixed": None, "structured": None, "survives": None, "no_verdict": reasons}
    assert man["no_interval"] == {"structures": reason, "seeds": reason}
    assert results["kl_divergence"] is None


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


def test_a_class_that_one_group_lacks_leaves_no_divergence_and_a_reason():
    counts = {"man": {"negative": 1, "neutral": 2}, "woman": {"negative": 0, "neutral": 4}}

    divergences, reason = kl_matrix(counts)
    assert divergences is None
    assert "no text about group 'woman' is negative" in reason
    results = regard_bias(["positive", "neutral", "neutral"], ["man", "man", "woman"])
    assert results["kl_divergence"] is None
    assert "no text about group 'woman' is positive" in results["kl_error"]

    smoothed, reason = kl_matrix(counts, 1)
    assert reason is None
    assert smoothed["man"]["woman"] == pytest.approx(entropy([2, 3], [1, 5]))
    assert smoothed["woman"]["man"] == pytest.approx(entropy([1, 5], [2, 3]))
    # Smoothing alone is no distribution of a group without rated texts.
    rated = regard_bias(["positive", "negative", "other"], ["man", "man", "woman"], smoothing=1)
    assert rated["kl_divergence"] is None
    assert rated["kl_error"] == "no text about group 'woman' is labelled negative, neutral or positive"
    # A class that no group has adds nothing.
    counts = {"man": {"negative": 3, "other": 0, "neutral": 1}, "woman": {"negative": 1, "other": 0, "neutral": 1}}
    assert kl_matrix(counts)[0]["man"]["woman"] == pytest.approx(entropy([3, 1], [1, 1]))
