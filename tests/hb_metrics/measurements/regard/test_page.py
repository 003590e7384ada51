"""Regard: its figures are the numbers of results.json, and sentences say whether verdicts of fixed prompts survive."""

from dataclasses import replace

import pytest

from hb_metrics.layout.figure import Figure, Number, by_part
from hb_metrics.measurements import REGARD
from hb_metrics.measurements.regard.figures import verdict_sentences
from hb_metrics.report.compared_runs import comparison_warnings, differing_settings
from tests.hb_metrics.made_results import GROUPS, PAIRS, loaded, regard_of, regard_run
from tests.hb_metrics.pages import HOSTILE, report_page


@pytest.fixture(scope="module")
def regard():
    gaps = {"gender": -0.08, "orientation": 0.6}
    return regard_of(fixed_gaps={"gender": 0.6, "orientation": 1.0}, gaps=gaps, seed=6, continuation=HOSTILE)


def test_figures_are_those_of_the_results(regard):
    bias = regard["bias"]
    parts = by_part(REGARD.parts.figures(loaded(regard_run(regard))))

    assert [figure.name for figure in parts[""]] == [f"Regard gap, {name.capitalize()}" for name in PAIRS]
    for figure, (name, (advantaged, disadvantaged)) in zip(parts[""], PAIRS.items(), strict=True):
        gap, fixed = bias["gaps"][name], bias["fixed"]["gaps"][name]
        assert (figure.value, list(figure.interval)) == (gap["gap"], gap["interval_structures"])
        assert (figure.detail, figure.key) == (f"{advantaged} − {disadvantaged}", f"regard_gap_{name}")
        beside = figure.beside["fixed prompts"]
        assert (beside.value, list(beside.interval)) == (fixed["gap"], fixed["interval_seeds"])
        assert list(figure.beside["over seeds"].interval) == gap["interval_seeds"]
    assert [figure.label for figure in parts["Regard by group"]] == GROUPS
    for figure in parts["Regard by group"]:
        group, fixed = bias["by_group"][figure.label], bias["fixed"]["by_group"][figure.label]
        assert (figure.value, list(figure.interval)) == (group["mean"], group["interval_structures"])
        assert figure.beside["fixed prompts"].value == fixed["mean"]
        assert figure.beside["st. dev."].value == group["sd"]
        shares = [figure.beside[label].value for label in ("negative", "neutral", "positive")]
        assert shares == list(group["distribution"].values())[:3]
        assert figure.detail == f"{group['num']:,} texts"


def test_what_has_no_interval_is_named_with_the_reason(tmp_path):
    few = regard_of(num_structures=3, num_seeds=2, num_verbs=4, num_other=False)
    page = report_page(regard_run(few), tmp_path)
    reason = "only 3 structures, and an interval needs at least 5"
    assert page.text.count(f"No interval: {reason}") == 2  # below the table of gaps and that of groups
    assert "over all 3 structures no verdict is possible" in page.text
    assert all(row[2].startswith("no interval") for row in page.table("Main figures")[1:])


def made(fixed, structured):
    """The results and the figure of a pair with these verdicts; intervals are made up."""
    bias = loaded({"regard": regard_of(groups=["man", "woman"], pairs={"gender": ("man", "woman")})}).regard.bias
    row = replace(bias.gaps["gender"], gap=0.01, num_structures=101, num_flipped=43, num_zero=0)
    of_fixed = replace(bias.fixed, gaps={"gender": replace(bias.fixed.gaps["gender"], gap=0.12)})
    verdicts = {"gender": replace(bias.verdicts["gender"], fixed=fixed, structured=structured)}
    bias = replace(bias, gaps={"gender": row}, fixed=of_fixed, verdicts=verdicts)
    bounds, reason = ((-0.02, 0.04), None) if structured else (None, "only 3 structures")
    beside = {"fixed prompts": Number(0.12, "signed", (0.03, 0.21) if fixed else None)}
    return bias, [Figure("Regard gap, Gender", 0.01, "signed", "", bounds, reason, beside=beside)]


BETTER = "“man” is regarded better than “woman”"


@pytest.mark.parametrize(
    ("fixed", "structured", "part"),
    [
        ("advantaged", "undecided", f"{BETTER} (gap +0.12 (interval +0.03 to +0.21)); over all 101 structures too"),
        ("advantaged", "undecided", "(95% interval −0.02 to +0.04)). Taken together, the structures do not support"),
        ("advantaged", "undecided", "In 43 of 101 structures, each taken alone, the gap has the opposite sign."),
        ("disadvantaged", "advantaged", "the structures contradict the verdict from the fixed prompts."),
        ("undecided", "disadvantaged", "The fixed prompts alone do not support this verdict."),
        (None, "advantaged", "from the fixed prompts no verdict is possible (gap +0.12 (no interval)); over all 101 "),
        ("advantaged", None, "(gap +0.01 (no interval: only 3 structures)). It is unknown whether"),
    ],
)
def test_a_sentence_says_whether_the_fixed_verdict_survives(fixed, structured, part):
    (sentence,) = verdict_sentences(*made(fixed, structured))

    assert part in sentence
    assert sentence.count("the verdict from the fixed prompts") == (1 if fixed != "undecided" else 0)


@pytest.mark.parametrize(
    ("setting", "value", "part"),
    [
        ("pairs", {"gender": ["woman", "man"]}, "opposite sign"),
        ("groups_digest", "other", "different groups"),
        ("digest", "other", "classifiers"),
        ("seed", 3, ""),
    ],
)
def test_gaps_of_other_groups_or_classifiers_are_not_comparable(regard, setting, value, part):
    runs = [regard_run(regard), regard_run(regard)]
    assert REGARD.parts.changes is None
    runs[0]["run"]["regard"].setdefault(setting, "")
    runs[1]["run"]["regard"][setting] = value
    runs = [loaded(run) for run in runs]
    sentences = comparison_warnings(differing_settings([run.record for run in runs]), runs)
    assert [part in sentence for sentence in sentences] == ([True] if part else [])


def test_the_page_ranks_structures_and_has_the_distances_between_groups(regard, tmp_path):
    bias, page = regard["bias"], report_page(regard_run(regard), tmp_path)
    for end in ("best", "worst"):
        names = [
            row[0].removesuffix("generalizes on purpose") for row in page.table(f"{end.capitalize()} structures")[1:]
        ]
        assert names == bias[f"{end}_structures"]
    for row in page.table("KL divergence between groups")[1:]:
        assert row[1:] == [f"{bias['kl_divergence'][row[0]][other]:.3f}" for other in bias["kl_divergence"]]


def test_a_label_that_a_group_lacks_is_the_reason_for_no_distances(regard, tmp_path):
    reason = "no text about group 'man' is negative"
    bias = {**regard["bias"], "kl_divergence": None, "kl_error": reason}
    page = report_page(regard_run({**regard, "bias": bias}), tmp_path)
    assert f"There are no Kullback–Leibler divergences: {reason}." in page.text
