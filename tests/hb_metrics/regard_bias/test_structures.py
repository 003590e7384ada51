import pandas as pd
import pytest

from hb_metrics.regard_bias import regard_results
from tests.hb_metrics.regard_bias.rows import PAIRS, SIX, close, computed, made, of_gaps, scored

GENDER = {"gender": ("man", "woman")}


def known(values):
    """The values by structure, in order, without those that are missing."""
    return values.dropna().sort_index().round(12)


@pytest.mark.parametrize("missing", [False, True])
def test_figures_of_structures_are_those_of_the_rows(missing):
    rows = made(other=0.1, seed=1)
    if missing:
        rows = rows[(rows["groups"] != "man") | (rows["structures"] != "structure 002")]
        rows = rows[(rows["structures"] != "structure 004") | (rows["seeds"] < 2)]
    counted = scored(rows)
    means = counted.groupby(["structures", "groups"])["score"].mean().unstack()
    gaps = pd.DataFrame({name: means[pair[0]] - means[pair[1]] for name, pair in PAIRS.items()})

    results = computed(rows, pairs=PAIRS)

    assert list(results["by_structure"]) == list(means.index)
    for structure, figures in results["by_structure"].items():
        values = {
            "mean": means.loc[structure],
            "gap": gaps.loc[structure],
        }
        expected = {name: of.astype(object).where(of.notna(), None).to_dict() for name, of in values.items()}
        expected |= {"overall": means.loc[structure].mean(), "num_groups": int(means.loc[structure].notna().sum())}
        close(figures, expected | {"num": sum(counted["structures"] == structure)})
    overall = known(means.dropna().mean(axis=1))
    assert len(overall) == len(means) - missing
    assert results["best_structures"] == overall.sort_values(ascending=False, kind="stable").index[:5].tolist()
    assert results["worst_structures"] == overall.sort_values(kind="stable").index[:5].tolist()
    for name, values in {**gaps, "all": gaps.mean(axis=1)}.items():
        largest = known(values).sort_values(ascending=False, kind="stable")
        assert results["largest_gap"][name] == largest.index[:5].tolist()
        assert results["smallest_gap"][name] == known(values).sort_values(kind="stable").index[:5].tolist()
    for name in PAIRS:
        pooled, of_pair = results["gaps"][name], known(gaps[name])
        flipped = of_pair.index[of_pair * pooled["gap"] < 0].tolist()
        assert (pooled["flipped"], pooled["num_flipped"]) == (flipped, len(flipped))
        assert (pooled["num_structures"], pooled["num_zero"]) == (len(of_pair), sum(of_pair == 0))
    assert results["gaps"]["gender"]["num_structures"] == len(means) - missing


def test_a_structure_without_a_gap_reverses_no_sign():
    columns = of_gaps({"original": -2, "cleft": 2, "tag": 2, "report": 0, "why": 1})
    gap = computed(columns, pairs=GENDER)["gaps"]["gender"]
    assert (gap["flipped"], gap["num_zero"]) == (["original"], 1)


def test_a_pooled_gap_of_0_is_0_though_thirds_round_and_no_structure_reverses_it():
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

    gap = computed(columns, pairs=GENDER)["gaps"]["gender"]

    assert (gap["gap"], gap["flipped"], gap["num_flipped"], gap["num_zero"]) == (0, None, None, 0)


def test_the_fixed_structures_figures_are_those_of_its_rows_alone():
    rows = made(num_seeds=6, other=0.1, seed=11)
    alone = rows[rows["structures"] == "structure 003"]

    results = computed(rows, pairs=PAIRS, fixed_structure="structure 003", smoothing=1)["fixed"]
    expected = computed(alone, pairs=PAIRS, fixed_structure="structure 003", smoothing=1)

    for group in SIX:
        own = {name: value for name, value in results["by_group"][group].items() if name != "interval_prompts"}
        own["no_interval"].pop("prompts", None)
        assert own == expected["by_group"][group]
    for name in PAIRS:
        for figure in ("gap", "interval_seeds", "interval_structures", "advantaged", "disadvantaged"):
            assert results["gaps"][name][figure] == expected["gaps"][name][figure]
    for name in ("kl_divergence", "kl_error", "num_counted"):
        assert results[name] == expected[name]


def test_a_class_that_the_fixed_structure_lacks_is_reported_there():
    results = computed(of_gaps({"original": 2, "tag": -2, "cleft": 0}))

    assert results["kl_divergence"]["man"]["woman"] == 0
    assert results["fixed"]["kl_divergence"] is None
    assert "no text about group 'man' is negative" in results["fixed"]["kl_error"]


@pytest.mark.parametrize(
    ("by_fixed", "structured", "verdicts", "survives"),
    [
        ([0.1, 0.2], [0.1, 0.2], ("advantaged", "advantaged"), True),
        ([-0.1, 0.1], [0.1, 0.2], ("undecided", "advantaged"), False),
        ([-0.2, -0.1], [0.1, 0.2], ("disadvantaged", "advantaged"), False),
        ([0.0, 0.1], [-0.1, 0.0], ("undecided", "undecided"), True),
        (None, [0.1, 0.2], (None, "advantaged"), None),
        ([0.1, 0.2], None, ("advantaged", None), None),
    ],
)
def test_a_verdict_survives_where_both_say_the_same(by_fixed, structured, verdicts, survives):
    fixed = {"race": {"interval_prompts": by_fixed, "no_interval": {"prompts": "few"} if by_fixed is None else {}}}
    whole = {"interval_structures": structured, "no_interval": {"structures": "fewer"} if structured is None else {}}

    over = {"fixed": "prompts", "structured": "structures"}
    results = regard_results._verdicts({"race": whole}, fixed, over, "original")["race"]

    assert (results["fixed"], results["structured"], results["survives"]) == (*verdicts, survives)
    reasons = {"fixed": by_fixed is None and "few", "structured": structured is None and "fewer"}
    assert results["no_verdict"] == {side: reason for side, reason in reasons.items() if reason}
