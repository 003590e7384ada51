"""Two runs' generation bias in detail: values with both intervals, styles, terms side by side, and reply checks."""

import shutil

import pytest
from hb_metrics.display.parts import pair
from hb_metrics.measurements.generation.comparison import compared_generation
from scipy.stats import spearmanr

from hb_metrics.measurements import GENERATION
from hb_metrics.measurements.generation import changes
from hb_metrics.reply_checks.style_change import style_change
from hb_metrics.report.numbers import bias, interval, rho
from hb_metrics.runs.finished_run import read_run, read_styles
from hb_metrics.statistics.bias_values import DescriptorKey
from hb_metrics.statistics.style_clusters import PAPER_CLUSTERS
from tests.hb_metrics.made_results import AXES, LABELS, SORRY, change_results, full_run, write_run
from tests.hb_metrics.pages import Page, close, number

NAMES = ("before", "after")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of both runs, and each run's results and replies."""
    folder, base = tmp_path_factory.mktemp("runs"), full_run()
    first = write_run(folder / "before", base)
    second = write_run(folder / "after", base, seed=1, prefix="Well", replies_per_cell=9)
    return folder, first, second


@pytest.fixture
def copied(runs, tmp_path):
    """Folders of the two runs to change."""
    for name in NAMES:
        shutil.copytree(runs[0] / name, tmp_path / name)
    return [tmp_path / name for name in NAMES]


def compare(folders):
    """The comparison, and its sections as one page."""
    comparison = GENERATION.compare(*map(read_run, folders), NAMES)
    return comparison, Page(f"<main>{''.join(section.html for section in comparison.sections)}</main>")


@pytest.fixture(scope="module")
def compared(runs):
    return compare([runs[0] / name for name in NAMES])


def test_changes_have_both_debiased_values_and_intervals(runs):
    _, (first, _), (second, _) = runs
    sides = [results["generation"] for results in (first, second)]

    rows = changes.gen_bias_changes(*sides, True)

    assert list(rows) == [
        "Full Gen Bias",
        "Full Gen Bias by axis",
        "Partial Gen Bias by cluster",
        "Summed-Cluster Gen Bias by cluster",
    ]
    assert [row.name for row in rows["Partial Gen Bias by cluster"]] == list(PAPER_CLUSTERS)
    for row in rows["Partial Gen Bias by cluster"]:
        assert (row.first, row.second) == tuple(side["debiased"]["partial_gen_bias"][row.name] for side in sides)
        bounds = [side["gen_bias"]["intervals"]["partial_gen_bias"][row.name] for side in sides]
        assert [row.first_interval, row.second_interval] == [pair(both_ends) for both_ends in bounds]
    plain = changes.gen_bias_changes(*sides, False)["Full Gen Bias"][0]
    assert (plain.first, plain.second) == tuple(side["gen_bias"]["full_gen_bias"] for side in sides)
    assert plain.apart is None  # intervals are of the debiased values


def test_the_tables_show_changes_and_whether_intervals_are_apart(runs, compared):
    _, (first, _), (second, _) = runs
    rows = changes.gen_bias_changes(first["generation"], second["generation"], True)["Partial Gen Bias by cluster"]

    shown = compared[1].table("Partial Gen Bias by cluster")[1:]

    assert {row.apart for row in rows} == {True, False, None}
    for row, (name, before, before_interval, after, after_interval, change, apart) in zip(rows, shown, strict=True):
        assert (name, number(before), number(after)) == (row.name, close(row.first), close(row.second))
        assert [before_interval, after_interval] == [interval(row.first_interval), interval(row.second_interval)]
        assert number(change) == pytest.approx(row.change, rel=0.01, abs=0.06)
        assert apart == {True: "apart", False: "overlap", None: "–"}[row.apart]


def test_the_tiles_have_both_intervals(runs, compared):
    _, (first, _), (second, _) = runs
    full, parroting = compared[0].tiles
    values = [bias(results["generation"]["debiased"]["full_gen_bias"]) for results in (first, second)]

    assert (full.label, full.value) == ("Full Gen Bias, debiased", " → ".join(values))
    assert full.details[0].startswith("intervals ")
    assert parroting.label == "parroting replies"


def test_a_run_without_debiasing_is_compared_by_plain_values(copied):
    def nothing_known(results):
        results["generation"]["debiased"] = None
        results["generation"]["gen_bias"] |= {"noise_floor": None, "intervals": None}

    change_results(copied[1], nothing_known)

    comparison, page = compare(copied)

    assert comparison.tiles[0].label == "Full Gen Bias, plain"
    assert comparison.tiles[0].details == ()
    assert "plain, sampling noise included" in page.text
    assert {row[6] for row in page.table("Full Gen Bias by axis")[1:]} == {"–"}


def test_the_same_run_does_not_change(runs):
    _, page = compare([runs[0] / "before"] * 2)

    assert {row[5] for row in page.table("Full Gen Bias by axis")[1:]} == {"0.00"}


def test_parroting_changes_are_correlated_with_the_first_runs_bias(runs, compared):
    _, (first, _), (second, _) = runs
    rows = [
        {(row["axis"], row["descriptor"]): row for row in results["generation"]["by_descriptor"]}
        for results in (first, second)
    ]
    parroting = [rows[1][key]["parroting_share"] - row["parroting_share"] for key, row in rows[0].items()]
    expected = spearmanr(parroting, [row["mean_bias_value"] for row in rows[0].values()]).statistic

    assert f"mean bias value in the first run is {rho(expected)}" in compared[1].words
    assert compared[1].table("Parroting")[1][1:3] == [
        f"{results['generation']['parroting']['parroting_share']:.1%}" for results in (first, second)
    ]


def test_phrases_are_counted_in_the_first_runs_groups(runs, compared):
    _, (first, _), (_, replies) = runs
    group = first["generation"]["phrase_rates"]["groups"]["confusion"]
    keys = {(row["axis"], row["descriptor"]) for row in group["descriptors"]}
    texts = [
        text
        for axis, name, text in zip(replies.axes, replies.descriptors, replies.texts, strict=True)
        if (axis, name) in keys
    ]
    share = sum("sorry to hear" in text for text in texts) / len(texts)

    table = compared[1].table("Phrases in replies about the confusion terms")

    (row,) = (row for row in table if row[0] == f"“{SORRY}”")
    assert row[1:3] == [f"{group['phrases']['sympathy'][SORRY]:.1%}", f"{share:.1%}"]
    assert row[4:] == ["4.5%", "1.6%"]


def test_styles_change_as_in_table_15(runs, compared):
    before, after = (read_styles(read_run(runs[0] / name)) for name in NAMES)
    change = style_change(before, after)

    assert before.labels == LABELS
    assert before.descriptors[0] == DescriptorKey(AXES[0], runs[1][0]["generation"]["by_descriptor"][0]["descriptor"])
    decreases = compared[1].table("Largest decreases in variance")[1:]
    assert decreases[0][0] == change["styles"][0]["style"]
    assert number(decreases[0][2]) == pytest.approx(change["styles"][0]["variance"]["change"], abs=6e-4)
    assert compared[1].table("Largest increases in variance")[-1][0] == change["styles"][-1]["style"]
    assert f"{change['num_variance_decreases']} styles fell" in compared[1].words


def test_replies_to_the_same_prompts_stand_side_by_side(runs, compared):
    _, (first, _), (_, replies) = runs
    answers = dict(zip(replies.prompts, replies.texts, strict=True))
    terms = compared[0].terms

    assert terms["names"] == NAMES
    assert len(terms["rows"]) == 6 * len(AXES)
    for row, pairs in zip(terms["rows"], terms["pairs"], strict=True):
        assert pairs == [
            [example["prompt"], example["reply"], answers[example["prompt"]], example["why"]]
            for example in first["generation"]["examples"]
            if (example["axis"], example["descriptor"]) == (row["axis"], row["name"])
        ]
        assert len(pairs) > 1


def test_without_the_second_runs_replies_examples_of_both_are_paired(runs):
    first, second = (results["generation"] for results, _ in runs[1:])
    examples = {example["prompt"]: example["reply"] for example in second["examples"]}

    terms = changes.term_changes(first, second, None)
    pairs = [replies for of_term in terms["pairs"] for replies in of_term]

    assert pairs
    assert all(examples[prompt] == reply for prompt, _, reply, _ in pairs)


def test_without_the_files_beside_the_results_the_rest_is_compared(copied):
    for folder in copied:
        (folder / "style_means.parquet").unlink()
        shutil.rmtree(folder / "replies")

    comparison, page = compare(copied)

    assert "style_means.parquet is not there" in page.words
    assert "the second run's folder has no replies" in page.words
    assert page.table("Phrases in all replies")
    assert compared_generation(*map(read_run, copied))[0]["groups"] == {}
    assert comparison.terms["rows"]
