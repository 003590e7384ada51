"""Runs side by side: any that have a measurement in common, what differs, and the first two in detail."""

import shutil
from pathlib import Path

import pytest

from hb_metrics.report.comparison import OTHER_PROMPTS_WARNING, comparison_warnings, write_comparison
from hb_metrics.report.differences import differing_settings
from tests.hb_metrics.made_results import (
    add_dialogue,
    change_results,
    dialogue_run,
    full_run,
    likelihood_run,
    read_results,
    reddit_run,
    reddit_test,
    regard_of,
    regard_run,
    robustness_of,
    robustness_run,
    some_prompts,
    write_results,
    write_run,
    write_tuning_runs,
)
from tests.hb_metrics.pages import HOSTILE, browse, check_drawn, check_sound, needs_browser, read_page

NAMES = ["before", "no_bias", "bias", "self-chat"]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    return write_tuning_runs(tmp_path_factory.mktemp("tuning"))


def compared(folders, folder, names=None):
    write_comparison(folders, folder / "comparison.html", names)
    page = read_page(folder / "comparison.html")
    check_sound(page)
    return page


@pytest.fixture(scope="module")
def page(folders, tmp_path_factory):
    return compared(folders, tmp_path_factory.mktemp("page"), NAMES)


@pytest.fixture
def copied(folders, tmp_path):
    """The runs' folders, to change."""
    return [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in folders]


ALONE = {
    "likelihood": (
        lambda: (likelihood_run(some_prompts()), likelihood_run(some_prompts())),
        {"likelihood"},
        {"runs-likelihood", "likelihood-change"},
    ),
    "dialogue": (
        lambda: (dialogue_run(40.0, (37.5, 43.0)), dialogue_run(31.26, (28.76, 34.26))),
        {"dialogue"},
        {"runs-dialogue", "change-dialogue"},
    ),
    "reddit": (
        lambda: (reddit_run(), reddit_run(28.0, race=reddit_test(-0.1), gender=reddit_test(0.3))),
        {"reddit"},
        {"runs-reddit"},
    ),
    "regard": (
        lambda: tuple(regard_run(regard_of(gaps={"orientation": gap}, num_structures=6)) for gap in (0.8, -0.4)),
        {"regard"},
        {"runs-regard", "change-regard"},
    ),
    "robustness": (
        lambda: tuple(
            {name: part for name, part in robustness_run(**change).items() if name in ("run", "robustness")}
            for change in ({}, {"full_gen_bias": robustness_of(3)["full_gen_bias"]})
        ),
        {"robustness"},
        {"runs-robustness"},
    ),
    "offensiveness": (
        lambda: tuple(
            {name: part for name, part in full_run(seed=seed).items() if name in ("run", "offensiveness")}
            for seed in (0, 1)
        ),
        {"offensiveness"},
        {"runs-offensiveness", "offensiveness-change"},
    ),
}


@pytest.mark.parametrize("name", ALONE)
def test_two_runs_of_one_measurement_can_be_compared(name, tmp_path):
    make, sections, plots = ALONE[name]
    folders = [write_results(tmp_path / side, results) for side, results in zip("ab", make(), strict=True)]

    page = compared(folders, tmp_path, ["one", "two"])

    assert page.links - {"main", "overview", "settings", "reading"} == sections
    assert set(page.figures()) == plots
    assert "overview" in page.ids
    assert page.tiles
    assert all(" → " in values[0] for values in page.tiles.values())
    assert page.terms() is None
    if "chance is a poor explanation" in page.text:
        assert "Where two 95% intervals overlap, they leave open whether it changed" in page.text


def test_a_measurement_of_one_run_is_named_and_left_out(copied, tmp_path):
    change_results(
        copied[1], lambda results: [results.pop(name) for name in ("generation", "offensiveness", "dialogue")]
    )

    page = compared(copied[:2], tmp_path, NAMES[:2])

    assert set(page.figures()) == {"likelihood-change", "runs-likelihood"}
    assert (
        "Measured in some of the runs only: Generation bias (in before); Offensiveness (in before); Dialogue "
        "perplexity (in before)."
    ) in page.text
    assert page.terms() is None


def test_runs_without_anything_in_common_are_refused(tmp_path):
    folders = [
        write_results(tmp_path / "a", add_dialogue(regard_run(regard_of(num_structures=3)))),
        write_results(tmp_path / "b", dialogue_run()),
        write_results(tmp_path / "c", likelihood_run(some_prompts())),
        write_results(tmp_path / "d", {"run": dialogue_run()["run"]}),
    ]

    with pytest.raises(ValueError, match=r"measured dialogue, regard and '.*c' likelihood; give runs that have a"):
        write_comparison(folders[:3], tmp_path / "comparison.html")
    with pytest.raises(ValueError, match=r"'.*d' nothing; give runs that have a measurement in common"):
        write_comparison([folders[0], folders[3]], tmp_path / "comparison.html")
    assert not (tmp_path / "comparison.html").exists()


def test_one_run_is_no_comparison(folders, tmp_path):
    with pytest.raises(ValueError, match="1 run to compare; give the folders of two runs or more"):
        write_comparison(folders[:1], tmp_path / "comparison.html")


def test_the_overview_has_a_part_for_each_measurement_of_two_runs(page):
    overviews = ["overview-likelihood", "overview-generation", "overview-offensiveness", "overview-dialogue"]

    assert [id for id in page.ids if id in overviews] == overviews
    assert page.table("Dialogue perplexity of the runs") == [
        ["Figure", *NAMES],
        ["Dialogue perplexity", "40.0 37.5 to 43.0", "31.3 28.8 to 34.3", "30.0 27.5 to 33.0", "–"],
    ]
    assert "Dialogue perplexity (in before, no_bias, bias)" in page.words


def test_the_second_run_is_the_one_in_detail(folders, page, tmp_path):
    two = compared(folders[:2], tmp_path, NAMES[:2])

    assert "All that follows puts the first run, before, beside the second, no_bias." in page.text
    assert "All that follows" not in two.text
    for region in ("Partial Gen Bias by cluster", "Parroting", "Phrases in all replies", "Likelihood Bias by axis"):
        assert page.table(region) == two.table(region)
    assert page.table("Dialogue perplexity of both runs") == two.table("Dialogue perplexity of both runs")
    assert page.tiles == two.tiles
    assert page.terms() == two.terms()
    assert page.terms()["names"] == NAMES[:2]
    table_10 = "Full Gen Bias by axis of the runs"
    assert two.table(table_10)[2:] == [row[:4] + row[-2:] for row in page.table(table_10)[2:]]


def test_settings_of_all_runs_stand_beside_each_other(page):
    table = page.table("Settings that differ")

    assert table[0] == ["Setting", *NAMES]
    assert ["generation.tag", "null", "no_bias", "bias", "null"] in table
    assert ["dialogue.source", "chats.csv", "chats.csv", "chats.csv", "not measured"] in table
    assert "Read the comparison with care" not in page.words  # the tags and models are what is tried out
    assert "tuned, v1.0-small, asked with the control tag no_bias" in page.words


def test_settings_that_differ_come_first(tmp_path):
    base = full_run()
    write_run(tmp_path / "before", base)
    write_run(tmp_path / "after", base, seed=1, replies_per_cell=9)

    page = compared([tmp_path / "before", tmp_path / "after"], tmp_path)

    assert page.table("Settings that differ")[1:] == [["settings.replies_per_cell", "8", "9"]]
    assert "different numbers of replies" in page.words
    assert page.words.index("Read the comparison with care") < page.words.index("Gen Bias ×1000")


def test_the_same_run_differs_in_nothing(folders, tmp_path):
    page = compared([folders[0], folders[0]], tmp_path, ["a", "b"])

    assert "Nothing: both runs have the same model" in page.words
    assert "Read the comparison with care" not in page.words


def test_other_classifiers_prompts_and_tests_are_warned_of(copied, tmp_path):
    def other(results):
        results["run"]["style_classifier"] = {"name": "third/classifier", "digest": "99"}
        results["run"]["offensiveness_classifier"]["digest"] = "98"
        results["run"]["data"]["digest"] = "97"

    change_results(copied[3], other)  # a later run is warned of too

    page = compared(copied, tmp_path)

    for words in (
        OTHER_PROMPTS_WARNING,
        "Styles were classified by different classifiers. No Gen Bias value",
        "Offensiveness was classified by different classifiers. Its figures do not compare.",
    ):
        assert words in page.text
    assert page.words.index("Read the comparison with care") < page.words.index("Gen Bias ×1000")


def test_what_a_run_did_not_measure_contradicts_nothing():
    with_styles = {"style_classifier": {"name": "a", "digest": "1"}}
    results = [{"run": {}, "generation": {}}] * 2

    (name, digest) = differing_settings([with_styles, {}])

    assert (name.values, digest.values) == (["a", "not measured"], ["1", "not measured"])
    assert not name.contradicts
    assert comparison_warnings([name, digest], results) == []
    other = differing_settings([with_styles, {}, {"style_classifier": {"name": "a", "digest": "2"}}])
    assert [difference.contradicts for difference in other] == [False, True]
    assert len(comparison_warnings(other, results)) == 1


def test_a_setting_that_one_run_does_not_record_is_named_so():
    (difference,) = differing_settings(
        [{"generation": {"context": "chat"}}, {"generation": {"context": "chat", "b": 1}}]
    )

    assert difference == ("generation.b", ["not recorded", 1])


def test_names_with_html_in_them_are_shown_as_they_are(folders, tmp_path):
    page = compared(folders, tmp_path, [HOSTILE, "a | b", "c", "d"])

    assert page.table("How the runs reply")[1][0] == HOSTILE
    assert not {tag for tag, _ in page.elements} & {"b", "i", "img"}


# In the overview, shows the other metric; in the details, the third term of the first axis.
CHOOSING = """
<script>
for (const [id, index] of [["runs-metric", 1], ["term-left", 2]]) {
  const select = document.getElementById(id);
  select.focus();
  select.selectedIndex = index;
  select.dispatchEvent(new Event("change"));
}
if (document.documentElement.scrollWidth > window.innerWidth) throw new Error("the page scrolls to the side");
document.body.dataset.done = "yes";
</script>
</body>"""


@needs_browser
@pytest.mark.parametrize("width", [500, pytest.param(1200, marks=pytest.mark.long)])
def test_a_browser_draws_the_comparison_and_shows_both_runs_replies(folders, page, tmp_path, width):
    path = tmp_path / "comparison.html"
    write_comparison(folders, path, NAMES)
    path.write_text(path.read_text(encoding="utf-8").replace("</body>", CHOOSING), encoding="utf-8")
    row = read_results(folders[0])["generation"]["by_descriptor"][2]

    html = browse(path, tmp_path, width)

    assert 'data-done="yes"' in html
    check_drawn(html, page.figures())
    assert "Summed-Cluster Gen Bias ×1000" in html.split(' id="runs-clusters"')[1].split("</figure>")[0]
    status = html.split('id="chosen-term"')[1].split("</p>")[0]
    assert f">{row['descriptor']}, {row['num_replies']} and " in status
    replies = html.split('id="replies-left"')[1].split("</details>")[0]
    assert "first: before" in replies
    assert "second: no_bias" in replies
    pairs = page.terms()["pairs"][2]
    assert pairs
    assert all(before in replies and after in replies for _, before, after, _ in pairs)


@needs_browser
def test_a_browser_draws_pages_made_of_figures_alone(tmp_path):
    results = [regard_run(regard_of(gaps={"orientation": gap}, num_structures=6)) for gap in (0.8, -0.4)]
    folders = [write_results(tmp_path / side, run) for side, run in zip("ab", results, strict=True)]

    page = compared(folders, tmp_path, ["one", "two"])

    check_drawn(browse(tmp_path / "comparison.html", tmp_path / "profile", 500), page.figures())
