import json
import re
import shutil
from pathlib import Path

import pytest

from hb_dataset import load_table
from hb_metrics.display.change_figure import Change
from hb_metrics.display.figures import axis_label
from hb_metrics.finished_run import Run
from hb_metrics.full_gen_bias.style_clusters import PAPER_CLUSTERS
from hb_metrics.measurements.generation.changes import dialogue_warnings, differing_settings, warnings
from hb_metrics.report import overview_markdown, paper, write_comparison
from hb_metrics.report.__main__ import main
from hb_metrics.report.page import EMBEDDED_STYLES
from hb_metrics.report.run_names import run_names
from tests.hb_metrics.test_report import HOSTILE, Page, browse, needs_browser, only
from tests.hb_metrics.test_report_comparison import change_results, failing, write_run
from tests.hb_metrics.test_report_generation import AXES, all_results, number

NAMES = ["before", "no_bias", "bias", "self-chat"]
BELOW_ZERO = AXES[1]  # its debiased value in the first run is made negative
TABLE_8 = "Full and Partial Gen Bias of the runs"
TABLE_9 = "Summed-Cluster Gen Bias of the runs"
TABLE_10 = "Full Gen Bias by axis of the runs"
TALK = "How the runs talk"

# What the paper prints of tuning: Tables 8 and 9 (Full Gen Bias, then clusters), and Table 10's two models.
TUNED_8 = """
DialoGPT self-chat tuning 2.98 0.82 0.04 0.09 0.02 0.03 0.05
DialoGPT bias tuning, β=0.0003 2.66 0.57 0.04 0.08 0.02 0.03 0.04
DialoGPT bias tuning, β=0.0010 2.68 0.57 0.04 0.08 0.02 0.04 0.04
DialoGPT bias tuning, β=0.0030 2.72 0.61 0.04 0.09 0.02 0.03 0.05
BlenderBot 2.0 3B self-chat tuning 10.82 3.41 1.54 0.75 0.77 0.59 0.43
BlenderBot 2.0 3B bias tuning, β=0.0010 6.81 1.30 1.12 0.34 0.27 0.50 0.32
BlenderBot 2.0 3B bias tuning, β=0.0030 6.74 1.15 1.18 0.35 0.25 0.58 0.31
BlenderBot 2.0 3B bias tuning, β=0.0100 7.43 1.39 1.33 0.45 0.31 0.56 0.33
"""
TUNED_9 = """
DialoGPT self-chat tuning 2.12 0.04 0.13 0.06 0.04 0.21
DialoGPT bias tuning, β=0.0003 1.43 0.04 0.12 0.05 0.05 0.16
DialoGPT bias tuning, β=0.0010 1.45 0.04 0.12 0.05 0.05 0.16
DialoGPT bias tuning, β=0.0030 1.54 0.04 0.12 0.05 0.05 0.16
BlenderBot 2.0 3B self-chat tuning 8.30 1.54 1.29 2.58 0.91 1.49
BlenderBot 2.0 3B bias tuning, β=0.0010 3.21 1.12 0.56 0.85 0.78 1.06
BlenderBot 2.0 3B bias tuning, β=0.0030 2.82 1.18 0.56 0.77 0.92 1.07
BlenderBot 2.0 3B bias tuning, β=0.0100 3.46 1.33 0.75 1.01 0.88 1.13
"""
TABLE_10_PRINTED = """
Ability 3.81 2.96 22% 9.59 7.59 21%
Age 2.31 2.32 0% 4.28 3.16 26%
Body type 2.55 2.37 7% 6.35 5.44 14%
Characteristics 3.35 2.93 13% 10.84 7.61 30%
Cultural 2.35 2.13 9% 7.64 5.75 25%
Gender and sex 2.61 2.54 3% 7.47 5.56 26%
Nationality 3.44 3.15 8% 3.74 3.39 9%
Nonce 2.11 1.93 9% 5.46 3.89 29%
Political ideologies 2.25 2.28 -1% 7.59 6.44 15%
Race and ethnicity 3.09 2.71 12% 5.78 4.63 20%
Religion 2.20 2.12 4% 5.40 3.92 27%
Sexual orientation 2.77 2.46 11% 7.48 4.99 33%
Socioeconomic class 3.36 2.64 21% 7.21 6.15 15%
"""


def tuned(results, *, model, tag, perplexity, scale):
    """Makes results those of another model, whose bias is so many times what it was, all alike."""
    results["run"]["model"] = {**results["run"]["model"], "name": model, "digest": model}
    results["run"]["generation"] = {"context": "chat", "tag": tag, "tag_reason": f"{tag} was asked for"}
    generation = results["generation"]
    for part in (generation["debiased"], generation["gen_bias"]["intervals"]):
        for metric in ("full_gen_bias", "by_axis", "partial_gen_bias", "summed_cluster_gen_bias"):
            part[metric] = scaled(part[metric], scale)
    if perplexity is not None:
        results["run"]["dialogue"] = {"source": "chats.csv", "digest": "dd", "num_replies": 90}
        results["dialogue"] = {
            "perplexity": perplexity,
            "interval": [perplexity - 2.5, perplexity + 3],
            "confidence_level": 0.95,
            "num_replies": 88,
            "num_tokens": 900,
            "num_skipped": {"too_long": 2},
            "source": "chats.csv",
        }


def scaled(found, scale):
    if found is None:
        return None
    if isinstance(found, dict):
        return {name: scaled(value, scale) for name, value in found.items()}
    return [scaled(value, scale) for value in found] if isinstance(found, list) else found * scale


def below_zero(results):
    results["generation"]["debiased"]["by_axis"][BELOW_ZERO] = -1.5
    results["generation"]["gen_bias"]["intervals"]["by_axis"][BELOW_ZERO] = [-4.0, 1.0]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Runs before tuning and after: asked with either tag, and tuned without tags, where dialogue is not measured."""
    root, prompts = tmp_path_factory.mktemp("tuning"), only(load_table("v1.0-small"), axis=AXES)
    write_run(root / "a", all_results(prompts), prompts)
    for folder in "bcd":
        shutil.copytree(root / "a", root / folder)
    change_results(root / "a", below_zero)
    for folder, changes in {
        "a": {"model": "small", "tag": None, "perplexity": 40.0, "scale": 1},
        "b": {"model": "tuned", "tag": "no_bias", "perplexity": 31.26, "scale": 0.05},
        "c": {"model": "tuned", "tag": "bias", "perplexity": 30.0, "scale": 1.1},
        "d": {"model": "self-chat", "tag": None, "perplexity": None, "scale": 1},
    }.items():
        change_results(root / folder, lambda results, changes=changes: tuned(results, **changes))
    return [root / folder for folder in "abcd"]


@pytest.fixture(scope="module")
def runs(folders):
    return [json.loads((folder / "results.json").read_text(encoding="utf-8")) for folder in folders]


def compared(folders, tmp_path, names=None):
    write_comparison(folders, tmp_path / "c.html", names)
    return Page((tmp_path / "c.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def page(folders, tmp_path_factory):
    return compared(folders, tmp_path_factory.mktemp("page"), NAMES)


@pytest.fixture
def copied(folders, tmp_path):
    """The runs' folders, to change."""
    return [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in folders]


def close(value):
    """The value as the page shows it: two digits after the point below 10, one below 100, none above."""
    return pytest.approx(value, rel=0.01, abs=0.006)


def told(cell):
    """A cell's value, and both ends of its interval: "3.04 2.10 to 3.90"."""
    value, _, interval = cell.partition(" ")
    return number(value), [number(end) for end in interval.split(" to ")] if interval else None


def ours(table, names=NAMES):
    """The rows of a table that stand before the paper's."""
    return [row for row in table if row[0].split(" 8 replies")[0] in names]


def test_table_8_has_a_row_for_each_run(runs, page):
    table = page.table(TABLE_8)

    assert table[1] == ["Run", "debiased", "plain", *PAPER_CLUSTERS]
    for name, row, results in zip(NAMES, ours(table), runs, strict=True):
        bias, debiased = results["generation"]["gen_bias"], results["generation"]["debiased"]
        assert row[0] == f"{name} 8 replies a cell"
        assert told(row[1]) == (close(debiased["full_gen_bias"]), close(bias["intervals"]["full_gen_bias"]))
        plain, noise = row[2].split(" noise ")
        assert (number(plain), number(noise)) == (close(bias["full_gen_bias"]), close(bias["noise_floor"]))
        for cluster, cell in zip(PAPER_CLUSTERS, row[3:], strict=True):
            expected = debiased["partial_gen_bias"][cluster], bias["intervals"]["partial_gen_bias"][cluster]
            assert told(cell) == (close(expected[0]), close(expected[1]))


def test_table_9_has_a_row_for_each_run(runs, page):
    table = page.table(TABLE_9)

    assert table[0] == ["Run", *PAPER_CLUSTERS]
    for row, results in zip(ours(table), runs, strict=True):
        values = results["generation"]["debiased"]["summed_cluster_gen_bias"]
        bounds = results["generation"]["gen_bias"]["intervals"]["summed_cluster_gen_bias"]
        for cluster, cell in zip(PAPER_CLUSTERS, row[1:], strict=True):
            assert told(cell) == (close(values[cluster]), close(bounds[cluster]))


def test_the_papers_runs_stand_below_ours(page):
    for region, printed, before in ((TABLE_8, TUNED_8, ["–"]), (TABLE_9, TUNED_9, [])):
        table = page.table(region)
        (at,) = (at for at, row in enumerate(table) if row[0].startswith("The paper's, for orientation"))
        rows, model = [], None
        for name, *cells in table[at + 1 :]:
            model = model if name.startswith("+ ") else name
            if name != model:
                rows.append([f"{model} {name.removeprefix('+ ')}", *cells])
        expected = (
            re.fullmatch(r"(.*?(?:tuning|β=\S+)) ([\d. ]+)", line).groups() for line in printed.split("\n")[1:-1]
        )
        assert rows == [[name, *before, *values.split()] for name, values in expected]


def test_table_10_tells_reductions_beside_the_papers(runs, page):
    table = page.table(TABLE_10)
    values = [results["generation"]["debiased"] for results in runs]
    bounds = [results["generation"]["gen_bias"]["intervals"] for results in runs]
    axes = sorted(AXES, key=lambda axis: -values[0]["by_axis"][axis])

    assert [cell for cell in table[0] if cell] == [*NAMES[1:], "in the paper"]
    assert [row[0] for row in table[2:]] == ["All terms", *map(axis_label, axes)]
    for axis, row in zip([None, *axes], table[2:], strict=True):
        first, *later = (each["full_gen_bias"] if axis is None else each["by_axis"][axis] for each in values)
        ends = [each["full_gen_bias"] if axis is None else each["by_axis"][axis] for each in bounds]
        assert told(row[1]) == (close(first), close(ends[0]))
        for place, value in enumerate(later):
            assert told(row[2 + 2 * place]) == (close(value), close(ends[1 + place]))
            reduction = row[3 + 2 * place]
            if first <= 0:
                assert reduction == "–"
            else:
                assert number(reduction) == pytest.approx(100 * (1 - value / first), abs=0.51)
    assert [row[3] for row in table if row[0] == axis_label(BELOW_ZERO)] == ["–"]
    assert [row[-2:] for row in table if row[0] == "Ability"] == [["22%", "21%"]]


@pytest.mark.parametrize(
    ("first", "second", "reduction"),
    [(4.0, 3.0, 0.25), (4.0, 5.0, -0.25), (4.0, -1.0, 1.25), (0.0, 1.0, None), (-2.0, -3.0, None), (None, 1.0, None)],
)
def test_a_reduction_is_a_share_of_what_is_above_zero(first, second, reduction):
    assert Change("", first, second).reduction == reduction
    assert Change("", first, None).reduction is None


def test_it_is_told_whether_intervals_are_apart(runs, page):
    words = " ".join(page.words.split())
    first, *later = (results["generation"] for results in runs)
    seen = set()
    for name, generation in zip(NAMES[1:], later, strict=True):
        (sentence,) = re.findall(rf"(?<!\w){name}: (Full Gen Bias is .*?\.) By axis, .*? of 3[.;]", words)
        before, after = (each["debiased"]["full_gen_bias"] for each in (first, generation))
        (low, high), (other_low, other_high) = (
            each["gen_bias"]["intervals"]["full_gen_bias"] for each in (first, generation)
        )
        overlap = low <= other_high and other_low <= high
        seen.add(overlap)
        if before == after:
            assert sentence.startswith("Full Gen Bias is the same as that of before")
            continue
        assert f"{abs(1 - after / before):.0%} {'lower' if after < before else 'higher'} than" in sentence
        assert ("overlap: the change may be chance" in sentence) == overlap
        assert ("apart: chance is a poor explanation" in sentence) == (not overlap)
    assert seen == {True, False}


def test_axes_with_intervals_apart_are_named(runs, page):
    intervals = [results["generation"]["gen_bias"]["intervals"]["by_axis"] for results in runs[:2]]
    values = [results["generation"]["debiased"]["by_axis"] for results in runs[:2]]
    axes = sorted(AXES, key=lambda axis: -values[0][axis])
    lower = [axis_label(axis) for axis in axes if intervals[1][axis][1] < intervals[0][axis][0]]
    higher = [axis_label(axis) for axis in axes if intervals[1][axis][0] > intervals[0][axis][1]]

    assert higher == [axis_label(BELOW_ZERO)]
    assert (
        f"intervals are apart in {len(lower) + 1} of 3; lower: {', '.join(lower)}; higher: {higher[0]}."
    ) in " ".join(page.words.split())
    assert "In 1 of 3 axes the interval of before itself holds 0" in page.words


def test_a_table_tells_whether_the_runs_still_talk(runs, page):
    rows = page.table(TALK)

    for row, results in zip(ours(rows), runs, strict=True):
        generation = results["generation"]
        assert row[1:5] == [
            f"{results['offensiveness']['replies']['offensive_share']:.1%}",
            f"{generation['parroting']['parroting_share']:.1%}",
            f"{5 / generation['num_prompts']:.1%} 5 of {generation['num_prompts']}",
            "12.5",
        ]
    assert [row[5] for row in ours(rows)] == ["40.0 37.5 to 43.0", "31.3 28.8 to 34.3", "30.0 27.5 to 33.0", "–"]
    assert rows[-1][:3] == ["BlenderBot 2.0 3B bias tuning", "14.2%", "20.0%"]
    assert "dialogue (in before, no_bias, bias)" in page.words


def test_figures_have_a_row_or_a_mark_for_each_run(runs, page):
    (full,) = page.figures()["runs-full"]
    lines, marks = full["data"][::2], full["data"][1::2]

    assert full["layout"]["yaxis"]["ticktext"] == NAMES[::-1]  # the first at the top
    for place, (line, mark, results) in enumerate(zip(lines, marks, runs, strict=True)):
        assert mark["x"] == [results["generation"]["debiased"]["full_gen_bias"]]
        assert line["x"][:2] == results["generation"]["gen_bias"]["intervals"]["full_gen_bias"]
        assert mark["y"] == [len(NAMES) - 1 - place] == line["y"][:1]
    assert len({(mark["marker"]["color"], mark["marker"]["symbol"]) for mark in marks}) == len(NAMES)
    figures = page.figures()["runs-clusters"]
    for figure, metric in zip(figures, ("partial_gen_bias", "summed_cluster_gen_bias"), strict=True):
        for mark, name, results in zip(figure["data"][1::2], NAMES, runs, strict=True):
            assert mark["name"] == name
            values = results["generation"]["debiased"][metric]
            assert dict(zip(mark["customdata"], mark["x"], strict=True)) == values
        heights = [height for mark in figure["data"][1::2] for height in mark["y"]]
        assert len(set(heights)) == len(heights)


def test_the_second_run_is_the_one_in_detail(folders, page, tmp_path):
    two = compared(folders[:2], tmp_path, NAMES[:2])

    assert page.words.count("First: before. Second: no_bias.") == 6
    for region in ("Partial Gen Bias by cluster", "Parroting", "Phrases in all replies", "Likelihood Bias by axis"):
        assert page.table(region) == two.table(region)
    assert page.tiles == two.tiles
    assert page.terms() == two.terms()
    assert page.terms()["names"] == NAMES[:2]
    assert two.table(TABLE_10)[2:] == [row[:4] + row[-2:] for row in page.table(TABLE_10)[2:]]
    assert "First: before. Second" not in two.words


def test_settings_of_all_runs_stand_beside_each_other(page):
    table = page.table("Settings that differ")

    assert table[0] == ["Setting", *NAMES]
    assert ["generation.tag", "null", "no_bias", "bias", "null"] in table
    assert ["dialogue.source", "chats.csv", "chats.csv", "chats.csv", "not measured"] in table
    assert "Read the comparison with care" not in page.words  # the tags and models are what is tried out
    assert "tuned, v1.0-small, asked with the control tag no_bias" in page.words


def test_a_later_run_is_warned_of_too(copied, tmp_path):
    change_results(copied[3], lambda results: results["run"]["style_classifier"].update(digest="99"))

    page = compared(copied, tmp_path)

    assert "Styles were classified by different classifiers." in page.words
    assert page.words.index("Read the comparison with care") < page.words.index("Gen Bias ×1000")


def test_a_tag_that_is_not_recorded_is_none():
    old, untagged, tagged = (
        {"generation": {"context": "chat", **tags}} for tags in ({}, {"tag": None}, {"tag": "no_bias"})
    )

    assert differing_settings([old, untagged]) == []
    (difference,) = differing_settings([old, untagged, tagged])
    assert difference == ("generation.tag", [None, None, "no_bias"])
    assert warnings([difference]) == []


def test_what_a_run_did_not_measure_contradicts_nothing():
    with_styles = {"style_classifier": {"name": "a", "digest": "1"}}

    (name, digest) = differing_settings([with_styles, {}])

    assert (name.values, digest.values) == (["a", "not measured"], ["1", "not measured"])
    assert warnings([name, digest]) == []
    assert warnings(differing_settings([with_styles, {}, {"style_classifier": {"name": "a", "digest": "2"}}]))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, None),
        ({"digest": "ee"}, "on different replies"),
        ({"num_replies": 87}, "on different replies"),
        ({"num_tokens": 800}, "different numbers of tokens"),
    ],
)
def test_dialogue_perplexities_of_other_replies_or_tokens_do_not_compare(change, words):
    measured = {"digest": "dd", "num_replies": 88, "num_tokens": 900}
    runs = [{"dialogue": each, "run": {"dialogue": each}} for each in (measured, measured | change)]

    found = dialogue_warnings([*runs, {"run": {}}])

    assert [words in warning for warning in found] == ([] if words is None else [True])


@pytest.mark.parametrize(("first", "second"), [(-2.0, 3.0), (4.0, -1.0)])
def test_a_change_from_or_to_below_zero_has_no_percentage_in_words(copied, tmp_path, first, second):
    for folder, value in zip(copied[:2], (first, second), strict=True):
        change_results(
            folder,
            lambda results, value=value: (
                results["generation"]["debiased"].update(full_gen_bias=value),
                results["generation"]["gen_bias"]["intervals"].update(full_gen_bias=[value - 1, value + 20]),
            ),
        )

    words = " ".join(compared(copied[:2], tmp_path, NAMES[:2]).words.split())

    told = f"no_bias: Full Gen Bias goes from {first:.2f} to {second:.2f}; the intervals, ".replace("-", "−")
    assert told in words
    assert "overlap: the change may be chance." in words


def test_without_debiasing_in_one_run_plain_values_are_compared(copied, tmp_path):
    def nothing_known(results):
        results["generation"]["debiased"] = None
        bias = results["generation"]["gen_bias"]
        bias |= {"noise_floor": None, "intervals": None, "full_gen_bias": 1.5 * bias["full_gen_bias"]}

    change_results(copied[2], nothing_known)

    page = compared(copied, tmp_path, NAMES)

    results = json.loads((copied[2] / "results.json").read_text(encoding="utf-8"))
    row = ours(page.table(TABLE_8))[2]
    assert row[1] == "–"
    assert number(row[2]) == close(results["generation"]["gen_bias"]["full_gen_bias"])
    assert [told(cell) for cell in row[3:]] == [
        (close(value), None) for value in results["generation"]["gen_bias"]["partial_gen_bias"].values()
    ]
    assert "Values are plain" in page.words
    assert "bias: Full Gen Bias is 50% higher" in " ".join(page.words.split())
    assert "without both intervals, chance cannot be told from change" in page.words


def test_a_run_without_replies_has_dashes(copied, tmp_path):
    change_results(copied[2], lambda results: [results.pop(name) for name in ("generation", "offensiveness")])

    page = compared(copied, tmp_path, NAMES)

    assert set(ours(page.table(TABLE_8))[2][1:]) == {"–"}
    assert {cell for row in page.table(TABLE_10)[2:] for cell in row[4:6]} == {"–"}
    assert ours(page.table(TALK))[2][1:] == ["–", "–", "–", "–", "30.0 27.5 to 33.0"]
    assert "bias: there is nothing to compare with before." in " ".join(page.words.split())


def test_dialogue_alone_can_be_compared(copied, tmp_path):
    def dialogue_alone(results):
        for name in ("generation", "offensiveness", "likelihood_bias"):
            del results[name]

    for folder in copied[:2]:
        change_results(folder, dialogue_alone)

    page = compared(copied[:2], tmp_path)

    assert [row[-1] for row in page.table(TALK)[1:3]] == ["40.0 37.5 to 43.0", "31.3 28.8 to 34.3"]
    assert page.figures() == {}
    assert TABLE_8 not in page.tables


def names_of(*described):
    """The names given to runs of (model, tag, folder)."""
    runs = [
        Run(Path(folder), {"run": {"model": {"name": model}, "generation": {"tag": tag}}})
        for model, tag, folder in described
    ]
    return run_names(runs)


def test_runs_are_named_by_the_first_thing_that_tells_all_of_them():
    assert names_of(("m", None, "x"), ("n", "bias", "y")) == ["m", "n"]
    assert names_of(("m", None, "x"), ("n", "no_bias", "y"), ("n", "bias", "z")) == [
        "m",
        "n, asked with no_bias",
        "n, asked with bias",
    ]
    assert names_of(("m", None, "r/x"), ("m", None, "r/y")) == ["x", "y"]
    assert names_of(("m", None, "r/x"), ("m", None, "s/x")) == ["1. x", "2. x"]


def test_names_are_one_a_run_and_distinct(folders, tmp_path, capsys):
    def error(*arguments):
        return failing([*arguments, "--output", tmp_path / "c.html"], capsys)

    assert "2 names for 3 runs" in error(*folders[:3], "--names", "one", "two")
    assert "'one' is the name of more than one run" in error(*folders[:2], "--names", "one", "one")
    assert "a run's name is empty" in error(*folders[:2], "--names", "one", " ")
    assert "--names are for telling runs apart" in error(folders[0], "--names", "one")
    assert list(tmp_path.iterdir()) == []


def test_one_run_is_no_comparison(folders, tmp_path):
    with pytest.raises(ValueError, match="1 run to compare; give the folders of two runs or more"):
        write_comparison(folders[:1], tmp_path / "c.html")


def test_every_later_run_has_something_in_common_with_the_first(copied, tmp_path, capsys):
    change_results(copied[0], lambda results: results.pop("likelihood_bias"))
    names = ("generation", "offensiveness", "dialogue")
    change_results(copied[2], lambda results: [results.pop(name) for name in names])

    assert f"and '{copied[2]}' likelihood_bias" in failing(copied[:3], capsys)


def test_the_command_names_the_runs(folders, tmp_path, capsys):
    path = tmp_path / "all.html"

    main([*map(str, folders), "--names", *NAMES, "--output", str(path)])

    assert capsys.readouterr().out == f"report: {path.resolve()}\n"
    text = path.read_text(encoding="utf-8")
    assert "<title>HolisticBias: before · no_bias · bias · self-chat</title>" in text
    page = Page(text)
    ids = [attrs["id"] for _, attrs in page.elements if "id" in attrs]
    assert page.open == []
    assert len(ids) == len(set(ids))
    assert set(page.figures()) <= set(ids)
    assert {attrs["href"][1:] for tag, attrs in page.elements if tag == "a" and attrs["href"][0] == "#"} <= set(ids)


def test_names_with_html_in_them_are_shown_as_they_are(folders, tmp_path):
    names = [HOSTILE, "a | b", "c", "d"]

    page = compared(folders, tmp_path, names)

    assert [row[0] for row in ours(page.table(TALK), names)] == names
    assert not {tag for tag, _ in page.elements} & {"b", "i", "img"}
    assert page.figures()["runs-clusters"][0]["data"][1]["name"] == HOSTILE.replace("&", "&amp;").replace(
        "<", "&lt;"
    ).replace(">", "&gt;")


def test_the_papers_numbers_of_tuning_are_those_it_prints():
    rows = {f"{row.model} {row.tuning}": row for row in paper.TUNING if row.tuning is not None}
    for printed, values in (
        (TUNED_8, lambda row: [row.full, *row.partial.values()]),
        (TUNED_9, lambda row: list(row.summed.values())),
    ):
        lines = printed.strip().split("\n")
        assert len(lines) == len(rows)
        for line, (name, row) in zip(lines, rows.items(), strict=True):
            assert line == f"{name} {' '.join(f'{value:.2f}' for value in values(row))}"
    for row in paper.TUNING:
        assert list(row.partial) == list(row.summed) == list(PAPER_CLUSTERS)
        if row.tuning is None:
            assert row.full == paper.FULL_GEN_BIAS[row.model]
    for line in TABLE_10_PRINTED.strip().split("\n"):
        axis, *printed = re.fullmatch(r"(\D+) (\S+) (\S+) (\S+) (\S+) (\S+) (\S+)", line).groups()
        (key,) = (key for key in paper.TUNED_GEN_BIAS_BY_AXIS["DialoGPT"] if axis_label(key) == axis)
        found = [
            cell
            for model in paper.REDUCTION
            for before, after in [(paper.GEN_BIAS_BY_AXIS[model][key], paper.TUNED_GEN_BIAS_BY_AXIS[model][key])]
            for cell in (f"{before:.2f}", f"{after:.2f}", f"{round(100 * (1 - after / before)):d}%")
        ]
        assert found == printed


def rows_of(markdown):
    table = markdown.split("\n\n")[0].split("\n")
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in table]


def test_markdown_has_a_column_for_each_run(folders, runs):
    head, rule, *rows = rows_of(overview_markdown(folders, NAMES))
    cells = {row[0]: row[1:] for row in rows}

    assert head == ["", *NAMES]
    assert rule == ["---", *["---:"] * 4]
    assert {len(row) for row in rows} == {5}
    expected = {
        "Full Gen Bias": ("full_gen_bias",),
        **{f"Partial Gen Bias, {cluster}": ("partial_gen_bias", cluster) for cluster in PAPER_CLUSTERS},
        **{f"Full Gen Bias, {axis_label(axis)}": ("by_axis", axis) for axis in AXES},
    }
    for label, path in expected.items():
        for cell, results in zip(cells.pop(label), runs, strict=True):
            found = [results["generation"]["debiased"], results["generation"]["gen_bias"]["intervals"]]
            for key in path:
                found = [part[key] for part in found]
            assert told(cell.replace("(", "").replace(")", "")) == (close(found[0]), close(found[1]))
    assert cells == {
        "Offensive replies": [f"{each['offensiveness']['replies']['offensive_share']:.1%}" for each in runs],
        "Parroting replies": [f"{each['generation']['parroting']['parroting_share']:.1%}" for each in runs],
        "Dialogue perplexity": ["40.0 (37.5 to 43.0)", "31.3 (28.8 to 34.3)", "30.0 (27.5 to 33.0)", "–"],
    }


def test_markdown_says_what_told_the_styles(copied):
    text = overview_markdown(copied)

    assert (
        "Styles of replies were classified by a/classifier. Offensive replies were classified by another/classifier."
        in text
    )
    assert "95% intervals in brackets" in text
    assert "embedded" not in text
    change_results(copied[0], lambda results: results["run"]["style_classifier"].update(name=EMBEDDED_STYLES))
    text = overview_markdown(copied)
    assert f"were classified by {EMBEDDED_STYLES}, a/classifier: different classifiers, whose figures do not" in text
    assert "The embedded one is much weaker than the paper's" in text


def test_markdown_leaves_out_what_no_run_has_and_keeps_names_in_their_cells(copied):
    for folder in copied[:2]:
        change_results(folder, lambda results: [results.pop(name) for name in ("dialogue", "generation")])

    text = overview_markdown(copied[:2], ["a | b", "<i>c\n*d*"])

    assert rows_of(text)[0] == ["", r"a \| b", r"\<i\>c \*d\*"]
    assert [row[0] for row in rows_of(text)[2:]] == ["Offensive replies"]
    assert "Gen Bias" not in text
    with pytest.raises(ValueError, match="1 names for 2 runs"):
        overview_markdown(copied[:2], ["one"])


CHOOSING = """
<script>
const select = document.getElementById("runs-metric");
select.selectedIndex = 1;
select.dispatchEvent(new Event("change"));
if (document.documentElement.scrollWidth > window.innerWidth) throw new Error("the page scrolls to the side");
document.body.dataset.done = "yes";
</script>
</body>"""


@needs_browser
def test_a_browser_draws_the_overview_on_a_narrow_page(folders, page, tmp_path):
    path = tmp_path / "comparison.html"
    write_comparison(folders, path, NAMES)
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", CHOOSING), encoding="utf-8")

    shown = browse(path, tmp_path, 500)

    assert 'data-done="yes"' in shown
    for plot in page.figures():
        assert '<svg class="main-svg"' in shown.split(f' id="{plot}"')[1].split("</figure>")[0]
    assert "Summed-Cluster Gen Bias ×1000" in shown.split(' id="runs-clusters"')[1].split("</figure>")[0]
    replies = shown.split('id="replies-left"')[1].split("</details>")[0]
    assert "first: before" in replies
    assert "second: no_bias" in replies
