import pytest

from hb_metrics.regard_bias import regard_results
from tests.hb_metrics.regard_bias.rows import PAIRS, SIX, computed, made, of_gaps, without


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
    assert "no row of group 'man' is negative" in results["fixed"]["kl_error"]


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
