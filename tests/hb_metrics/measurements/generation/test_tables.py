"""Rows of the generation sections: beside the paper's, terms by style, frequencies, and what the chooser shows."""

import copy

import pytest
from scipy.stats import spearmanr

from hb_metrics.measurements.generation import tables
from hb_metrics.measurements.generation.figures import frequency_figure, interval_figure, strip_figure
from hb_metrics.report import paper
from hb_metrics.report.numbers import axis_label
from hb_metrics.statistics.intervals import FEW_REPLIES_REASON
from hb_metrics.statistics.style_clusters import PAPER_CLUSTERS
from tests.hb_metrics.made_results import AXES, SORRY, full_run


@pytest.fixture(scope="module")
def generation():
    return full_run()["generation"]


def test_axes_stand_beside_the_papers_the_highest_first(generation):
    rows = tables.gen_bias_by_axis(generation, paper.GEN_BIAS_BY_AXIS)
    bias, debiased = generation["gen_bias"], generation["debiased"]["by_axis"]
    axes = sorted(AXES, key=lambda axis: -debiased[axis])

    assert [row.measured.name for row in rows] == [axis_label(axis) for axis in axes]
    for axis, row in zip(axes, rows, strict=True):
        assert row.measured.debiased == debiased[axis]
        assert row.measured.plain == bias["by_axis"][axis]
        assert list(row.measured.interval) == bias["intervals"]["by_axis"][axis]
        assert row.printed == {model: paper.GEN_BIAS_BY_AXIS[model][axis] for model in paper.GEN_BIAS_BY_AXIS}
    rho = spearmanr(
        [debiased[axis] for axis in AXES], [paper.GEN_BIAS_BY_AXIS["DialoGPT"][axis] for axis in AXES]
    ).statistic
    assert tables.rank_correlations(rows)["DialoGPT"] == pytest.approx(rho)


@pytest.mark.parametrize(
    ("metric", "printed"),
    [
        ("partial_gen_bias", paper.PARTIAL_GEN_BIAS),
        ("summed_cluster_gen_bias", paper.SUMMED_CLUSTER_GEN_BIAS),
    ],
)
def test_clusters_stand_beside_the_papers(generation, metric, printed):
    rows = tables.gen_bias_by_cluster(generation, metric, printed)

    assert [row.measured.name for row in rows] == list(PAPER_CLUSTERS)
    for row in rows:
        assert row.measured.plain == generation["gen_bias"][metric][row.measured.name]
        assert row.measured.debiased == generation["debiased"][metric][row.measured.name]
        assert row.printed == {model: values[row.measured.name] for model, values in printed.items()}


def test_intervals_are_drawn_where_they_are(generation):
    rows = [row.measured for row in tables.gen_bias_by_axis(generation, {})]

    lines, plain, debiased = interval_figure(rows, "Full Gen Bias ×1000", 0.95).data

    assert {name: (low, high) for name, low, high in zip(lines.y[::3], lines.x[::3], lines.x[1::3], strict=True)} == {
        row.name: row.interval for row in rows
    }
    assert dict(zip(plain.y, plain.x, strict=True)) == {row.name: row.plain for row in rows}
    assert dict(zip(debiased.y, debiased.x, strict=True)) == {row.name: row.debiased for row in rows}


def test_values_without_an_interval_are_listed_with_the_reason():
    generation = full_run(replies_per_cell=3)["generation"]
    values = generation["debiased"]["by_axis"]
    rows = tables.gen_bias_by_axis(generation, {})

    missing = tables.missing_intervals(
        {"Full Gen Bias": [tables.full_gen_bias(generation), *(row.measured for row in rows)]}
    )

    axes = ", ".join(axis_label(axis) for axis in sorted(values, key=lambda axis: -values[axis]))
    assert missing == [(f"Full Gen Bias (all terms, {axes})", FEW_REPLIES_REASON)]


def test_every_term_is_a_point_in_every_cluster(generation):
    rows = generation["by_descriptor"]
    by_cluster = tables.terms_by_cluster(generation)

    assert list(by_cluster) == list(PAPER_CLUSTERS)
    for (cluster, terms), mean in zip(by_cluster.items(), tables.cluster_means(generation), strict=True):
        assert mean == pytest.approx(sum(term.value for term in terms) / len(terms))
        points = {
            custom[0]: (custom[1], x)
            for trace in strip_figure(terms, cluster, mean).data
            for custom, x in zip(trace.customdata, trace.x, strict=True)
        }
        assert points == {index: (row["descriptor"], row["clusters"][cluster]) for index, row in enumerate(rows)}


def test_frequencies_are_of_one_word_terms_with_the_never_seen_apart(generation):
    known = {(row["axis"], row["descriptor"]): row for row in generation["frequencies"]["by_descriptor"]}
    rows = generation["by_descriptor"]
    one_word = [row for row in rows if known.get((row["axis"], row["descriptor"]), {}).get("one_word")]
    per_million = [known[row["axis"], row["descriptor"]]["per_million"] for row in one_word]

    table = tables.frequency_table(generation)

    assert (table.num_unknown, table.num_several_words) == (1, len(rows) - 1 - len(one_word))
    assert 0 in per_million
    for cluster, terms in table.terms_by_cluster.items():
        assert [(term.name, term.per_million) for term in terms] == [
            (row["descriptor"], value) for row, value in zip(one_word, per_million, strict=True)
        ]
        rho = spearmanr(per_million, [row["clusters"][cluster] for row in one_word]).statistic
        assert table.rho_by_cluster[cluster]["spearman_rho"] == pytest.approx(rho)
        figure = frequency_figure(terms, cluster)
        never, seen = figure.data
        assert figure.layout.xaxis2.type == "log"
        assert (never.xaxis, seen.xaxis) == ("x", "x2")
        assert {custom[0] for custom in never.customdata} == {term.row for term in terms if not term.per_million}
        assert dict(zip((custom[0] for custom in seen.customdata), seen.x, strict=True)) == {
            term.row: term.per_million for term in terms if term.per_million
        }


def test_phrases_stand_beside_the_papers(generation):
    rates = generation["phrase_rates"]

    (row,) = (row for row in tables.phrase_table(rates) if row.phrase == SORRY)

    assert row.heading == "sympathy"
    assert row.everyone == rates["phrases"]["sympathy"][SORRY]
    assert row.groups == {name: group["phrases"]["sympathy"][SORRY] for name, group in rates["groups"].items()}
    assert row.paper is paper.PHRASE_RATES[SORRY]


def test_the_styles_that_vary_most_come_first(generation):
    rows = tables.most_varying_styles(generation)
    values = [row.measured.debiased for row in rows]

    assert len(rows) == tables.NUM_STYLES
    assert values == sorted(generation["debiased"]["by_style"].values(), reverse=True)[: tables.NUM_STYLES]


def test_the_chooser_has_every_term_and_its_examples(generation):
    rows = generation["by_descriptor"]

    terms = tables.chooser_content(generation)

    assert [(row["axis"], row["name"], row["replies"]) for row in terms["rows"]] == [
        (row["axis"], row["descriptor"], row["num_replies"]) for row in rows
    ]
    for row, examples in zip(rows, terms["examples"], strict=True):
        assert [(example[0], example[2]) for example in examples] == [
            (example["why"], example["reply"])
            for example in generation["examples"]
            if (example["axis"], example["descriptor"]) == (row["axis"], row["descriptor"])
        ]
    assert terms["rows"][0]["perMillion"] is None  # not in the source
    assert terms["rows"][1]["perMillion"] == generation["frequencies"]["by_descriptor"][0]["per_million"]


def test_a_classifier_without_clusters_has_no_rows_of_clusters(generation):
    plain = copy.deepcopy(generation)
    plain["gen_bias"]["partial_gen_bias"] = None
    for row in plain["by_descriptor"]:
        row["clusters"] = {}

    assert tables.gen_bias_by_cluster(plain, "partial_gen_bias", {}) == []
    assert tables.terms_by_cluster(plain) == {}
