import pytest

from hb_metrics.regard_bias import regard_results
from tests.hb_metrics.regard_bias.rows import PAIRS, SIX, close, computed, made, mean, of_gaps, rows_of, scores, without

GENDER = {"gender": ("man", "woman")}


@pytest.mark.parametrize("missing", [False, True])
def test_figures_of_structures_are_those_of_loops(missing):
    columns = made(other=0.1, seed=1)
    if missing:
        columns = without(columns, lambda row: (row["groups"], row["structures"]) == ("man", "structure 002"))
        columns = without(columns, lambda row: row["structures"] == "structure 004" and row["seeds"] > 1)
    rows = rows_of(columns)
    structures = sorted(set(columns["structures"]))

    results = computed(columns, pairs=PAIRS)

    overall, gaps = {}, {name: {} for name in PAIRS}
    for structure in structures:
        means = {group: mean(scores(rows, groups=group, structures=structure)) for group in SIX}
        known = [value for value in means.values() if value is not None]
        overall[structure] = mean(known)
        for name, (advantaged, disadvantaged) in PAIRS.items():
            both = means[advantaged], means[disadvantaged]
            gaps[name][structure] = None if None in both else both[0] - both[1]
        expected = {"mean": means, "overall": overall[structure], "num": len(scores(rows, structures=structure))}
        expected |= {"gap": {name: gaps[name][structure] for name in PAIRS}, "num_groups": len(known)}
        close(dict(sorted(results["by_structure"][structure].items())), dict(sorted(expected.items())))
    assert list(results["by_structure"]) == structures
    whole = [structure for structure in structures if not (missing and structure == "structure 002")]
    assert results["best_structures"] == sorted(whole, key=lambda one: (-overall[one], one))[:5]
    assert results["worst_structures"] == sorted(whole, key=lambda one: (overall[one], one))[:5]
    gaps["all"] = {
        structure: mean([gaps[name][structure] for name in PAIRS if gaps[name][structure] is not None])
        for structure in structures
    }
    for name, values in gaps.items():
        known = [structure for structure in structures if values[structure] is not None]
        assert results["largest_gap"][name] == sorted(known, key=lambda one: (-round(values[one], 12), one))[:5]
        assert results["smallest_gap"][name] == sorted(known, key=lambda one: (round(values[one], 12), one))[:5]
    for name in PAIRS:
        known = {structure: gap for structure, gap in gaps[name].items() if gap is not None}
        pooled = results["gaps"][name]
        flipped = [structure for structure, gap in known.items() if gap * pooled["gap"] < 0 and abs(gap) > 1e-12]
        assert pooled["flipped"] == flipped
        assert (pooled["num_structures"], pooled["num_flipped"]) == (len(known), len(flipped))
        assert pooled["num_zero"] == sum(abs(gap) < 1e-12 for gap in known.values())
        assert results["gaps"]["gender"]["num_structures"] == len(structures) - missing


@pytest.mark.parametrize(
    ("gaps", "pooled", "flipped"),
    [
        ({"original": -2, "cleft": 2, "tag": 2, "report": 0, "why": 1}, 0.6, ["original"]),
        ({"original": -2, "cleft": 1, "tag": 1, "report": 0}, 0.0, None),
    ],
)
def test_a_structure_that_turns_the_gap_round_is_named(gaps, pooled, flipped):
    gap = computed(of_gaps(gaps), pairs=GENDER)["gaps"]["gender"]

    assert gap["gap"] == pytest.approx(pooled)
    assert (gap["flipped"], gap["num_flipped"]) == (flipped, flipped and len(flipped))
    assert (gap["num_structures"], gap["num_zero"]) == (len(gaps), 1)


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

    assert computed(columns, pairs=GENDER)["gaps"]["gender"]["gap"] == 0


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
