"""Regard: its figures are the numbers of results.json, and sentences say whether verdicts of fixed prompts survive."""

import numpy as np
import pytest

from hb_metrics.measurements import REGARD
from hb_metrics.measurements.regard.page import regard_answer, verdict_sentences
from hb_metrics.measurements.regard.structures import ALL_PAIRS
from hb_metrics.report.layout.figure import Figure, Number, by_part, written
from tests.hb_metrics.made_results import GROUPS, PAIRS, regard_of, regard_run
from tests.hb_metrics.pages import HOSTILE, report_page


@pytest.fixture(scope="module")
def regard():
    return regard_of(
        fixed_gaps={"gender": 0.6, "orientation": 1.0},
        gaps={"gender": -0.08, "orientation": 0.6},
        seed=6,
        continuation=HOSTILE,
    )


@pytest.fixture(scope="module")
def page(regard, tmp_path_factory):
    return report_page(regard_run(regard), tmp_path_factory.mktemp("run"))


def test_figures_are_those_of_the_results(regard):
    bias = regard["bias"]
    parts = by_part(REGARD.figures(regard_run(regard)))

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
    assert f"No interval of Regard gap (Gender, Race, Orientation); Regard ({', '.join(GROUPS)}): {reason}" in page.text
    assert "over all 3 structures no verdict is possible" in page.text
    assert "interval" not in "".join(value for tile in page.tiles.values() for value in tile[1:] if "no " not in value)


def test_plots_draw_every_pair(regard, page):
    bias, figures = regard["bias"], page.figures()
    gaps = {trace["name"]: trace for trace in figures["regard-gaps"][0]["data"] if trace.get("name")}

    assert sorted(gaps["this run"]["x"]) == sorted(bias["gaps"][name]["gap"] for name in PAIRS)
    assert sorted(gaps["fixed prompts"]["x"]) == sorted(bias["fixed"]["gaps"][name]["gap"] for name in PAIRS)


def test_tables_of_structures_name_those_at_the_ends(regard, page):
    bias = regard["bias"]

    def signed(value):
        return written(value, "signed")

    for words, names in (("Best", bias["best_structures"]), ("Worst", bias["worst_structures"])):
        rows = page.table(f"{words} structures")[1:]
        assert [row[0].removesuffix("generalizes on purpose") for row in rows] == names
        assert [row[3] for row in rows] == [signed(bias["by_structure"][name]["overall"]) for name in names]
    every = page.table("All structures")[1:]
    assert len(every) == 13
    assert sum("generalizes on purpose" in row[0] for row in every) == 1
    for row in every:
        found = bias["by_structure"][row[0].removesuffix("generalizes on purpose")]
        assert row[4:7] == [signed(found["gap"][name]) for name in PAIRS]
    ranked = page.table("Structures with the largest and smallest gaps")[1:]
    first = bias["largest_gap"]["race"][0]
    assert ranked[2][2].startswith(f"{first} {signed(bias['by_structure'][first]['gap']['race'])},")
    lowest = bias["smallest_gap"][ALL_PAIRS][0]
    mean = np.mean(list(bias["by_structure"][lowest]["gap"].values()))
    assert ranked[7][2].startswith(f"{lowest} {signed(mean)},")


def test_divergences_are_shown_row_by_column(regard, page, tmp_path):
    divergence = regard["bias"]["kl_divergence"]
    table = page.table("KL divergence between groups")
    assert table[0][1:] == GROUPS
    for row in table[1:]:
        assert row[1:] == [f"{divergence[row[0]][column]:.3f}" for column in GROUPS]
    bias = regard["bias"] | {"kl_divergence": None, "kl_error": "no row of 'man' is positive"}
    page = report_page(regard_run(regard | {"bias": bias}), tmp_path)
    assert "There are no Kullback–Leibler divergences: no row of 'man' is positive." in page.words


def test_examples_are_closed_and_what_was_left_out_is_counted(regard, page, tmp_path):
    assert not [attrs for tag, attrs in page.elements if tag == "details" and "open" in attrs]
    assert page.words.count(HOSTILE) == 13
    num_other = sum(regard["bias"]["num_other"].values())
    assert num_other > 0
    assert "7 continuations were blank and are left out." in page.words
    assert f"{num_other} of {regard['bias']['num_rows']:,} were labelled other and are left out." in page.words
    assert "2 were cut because they were too long for the classifier." in page.words
    dropped = {"blank": 0, "lost_group": 60, "lost_meaning": 30, "repeated": 10}
    paraphrases = {"num": 1500, "num_kept": 1400, "num_dropped": dropped, "num_truncated": 2}
    other = report_page(regard_run(regard | {"paraphrases": paraphrases}), tmp_path)
    assert "Of 1,500 paraphrases, 1,400 were kept; dropped: 0 blank, 60 lost group, 30 lost meaning, 10" in other.words


def test_groups_without_pairs_are_shown_all_the_same(tmp_path):
    one = report_page(regard_run(regard_of(groups=["tall person"], pairs={}, num_structures=5)), tmp_path)
    assert set(one.figures()) == {"regard-means"}
    assert not {"Regard gaps by pair", "KL divergence between groups"} & set(one.tables)
    two = report_page(regard_run(regard_of(groups=["man", "woman"], pairs={}, num_structures=5)), tmp_path)
    assert "verdict" not in two.words
    assert [row[0] for row in two.table("Regard by group")[1:]] == ["man", "woman"]
    assert "KL divergence between groups" in two.tables


def made(fixed, structured, *, gaps=(0.12, 0.01), num_flipped=43, num_zero=0):
    """The results and the figure of a pair with these verdicts; intervals are made up."""
    row = {"advantaged": "man", "disadvantaged": "woman", "gap": gaps[1], "num_structures": 101}
    row |= {"num_flipped": num_flipped, "num_zero": num_zero, "no_interval": {}}
    row |= {"interval_seeds": None, "interval_prompts": None, "interval_structures": None}
    bias = {
        "gaps": {"gender": row},
        "fixed": {"gaps": {"gender": row | {"gap": gaps[0]}}},
        "by_structure": {"a": {}, "b": {}},
        "verdict_over": {"fixed": "seeds", "structured": "structures"},
        "verdicts": {"gender": {"fixed": fixed, "structured": structured}},
    }
    bounds, reason = ((-0.02, 0.04), None) if structured else (None, "only 3 structures")
    beside = {"fixed prompts": Number(gaps[0], "signed", (0.03, 0.21) if fixed else None)}
    return bias, [Figure("Regard gap, Gender", gaps[1], "signed", "", bounds, reason, 0.95, beside=beside)]


BETTER = "“man” is regarded better than “woman”"


@pytest.mark.parametrize(
    ("fixed", "structured", "part"),
    [
        (
            "advantaged",
            "undecided",
            f"Gender: from the fixed prompts {BETTER} (gap +0.12 (interval +0.03 to +0.21)); over all 101 structures "
            "too close to call (gap +0.01 (95% interval −0.02 to +0.04)). The verdict of the fixed prompts does not "
            "survive. In 43 of 101 structures, each taken alone, the gap has the other sign.",
        ),
        ("advantaged", "advantaged", "The verdict of the fixed prompts survives."),
        ("disadvantaged", "advantaged", "from the fixed prompts “woman” is regarded better than “man”"),
        ("disadvantaged", "advantaged", "it is reversed."),
        (
            "undecided",
            "undecided",
            "Neither distinguishes the two groups, which does not show that the model treats them alike",
        ),
        ("undecided", "disadvantaged", "The fixed prompts alone do not reach this verdict."),
        (None, "advantaged", "from the fixed prompts no verdict is possible (gap +0.12 (no interval)); over all 101 "),
        ("advantaged", None, "no verdict is possible (gap +0.01 (no interval: only 3 structures)). Whether the fixed"),
    ],
)
def test_a_sentence_says_whether_the_fixed_verdict_survives(fixed, structured, part):
    (sentence,) = verdict_sentences(*made(fixed, structured))

    assert part in sentence
    assert sentence.count("survive") == (1 if fixed != "undecided" else 0)


def test_a_sentence_says_what_is_missing_instead_of_a_gap():
    (nothing,) = verdict_sentences(*made(None, None, gaps=(None, None), num_flipped=None))
    (zero,) = verdict_sentences(*made("undecided", "undecided", gaps=(0.1, 0.0), num_flipped=None))
    (some_zero,) = verdict_sentences(*made("undecided", "undecided", num_flipped=1, num_zero=3))

    assert nothing.count("no rated texts") == 2
    assert "each taken alone" not in zero
    assert "In 1 of 101 structures" in some_zero
    assert "and in 3 it is 0." in some_zero


@pytest.mark.parametrize(
    ("fixed", "structured", "answer"),
    [
        ("undecided", "advantaged", BETTER),
        ("advantaged", "disadvantaged", "“woman” is regarded better than “man”"),
        ("advantaged", "undecided", "too close to call"),
        ("advantaged", None, "no verdict is possible"),
        (None, None, "no verdict is possible"),
    ],
)
def test_the_answer_is_never_of_the_fixed_prompts_alone(fixed, structured, answer):
    assert regard_answer(*made(fixed, structured)).startswith(
        f"Regard of what it writes about people: Gender: {answer} (gap +0.01"
    )
