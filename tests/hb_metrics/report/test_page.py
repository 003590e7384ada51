"""The report of a run: one file that loads nothing, with a part for each measurement of the run and for no other."""

import copy
import json
import re
from itertools import pairwise

import pytest

from hb_metrics.collect.classifiers.presets import suggested
from hb_metrics.layout.numbers import axis_label, p_words
from hb_metrics.measurements import MEASUREMENTS
from tests.hb_metrics.browser import open_browser
from tests.hb_metrics.made_results import AXES, full_run, loaded, reddit_run, reddit_test, whole_run
from tests.hb_metrics.pages import HOSTILE, needs_browser, report_page

SECTIONS = {measurement.name: {measurement.name} for measurement in MEASUREMENTS}
SECTIONS["likelihood"] |= {"attitude-contrast"}
SECTIONS["generation"] |= {"terms", "frequency", "refusals", "checks"}


@pytest.fixture(scope="module")
def results():
    return whole_run()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("run")


@pytest.fixture(scope="module")
def page(results, folder):
    return report_page(results, folder)


def test_the_box_names_the_next_better_classifiers(results, tmp_path):
    options = {"style_classifier": "style", "offensiveness_classifier": "offensiveness", "regard": "regard"}
    run = results["run"]
    embedded = {section: {**run[section], "is_embedded": True} for section in options}
    text = report_page({**results, "run": {**run, **embedded}}, tmp_path).text
    for name in options.values():
        assert suggested(f"--{name}_classifier") in text


@pytest.mark.parametrize("name", SECTIONS)
def test_a_run_of_one_measurement_on_a_sample_has_a_report(results, name, tmp_path):
    (measurement,) = (measurement for measurement in MEASUREMENTS if measurement.name == name)
    names = {name, *measurement.reads}
    run = {part: about for part, about in copy.deepcopy(results["run"]).items() if part not in {*SECTIONS} - names}
    run["settings"]["sample"], run["data"]["num_cells"] = 20, run["data"]["num_prompts"]
    text = report_page({"run": run, **{part: results[part] for part in names}}, tmp_path).text
    assert "These sentences are a sample" in text
    assert ("With one reply to each prompt" in text) == ("generation" in names)


def test_axes_with_one_term_have_no_gen_bias(results, tmp_path):
    run, generation = results["run"], copy.deepcopy(results["generation"])
    for values in (generation["gen_bias"], generation["debiased"]):
        values["by_axis"] = {}
    alone = report_page({"run": run, "generation": generation}, tmp_path)
    assert "These values show how much reply styles differ" not in alone.text


def test_a_verdict_on_decisions_is_not_contradicted(results, tmp_path):
    run, generation = copy.deepcopy(results["run"]), copy.deepcopy(results["generation"])
    generation["short_share"], generation["refusals"]["refusals"]["p_between_axes"] = 1.0, None  # no verdict on style
    run["style_classifier"]["is_embedded"], pair = True, "Two replies to the same sentence"
    alone = report_page({"run": run, "generation": generation}, tmp_path).text
    assert "compare both runs" not in alone
    both = report_page({"run": run, "generation": generation, "decisions": results["decisions"]}, tmp_path).text
    assert "Yes: decisions are less favourable" in both
    assert pair not in both
    assert "compare both runs" in both
    assert "Use the figures of generation bias for trials" in both


def test_what_decides_the_verdict_is_on_the_first_screen(tmp_path):
    results, reddit = full_run(), reddit_run(race=reddit_test(-0.5))
    results |= {"reddit": reddit["reddit"], "run": reddit["run"] | results["run"]}
    results["generation"]["short_share"] = 1.0
    first_screen = report_page(results, tmp_path).text.partition("Not tested")[0]
    assert "Yes." in first_screen
    assert "the stereotyped side is likelier beyond chance" in first_screen


def test_no_p_value_is_0():
    shown = ["p < 0.001", "p < 0.001", "p = 0.001", "p = 0.046", "p = 1.000"]
    assert [p_words(value) for value in (0.0, 0.0009, 0.001, 0.0456, 1.0)] == shown


def test_the_report_is_one_sound_file_that_loads_nothing(folder, page):
    tags = {tag for tag, _ in page.elements}
    links = [(tag, name) for tag, attrs in page.elements for name in attrs if name in ("src", "href", "srcset", "data")]
    levels = [int(tag[1]) for tag, _ in page.elements if re.fullmatch("h[1-6]", tag)]

    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below <= above + 1 for above, below in pairwise(levels))
    assert [path.name for path in folder.iterdir()] == ["report.html"]
    assert set(links) == {("a", "href")}
    assert not tags & {"link", "img", "iframe", "object", "embed", "base", "video", "audio"}
    assert not any(re.search(r"url\(|@import", style) for style in page.styles)


ALONE = [(*measurement.reads, measurement.name) for measurement in MEASUREMENTS]


@pytest.mark.parametrize("kept", [(), *ALONE, ("generation", "offensiveness")])
def test_only_what_was_measured_has_a_section(results, tmp_path, kept):
    page = report_page({name: results[name] for name in ("run", *kept)}, tmp_path)

    expected = {"reading", "how"}.union(*(SECTIONS[name] for name in kept))
    assert set(page.ids) & {"reading", "how"}.union(*SECTIONS.values()) == expected
    assert page.links == {"main"} | expected | ({"figures"} if kept else set())
    assert (page.terms() is None) == ("generation" not in kept)
    assert ("Main figures" in page.tables) == bool(kept)


def test_main_figures_and_every_part_are_in_a_table(results, page):
    main = {row[0]: row[1:3] for row in page.table("Main figures")[1:]}
    cells = {cell for tables in page.tables.values() for table in tables for row in table for cell in row}
    words = {" ".join(cell.split()) for cell in cells}
    for measurement in MEASUREMENTS:
        for figure in measurement.parts.figures(loaded(results)):
            if figure.part_of:
                assert figure.shown in words
                assert figure.shown_interval in words
                assert all(number.shown in " ".join(words) for number in figure.beside.values())
            elif figure.is_main and figure.value is not None:
                assert main[figure.name] == [figure.shown, figure.interval_words]


def without_intervals(part, path=""):
    """Removes all intervals, and names the place of each as the reason for its absence."""
    if not isinstance(part, dict):
        return part
    known = {name: without_intervals(value, f"{path} {name}") for name, value in part.items()}
    if {"interval", "reason"} <= part.keys():
        return known | {"interval": None, "reason": f"few{path}"}
    if part.get("intervals"):
        return known | {"intervals": None, "no_intervals": reasons(part["intervals"], path)}
    return known


def reasons(bounds, path):
    if isinstance(bounds, dict):
        return {name: reasons(value, f"{path} {name}") for name, value in bounds.items()}
    return bounds and f"few{path}"


def test_the_page_states_why_an_interval_is_missing(results, tmp_path):
    results = {name: part if name == "run" else without_intervals(part, name) for name, part in results.items()}
    listed = [figure for measurement in MEASUREMENTS for figure in measurement.figures(loaded(results))]
    why = {figure.no_interval for figure in listed if figure.interval is None and figure.value is not None}
    page = report_page(results, tmp_path)
    assert len(why) > 40
    assert [reason for reason in why - {None} if reason not in page.text] == []


# Chooses the second axis, then its last term and a term beside it, as the keyboard does; opens the examples.
CHOOSING = """
for (const [id, index] of [["axis-left", 1], ["term-left", 5], ["axis-right", 2], ["term-right", 1]]) {
  const select = document.getElementById(id);
  select.focus();
  if (document.activeElement !== select) throw new Error("no focus on " + id);
  select.selectedIndex = index;
  select.dispatchEvent(new Event("change", {bubbles: true}));
}
document.getElementById("examples").open = true;
document.getElementById("strip-cluster").selectedIndex = 3;
document.getElementById("strip-cluster").dispatchEvent(new Event("change"));
if (document.documentElement.scrollWidth > window.innerWidth) throw new Error("the page scrolls to the side");
"""


@needs_browser
@pytest.mark.parametrize("width", [500, pytest.param(1200, marks=pytest.mark.long)])
def test_a_browser_draws_plots_and_terms_can_be_chosen(results, page, folder, tmp_path, width):
    rows = results["generation"]["by_descriptor"]
    left = [row for row in rows if row["axis"] == AXES[1]][5]
    right = next(row for row in rows if row["axis"] == AXES[2])  # after "none" in the list

    with open_browser(tmp_path / "profile", tmp_path / "saved") as browser:
        browser.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        browser.open(folder / "report.html")
        browser.run("location.hash = 'terms'")  # as the link in the contents does
        browser.wait("document.getElementById('terms').closest('details').open")
        browser.run(CHOOSING)
        shown = "document.querySelector('#terms-plot > :not([hidden])')"
        assert "probability of Confusion" in browser.run(f"{shown}.textContent")
        assert browser.run(f"{shown}.querySelector('svg').getBoundingClientRect().width") > 300
        html = browser.run("document.documentElement.outerHTML")
        for part, place in (("template", 6), ("style", 3), ("flag", 0)):
            of_left = page.terms()["examples"][results["generation"]["by_descriptor"].index(left)]
            values = [page.terms()["templates"][reply[6]] if part == "template" else reply[place] for reply in of_left]
            browser.run(f"menu = document.getElementById('reply-{part}'); menu.value = {json.dumps(values[-1])}")
            browser.run("menu.dispatchEvent(new Event('input'))")
            number = browser.run("document.querySelectorAll('#replies-left .example').length")
            assert 0 < number == values.count(values[-1])
            browser.run("menu.value = ''; menu.dispatchEvent(new Event('input'))")
        browser.run("box = document.getElementById('reply-filter'); box.value = 'no such'")
        browser.run("box.dispatchEvent(new Event('input'))")
        assert browser.text("#replies-left").endswith("No such replies.")
        assert browser.of("Runtime.exceptionThrown") == []

    status = re.search(r'id="chosen-term"[^>]*>([^<]*)<', html)[1]
    assert status.startswith(f"{right['descriptor']}, {right['num_replies']} replies. Sympathy ")
    values = html.split('id="values-left"')[1].split("</table>")[0]
    assert f"{left['descriptor']} ({axis_label(AXES[1])})" in values
    assert f"{100 * left['clusters']['Confusion']:.2f}%" in values
    replies = html.split('id="replies-left"')[1].split('id="replies-right"')[0]
    for example in results["generation"]["examples"]:
        if (example["axis"], example["descriptor"]) == (left["axis"], left["descriptor"]):
            assert example["reply"] in replies


def test_names_and_replies_with_html_are_shown_as_text(tmp_path):
    results = full_run()
    term = results["generation"]["by_descriptor"][0]["descriptor"]
    results = json.loads(json.dumps(results).replace(json.dumps(term), json.dumps(HOSTILE)))
    for example in results["generation"]["examples"]:
        example["reply"] = HOSTILE + "\u2028\x85"

    page = report_page(results, tmp_path)

    assert HOSTILE in [row[0] for row in page.table("All terms")]
    assert {example[2] for examples in page.terms()["examples"] for example in examples} == {HOSTILE + "\u2028\x85"}
    assert not {tag for tag, _ in page.elements} & {"b", "i", "img"}
