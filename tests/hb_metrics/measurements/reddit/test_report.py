"""Language Model Bias in the report of a run: the answer, the tiles, the table and the figures."""

import pytest

from hb_metrics.measurements import REDDIT
from hb_metrics.measurements.reddit.report import reddit_answer
from hb_metrics.report.page import write_report
from tests.hb_metrics.made_results import reddit_run, reddit_test
from tests.hb_metrics.pages import check_sound, read_page

UNDEFINED = dict.fromkeys(("t", "t_log", "p_value", "p_value_log", "effect_size_log", "wilcoxon_p_value"))
START = "Phrases that say something stereotyped of a group, beside the same of another group. "
CAUTION = " Leaving out outliers makes such a test find a difference by chance more often than its significance level."


def made_test(t_log, p_value, share=0.625, num_pairs=1200, **change):
    return {
        "t_log": t_log,
        "p_value_log": p_value,
        "share_t1_likelier": share,
        "num_pairs": num_pairs,
        "alpha": 0.05,
        "outliers": "none",
        **change,
    }


@pytest.mark.parametrize(
    ("test", "answer"),
    [
        (
            made_test(-2.5, 0.01),
            "Race: the stereotyped side is likelier by more than chance (t of logs −2.50; the stereotyped side is "
            "likelier in 62.5% of 1,200 pairs).",
        ),
        (
            made_test(2.5, 0.01, 0.4),
            "Race: the other side is likelier by more than chance (t of logs 2.50; the stereotyped side is likelier in "
            "40.0% of 1,200 pairs).",
        ),
        (
            made_test(-1.5, 0.13),
            "Race: no difference stands out from chance (t of logs −1.50; the stereotyped side is likelier in 62.5% of "
            "1,200 pairs).",
        ),
        (
            made_test(-1.96, 0.05),
            "Race: no difference stands out from chance (t of logs −1.96; the stereotyped side is likelier in 62.5% of "
            "1,200 pairs).",
        ),
        (
            made_test(-2.5, 0.01, outliers="pair"),
            "Race: the stereotyped side is likelier by a test without outliers (t of logs −2.50; the stereotyped side "
            f"is likelier in 62.5% of 1,200 pairs).{CAUTION}",
        ),
        (
            made_test(-1.5, 0.13, outliers="pair"),
            "Race: no difference stands out from chance (t of logs −1.50; the stereotyped side is likelier in 62.5% of "
            "1,200 pairs).",
        ),
        (made_test(None, None, num_pairs=1), "Race: cannot be known from 1 pair."),
        (made_test(None, None, num_pairs=2), "Race: cannot be known from 2 pairs."),
    ],
)
def test_the_answer_says_no_more_than_the_test(test, answer):
    assert reddit_answer({"by_bias_type": {"race": test}}) == START + answer


def test_the_answer_has_a_part_for_each_bias_type():
    answer = reddit_answer({"by_bias_type": {"religion1": made_test(-2.5, 0.01), "gender": made_test(None, None)}})

    assert answer.startswith(f"{START}Religion 1 (Jews): the stereotyped side is likelier by more than chance (")
    assert answer.endswith("; Gender: cannot be known from 1,200 pairs.")


@pytest.fixture(scope="module")
def results():
    return reddit_run(
        race=reddit_test(-0.5), gender=reddit_test(0.0, seed=3), orientation=reddit_test(num_pairs=1, **UNDEFINED)
    )


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    write_report(results, folder / "report.html")
    page = read_page(folder / "report.html")
    check_sound(page)
    return page


def test_tiles_and_table_have_a_test_for_each_bias_type(results, page):
    tests = results["reddit"]["by_bias_type"]

    for name in ("race", "gender"):
        value, logs = (f"{tests[name][key]:.2f}".replace("-", "−") for key in ("t", "t_log"))
        assert page.tiles[f"Language Model Bias, {name.capitalize()}"] == [f"t {value}", f"of logs {logs}"]
    assert page.tiles["Language Model Bias, Orientation"] == ["–", "of logs –"]
    assert page.tiles["LMP"] == ["31.5"]
    rows = {row[0]: row[1:] for row in page.table("Language Model Bias by bias type")[1:]}
    assert list(rows) == ["Race", "Gender", "Orientation"]  # undefined ones last
    assert rows["Race"][-2:] == [f"{tests['race']['share_t1_likelier']:.1%}", "200"]
    assert rows["Orientation"][:6] == ["–"] * 6
    assert "3 texts could not be scored and are left out." in page.text


def test_the_figures_are_three_for_each_bias_type_and_lmp(results):
    figures = {figure.name: figure for figure in REDDIT.figures(results)}
    race = results["reddit"]["by_bias_type"]["race"]

    assert len(figures) == 10
    assert figures["Language Model Bias, Race"].value == race["t"]
    assert figures["Language Model Bias of logs, Race"].value == race["t_log"]
    assert figures["Stereotyped side likelier, Race"].shown == f"{race['share_t1_likelier']:.1%}"
    assert figures["LMP"].shown == "31.5"
    assert all("negative: the stereotyped side is likelier" in figures[name].meaning for name in list(figures)[:2])
    assert figures["Language Model Bias, Orientation"].shown == "–"
