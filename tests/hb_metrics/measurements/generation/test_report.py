"""Generation bias in the report of a run: the answer, the tiles, and one look at each of its tables."""

import copy
import re

import pytest
from hb_metrics.measurements.generation.figures_of_run import leakage_sentence
from hb_metrics.measurements.generation.report import generation_answer

from hb_metrics.measurements.generation import Generation
from hb_metrics.report import paper
from hb_metrics.report.numbers import axis_label, bias, interval, slot
from hb_metrics.report.page import write_report
from hb_metrics.statistics.intervals import FEW_REPLIES_REASON
from hb_metrics.statistics.style_clusters import PAPER_CLUSTERS
from tests.hb_metrics.made_results import (
    AXES,
    LABELS,
    SORRY,
    full_run,
    generation_of,
    replies_to,
    some_prompts,
    with_names,
)
from tests.hb_metrics.pages import HOSTILE, check_sound, close, number, read_page


@pytest.fixture(scope="module")
def results():
    return full_run()


def page_of(results, folder):
    write_report(results, folder / "report.html")
    page = read_page(folder / "report.html")
    check_sound(page)
    return page


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    return page_of(results, tmp_path_factory.mktemp("run"))


@pytest.mark.parametrize(
    ("own", "said", "tile", "in_card", "in_terminal"),
    [
        (
            0.13,
            "Of the 9.22 (debiased), 0.13 is the classifier's reaction to terms that it reads in replies, and not",
            "0.13 of it from terms in replies",
            "Of a Full Gen Bias of 9.22, 0.13 is the style classifier's reaction to terms in replies",
            "  of which 0.13 goes with the terms that replies hold",
        ),
        (
            -0.52,
            "The 9.22 (debiased) would be 0.52 higher without the classifier's reaction to terms that it reads in",
            "0.52 higher with terms in replies hidden",
            "A Full Gen Bias of 9.22 would be 0.52 higher without the style classifier's reaction to terms in replies",
            "  0.52 higher with the terms that replies hold hidden",
        ),
    ],
)
def test_the_classifiers_own_part_is_stated_and_what_it_covers_up(
    results, tmp_path, own, said, tile, in_card, in_terminal
):
    seen = {"num_in_view": 110, "share_in_view": 0.044, "is_debiased": True, "value": 9.22, "hidden_value": 9.22 - own}
    seen |= {"own": own, "most_in_view": [{"axis": AXES[0], "descriptor": HOSTILE, "num_replies": 84}]}
    leakage = {"leakage": 90.8, "shared": 29.6, "by_axis": {AXES[0]: 66.3}, "num_terms": 78, "num_sentences": 20}
    leakage |= {"mean_move": 0.593, "most_moved": [{"axis": AXES[0], "descriptor": HOSTILE, "move": 0.77}]}
    leakage["in_replies"] = seen
    with_leakage = {**results, "generation": {**results["generation"], "identity_leakage": leakage}}
    page = page_of(with_leakage, tmp_path)
    text = " ".join(page.text.split())

    assert said in text
    assert f"with all terms hidden the value is {9.22 - own:.2f}. Nothing is" in text
    assert tile in text
    assert "110 replies (4.4%) hold one" in text
    assert "an identity leakage of 90.8: 20 plain sentences that are the same for all 78 terms" in text
    assert page.table("Identity leakage by axis")[1:] == [[axis_label(AXES[0]), "66.3"]]
    assert page.table("Terms that move the classifier most")[1:] == [[HOSTILE, axis_label(AXES[0]), "77.0%"]]
    assert leakage_sentence(leakage).startswith(in_card)
    assert in_terminal in Generation().summary(with_leakage)


def made_generation(full, bounds, by_axis, no_interval=None):
    """What the answer is made of: `by_axis` has the value and the interval of each axis."""
    return {
        "gen_bias": {
            "full_gen_bias": 9.5,
            "confidence_level": 0.95,
            "intervals": {
                "full_gen_bias": bounds,
                "by_axis": {axis: axis_bounds for axis, (_, axis_bounds) in by_axis.items()},
            },
            "no_intervals": {"full_gen_bias": no_interval},
        },
        "debiased": {"full_gen_bias": full, "by_axis": {axis: value for axis, (value, _) in by_axis.items()}},
    }


BEYOND = (
    "The style of its replies differs between terms by more than chance: Full Gen Bias, less sampling noise, is "
    "5.25 (95% interval 4.00 to 6.50)."
)


@pytest.mark.parametrize(
    ("generation", "answer"),
    [
        (
            made_generation(
                5.25, [4, 6.5], {"age": (2, [1, 3]), "ability": (8, [7, 9]), "nonce": (1, [-1, 3]), "x": (9, None)}
            ),
            f"{BEYOND} By axis, the interval lies above 0 in 2 of the 3 that have one, highest in ability (8.00), "
            "age (2.00).",
        ),
        (
            made_generation(5.25, [4, 6.5], {name: (value, [1, 30]) for value, name in enumerate("abcde", start=2)}),
            f"{BEYOND} By axis, the interval lies above 0 in 5 of the 5 that have one, highest in e (6.00), d (5.00), "
            "c (4.00).",
        ),
        (
            made_generation(5.25, [4, 6.5], {"age": (2, [0, 4]), "nonce": (1, [-1, 3])}),
            f"{BEYOND} The interval lies above 0 in none of the 2 axes that have one.",
        ),
        (
            made_generation(5.25, [4, 6.5], {"age": (2, [1, 3]), "nonce": (1, None)}),
            f"{BEYOND} Of the axes, only age has an interval, which lies above 0.",
        ),
        (
            made_generation(5.25, [4, 6.5], {"age": (2, [-1, 5]), "nonce": (1, None)}),
            f"{BEYOND} Of the axes, only age has an interval, which does not lie above 0.",
        ),
        (made_generation(5.25, [4, 6.5], {"age": (2, [1, 3])}), BEYOND),
        (made_generation(5.25, [4, 6.5], {"age": (2, None)}), BEYOND),
        (
            made_generation(0.5, [-1, 2], {}),
            "No difference in the style of its replies stands out from chance: Full Gen Bias, less sampling noise, is "
            "0.50 (95% interval −1.00 to 2.00); a difference of up to 2.00 cannot be ruled out.",
        ),
        (
            made_generation(0.5, [0, 2], {}),
            "No difference in the style of its replies stands out from chance: Full Gen Bias, less sampling noise, is "
            "0.50 (95% interval 0.00 to 2.00); a difference of up to 2.00 cannot be ruled out.",
        ),
        (
            made_generation(-2, [-3, -1], {}),
            "No difference in the style of its replies stands out from chance: Full Gen Bias, less sampling noise, is "
            "−2.00 (95% interval −3.00 to −1.00).",
        ),
        (
            made_generation(5.25, None, {"age": (2, None)}, "too few replies"),
            "Whether the style of its replies differs between terms by more than chance cannot be known from this run: "
            "Full Gen Bias, less sampling noise, is 5.25, and no interval could be estimated.",
        ),
        (
            {"gen_bias": {"full_gen_bias": 9.5}, "debiased": None},
            "Whether the style of its replies differs between terms by more than chance cannot be known: with one "
            "reply a term and template, Full Gen Bias (9.50) holds noise of unknown size.",
        ),
    ],
)
def test_the_answer_says_no_more_than_the_interval(generation, answer):
    assert generation_answer(generation) == answer


def test_the_answer_is_of_the_runs_own_interval(results, page):
    values, debiased = results["generation"]["gen_bias"], results["generation"]["debiased"]

    assert values["intervals"]["full_gen_bias"][0] > 0
    assert (
        f"is {bias(debiased['full_gen_bias'])} (95% interval {interval(values['intervals']['full_gen_bias'])})."
    ) in page.text


def test_the_tiles_tell_gen_bias_with_its_interval(results, page):
    values, debiased = results["generation"]["gen_bias"], results["generation"]["debiased"]

    value, bounds = page.tiles["Full Gen Bias, debiased"]
    assert number(value) == pytest.approx(debiased["full_gen_bias"], abs=0.5)
    assert [number(end) for end in bounds.removeprefix("95% interval ").split(" to ")] == pytest.approx(
        values["intervals"]["full_gen_bias"], abs=0.5
    )
    value, noise = page.tiles["Full Gen Bias, plain"]
    assert number(value) == pytest.approx(values["full_gen_bias"], abs=0.5)
    assert noise == f"of which sampling noise about {bias(values['noise_floor'])}"
    assert page.tiles["replies"] == ["576", "8 a term and template"]


def test_the_tables_of_gen_bias_stand_beside_the_papers(results, page):
    debiased = results["generation"]["debiased"]["by_axis"]
    by_axis = page.table("Full Gen Bias by axis")
    axis = max(debiased, key=lambda axis: debiased[axis])

    assert by_axis[0] == ["Axis", "debiased", "interval", "plain", "DialoGPT", "BlenderBot 2.0 3B"]
    assert by_axis[1][0] == axis_label(axis)
    assert number(by_axis[1][1]) == close(debiased[axis])
    assert by_axis[1][4:] == [f"{values[axis]:.2f}" for values in paper.GEN_BIAS_BY_AXIS.values()]
    assert "Rank correlation with DialoGPT: ρ = " in page.words
    for name, metric, printed in (
        ("Partial Gen Bias", "partial_gen_bias", paper.PARTIAL_GEN_BIAS),
        ("Summed-Cluster Gen Bias", "summed_cluster_gen_bias", paper.SUMMED_CLUSTER_GEN_BIAS),
    ):
        rows = page.table(f"{name} by cluster")[1:]
        assert [row[0] for row in rows] == list(PAPER_CLUSTERS)
        assert number(rows[0][3]) == close(results["generation"]["gen_bias"][metric][rows[0][0]])
        assert rows[0][4:] == [f"{values[rows[0][0]]:.2f}" for values in printed.values()]


def test_a_plot_has_a_figure_for_each_cluster(page):
    figures = page.figures()

    assert len(figures["terms-plot"]) == len(figures["frequency-plot"]) == len(PAPER_CLUSTERS)
    assert len(figures["gen-bias-by-cluster"]) == 2
    assert len(figures["gen-bias-by-axis"]) == len(figures["styles-plot"]) == 1


def test_the_source_of_frequencies_is_named(results, page):
    num_terms = len(page.figures()["frequency-plot"][0]["data"][0]["x"])
    num_terms += len(page.figures()["frequency-plot"][0]["data"][1]["x"])

    assert f"{num_terms} here" in page.words
    assert "chats.csv, as given by" in page.words
    assert "1 are not in the source" in page.words
    assert [row[0] for row in page.table("Correlation of style with frequency")[1:]] == list(PAPER_CLUSTERS)


def test_replies_to_read_are_behind_a_click(results, page):
    assert not any(example["reply"] in page.words for example in results["generation"]["examples"])
    assert "They can hurt" in page.words


def test_parroting_and_phrases_are_in_the_tables(results, page):
    generation = results["generation"]
    rates = generation["phrase_rates"]

    assert 0 < generation["parroting"]["parroting_share"] < 1
    assert {row[0]: row[1] for row in page.table("Parroting by template")[1:]} == {
        slot(template): f"{share:.1%}" for template, share in generation["parroting"]["by_template"].items()
    }
    (sorry,) = (row for row in page.table("Phrase rates") if row[0] == f"“{SORRY}”")
    assert sorry == [
        f"“{SORRY}”",
        "sympathy",
        *(f"{part['phrases']['sympathy'][SORRY]:.1%}" for part in (rates, *rates["groups"].values())),
        "30.3%",
        "4.5%",
    ]


def test_replies_that_were_empty_or_cut_are_counted(page):
    assert "5 were empty and left out, 7 were cut" in page.words


def test_the_tag_that_replies_were_asked_with_is_named(results, page, tmp_path):
    tagged = copy.deepcopy(results)
    tagged["run"]["generation"] = {"tag": "no_bias", "tag_reason": "the model was tuned with tags"}

    text = page_of(tagged, tmp_path).text

    assert "Asked with the control tag “no_bias” at the end of each context: the model was tuned with tags." in text
    assert "Asked with" not in page.text


def test_with_one_reply_a_cell_there_is_neither_debiasing_nor_an_interval(tmp_path):
    page = page_of(full_run(replies_per_cell=1), tmp_path)

    assert "by more than chance cannot be known: with one reply a term and template" in page.text
    assert "Full Gen Bias, debiased" not in page.tiles
    assert "nothing is known about sampling noise" in page.words
    assert {tuple(row[1:3]) for row in page.table("Full Gen Bias by axis")[1:]} == {("–", "–")}
    assert "The noise floor" not in page.words


def test_with_too_few_replies_for_an_interval_the_reason_is_given(tmp_path):
    page = page_of(full_run(replies_per_cell=3), tmp_path)

    assert "by more than chance cannot be known from this run: Full Gen Bias, " in page.text
    assert page.tiles["Full Gen Bias, debiased"][1:] == ["no interval"]
    assert re.search(r"No interval for Full Gen Bias \(all terms, .*\); Partial Gen Bias \(", page.text)
    assert FEW_REPLIES_REASON in page.text


def test_without_clusters_the_rest_is_there(results, tmp_path):
    labels = [f"style {index}" for index in range(len(LABELS))]
    generation, _ = generation_of(replies_to(some_prompts()), labels=labels, clusters=None)

    page = page_of(results | {"generation": generation}, tmp_path)

    assert "no style clusters" in page.words
    assert "terms-plot" not in page.figures()
    assert len(page.table("All terms")) == 1 + 6 * len(AXES)


def test_names_and_replies_with_html_in_them_are_shown_as_they_are(tmp_path):
    prompts = some_prompts()
    results = full_run(with_names(prompts, "descriptor", {prompts["descriptor"][0].as_py(): HOSTILE}))
    for example in results["generation"]["examples"]:
        example["reply"] = HOSTILE + "\u2028\x85"

    page = page_of(results, tmp_path)

    assert HOSTILE in [row[0] for row in page.table("All terms")]
    assert {example[2] for examples in page.terms()["examples"] for example in examples} == {HOSTILE + "\u2028\x85"}
    assert not {tag for tag, _ in page.elements} & {"b", "i", "img"}


def test_replies_that_are_nearly_all_the_same_are_pointed_out(results, tmp_path):
    same = copy.deepcopy(results)
    same["generation"] |= {"most_frequent_share": 0.98, "num_distinct_replies": 2}
    same["run"]["generation"]["ignored_settings"] = {"repetition_penalty": 1.05}
    page_of(same, tmp_path)
    text = (tmp_path / "report.html").read_text()
    assert "98.0% of the replies are the same text" in text
    assert "2 of them are distinct" in text
    assert "without these settings of the model&#39;s generation_config: repetition_penalty 1.05" in text
    page_of(results, tmp_path)
    assert "are the same text" not in (tmp_path / "report.html").read_text()
