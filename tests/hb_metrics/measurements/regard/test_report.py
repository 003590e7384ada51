"""Regard in the report of a run: both kinds of prompts, structures, and what was left out."""

import numpy as np
import pytest

from hb_metrics.measurements.regard import tables
from hb_metrics.regard_bias.structure_results import ALL_PAIRS
from hb_metrics.report.page import write_report
from tests.hb_metrics.made_results import GROUPS, PAIRS, regard_of, regard_run
from tests.hb_metrics.pages import check_sound, read_page

HOSTILE = "<script>alert(1)</script> & more"


def signed(value):
    return f"{value:+.3f}".replace("-", "−")


def span(bounds):
    if bounds is None:
        return "–"
    return " to ".join(f"{bound:.3f}".replace("-", "−") for bound in bounds)


@pytest.fixture(scope="module")
def regard():
    return regard_of(
        fixed_gaps={"gender": 0.6, "orientation": 1.0},
        gaps={"gender": -0.08, "orientation": 0.6},
        seed=6,
        continuation=HOSTILE,
    )


def page_of(results, folder):
    write_report(results, folder / "report.html")
    page = read_page(folder / "report.html")
    check_sound(page)
    return page


@pytest.fixture(scope="module")
def page(regard, tmp_path_factory):
    return page_of(regard_run(regard), tmp_path_factory.mktemp("run"))


def test_a_run_of_regard_alone_has_its_section_and_tiles(regard, page):
    bias = regard["bias"]

    assert "regard" in page.ids
    assert not {"generation", "likelihood", "robustness", "reddit", "offensiveness"} & set(page.ids)
    assert len(set(page.ids)) == len(page.ids)
    assert page.open == []
    assert "Regard of continuations of prompts in many syntactic structures." in page.words
    assert "sentences about people" not in page.words  # that is of HolisticBias
    assert set(page.figures()) == {"regard-gaps", "regard-means", "regard-labels", "regard-ends", "regard-gap-ends"}
    assert set(page.figures()) <= set(page.ids)
    for name, (advantaged, disadvantaged) in PAIRS.items():
        gap = bias["gaps"][name]
        assert page.tiles[f"regard gap, {name.capitalize()}"] == [
            signed(gap["gap"]),
            f"{advantaged} − {disadvantaged}, 95% interval {span(gap['interval_structures'])}",
        ]
    assert page.tiles["continuations"] == [f"{regard['num_continuations']:,}", "in 13 structures"]


def test_the_table_of_gaps_holds_both_kinds_of_prompts(regard, page):
    bias = regard["bias"]

    assert page.table("Regard gaps by pair")[1:] == [
        [
            f"{name.capitalize()}{gap['advantaged']} − {gap['disadvantaged']}",
            signed(bias["fixed"]["gaps"][name]["gap"]),
            span(bias["fixed"]["gaps"][name]["interval_seeds"]),
            signed(gap["gap"]),
            span(gap["interval_structures"]),
            span(gap["interval_seeds"]),
            "–" if gap["num_flipped"] is None else f"{gap['num_flipped']} of {gap['num_structures']}",
        ]
        for name, gap in bias["gaps"].items()
    ]
    for row in tables.gap_rows(bias):
        assert tables.verdict_sentence(row, 0.95) in page.words


def test_what_has_no_interval_is_named_with_the_reason(regard, page, tmp_path):
    sentences = tables.without_interval(regard["bias"])
    few = page_of(
        regard_run(regard_of(num_structures=3, num_seeds=2, num_verbs=4, num_other=False, smoothing=1)),
        tmp_path,
    )

    assert sentences
    assert all(sentence in page.words for sentence in sentences)
    names = ", ".join([*GROUPS, *map(str.capitalize, PAIRS)])
    reason = "only 3 structures, and an interval needs at least 5"
    assert f"No interval for {names}: {reason}." in few.words
    assert f"No interval over seeds for {names}: only 2 seeds, and an interval needs at least 5." in few.words
    assert f"No interval from the fixed prompts for {names}: only 4 prompts, and an interval needs" in few.words
    assert "over all 3 structures nothing can be decided (gap" in few.words
    assert f"no interval: {reason}). Whether the verdict of the fixed prompts survives is not known." in few.words
    assert "95% interval" not in "".join(" ".join(tile) for tile in few.tiles.values())


def test_the_table_of_groups_holds_both_kinds_of_prompts_pair_by_pair(regard, page):
    bias = regard["bias"]
    rows = page.table("Regard by group")[1:]

    assert [row[0] for row in rows[::2]] == GROUPS
    for row in rows:
        fixed = row[1] == "fixed"
        group = (bias["fixed"] if fixed else bias)["by_group"][row[0]]
        assert row[2:] == [
            signed(group["mean"]),
            span(group["interval_seeds" if fixed else "interval_structures"]),
            f"{group['sd']:.2f}",
            *(f"{group['distribution'][label]:.1%}" for label in ("negative", "neutral", "positive")),
            f"{group['num']:,}",
        ]


def test_figures_draw_every_group_pair_and_structure(regard, page):
    bias, figures = regard["bias"], page.figures()
    bars = figures["regard-labels"][0]["data"]
    points = figures["regard-ends"][0]["data"]
    gaps = {trace["name"]: trace for trace in figures["regard-gaps"][0]["data"] if trace.get("name")}

    assert [trace["name"] for trace in bars] == ["negative", "neutral", "positive"]
    assert {len(trace["x"]) for trace in bars} == {12}
    assert [sum(shares) for shares in zip(*(trace["x"] for trace in bars), strict=True)] == pytest.approx([1] * 12)
    assert len(points[0]["x"]) == 6 * 13
    assert dict(zip(points[2]["customdata"], points[2]["x"], strict=True)) == pytest.approx(
        {
            group: np.mean([bias["by_structure"][name]["mean"][group] for name in bias["best_structures"]])
            for group in GROUPS
        }
    )
    assert gaps["all structures"]["x"] == [bias["gaps"][name]["gap"] for name in PAIRS]
    assert gaps["fixed prompts"]["x"] == [bias["fixed"]["gaps"][name]["gap"] for name in PAIRS]
    lows = figures["regard-gap-ends"][0]["data"][3]
    assert dict(zip(lows["customdata"], lows["x"], strict=True)) == pytest.approx(
        {
            name.capitalize(): np.mean(
                [bias["by_structure"][structure]["gap"][name] for structure in bias["smallest_gap"][name]]
            )
            for name in PAIRS
        }
    )


def test_tables_of_structures_name_those_at_the_ends(regard, page):
    bias = regard["bias"]

    for words, names in (("Best", bias["best_structures"]), ("Worst", bias["worst_structures"])):
        rows = page.table(f"{words} structures")[1:]
        assert [row[0].removesuffix("generalizes on purpose") for row in rows] == names
        assert [row[3] for row in rows] == [signed(bias["by_structure"][name]["overall"]) for name in names]
    every = page.table("All structures")[1:]
    assert len(every) == 13
    assert sum("generalizes on purpose" in row[0] for row in every) == 1
    assert {tuple(row[1:3]) for row in every} >= {("original", "(ROOT (S (NP ) (VP ) (. )))")}
    ranked = page.table("Structures with the largest and smallest gaps")[1:]
    assert [row[:2] for row in ranked] == [
        [label, end]
        for label in ("Gender", "Race", "Orientation", "Mean over pairs")
        for end in ("largest", "smallest")
    ]
    first = bias["largest_gap"]["race"][0]
    assert ranked[2][2].startswith(f"{first} {signed(bias['by_structure'][first]['gap']['race'])},")
    mean = np.mean(list(bias["by_structure"][bias["smallest_gap"][ALL_PAIRS][0]]["gap"].values()))
    assert ranked[7][2].startswith(f"{bias['smallest_gap'][ALL_PAIRS][0]} {signed(mean)},")


def test_the_divergences_are_shaded_row_by_column(regard, page):
    divergence = regard["bias"]["kl_divergence"]
    table = page.table("KL divergence between groups")
    shades = [attrs["style"] for tag, attrs in page.elements if tag == "td" and "style" in attrs]

    assert table[0][1:] == GROUPS
    assert [row[1:] for row in table[1:]] == [[f"{divergence[row][column]:.3f}" for column in GROUPS] for row in GROUPS]
    assert len(shades) == 36
    assert sum(shade.startswith("background:rgb(255,255,255)") for shade in shades) >= 6  # the diagonal


def test_examples_are_closed_warned_of_and_shown_as_they_are(regard, page):
    opened = [attrs for tag, attrs in page.elements if tag == "details" and "open" in attrs]
    scripts = [attrs for tag, attrs in page.elements if tag == "script"]

    assert opened == []
    assert "Texts written by the model; some may hurt." in page.words
    assert page.words.count(HOSTILE) == 13
    assert len(scripts) == 3
    assert [tag for tag, _ in page.elements].count("details") == 2 + 13


def test_what_was_dropped_and_chosen_is_listed(regard, page, tmp_path):
    num_other = sum(regard["bias"]["num_other"].values())
    changed = regard | {
        "paraphrases": {
            "num": 1500,
            "num_kept": 1400,
            "num_dropped": {"blank": 0, "lost_group": 60, "lost_meaning": 30, "repeated": 10},
            "num_truncated": 2,
        },
    }
    other = page_of(regard_run(changed, is_embedded=True), tmp_path)

    assert num_other > 0
    assert "7 continuations were blank and are left out." in page.words
    assert f"{num_other} of {regard['bias']['num_rows']:,} were labelled other and are left out." in page.words
    assert "2 were too long for the classifier and cut." in page.words
    assert "paraphrases" not in page.words
    assert "Mentions of the group were replaced by XYZ before a text was classified." in page.words
    assert "For trying out, not for conclusions." not in page.words
    assert "a/classifier: a note." in page.words
    assert (
        "Of 1,500 paraphrases 1,400 were kept; of the others, 60 lost the group, 30 lost the meaning, 10" in other.words
    )
    assert "2 paraphrases were cut at their longest length allowed." in other.words
    assert "For trying out, not for conclusions." in other.words


def test_an_empty_class_is_named_instead_of_divergences(regard, tmp_path):
    changed = regard | {"bias": regard["bias"] | {"kl_divergence": None}, "kl_error": "no row of 'man' is positive"}
    page = page_of(regard_run(changed), tmp_path)

    assert "There are no Kullback–Leibler divergences: no row of 'man' is positive." in page.words
    assert "KL divergence between groups" not in page.tables


def test_one_group_has_neither_pairs_nor_divergences(tmp_path):
    regard = regard_of(groups=["tall person"], pairs={}, num_structures=5)
    page = page_of(regard_run(regard), tmp_path)

    assert set(page.figures()) == {"regard-means", "regard-labels", "regard-ends"}
    assert not {"Regard gaps by pair", "KL divergence between groups", "Agreement on the sign of gaps"} & set(
        page.tables
    )
    assert "Look at the signs of the gaps" not in page.words
    assert list(page.tiles) == ["continuations"]


def test_groups_without_pairs_are_shown_all_the_same(tmp_path):
    regard = regard_of(groups=["man", "woman"], pairs={}, num_structures=5)
    page = page_of(regard_run(regard), tmp_path)

    assert "verdict" not in page.words
    assert [row[0] for row in page.table("Regard by group")[1::2]] == ["man", "woman"]
    assert "KL divergence between groups" in page.tables
    assert "Structures with the largest and smallest gaps" not in page.tables


def test_without_fixed_prompts_nothing_is_compared(tmp_path):
    regard = regard_of(with_fixed=False, num_structures=6, gaps={"orientation": 1.0})
    page = page_of(regard_run(regard), tmp_path)

    assert regard["bias"]["fixed"] is None
    assert "fixed prompts" not in page.words
    assert "Orientation: over all 6 structures “straight person” is regarded better than “gay person”" in page.words
    assert page.table("Regard gaps by pair")[0][1:3] == ["all structures", "interval"]
    assert {row[1] for row in page.table("Regard by group")[1:]} == {"all structures"}


@pytest.mark.parametrize(("num_seeds", "over"), [(6, "seeds"), (1, "prompts")])
def test_a_run_of_the_fixed_prompts_alone_has_no_structures(num_seeds, over, tmp_path):
    regard = regard_of(
        num_structures=1, num_seeds=num_seeds, num_verbs=30, fixed_gaps={"orientation": 1.1}, smoothing=1
    )
    page = page_of(regard_run(regard), tmp_path)
    interval = regard["bias"]["fixed"]["gaps"]["orientation"][f"interval_{over}"]

    assert "in 1 syntactic structure." in page.words
    numbers = f"(gap {signed(regard['bias']['gaps']['orientation']['gap'])}, 95% interval {span(interval)})"
    assert f"Orientation: “straight person” is regarded better than “gay person” {numbers}." in page.words
    assert f"intervals over {over}." in page.words
    assert set(page.figures()) == {"regard-gaps", "regard-means", "regard-labels"}
    assert not {"regard-structures"} & set(page.ids)
    assert {row[1] for row in page.table("Regard by group")[1:]} == {"fixed"}
