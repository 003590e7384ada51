import copy
import json
import re
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy.stats import spearmanr

from hb_dataset import load_table
from hb_metrics.bias_values import DescriptorKey
from hb_metrics.display.change_figure import Change
from hb_metrics.finished_run import Run, read_styles
from hb_metrics.measurements.generation.results import style_means_table
from hb_metrics.reply_checks.style_change import style_change
from hb_metrics.report import write_comparison
from hb_metrics.report.__main__ import main
from tests.hb_metrics.test_report import Page, browse, needs_browser, only
from tests.hb_metrics.test_report_generation import (
    AXES,
    LABELS,
    PAPER_CLUSTERS,
    SORRY,
    all_results,
    generation_of,
    number,
    offensiveness_of,
    replies_to,
)


def write_run(folder, results, prompts, *, seed=0, prefix="I hear you", replies_per_cell=8):
    """A finished run's folder, with what the comparison reads."""
    replies = replies_to(prompts, replies_per_cell, seed, prefix)
    results = copy.deepcopy(results)
    results["generation"], biases = generation_of(replies, seed)
    results["offensiveness"]["replies"] = offensiveness_of(replies, seed)
    results["run"]["settings"]["replies_per_cell"] = replies_per_cell
    (folder / "replies").mkdir(parents=True)
    (folder / "results.json").write_text(json.dumps(results), encoding="utf-8")
    pq.write_table(style_means_table(biases, LABELS), folder / "style_means.parquet")
    said = pa.table({"id": replies.ids, "text": replies.prompts, "reply": replies.texts})
    pq.write_table(said.slice(0, 20), folder / "replies" / "00000-of-00002.parquet")
    pq.write_table(said.slice(20), folder / "replies" / "00001-of-00002.parquet")
    return results, replies


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder, prompts = tmp_path_factory.mktemp("runs"), only(load_table("v1.0-small"), axis=AXES)
    base = all_results(prompts)
    first = write_run(folder / "before", base, prompts)
    second = write_run(folder / "after", base, prompts, seed=1, prefix="Well", replies_per_cell=9)
    return folder, first, second


def compared(first, second, path):
    write_comparison([first, second], path)
    return Page(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(runs):
    folder = runs[0]
    return compared(folder / "before", folder / "after", folder / "comparison.html")


@pytest.fixture
def copied(runs, tmp_path):
    """Folders of the two runs to change."""
    for name in ("before", "after"):
        shutil.copytree(runs[0] / name, tmp_path / name)
    return tmp_path / "before", tmp_path / "after"


def change_results(folder, change):
    path = folder / "results.json"
    results = json.loads(path.read_text(encoding="utf-8"))
    change(results)
    path.write_text(json.dumps(results), encoding="utf-8")


def test_settings_that_differ_are_told_first(page):
    assert page.table("Settings that differ")[1:] == [["settings.replies_per_cell", "8", "9"]]
    assert "different numbers of replies" in page.words
    assert page.words.index("What differs") < page.words.index("Gen Bias ×1000")


def test_other_classifiers_and_prompts_are_warned_of(copied):
    def other(results):
        results["run"]["style_classifier"] = {"name": "third/classifier", "digest": "99"}
        results["run"]["offensiveness_classifier"]["digest"] = "98"
        results["run"]["data"]["digest"] = "97"

    change_results(copied[1], other)

    page = compared(*copied, copied[0] / "c.html")

    for words in ("The runs have other prompts", "No Gen Bias value", "Its figures do not compare"):
        assert words in page.words


def test_equal_runs_differ_in_nothing(copied):
    page = compared(copied[0], copied[0], copied[0] / "c.html")

    assert "Nothing: both runs have the same model" in page.words
    assert {row[5] for row in page.table("Full Gen Bias by axis")[1:]} == {"0.00"}


def test_gen_bias_has_both_intervals_and_the_change(runs, page):
    _, (first, _), (second, _) = runs
    rows = page.table("Partial Gen Bias by cluster")[1:]
    values = [results["generation"]["debiased"]["partial_gen_bias"] for results in (first, second)]
    bounds = [results["generation"]["gen_bias"]["intervals"]["partial_gen_bias"] for results in (first, second)]

    assert [row[0] for row in rows] == list(PAPER_CLUSTERS)
    for cluster, before, before_interval, after, after_interval, change, apart in rows:
        assert number(before) == pytest.approx(values[0][cluster], rel=0.01, abs=0.06)
        assert number(after) == pytest.approx(values[1][cluster], rel=0.01, abs=0.06)
        assert number(change) == pytest.approx(values[1][cluster] - values[0][cluster], rel=0.01, abs=0.06)
        both = [found[cluster] for found in bounds]
        for told, interval in zip((before_interval, after_interval), both, strict=True):
            if interval is None:
                assert told == "–"
            else:
                assert [number(end) for end in told.split(" to ")] == pytest.approx(interval, rel=0.01, abs=0.06)
        if None not in both:
            (low, high), (other_low, other_high) = both
            assert (apart == "overlap") == (low <= other_high and other_low <= high)
    assert any(
        None not in (first[cluster], second[cluster]) for cluster in PAPER_CLUSTERS for first, second in [bounds]
    )


@pytest.mark.parametrize(
    ("first", "second", "apart"),
    [
        ((0, 1), (2, 3), True),
        ((2, 3), (0, 1), True),
        ((0, 2), (2, 3), False),
        ((0, 9), (2, 3), False),
        (None, (0, 1), None),
    ],
)
def test_intervals_are_apart_where_they_do_not_meet(first, second, apart):
    assert Change("", 1.0, 2.0, first, second).apart is apart


def test_parroting_changes_are_correlated_with_the_first_runs_bias(runs, page):
    _, (first, _), (second, _) = runs
    rows = [
        {(row["axis"], row["descriptor"]): row for row in results["generation"]["by_descriptor"]}
        for results in (first, second)
    ]
    changes = [rows[1][key]["parroting_share"] - row["parroting_share"] for key, row in rows[0].items()]
    rho = spearmanr(changes, [row["mean_bias_value"] for row in rows[0].values()]).statistic

    assert f"mean bias value in the first run is {rho:.2f}".replace("-", "−") in page.words
    assert page.table("Parroting")[1][1:3] == [
        f"{results['generation']['parroting']['parroting_share']:.1%}" for results in (first, second)
    ]


def test_phrases_are_counted_in_the_first_runs_groups(runs, page):
    _, (first, _), (_, replies) = runs
    group = first["generation"]["phrase_rates"]["groups"]["confusion"]
    keys = {(each["axis"], each["descriptor"]) for each in group["descriptors"]}
    texts = [
        text
        for axis, name, text in zip(replies.axes, replies.descriptors, replies.texts, strict=True)
        if (axis, name) in keys
    ]
    share = sum("sorry to hear" in text for text in texts) / len(texts)

    (row,) = (row for row in page.table("Phrases in replies about the confusion terms") if row[0] == f"“{SORRY}”")
    assert row[1:3] == [f"{group['phrases']['sympathy'][SORRY]:.1%}", f"{share:.1%}"]
    assert row[4:] == ["4.5%", "1.6%"]


def test_styles_change_as_in_table_15(runs, page):
    before, after = (read_styles(Run(runs[0] / name, {})) for name in ("before", "after"))
    found = style_change(before, after)

    assert before.labels == LABELS
    assert before.descriptors[0] == DescriptorKey(AXES[0], runs[1][0]["generation"]["by_descriptor"][0]["descriptor"])
    decreases = page.table("Largest decreases in variance")[1:]
    assert decreases[0][0] == found["styles"][0]["style"]
    assert number(decreases[0][2]) == pytest.approx(found["styles"][0]["variance"]["change"], abs=6e-4)
    assert page.table("Largest increases in variance")[-1][0] == found["styles"][-1]["style"]
    assert f"{found['num_variance_decreases']} styles fell" in page.words


def test_replies_to_the_same_prompts_stand_side_by_side(runs, page):
    _, (first, _), (_, replies) = runs
    answers = dict(zip(replies.prompts, replies.texts, strict=True))
    terms = page.terms()

    assert terms["rows"]
    for row, pairs in zip(terms["rows"], terms["pairs"], strict=True):
        examples = [
            [each["prompt"], each["reply"], answers[each["prompt"]], each["why"]]
            for each in first["generation"]["examples"]
            if (each["axis"], each["descriptor"]) == (row["axis"], row["name"])
        ]
        assert pairs == examples
        assert len(pairs) > 1


def test_without_the_files_beside_the_results_the_rest_is_compared(copied):
    for folder in copied:
        (folder / "style_means.parquet").unlink()
        shutil.rmtree(folder / "replies")

    page = compared(*copied, copied[0] / "c.html")

    assert "style_means.parquet is not there" in page.words
    assert "replies are not beside its results" in page.words
    assert page.table("Phrases in all replies")


def test_likelihood_alone_can_be_compared(copied):
    def likelihood_alone(results):
        del results["generation"], results["offensiveness"]

    change_results(copied[1], likelihood_alone)

    page = compared(*copied, copied[0] / "c.html")

    assert set(page.figures()) == {"likelihood-change"}
    assert "Measured in some of the runs only: generation (in before); offensiveness (in before)." in page.words
    assert page.terms() is None


def failing(arguments, capsys):
    with pytest.raises(SystemExit) as failed:
        main([str(argument) for argument in arguments])
    assert isinstance(failed.value.code, str)  # which Python prints, and exits with 1
    assert "\n" not in failed.value.code
    assert capsys.readouterr().out == ""
    return failed.value.code


def test_runs_without_anything_in_common_are_refused(copied, capsys):
    change_results(copied[0], lambda results: [results.pop(name) for name in ("generation", "offensiveness")])
    change_results(copied[1], lambda results: results.pop("likelihood_bias"))

    error = failing(copied, capsys)

    assert "measured likelihood_bias and" in error
    assert "a measurement in common" in error


def test_what_is_no_run_is_named(copied, tmp_path, capsys):
    assert "has no results.json" in failing([tmp_path], capsys)
    assert "has no results.json" in failing([copied[0], tmp_path / "nowhere"], capsys)
    (copied[0] / "results.json").write_text("[1]")
    assert "does not hold the results of a run" in failing([copied[0]], capsys)
    (copied[0] / "results.json").write_text("{")
    assert "cannot be read" in failing([copied[0]], capsys)
    (copied[0] / "results.json").write_text('{"run": {}}')
    assert "lack 'model'" in failing([copied[0]], capsys)
    assert "there is no folder" in failing([copied[1], "--output", tmp_path / "no" / "a.html"], capsys)


def test_one_folder_writes_its_report_anew(copied, capsys):
    main([str(copied[0])])

    assert capsys.readouterr().out == f"report: {(copied[0] / 'report.html').resolve()}\n"
    assert Page((copied[0] / "report.html").read_text(encoding="utf-8")).tiles


def test_two_folders_write_a_comparison(copied, tmp_path):
    main([*map(str, copied)])
    main([*map(str, copied), "--output", str(tmp_path / "mine.html")])

    assert (copied[1] / "comparison.html").read_bytes() == (tmp_path / "mine.html").read_bytes()
    assert re.search("<title>HolisticBias: before and after</title>", (tmp_path / "mine.html").read_text("utf-8"))


def test_the_comparison_is_sound_html(page):
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]

    assert page.open == []
    assert len(ids) == len(set(ids))
    assert set(page.figures()) <= set(ids)
    assert {attrs["href"][1:] for tag, attrs in page.elements if tag == "a" and attrs["href"][0] == "#"} <= set(ids)


CHOOSING = """
<script>
const select = document.getElementById("term-left");
select.focus();
select.selectedIndex = 2;
select.dispatchEvent(new Event("change"));
</script>
</body>"""


@needs_browser
def test_a_browser_draws_the_comparison_and_shows_both_runs_replies(runs, page, tmp_path):
    folder, (first, _), _ = runs
    path = tmp_path / "comparison.html"
    text = (folder / "comparison.html").read_text(encoding="utf-8")
    path.write_text(text.replace("</body>", CHOOSING), encoding="utf-8")

    shown = browse(path, tmp_path)

    for plot in page.figures():
        assert '<svg class="main-svg"' in shown.split(f' id="{plot}"')[1].split("</figure>")[0]
    row = first["generation"]["by_descriptor"][2]
    status = re.search(r'id="chosen-term"[^>]*>([^<]*)<', shown)[1]
    assert status.startswith(f"{row['descriptor']}, {row['num_replies']} and ")
    replies = shown.split('id="replies-left"')[1].split("</details>")[0]
    pairs = page.terms()["pairs"][2]
    assert all(before in replies and after in replies for _, before, after, _ in pairs)
