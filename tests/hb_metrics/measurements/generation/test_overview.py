"""Generation bias of several runs in the shapes of the paper's Tables 8 to 10, and how the runs reply."""

import copy
import re
from pathlib import Path

import pytest
from hb_metrics.measurements.generation.overview import ALL_TERMS, overview

from hb_metrics.measurements import GENERATION
from hb_metrics.report import paper
from hb_metrics.report.numbers import axis_label
from hb_metrics.runs.finished_run import Run
from hb_metrics.statistics.style_clusters import PAPER_CLUSTERS
from tests.hb_metrics.made_results import AXES, full_run, read_results, write_tuning_runs
from tests.hb_metrics.pages import HOSTILE, Page, close, number, value_and_interval

NAMES = ["before", "no_bias", "bias", "self-chat"]
BELOW_ZERO = AXES[1]  # its debiased value in the first run is negative
TABLE_8 = "Full and Partial Gen Bias of the runs"
TABLE_9 = "Summed-Cluster Gen Bias of the runs"
TABLE_10 = "Full Gen Bias by axis of the runs"
REPLIES = "How the runs reply"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    return [read_results(folder) for folder in write_tuning_runs(tmp_path_factory.mktemp("tuning"))]


@pytest.fixture
def copied(runs):
    """The runs' results, to change."""
    return copy.deepcopy(runs)


def section_of(results, names=NAMES):
    return GENERATION.overview([Run(Path("x"), part) for part in results], names)


def page_of(results, names=NAMES):
    return Page(f"<main>{section_of(results, names).html}</main>")


@pytest.fixture(scope="module")
def page(runs):
    return page_of(runs)


def ours(table, names=NAMES):
    """The rows of a table that stand before the paper's."""
    return [row for row in table if row[0].split(" 8 replies")[0] in names]


def test_rows_are_of_the_runs_in_their_order(runs):
    beside = overview(runs, NAMES)

    assert (beside.debiased, beside.level, beside.clusters) == (True, 0.95, list(PAPER_CLUSTERS))
    for name, row, replies, results in zip(NAMES, beside.bias, beside.replies, runs, strict=True):
        generation = results["generation"]
        values, debiased = generation["gen_bias"], generation["debiased"]
        assert (row.name, row.noise_floor, row.replies_per_cell) == (name, values["noise_floor"], 8)
        assert (row.full.debiased, row.full.plain) == (debiased["full_gen_bias"], values["full_gen_bias"])
        for heading, metric in (
            ("Partial Gen Bias", "partial_gen_bias"),
            ("Summed-Cluster Gen Bias", "summed_cluster_gen_bias"),
        ):
            for cluster, value in row.clusters[heading].items():
                assert value.value == debiased[metric][cluster]
                assert list(value.interval) == values["intervals"][metric][cluster]
        assert replies == (name, generation["parroting"]["parroting_share"], 5, generation["num_prompts"], 12.5)


def test_axes_are_those_of_the_first_run_the_highest_first_with_reductions(runs):
    beside = overview(runs, NAMES)
    values = [results["generation"]["debiased"]["by_axis"] for results in runs]
    axes = sorted(AXES, key=lambda axis: -values[0][axis])

    assert [row.label for row in beside.axes] == [ALL_TERMS, *map(axis_label, axes)]
    for axis, row in zip(axes, beside.axes[1:], strict=True):
        first, *later = (of_run[axis] for of_run in values)
        assert row.first.value == first
        assert [change.second for change in row.changes] == later
        is_known = row.first.interval[0] > 0
        reductions = [pytest.approx(min(1 - value / first, 1)) if is_known else None for value in later]
        assert [change.reduction for change in row.changes] == reductions
    assert beside.num_unsure_axes == 1
    (ability,) = (row for row in beside.axes if row.label == "Ability")
    assert {model: round(100 * value) for model, value in ability.printed.items()} == dict(
        zip(paper.REDUCTION, (22, 21), strict=True)
    )


def test_table_8_shows_each_run_with_its_noise_and_intervals(runs, page):
    table = page.table(TABLE_8)

    assert table[1] == ["Run", "debiased", "plain", *PAPER_CLUSTERS]
    for name, row, results in zip(NAMES, ours(table), runs, strict=True):
        values, debiased = results["generation"]["gen_bias"], results["generation"]["debiased"]
        assert row[0] == f"{name} 8 replies a cell"
        assert value_and_interval(row[1]) == (
            close(debiased["full_gen_bias"]),
            close(values["intervals"]["full_gen_bias"]),
        )
        plain, noise = row[2].split(" noise ")
        assert (number(plain), number(noise)) == (close(values["full_gen_bias"]), close(values["noise_floor"]))
        assert value_and_interval(row[3])[0] == close(debiased["partial_gen_bias"][table[1][3]])


def test_the_papers_runs_stand_below_ours(page):
    for region, values, before in (
        (TABLE_8, lambda row: [row.full, *row.partial.values()], ["–"]),
        (TABLE_9, lambda row: list(row.summed.values()), []),
    ):
        table = page.table(region)
        (head,) = (index for index, row in enumerate(table) if row[0].startswith("The paper's, for orientation"))
        assert table[head + 1 :] == [
            [row.model if row.tuning is None else f"+ {row.tuning}", *before, *(f"{cell:.2f}" for cell in values(row))]
            for row in paper.TUNING
        ]


def test_table_10_has_reductions_beside_the_papers(page):
    table = page.table(TABLE_10)

    assert [cell for cell in table[0] if cell] == [*NAMES[1:], "in the paper"]
    assert table[2][0] == ALL_TERMS
    assert [row[3] for row in table if row[0] == axis_label(BELOW_ZERO)] == ["–"]
    assert [row[-2:] for row in table if row[0] == "Ability"] == [["22%", "21%"]]
    assert [row[3] for row in table if row[0] == "Ability"] == ["95%"]  # the second run has a twentieth


def test_it_is_said_whether_intervals_are_apart(runs, page):
    first, *later = (results["generation"] for results in runs)
    seen = set()
    for name, generation in zip(NAMES[1:], later, strict=True):
        (sentence,) = re.findall(rf"(?<!\w){name}: (Full Gen Bias is .*?\.) By axis, .*? of 3[.;]", page.text)
        before, after = (part["debiased"]["full_gen_bias"] for part in (first, generation))
        (low, high), (other_low, other_high) = (
            part["gen_bias"]["intervals"]["full_gen_bias"] for part in (first, generation)
        )
        overlap = low <= other_high and other_low <= high
        seen.add(overlap)
        if before == after:
            assert sentence.startswith("Full Gen Bias is the same as that of before")
            continue
        assert f"{abs(1 - after / before):.0%} {'lower' if after < before else 'higher'} than" in sentence
        assert ("overlap, which leaves open whether it changed" in sentence) == overlap
        assert ("apart: chance is a poor explanation" in sentence) == (not overlap)
    assert seen == {True, False}


def test_axes_with_intervals_apart_are_named(runs, page):
    intervals = [results["generation"]["gen_bias"]["intervals"]["by_axis"] for results in runs[:2]]
    values = runs[0]["generation"]["debiased"]["by_axis"]
    axes = sorted(AXES, key=lambda axis: -values[axis])
    lower = [axis_label(axis) for axis in axes if intervals[1][axis][1] < intervals[0][axis][0]]
    higher = [axis_label(axis) for axis in axes if intervals[1][axis][0] > intervals[0][axis][1]]

    assert higher == [axis_label(BELOW_ZERO)]
    assert (
        f"intervals are apart in {len(lower) + 1} of 3; lower: {', '.join(lower)}; higher: {higher[0]}."
    ) in page.text
    assert "In 1 of 3 axes the interval of before itself holds 0" in page.text


def test_a_table_shows_whether_the_runs_still_reply(runs, page):
    rows = page.table(REPLIES)
    generation = runs[0]["generation"]

    assert ours(rows)[0][1:] == [
        f"{generation['parroting']['parroting_share']:.1%}",
        f"{5 / generation['num_prompts']:.1%} 5 of {generation['num_prompts']}",
        "12.5",
    ]
    assert rows[-1][:2] == ["BlenderBot 2.0 3B bias tuning", "20.0%"]


def test_figures_have_a_row_or_a_mark_for_each_run(runs):
    figures = section_of(runs).figures
    (full,) = figures["runs-full"]
    lines, marks = full["data"][::2], full["data"][1::2]

    assert full["layout"]["yaxis"]["ticktext"] == NAMES[::-1]  # the first at the top
    for row, (line, mark, results) in enumerate(zip(lines, marks, runs, strict=True)):
        assert mark["x"] == [results["generation"]["debiased"]["full_gen_bias"]]
        assert line["x"][:2] == results["generation"]["gen_bias"]["intervals"]["full_gen_bias"]
        assert mark["y"] == [len(NAMES) - 1 - row] == line["y"][:1]
    assert len({(mark["marker"]["color"], mark["marker"]["symbol"]) for mark in marks}) == len(NAMES)
    for figure, metric in zip(figures["runs-clusters"], ("partial_gen_bias", "summed_cluster_gen_bias"), strict=True):
        for mark, name, results in zip(figure["data"][1::2], NAMES, runs, strict=True):
            assert mark["name"] == name
            assert dict(zip(mark["customdata"], mark["x"], strict=True)) == results["generation"]["debiased"][metric]
        heights = [height for mark in figure["data"][1::2] for height in mark["y"]]
        assert len(set(heights)) == len(heights)


@pytest.mark.parametrize(("first", "second"), [(-2.0, 3.0), (4.0, -1.0)])
def test_a_change_from_or_to_below_zero_has_no_percentage_in_words(copied, first, second):
    for results, value in zip(copied[:2], (first, second), strict=True):
        results["generation"]["debiased"]["full_gen_bias"] = value
        results["generation"]["gen_bias"]["intervals"]["full_gen_bias"] = [value - 1, value + 20]

    text = page_of(copied[:2], NAMES[:2]).text

    assert (f"no_bias: Full Gen Bias goes from {first:.2f} to {second:.2f}; the intervals, ".replace("-", "−")) in text
    assert "overlap, which leaves open whether it changed." in text


def test_without_debiasing_in_one_run_plain_values_are_compared(copied):
    generation = copied[2]["generation"]
    generation["debiased"] = None
    generation["gen_bias"] |= {
        "noise_floor": None,
        "intervals": None,
        "full_gen_bias": 1.5 * generation["gen_bias"]["full_gen_bias"],
    }

    page = page_of(copied)

    row = ours(page.table(TABLE_8))[2]
    assert row[1] == "–"
    assert number(row[2]) == close(generation["gen_bias"]["full_gen_bias"])
    assert [value_and_interval(cell) for cell in row[3:]] == [
        (close(value), None) for value in generation["gen_bias"]["partial_gen_bias"].values()
    ]
    assert "Values are plain" in page.words
    assert "bias: Full Gen Bias is 50% higher" in page.text
    assert "without both intervals, chance cannot be told from change" in page.text
    assert "chance is a poor explanation" not in page.text


def test_a_run_without_replies_has_dashes(copied):
    del copied[2]["generation"]

    page = page_of(copied)

    assert set(ours(page.table(TABLE_8))[2][1:]) == {"–"}
    assert {cell for row in page.table(TABLE_10)[2:] for cell in row[4:6]} == {"–"}
    assert ours(page.table(REPLIES))[2][1:] == ["–", "–", "–"]
    assert "bias: there is no value to compare with that of before." in page.text


def test_one_run_with_replies_has_no_overview(copied):
    del copied[1]["generation"]

    assert section_of(copied[:2], NAMES[:2]) is None


def test_names_with_html_in_them_are_shown_as_they_are(runs):
    names = [HOSTILE, "a | b", "c", "d"]

    page = page_of(runs, names)

    assert [row[0] for row in ours(page.table(REPLIES), names)] == names
    assert not {tag for tag, _ in page.elements} & {"b", "i", "img"}
    drawn = section_of(runs, names).figures["runs-clusters"][0]["data"][1]["name"]
    assert drawn == HOSTILE.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"style_classifier.digest", "style_classifier.clusters"}, "No Gen Bias value, style or cluster compares."),
        ({"style_classifier.clusters"}, "The style clusters differ."),
        ({"generation.num_prompts"}, "different numbers of replies"),
        ({"settings.replies_per_cell"}, "different numbers of replies"),
        ({"generation.temperature"}, "Replies were made with different settings"),
        ({"generation.tag", "generation.tag_reason", "generation.personas_digest", "model.name"}, None),
        ({"generation.tuned_with", "generation.label_ceiling"}, None),
        (set(), None),
    ],
)
def test_what_makes_runs_incomparable_is_warned_of_once(changed, words):
    warnings = GENERATION.warnings(changed, [])

    assert [words in warning for warning in warnings] == ([] if words is None else [True])


def test_compared_figures_are_debiased_with_intervals_if_all_runs_have_them(copied):
    debiased = GENERATION.overview_figures(copied)
    copied[1]["generation"]["debiased"] = None
    plain = GENERATION.overview_figures([*copied, {"run": {}}])

    assert [figure.name for figure in debiased[0]] == [
        "Full Gen Bias",
        *(f"Partial Gen Bias, {cluster}" for cluster in PAPER_CLUSTERS),
        *(f"Full Gen Bias, {figure.name.split(', ')[1]}" for figure in debiased[0][7:10]),
        "Parroting replies",
        "Refusals",
        "Disclaimers",
    ]
    # Intervals of refusals do not depend on debiasing.
    assert all((figure.interval is None) is (figure.name == "Parroting replies") for figure in debiased[0])
    assert all(figure.interval is None for figures in plain for figure in figures[:-2])
    assert plain[0][0].value == copied[0]["generation"]["gen_bias"]["full_gen_bias"]
    assert plain[-1] == []


def test_the_figures_of_a_run_have_intervals_with_the_debiased_value_alone():
    results = full_run()
    debiased, plain, *clusters, parroting, refusals, disclaimers = GENERATION.figures(results)

    assert list(debiased.interval) == results["generation"]["gen_bias"]["intervals"]["full_gen_bias"]
    assert (debiased.task, plain.task, plain.interval) == ("full_gen_bias_debiased", "full_gen_bias", None)
    assert [figure.name for figure in clusters] == [f"Partial Gen Bias, {cluster}" for cluster in PAPER_CLUSTERS]
    assert parroting.value == results["generation"]["parroting"]["parroting_share"]
    for figure, kind in ((refusals, "refusals"), (disclaimers, "disclaimers")):
        found = results["generation"]["refusals"][kind]
        assert (figure.value, list(figure.interval)) == (found["share"], found["interval"])
    single = GENERATION.figures(full_run(replies_per_cell=1))
    assert single[0].name == "Full Gen Bias, plain"
    assert "its sampling noise is not known" in single[0].meaning
    assert all(figure.interval is None for figure in single[:-2])
