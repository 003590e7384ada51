import json
import re

import numpy as np
import pytest

from hb_dataset import load_table
from hb_metrics.inference.classifiers import regard as regard_inference
from hb_metrics.regard_bias.regard_figures import regard_bias
from hb_metrics.regard_bias.structure_figures import ALL_PAIRS
from hb_metrics.report import tables_regard, tables_robustness, write_report
from hb_metrics.report.figures import axis_label
from hb_metrics.report.page import EMBEDDED_REGARD
from hb_metrics.template_robustness import TemplateValues, template_robustness
from tests.hb_metrics.test_report import Page, browse, make_results, needs_browser, only, slot
from tests.hb_metrics.test_report_generation import AXES, all_results

PAIRS = {
    "gender": ("man", "woman"),
    "race": ("white person", "black person"),
    "orientation": ("straight person", "gay person"),
}
GROUPS = [group for pair in PAIRS.values() for group in pair]
HOSTILE = "<script>alert(1)</script> & more"
REGARDS = np.array(["negative", "neutral", "positive", "other"])


def regard_of(
    *,
    groups=GROUPS,
    pairs=PAIRS,
    num_structures=13,
    num_seeds=6,
    num_verbs=8,
    fixed_gaps=None,
    gaps=None,
    with_fixed=True,
    num_other=True,
    seed=0,
    **options,
):
    """results["regard"] of made-up labels: groups differ by `gaps`, and in the fixed structure by `fixed_gaps`."""
    rng = np.random.default_rng(seed)
    names = ["original"] if with_fixed else []
    names += [f"structure-{number}" for number in range(num_structures - len(names))]
    rows = [
        (group, structure, verb, draw)
        for group in groups
        for structure in names
        for verb in range(num_verbs)
        for draw in range(num_seeds)
    ]
    labels = []
    for group, structure, _, _ in rows:
        about = (fixed_gaps or {}) if structure == "original" else (gaps or {})
        lean = next((about.get(name, 0) / 2 for name, pair in pairs.items() if group == pair[0]), 0)
        lean += next((-about.get(name, 0) / 2 for name, pair in pairs.items() if group == pair[1]), 0)
        shares = np.array([0.3 - lean / 2, 0.38, 0.3 + lean / 2, 0.02 if num_other else 0])
        labels.append(rng.choice(REGARDS, p=shares / shares.sum()))
    columns = [list(column) for column in zip(*rows, strict=True)]
    bias = regard_bias(
        [str(label) for label in labels],
        columns[0],
        structures=columns[1],
        prompts=[f"{verb}" for verb in columns[2]],
        seeds=columns[3],
        pairs=pairs,
        **{"n_halves": 100, "k": 3} | options,
    )
    kinds = {
        name: {
            "kind": ("declarative", "interrogative")[number % 2] if name != "original" else "original",
            "parse": "(ROOT (S (NP ) (VP ) (. )))",
            "generalizes": number == 3,
        }
        for number, name in enumerate(names)
    }
    found = {
        "bias": bias,
        "num_prompts": len(groups) * len(names) * num_verbs,
        "num_structures": len(names),
        "num_seeds": num_seeds,
        "num_continuations": len(rows) + 7,
        "num_blank": 7,
        "num_cut_for_classifier": 2,
        "structures": kinds,
        "examples": [
            {
                "structure": structure,
                "group": group,
                "text": f"the {group} was known for",
                "continuation": HOSTILE if group == groups[0] else "a good song.",
                "regard": "positive",
            }
            for structure in names
            for group in groups
        ],
        "mask": True,
        "paraphrases": None,
        "kl_error": None,
    }
    return json.loads(json.dumps(found))  # as results.json gives it back


def regard_run(regard, classifier="a/classifier"):
    """The content of results.json of a run that measured regard alone."""
    run = make_results(only(load_table("v1.0-small"), axis=["age"]))["run"]
    del run["scoring"]
    about = {"classifier": classifier, "digest": "12", "notes": ["a note"], "groups": list(regard["bias"]["by_group"])}
    run |= {"regard": {**about, "pairs": regard["bias"]["pairs"], "temperature": 0.7, "top_k": 40}}
    return {"run": run, "regard": regard, "frequencies": None}


def values_of(num_templates=26, axes=AXES, scale=1.0, noise=0.2, seed=0):
    rng = np.random.default_rng(seed)
    templates = list(dict.fromkeys(load_table("v1.0")["template"].to_pylist()))[:num_templates]
    values = scale * np.clip(
        np.linspace(0.2, 0.5, len(axes))[:, None] + noise * rng.standard_normal((len(axes), len(templates))), 0.01, 1
    )
    weights = np.ones(values.shape)
    return TemplateValues(list(axes), templates, values, weights, values.mean(axis=0), np.ones(len(templates)))


def robustness_of(**change):
    found = {
        "full_gen_bias": template_robustness(values_of(scale=10), n_halves=100)._asdict(),
        "full_gen_bias_debiased": template_robustness(values_of(scale=7, seed=1), n_halves=100)._asdict(),
        "likelihood_bias": template_robustness(values_of(seed=2), n_halves=100)._asdict(),
    }
    return json.loads(json.dumps(found | change))


def written(results, path):
    write_report(results, path)
    return Page(path.read_text(encoding="utf-8"))


def ids_of(page):
    return [attrs["id"] for _, attrs in page.elements if "id" in attrs]


def signed(value):
    return f"{value:+.3f}".replace("-", "−")


def span(bounds):
    if bounds is None:
        return "–"
    return " to ".join(f"{bound:.3f}".replace("-", "−") for bound in bounds)


def gap_row(fixed, structured, *, gaps=(0.12, 0.01), num_flipped=43, num_zero=0, num_structures=101):
    """A pair with these verdicts; intervals are made up."""
    found = {
        "advantaged": "man",
        "disadvantaged": "woman",
        "gap": gaps[1],
        "interval": [-0.02, 0.04] if structured else None,
        "over": "structures",
        "no_interval": {} if structured else {"structures": "only 3 structures"},
        "num_structures": num_structures,
        "num_flipped": num_flipped,
        "num_zero": num_zero,
    }
    beside = {"gap": gaps[0], "interval": [0.03, 0.21] if fixed else None, "over": "seeds"}
    beside["no_interval"] = {} if fixed else {"seeds": "only 2 seeds", "prompts": "only 4 prompts"}
    return tables_regard.GapRow("gender", "Gender", found, beside, {"fixed": fixed, "structured": structured})


@pytest.fixture(scope="module")
def regard():
    return regard_of(fixed_gaps={"gender": 0.6, "orientation": 1.0}, gaps={"gender": -0.08, "orientation": 0.6}, seed=6)


@pytest.fixture(scope="module")
def page(regard, tmp_path_factory):
    return written(regard_run(regard), tmp_path_factory.mktemp("run") / "report.html")


@pytest.mark.parametrize(
    ("fixed", "structured", "parts"),
    [
        (
            "advantaged",
            "undecided",
            (
                "Gender: from the fixed prompts “man” is regarded better than “woman” (gap +0.120, 95% interval 0.030 "
                "to 0.210); over all 101 structures it is too close to call (gap +0.010, 95% interval −0.020 to "
                "0.040). The verdict of the fixed prompts does not survive. In 43 of 101 structures, each taken alone,"
            ),
        ),
        ("advantaged", "advantaged", "“man” is regarded better than “woman” (gap +0.010, 95% interval −0.020"),
        ("disadvantaged", "advantaged", "from the fixed prompts “woman” is regarded better than “man” (gap +0.120"),
        ("undecided", "undecided", "Neither tells the two apart, which does not show that the model treats them alike"),
        ("undecided", "disadvantaged", "The fixed prompts alone do not give this verdict."),
        (
            None,
            "advantaged",
            "from the fixed prompts nothing can be decided (gap +0.120, no interval: only 2 seeds); over all 101 ",
        ),
        (
            "advantaged",
            None,
            "nothing can be decided (gap +0.010, no interval: only 3 structures). Whether the verdict of the fixed "
            "prompts survives cannot be told.",
        ),
    ],
)
def test_a_sentence_says_whether_the_fixed_verdict_survives(fixed, structured, parts):
    sentence = tables_regard.verdict_sentence(gap_row(fixed, structured), 0.95)

    assert parts in sentence
    assert sentence.count("survive") == (1 if fixed != "undecided" else 0)
    assert ("The verdict of the fixed prompts survives." in sentence) == (fixed == structured == "advantaged")
    assert ("it is turned round" in sentence) == ({fixed, structured} == {"advantaged", "disadvantaged"})


def test_a_sentence_tells_what_is_missing_instead_of_a_gap():
    nothing = gap_row(None, None, gaps=(None, None), num_flipped=None)
    zero = gap_row("undecided", "undecided", gaps=(0.1, 0.0), num_flipped=None)
    some_zero = gap_row("undecided", "undecided", num_flipped=1, num_zero=3)

    assert tables_regard.verdict_sentence(nothing, 0.95).count("no texts that count") == 2
    assert "each taken alone" not in tables_regard.verdict_sentence(zero, 0.95)
    assert "In 1 of 101 structures" in tables_regard.verdict_sentence(some_zero, 0.95)
    assert "the gap has the other sign, and in 3 it is 0." in tables_regard.verdict_sentence(some_zero, 0.95)


def test_a_run_of_regard_alone_has_its_section_and_tiles(regard, page):
    bias = regard["bias"]

    assert "regard" in ids_of(page)
    assert not {"generation", "likelihood", "robustness", "reddit", "offensiveness"} & set(ids_of(page))
    assert len(set(ids_of(page))) == len(ids_of(page))
    assert page.open == []
    assert "Regard of continuations of prompts in many syntactic structures." in page.words
    assert "sentences about people" not in page.words  # that is of HolisticBias
    assert set(page.figures()) == {"regard-gaps", "regard-means", "regard-labels", "regard-ends", "regard-gap-ends"}
    assert set(page.figures()) <= set(ids_of(page))
    for name, (advantaged, disadvantaged) in PAIRS.items():
        gap = bias["gaps"][name]
        assert page.tiles[f"regard gap, {name.capitalize()}"] == [
            signed(gap["gap"]),
            f"{advantaged} − {disadvantaged}, 95% interval {span(gap['interval_structures'])}",
        ]
    assert page.tiles["continuations"] == [f"{regard['num_continuations']:,}", "in 13 structures"]


def test_a_page_without_regard_or_robustness_has_neither(tmp_path):
    page = written(make_results(only(load_table("v1.0-small"), axis=["age"])), tmp_path / "report.html")

    assert not [each for each in ids_of(page) if each.startswith(("regard", "robustness"))]


def test_the_table_of_gaps_holds_both_kinds_of_prompts(regard, page):
    bias = regard["bias"]

    assert page.table("Regard gaps by pair")[1:] == [
        [
            f"{name.capitalize()}{found['advantaged']} − {found['disadvantaged']}",
            signed(bias["fixed"]["gaps"][name]["gap"]),
            span(bias["fixed"]["gaps"][name]["interval_seeds"]),
            signed(found["gap"]),
            span(found["interval_structures"]),
            span(found["interval_seeds"]),
            "–" if found["num_flipped"] is None else f"{found['num_flipped']} of {found['num_structures']}",
        ]
        for name, found in bias["gaps"].items()
    ]
    for row in tables_regard.gap_rows(bias):
        assert tables_regard.verdict_sentence(row, 0.95) in page.words


def test_what_has_no_interval_is_named_with_the_reason(regard, page, tmp_path):
    told = tables_regard.without_interval(regard["bias"])
    few = written(
        regard_run(regard_of(num_structures=3, num_seeds=2, num_verbs=4, num_other=False, smoothing=1)),
        tmp_path / "report.html",
    )

    assert told
    assert all(sentence in page.words for sentence in told)
    names = ", ".join([*GROUPS, *map(str.capitalize, PAIRS)])
    reason = "only 3 structures, and an interval needs at least 5"
    assert f"No interval for {names}: {reason}." in few.words
    assert f"No interval over seeds for {names}: only 2 seeds, and an interval needs at least 5." in few.words
    assert f"No interval from the fixed prompts for {names}: only 4 prompts, and an interval takes" in few.words
    assert "over all 3 structures nothing can be decided (gap" in few.words
    assert f"no interval: {reason}). Whether the verdict of the fixed prompts survives cannot be told." in few.words
    assert "95% interval" not in "".join(" ".join(tile) for tile in few.tiles.values())


def test_results_without_reasons_are_still_shown(regard):
    """As versions wrote them that drew intervals by the bootstrap."""
    bias = json.loads(json.dumps(regard["bias"]))
    del bias["verdict_over"]
    for side in (bias, bias["fixed"]):
        for kind in ("by_group", "gaps"):
            for found in side[kind].values():
                del found["no_interval"]

    assert [row.found["over"] for row in tables_regard.gap_rows(bias)] == ["structures"] * 3
    assert [row.fixed["over"] for row in tables_regard.gap_rows(bias)] == ["seeds"] * 3
    assert all(sentence.startswith("No interval") for sentence in tables_regard.without_interval(bias))


def test_the_known_bias_is_what_is_told(regard):
    told = {row.name: tables_regard.verdict_sentence(row, 0.95) for row in tables_regard.gap_rows(regard["bias"])}

    assert "The verdict of the fixed prompts survives." in told["orientation"]
    assert "The verdict of the fixed prompts does not survive." in told["gender"]


def test_the_table_of_groups_holds_both_kinds_of_prompts_pair_by_pair(regard, page):
    bias = regard["bias"]
    rows = page.table("Regard by group")[1:]

    assert [row[0] for row in rows[::2]] == GROUPS
    for row in rows:
        fixed = row[1] == "fixed"
        found = (bias["fixed"] if fixed else bias)["by_group"][row[0]]
        assert row[2:] == [
            signed(found["mean"]),
            span(found["interval_seeds" if fixed else "interval_structures"]),
            f"{found['sd']:.2f}",
            *(f"{found['distribution'][label]:.1%}" for label in ("negative", "neutral", "positive")),
            f"{found['num']:,}",
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
    found = regard["bias"]["kl_divergence"]
    table = page.table("KL divergence between groups")
    shades = [attrs["style"] for tag, attrs in page.elements if tag == "td" and "style" in attrs]

    assert table[0][1:] == GROUPS
    assert [row[1:] for row in table[1:]] == [[f"{found[row][column]:.3f}" for column in GROUPS] for row in GROUPS]
    assert len(shades) == 36
    assert sum(shade.startswith("background:rgb(255,255,255)") for shade in shades) >= 6  # the diagonal


def test_cosines_stand_beside_the_agreement_of_signs(regard, page):
    robust = regard["bias"]["robustness"]

    assert f"Two single structures: {robust['single_structures']:.3f}" in page.words.replace("−", "-")
    assert f"halves of the structures: {robust['random_halves']:.3f}" in page.words.replace("−", "-")
    assert f"({span(robust['random_halves_range'])} in 95% of 100 splits)" in page.words
    by_chance = robust["by_chance"]["single_structures_range"]
    assert f"in 95% of 200 times that texts were dealt out anew, {span(by_chance)})" in page.words
    assert "Ranges are over splits of the same texts, or over ways to deal them out: no intervals" in page.words
    assert "A cosine near 1 does not show that the gaps agree." in page.words
    assert page.table("Agreement on the sign of gaps")[1:] == [
        [
            name.capitalize(),
            f"{robust['agreement'][name]:.1%}",
            "–" if found["share_flipped"] is None else f"{found['share_flipped']:.1%}",
            f"{found['num_flipped_by_chance'] / found['num_structures']:.1%}",
        ]
        for name, found in regard["bias"]["gaps"].items()
    ]


def test_examples_are_closed_warned_of_and_shown_as_they_are(regard, page):
    opened = [attrs for tag, attrs in page.elements if tag == "details" and "open" in attrs]
    scripts = [attrs for tag, attrs in page.elements if tag == "script"]

    assert opened == []
    assert "Texts written by the model; some may hurt." in page.words
    assert page.words.count(HOSTILE) == 13
    assert len(scripts) == 3
    assert [tag for tag, _ in page.elements].count("details") == 2 + 13


def test_what_was_dropped_and_chosen_is_told(regard, page, tmp_path):
    num_other = sum(regard["bias"]["num_other"].values())
    told = regard | {
        "mask": False,
        "paraphrases": {
            "num": 1500,
            "num_kept": 1400,
            "num_dropped": {"blank": 0, "lost_group": 60, "lost_meaning": 30, "repeated": 10},
            "num_truncated": 2,
        },
    }
    other = written(regard_run(told, EMBEDDED_REGARD), tmp_path / "report.html")

    assert num_other > 0
    assert "7 continuations were blank and are left out." in page.words
    assert (
        f"{num_other} of {regard['bias']['num_rows']:,} were labelled other: texts labelled other are left"
        in page.words
    )
    assert "2 were too long for the classifier and cut." in page.words
    assert "paraphrases" not in page.words
    assert "Mentions of the group were replaced by XYZ before a text was classified; texts labelled" in page.words
    assert "For trying out, not for conclusions." not in page.words
    assert "a/classifier: a note." in page.words
    assert (
        "Of 1,500 paraphrases 1,400 were kept; of the others, 60 lost the group, 30 lost the meaning, 10" in other.words
    )
    assert "2 paraphrases were cut at their longest length allowed." in other.words
    assert "The classifier saw the group's name; texts labelled other are left out." in other.words
    assert "so that a gap can be its own" in other.words
    assert "For trying out, not for conclusions." in other.words
    assert regard_inference.NAME == EMBEDDED_REGARD


def test_a_fourth_class_is_drawn_and_told(tmp_path):
    found = regard_of(num_structures=4, num_verbs=12, other="keep")
    page = written(regard_run(found), tmp_path / "report.html")

    assert page.table("Regard by group")[0][5:9] == ["negative", "neutral", "positive", "other"]
    assert page.figures()["regard-labels"][0]["data"][3]["name"] == "other"
    assert "are a class of their own" in page.words


def test_an_empty_class_is_told_instead_of_divergences(regard, tmp_path):
    changed = regard | {"bias": regard["bias"] | {"kl_divergence": None}, "kl_error": "no row of 'man' is positive"}
    page = written(regard_run(changed), tmp_path / "report.html")

    assert "There are no Kullback–Leibler divergences: no row of 'man' is positive." in page.words
    assert "KL divergence between groups" not in page.tables


def test_one_group_has_neither_pairs_nor_divergences(tmp_path):
    found = regard_of(groups=["tall person"], pairs={}, num_structures=5)
    page = written(regard_run(found), tmp_path / "report.html")

    assert set(page.figures()) == {"regard-means", "regard-labels", "regard-ends"}
    assert not {"Regard gaps by pair", "KL divergence between groups", "Agreement on the sign of gaps"} & set(
        page.tables
    )
    assert "Look at the signs of the gaps" not in page.words
    assert list(page.tiles) == ["continuations"]


def test_groups_without_pairs_are_told_all_the_same(tmp_path):
    found = regard_of(groups=["man", "woman"], pairs={}, num_structures=5)
    page = written(regard_run(found), tmp_path / "report.html")

    assert "verdict" not in page.words
    assert [row[0] for row in page.table("Regard by group")[1::2]] == ["man", "woman"]
    assert "KL divergence between groups" in page.tables
    assert "Structures with the largest and smallest gaps" not in page.tables


def test_without_fixed_prompts_nothing_is_compared(tmp_path):
    found = regard_of(with_fixed=False, num_structures=6, gaps={"orientation": 1.0})
    page = written(regard_run(found), tmp_path / "report.html")

    assert found["bias"]["fixed"] is None
    assert "fixed prompts" not in page.words
    assert "Orientation: over all 6 structures “straight person” is regarded better than “gay person”" in page.words
    assert page.table("Regard gaps by pair")[0][1:3] == ["all structures", "interval"]
    assert {row[1] for row in page.table("Regard by group")[1:]} == {"all structures"}


@pytest.mark.parametrize(("num_seeds", "over"), [(6, "seeds"), (1, "prompts")])
def test_a_run_of_the_fixed_prompts_alone_has_no_structures(num_seeds, over, tmp_path):
    found = regard_of(num_structures=1, num_seeds=num_seeds, num_verbs=30, fixed_gaps={"orientation": 1.1}, smoothing=1)
    page = written(regard_run(found), tmp_path / "report.html")
    interval = found["bias"]["fixed"]["gaps"]["orientation"][f"interval_{over}"]

    assert "in 1 syntactic structure." in page.words
    told = f"(gap {signed(found['bias']['gaps']['orientation']['gap'])}, 95% interval {span(interval)})"
    assert f"Orientation: “straight person” is regarded better than “gay person” {told}." in page.words
    assert "1 was added to every count." in page.words
    assert f"intervals over {over}." in page.words
    assert set(page.figures()) == {"regard-gaps", "regard-means", "regard-labels"}
    assert not {"regard-structures", "regard-robustness"} & set(ids_of(page))
    assert {row[1] for row in page.table("Regard by group")[1:]} == {"fixed"}


def test_a_run_prints_groups_and_sentences(regard):
    lines = tables_regard.summary_lines(regard)

    assert (
        lines[0]
        == f"Regard (-1 negative, 1 positive) from {regard['num_continuations']:,} continuations, 13 structures"
    )
    for line, group in zip(lines[1:7], GROUPS, strict=True):
        means = [regard["bias"]["by_group"][group]["mean"], regard["bias"]["fixed"]["by_group"][group]["mean"]]
        assert line == f"  {group:<22} {means[0]:+.3f}  fixed prompts {means[1]:+.3f}"
    assert [line.split(":")[0] for line in lines[8:]] == ["Gender", "Race", "Orientation"]
    assert len(tables_regard.summary_lines(regard_of(groups=["man"], pairs={}, num_structures=3))) == 2


def robustness_page(path, **change):
    found = robustness_of(**change)
    return found, written(all_results() | {"robustness": found}, path)


def test_robustness_has_its_numbers(tmp_path):
    found, page = robustness_page(tmp_path / "report.html")
    plain, likelihood = found["full_gen_bias"], found["likelihood_bias"]

    assert len(set(ids_of(page))) == len(ids_of(page))
    assert page.open == []
    assert "how much the templates decide on HolisticBias" in page.words
    rows = {row[0]: row[1:] for row in page.table("Robustness over templates")[1:]}
    assert list(rows) == ["Full Gen Bias, plain", "Full Gen Bias, debiased", "Likelihood Bias"]
    assert rows["Full Gen Bias, plain"] == [
        f"{plain['overall']:.2f}",
        "26",
        f"{min(plain['by_template'].values()):.2f}",
        f"{max(plain['by_template'].values()):.2f}",
        " to ".join(f"{bound:.2f}" for bound in plain["half_interval"]),
        f"{plain['mean_half_difference']:.2f} ({plain['relative_half_difference']:.0%})",
    ]
    assert rows["Likelihood Bias"][4] == " to ".join(f"{bound:.1%}" for bound in likelihood["half_interval"])
    assert page.table("Lowest and highest template")[5:] == [
        [
            "Likelihood Bias",
            end,
            slot(likelihood[f"{end}_template"]),
            f"{extreme(likelihood['by_template'].values()):.1%}",
        ]
        for end, extreme in (("lowest", min), ("highest", max))
    ]
    agreement = page.table("Agreement on the axes")[1:]
    assert [row[:2] for row in agreement[:2]] == [
        ["Full Gen Bias, plain", "single templates"],
        ["Full Gen Bias, plain", "random halves"],
    ]
    assert agreement[5][2:] == [
        f"{likelihood['half_rank_correlation']:.2f}",
        f"{likelihood['half_same_highest']:.0%}",
        f"{likelihood['half_cosine']:.3f}",
        "3",
    ]
    by_axis = page.table("Likelihood Bias of halves by axis")[1:]
    assert sorted(row[0] for row in by_axis) == sorted(map(axis_label, AXES))
    assert [float(row[1][:-1]) for row in by_axis] == sorted((float(row[1][:-1]) for row in by_axis), reverse=True)


def test_each_figure_of_robustness_shows_every_template_and_the_band_of_halves(tmp_path):
    found, page = robustness_page(tmp_path / "report.html")
    figures = page.figures()["robustness-templates"]

    assert len(figures) == 3
    for figure, measured in zip(figures, found.values(), strict=True):
        band, line, points = figure["data"]
        drawn = dict(zip(points["customdata"], points["x"], strict=True))
        assert drawn == {slot(name): value for name, value in measured["by_template"].items()}
        assert [min(band["x"]), max(band["x"])] == measured["half_interval"]
        assert set(line["x"]) == {measured["overall"]}
        assert points["x"] == sorted(points["x"])


def test_a_masked_model_has_robustness_of_likelihood_bias_alone(tmp_path):
    results = make_results(only(load_table("v1.0-small"), axis=AXES))
    found = {"likelihood_bias": robustness_of()["likelihood_bias"]}
    page = written(results | {"robustness": found}, tmp_path / "report.html")

    assert [row[0] for row in page.table("Robustness over templates")[1:]] == ["Likelihood Bias"]
    assert "robustness-measure" not in ids_of(page)
    assert "Gen Bias ×1000" not in page.words
    assert "sampling noise" not in page.words


def test_without_second_replies_it_is_told_that_noise_is_in_it(tmp_path):
    _, page = robustness_page(tmp_path / "report.html", full_gen_bias_debiased=None)

    assert len(page.table("Robustness over templates")) == 3
    assert "It could not be subtracted" in page.words


def test_few_templates_and_one_axis_leave_out_what_is_not_defined(tmp_path):
    one_axis = template_robustness(values_of(num_templates=3, axes=AXES[:1]))._asdict()
    found, page = robustness_page(
        tmp_path / "report.html", full_gen_bias=one_axis | {"relative_half_difference": None}, likelihood_bias=one_axis
    )
    rows = tables_robustness.robustness_rows(found)

    assert found["full_gen_bias"]["single_rank_correlation"] is None
    assert "Of an odd number of templates, each split leaves one out." in page.words
    assert "in each of the 3 ways there are" in page.words
    assert page.table("Agreement on the axes")[1][2:4] == ["–", "–"]
    assert tables_robustness.robustness_sentence(rows[0]).endswith(f"differ by {one_axis['mean_half_difference']:.2f}.")


def test_the_sentence_of_robustness_says_how_far_halves_and_single_templates_agree():
    row = tables_robustness.robustness_rows(
        robustness_of(
            full_gen_bias=robustness_of()["full_gen_bias"]
            | {"relative_half_difference": 0.081, "single_same_highest": 0.4, "half_same_highest": 0.9}
        )
    )[0]

    assert tables_robustness.robustness_sentence(row) == (
        "Full Gen Bias, plain: two random halves of the 26 templates differ by about 8% of the value from all. Another "
        "axis comes first in 60% of pairs of single templates, and in 10% of pairs of halves."
    )


def test_a_run_prints_robustness():
    found = robustness_of(full_gen_bias_debiased=None)
    lines = tables_robustness.robustness_lines(found)
    likelihood = found["likelihood_bias"]

    assert len(lines) == 5
    assert re.fullmatch(r"  Full Gen Bias, plain +\d\.\d\d from 26 templates; single ones .*, halves .*", lines[1])
    assert f"{likelihood['overall']:.1%} from 26 templates" in lines[3]
    assert lines[4].endswith(f"halves {likelihood['half_rank_correlation']:.2f}")


@needs_browser
@pytest.mark.parametrize("width", [1200, 400])
def test_the_browser_draws_the_figures(regard, tmp_path, width):
    results = all_results() | {"robustness": robustness_of(), "regard": regard}
    results["run"] |= {"regard": regard_run(regard)["run"]["regard"]}
    write_report(results, tmp_path / "report.html")
    html = browse(tmp_path / "report.html", tmp_path / "profile", width)

    for name in ("regard-gaps", "regard-means", "regard-labels", "regard-ends", "robustness-templates"):
        assert re.search(rf'id="{name}"[^>]*js-plotly-plot|class="[^"]*js-plotly-plot[^"]*"[^>]*id="{name}"', html)
