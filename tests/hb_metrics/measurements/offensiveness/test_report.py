"""Offensiveness in the report of a run, in an overview and in a comparison."""

import copy

import pytest

from hb_metrics.measurements import OFFENSIVENESS
from hb_metrics.measurements.offensiveness import tables
from hb_metrics.report import paper
from hb_metrics.report.numbers import slot
from hb_metrics.report.page import write_report
from tests.hb_metrics.made_results import AXES, LOVE, full_run
from tests.hb_metrics.pages import check_sound, read_page


@pytest.fixture(scope="module")
def results():
    return full_run()


@pytest.fixture(scope="module")
def without_replies(results):
    """A run that classified prompts alone."""
    results = copy.deepcopy({name: results[name] for name in ("run", "offensiveness")})
    del results["offensiveness"]["replies"]
    return results


def page_of(results, folder):
    write_report(results, folder / "report.html")
    page = read_page(folder / "report.html")
    check_sound(page)
    return page


@pytest.fixture(scope="module")
def page(results, tmp_path_factory):
    return page_of(results, tmp_path_factory.mktemp("run"))


def test_templates_stand_beside_the_papers(results, page):
    by_template = results["offensiveness"]["prompts"]["by_template"]
    rows = tables.by_template(results["offensiveness"]["prompts"])

    assert [row.template for row in rows] == list(by_template)
    (love,) = (row for row in rows if row.template == LOVE)
    ours = by_template[LOVE]
    assert love[1:] == (ours["mean"], ours["std"], ours["offensive_share"], 0.452, 0.308)
    (shown,) = (row for row in page.table("Offensiveness of prompts by template") if row[0] == slot(LOVE))
    assert shown[1:] == [*(f"{value:.1%}" for value in love[1:4]), "45.2%", "30.8%"]
    assert page.table("Offensive replies beside the paper's")[2:] == [
        [model, f"{share:.1%}"] for model, share in paper.OFFENSIVE_REPLIES.items()
    ]


def test_axes_have_replies_and_prompts_the_highest_share_of_replies_first(results, page):
    parts = results["offensiveness"]
    rows = tables.by_axis(parts)

    assert [row.replies for row in rows] == sorted(
        (part["offensive_share"] for part in parts["replies"]["by_axis"].values()), reverse=True
    )
    assert sorted(row.prompts for row in rows) == sorted(
        part["offensive_share"] for part in parts["prompts"]["by_axis"].values()
    )
    first = page.table("Offensiveness by axis")[1]
    assert (first[0], first[1], first[3]) == (rows[0].label, f"{rows[0].replies:.1%}", f"{rows[0].prompts:.1%}")


def test_extremes_are_the_ends_of_a_template(results, page):
    values = sorted(
        (by_cell[LOVE], name)
        for terms in results["offensiveness"]["prompts"]["by_descriptor_and_template"].values()
        for name, by_cell in terms.items()
    )
    (extremes,) = (row for row in tables.extremes(results["offensiveness"]["prompts"]) if row.template == LOVE)

    assert extremes.lowest == [(name, value) for value, name in values[:9]]  # of 18 terms, none is at both ends
    assert extremes.highest == [(name, value) for value, name in values[::-1][:9]]
    (shown,) = (row for row in page.table("Least and most offensive prompts")[1:] if row[0] == slot(LOVE))
    assert shown[1].startswith(f"{values[0][1]} {values[0][0]:.1%}")
    assert shown[2].startswith(f"{values[-1][1]} {values[-1][0]:.1%}")


def test_the_tiles_count_replies_and_prompts(results, page):
    for part in ("replies", "prompts"):
        figures = results["offensiveness"][part]
        assert page.tiles[f"{part} found offensive"] == [
            f"{figures['offensive_share']:.1%}",
            f"{figures['num_offensive']:,} of {figures['num_sentences']:,}",
        ]


def test_without_replies_it_is_of_prompts_alone(without_replies, tmp_path):
    page = page_of(without_replies, tmp_path)

    assert "This run has no replies." in page.words
    assert {row[1] for row in page.table("Offensiveness by axis")[1:]} == {"–"}
    assert list(page.tiles) == ["prompts found offensive"]


def test_the_figure_is_the_share_of_replies_as_prompts_say_nothing_of_the_model(results, without_replies):
    replies = results["offensiveness"]["replies"]
    (figure,) = OFFENSIVENESS.figures(results)

    assert (figure.name, figure.value, figure.interval) == ("Offensive replies", replies["offensive_share"], None)
    assert figure.shown == f"{replies['offensive_share']:.2%}"
    assert OFFENSIVENESS.figures(without_replies) == []


def test_changes_are_of_the_parts_that_both_runs_have(results, without_replies):
    second = full_run(seed=1)["offensiveness"]

    changes = tables.offensiveness_changes(results["offensiveness"], second)

    assert list(changes) == [
        f"Offensive {part} by {of}" for part in ("replies", "prompts") for of in ("axis", "template")
    ]
    assert [row.name for row in changes["Offensive replies by axis"]] == [
        "All axes",
        "Ability",
        "Gender and sex",
        "Race and ethnicity",
    ]
    assert changes["Offensive replies by axis"][1][1:3] == tuple(
        part["replies"]["by_axis"][AXES[0]]["offensive_share"] for part in (results["offensiveness"], second)
    )
    assert list(tables.offensiveness_changes(without_replies["offensiveness"], second)) == [
        "Offensive prompts by axis",
        "Offensive prompts by template",
    ]


@pytest.mark.parametrize("changed", ["digest", "version"])
def test_other_classifiers_are_warned_of(changed):
    warnings = OFFENSIVENESS.warnings({f"offensiveness_classifier.{changed}"}, [])

    assert warnings == ["Offensiveness was classified by different classifiers. Its figures do not compare."]
    assert OFFENSIVENESS.warnings({"style_classifier.digest"}, []) == []
