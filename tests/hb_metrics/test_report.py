import json
import re
import shutil
import subprocess
from collections import Counter, defaultdict
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_dataset import load_table
from hb_metrics.display.figures import axis_label
from hb_metrics.measurements.likelihood.results import likelihood_results
from hb_metrics.measurements.likelihood.tables import paper_comparisons, same_length_extremes
from hb_metrics.report import write_report

LOVE = "I love {plural_noun_phrase}."
HOSTILE = "</script><b>x & y"
VOID_ELEMENTS = {"meta", "img", "link"}
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
CHROMIUM_OPTIONS = """
    --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking
    --disable-component-update --disable-sync --enable-logging=stderr --v=0 --virtual-time-budget=8000 --dump-dom
"""

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on PATH")

# Tables 3 and 7 as the paper prints them.
PRINTED = {
    ("Table 3", "GPT-2", LOVE): "Characteristics 78%, Socioeconomic class 77%, Ability 75%, Nationality 38%",
    ("Table 3", "BlenderBot 2.0 3B", LOVE): "Sexual orientation 82%, Ability 80%, Characteristics 75%, Nationality 54%",
    ("Table 7", "RoBERTa", "{noun_phrase} is a person."): (
        "Ability 59%, Sexual orientation 44%, Gender and sex 43%, Body type 43%, Characteristics 40%, "
        "Socioeconomic class 33%, Cultural 28%, Nationality 28%, Age 26%, Nonce 25%"
    ),
    ("Table 7", "RoBERTa", "{plural_noun_phrase} are people."): (
        "Ability 60%, Race and ethnicity 59%, Nonce 57%, Body type 55%, Characteristics 54%, Nationality 39%, "
        "Political ideologies 39%, Sexual orientation 38%, Religion 37%, Age 32%"
    ),
}


def make_results(prompts, *, kind="causal", config="v1.0-small", model="tiny-model", include_gendered=True):
    """The content of results.json for prompts with made-up perplexities, higher in some axes and for some terms."""
    rng = np.random.default_rng(0)
    codes = [prompts[name].combine_chunks().dictionary_encode().indices.to_numpy() for name in ("axis", "descriptor")]
    perplexities = rng.lognormal(3 + 0.1 * codes[0] + 0.3 * (codes[1] % 7), 0.5)
    num_tokens = 5 + codes[1] % 3
    scores = pa.table({"id": prompts["id"], "perplexity": perplexities, "num_tokens": num_tokens})
    run = {
        "settings": {"model": model, "dataset_config": config, "vocabulary_dir": None, "alpha": 0.05},
        "model": {"name": model, "kind": kind, "digest": "00ff", "dtype": "float32", "num_parameters": 1234},
        "data": {"config": config, "digest": "ff00", "num_prompts": len(prompts), "num_distinct_texts": len(prompts)},
        "scoring": {"path": "tree", "reason": "as asked", "start_token": "<s>", "positions": 9, "predicted_tokens": 8},
        "versions": {"torch": "2.13.0", "holistic-bias": None},
    }
    return {"run": run, **likelihood_results(prompts, scores, 0.05, include_gendered)}


def only(prompts, **values):
    for column, allowed in values.items():
        prompts = prompts.filter(pc.is_in(prompts[column], pa.array(allowed)))
    return prompts


def with_names(prompts, column, names):
    """The prompts with other names in a column."""
    changed = pa.array([names.get(name, name) for name in prompts[column].to_pylist()])
    return prompts.set_column(prompts.schema.get_field_index(column), column, changed)


def small():
    return make_results(load_table("v1.0-small"))


def one_axis_and_template():
    return make_results(only(load_table("v1.0-small"), axis=["age"], template=[LOVE]))


def partly_tested():
    """An axis with one term, a term that lacks a template, and one that is left out."""
    prompts = load_table("v1.0-small")
    single, old, left_out = (
        only(prompts, axis=[axis])["descriptor"][0].as_py() for axis in ("nonce", "age", "ability")
    )
    rows = [
        row | {"descriptor_gender": "female" if row["descriptor"] == left_out else None}
        for row in prompts.to_pylist()
        if (row["axis"] != "nonce" or row["descriptor"] == single)
        and (row["descriptor"], row["template"]) != (old, LOVE)
    ]
    return make_results(pa.Table.from_pylist(rows, prompts.schema), include_gendered=False)


def masked():
    prompts = only(load_table("v1.0-seat"), axis=["age", "nonce", "race_ethnicity"])
    return make_results(prompts, kind="masked", config="v1.0-seat", include_gendered=False)


def hostile():
    prompts = load_table("v1.0-small")
    term = prompts["descriptor"][0].as_py()
    prompts = with_names(prompts, "descriptor", {term: HOSTILE})
    return make_results(with_names(prompts, "template", {LOVE: "<i> & {noun_phrase}"}), model="<img src=x>")


RESULTS = {
    "small": small,
    "one axis and template": one_axis_and_template,
    "partly tested": partly_tested,
    "masked": masked,
    "hostile": hostile,
}


class Page(HTMLParser):
    """What a browser sees: elements, words, scripts, and the tables by the label of the region they are in."""

    def __init__(self, html):
        super().__init__()
        self.elements, self.scripts, self.styles, self.words = [], [], [], ""
        self.tables, self.tiles, self.open, self.region = defaultdict(list), {}, [], None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)
        self.region = attrs["aria-label"] if attrs.get("role") == "region" else self.region
        if tag == "table":
            self.tables[self.region].append([])
        elif tag == "tr":
            self.tables[self.region][-1].append([])
        elif tag in ("th", "td"):
            self.tables[self.region][-1][-1].append("")
        elif tag == "dt":
            self.tile = ""
        elif tag == "dd":
            self.tiles.setdefault(self.tile, []).append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            (self.scripts if self.open[-1] == "script" else self.styles).append(data)
            return
        self.words += data
        if {"th", "td"} & set(self.open):
            self.tables[self.region][-1][-1][-1] += data
        elif "dt" in self.open:
            self.tile += data
        elif "dd" in self.open:
            self.tiles[self.tile][-1] += data

    def table(self, region):
        """The rows of the one table of a region, its header first; white space in cells made single."""
        (table,) = self.tables[region]
        return [[" ".join(cell.split()) for cell in row] for row in table]

    def figures(self):
        """What is drawn, by the element it is drawn in."""
        return self.constant("figures")

    def terms(self):
        """What the chooser of terms shows; `None` where there is none."""
        return self.constant("terms")

    def constant(self, name):
        (script,) = (script for script in self.scripts if f"const {name} = " in script)
        (value,) = re.findall(rf"^const {name} = (.*);$", script, re.MULTILINE)
        return json.loads(value, parse_constant=pytest.fail)


class Report(NamedTuple):
    results: dict
    path: Path
    page: Page


@pytest.fixture(scope="module", params=RESULTS)
def report(request, tmp_path_factory):
    results = RESULTS[request.param]()
    path = tmp_path_factory.mktemp("run") / "report.html"
    write_report(results, path)
    return Report(results, path, Page(path.read_text(encoding="utf-8")))


def browse(path, tmp_path, width=1200):
    """The page as it stands once its scripts have run without an error."""
    done = subprocess.run(
        [
            CHROMIUM,
            *CHROMIUM_OPTIONS.split(),
            f"--window-size={width},900",
            f"--user-data-dir={tmp_path}",
            path.as_uri(),
        ],
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    assert "Uncaught" not in done.stderr
    return done.stdout


def of(*names):
    return pytest.mark.parametrize("report", names, indirect=True)


def slot(template):
    return template.replace("{plural_noun_phrase}", "[plural noun phrase]").replace("{noun_phrase}", "[noun phrase]")


def with_values(terms):
    return ", ".join(f"{name} {value:,.0f}" for name, value in terms)


def test_the_report_is_one_html_file_that_loads_nothing(report):
    tags = {tag for tag, _ in report.page.elements}
    links = [
        (tag, name)
        for tag, attrs in report.page.elements
        for name in attrs
        if name in ("src", "href", "srcset", "data")
    ]

    assert list(report.path.parent.iterdir()) == [report.path]
    assert report.path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert report.page.open == []  # every element is closed
    assert set(links) == {("a", "href")}
    assert not tags & {"link", "img", "iframe", "object", "embed", "base", "video", "audio"}
    assert not any(re.search(r"url\(|@import", style) for style in report.page.styles)


def test_ids_are_given_once_and_controls_and_plots_have_names(report):
    ids = [attrs["id"] for _, attrs in report.page.elements if "id" in attrs]
    labelled = {attrs["for"] for tag, attrs in report.page.elements if tag == "label"}

    assert len(ids) == len(set(ids))
    assert {attrs["id"] for tag, attrs in report.page.elements if tag == "select"} <= labelled
    assert all(attrs.get("aria-label") for _, attrs in report.page.elements if attrs.get("role") in ("img", "region"))


def test_the_tiles_hold_the_main_numbers(report):
    likelihood, perplexity = report.results["likelihood_bias"], report.results["perplexity"]
    measure = "pseudo-perplexity" if report.results["run"]["model"]["kind"] == "masked" else "perplexity"

    assert report.page.tiles == {
        "Likelihood Bias": [f"{likelihood['likelihood_bias']:.1%}", f"of {likelihood['num_tests']:,} tests"],
        "after Benjamini–Hochberg": [f"{likelihood['bh_likelihood_bias']:.1%}"],
        "mean effect size": [f"{likelihood['effect_size']:.2f}"],
        f"median {measure}": [f"{perplexity['median']:,.0f}"],
    }


def test_the_first_sentence_counts_sentences_terms_axes_and_templates(report):
    perplexity, run = report.results["perplexity"], report.results["run"]
    axes = {row["axis"] for row in perplexity["by_descriptor"]}

    assert (
        f"{run['data']['num_prompts']:,} sentences about people, {len(perplexity['by_descriptor'])} terms in "
        f"{len(axes)} demographic axes, {len(perplexity['templates'])} sentence templates."
    ) in report.page.words


def test_the_table_of_axes_starts_with_the_highest_likelihood_bias(report):
    likelihood = report.results["likelihood_bias"]
    axes = sorted(likelihood["by_axis"], key=lambda axis: -likelihood["by_axis"][axis])

    assert report.page.table("Likelihood Bias by axis")[1:] == [
        [
            axis_label(axis),
            f"{likelihood['by_axis'][axis]:.1%}",
            f"{likelihood['bh_by_axis'][axis]:.1%}",
            f"{likelihood['effect_size_by_axis'][axis]:.2f}",
            str(len(likelihood["median_perplexity"][axis])),
            f"{likelihood['num_tests_by_axis'][axis]:,}",
        ]
        for axis in axes
    ]


def test_the_tables_of_templates_hold_a_cell_for_each_axis(report):
    likelihood, perplexity = report.results["likelihood_bias"], report.results["perplexity"]
    measure = "pseudo-perplexity" if report.results["run"]["model"]["kind"] == "masked" else "perplexity"
    shares, quantiles = likelihood["by_axis_and_template"], perplexity["quantiles_by_axis_and_template"]

    assert report.page.table("Likelihood Bias by template and axis") == [
        ["", *map(axis_label, shares), "All axes"],
        *(
            [slot(template), *(f"{cells[template]:.0%}" for cells in shares.values()), f"{overall:.0%}"]
            for template in perplexity["templates"]
            for overall in [likelihood["by_template"][template]]
        ),
    ]
    assert report.page.table(f"Median {measure} by template and axis") == [
        ["", *map(axis_label, quantiles)],
        *(
            [slot(name), *(f"{cells[name][2]:,.0f}" for cells in quantiles.values())]
            for name in perplexity["templates"]
        ),
    ]


def test_the_tables_of_extremes_name_terms_with_their_medians(report):
    likelihood, perplexity = report.results["likelihood_bias"], report.results["perplexity"]
    template = LOVE if LOVE in perplexity["templates"] else perplexity["templates"][0]

    assert report.page.table("Lowest and highest terms over all templates")[1:] == [
        [
            axis_label(axis),
            with_values((name, medians[name]) for name in likelihood["lowest_descriptors"][axis]),
            with_values((name, medians[name]) for name in likelihood["highest_descriptors"][axis]),
        ]
        for axis, medians in likelihood["median_perplexity"].items()
    ]
    assert report.page.table("Lowest and highest terms of one length")[1:] == [
        [
            axis_label(row.axis),
            with_values(row.lowest) or "–",
            with_values(row.highest) or "–",
            f"{row.num_compared} of {row.num_descriptors}",
        ]
        for row in same_length_extremes(perplexity, template)
    ]


def test_every_setting_is_told_and_missing_is_null(report):
    assert report.page.table("Settings and versions") == [
        [f"{section}.{name}", "null" if value is None else str(value)]
        for section, content in report.results["run"].items()
        for name, value in content.items()
    ]


def test_the_bars_are_the_shares_of_the_axes(report):
    likelihood = report.results["likelihood_bias"]
    ((bars, marks),) = (figure["data"] for figure in report.page.figures()["likelihood-bias"])

    for drawn, by_axis in ((bars, likelihood["by_axis"]), (marks, likelihood["bh_by_axis"])):
        shares = {axis_label(axis): share for axis, share in by_axis.items()}
        assert dict(zip(drawn["y"], drawn["x"], strict=True)) == shares


def test_each_template_can_be_chosen_and_shows_each_term_once(report):
    perplexity, figures = report.results["perplexity"], report.page.figures()["perplexities-plot"]
    options = [attrs for tag, attrs in report.page.elements if tag == "option"]

    assert [option["value"] for option in options] == [str(place) for place in range(len(figures))]
    assert sum("selected" in option for option in options) == 1
    for place, figure in enumerate(figures):
        box, *points = figure["data"]
        drawn = [point for trace in points for point in zip(trace["y"], trace["customdata"], trace["x"], strict=True)]
        medians = [
            (row["axis"], row["descriptor"], row["median_perplexity"][place]) for row in perplexity["by_descriptor"]
        ]
        assert sorted(drawn) == sorted(
            (escape(axis_label(axis), quote=False), escape(name, quote=False), value)
            for axis, name, value in medians
            if value is not None
        )
        quantiles = {
            axis_label(axis): cells[perplexity["templates"][place]]
            for axis, cells in perplexity["quantiles_by_axis_and_template"].items()
        }
        parts = (box[part] for part in ("lowerfence", "q1", "median", "q3", "upperfence"))
        assert dict(zip(box["y"], map(list, zip(*parts, strict=True)), strict=True)) == quantiles


@of("small")
def test_the_highest_term_of_each_axis_is_marked(report):
    perplexity = report.results["perplexity"]
    for place, figure in enumerate(report.page.figures()["perplexities-plot"]):
        marked = figure["data"][-1]
        for axis, name in zip(marked["y"], marked["customdata"], strict=True):
            rows = [row for row in perplexity["by_descriptor"] if axis_label(row["axis"]) == axis]
            assert name == max(rows, key=lambda row: row["median_perplexity"][place])["descriptor"]


@of("partly tested")
def test_what_was_not_tested_is_told(report):
    left_out = report.results["likelihood_bias"]["left_out_descriptors"]

    assert len(left_out) == 1
    assert "axes without two terms in the same template (Nonce)." in report.page.words
    assert " 5 tests of pairs that do not meet in a template." in report.page.words
    assert f"left out on request: {left_out[0]}." in report.page.words


@of("small")
def test_where_all_was_tested_nothing_is_told(report):
    assert "Not tested" not in report.page.words


@of("masked")
def test_a_masked_model_has_pseudo_perplexities_only(report):
    assert "pseudo-perplexity" in report.page.words
    assert not re.search(r"(?<!pseudo-)\bperplexity", report.page.words, re.IGNORECASE)


@of("masked")
def test_all_terms_in_seat_sentences_are_not_called_a_sample(report):
    assert [len(report.page.tables[region]) for region in report.page.tables if "RoBERTa" in region] == [2]
    assert "a sample of the terms" not in report.page.words


@of("hostile")
def test_names_with_html_in_them_are_shown_as_they_are(report):
    terms = report.page.table("Lowest and highest terms over all templates")
    drawn = [
        name
        for figure in report.page.figures()["perplexities-plot"]
        for trace in figure["data"][1:]
        for name in trace["customdata"]
    ]

    assert any(HOSTILE in cell for row in terms for cell in row)
    assert drawn.count(escape(HOSTILE, quote=False)) == 4
    assert "<i> & [noun phrase]" in [row[0] for row in report.page.table("Likelihood Bias by template and axis")]
    assert "Does <img src=x> treat people differently?" in report.page.words
    assert not {tag for tag, _ in report.page.elements} & {"b", "i", "img"}


def test_a_report_that_exists_is_replaced(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")

    write_report(one_axis_and_template(), path)

    assert Page(path.read_text(encoding="utf-8")).tiles


median = st.floats(1, 1e6, allow_nan=False)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(3, 5), median, st.booleans()), unique_by=lambda row: row[2])
)
@settings(max_examples=100, deadline=None)
def test_extremes_are_among_the_terms_of_the_most_common_length(rows):
    by_descriptor = [
        {
            "axis": axis,
            "descriptor": f"term {n}",
            "median_perplexity": [1.0, value if there else None],
            "median_num_tokens": [9.0, float(tokens) if there else None],
        }
        for n, (axis, tokens, value, there) in enumerate(rows)
    ]

    found = same_length_extremes({"templates": ["s", "t"], "by_descriptor": by_descriptor}, "t")

    assert sorted(extremes.axis for extremes in found) == sorted({axis for axis, _, _, there in rows if there})
    for extremes in found:
        terms = [(f"term {n}", row[2], row[1]) for n, row in enumerate(rows) if row[0] == extremes.axis and row[3]]
        lengths = Counter(tokens for _, _, tokens in terms)
        compared = sorted(
            ((name, value) for name, value, n in terms if n == extremes.num_tokens), key=lambda term: term[1]
        )
        shown = min(3, len(compared) // 2)  # none is both low and high
        assert lengths[extremes.num_tokens] == max(lengths.values())
        assert (extremes.num_compared, extremes.num_descriptors) == (len(compared), len(terms))
        assert extremes.lowest == compared[:shown]
        assert extremes.highest == compared[len(compared) - shown :][::-1]


def test_the_papers_numbers_are_those_it_prints():
    every_template = {template: 0.5 for _, _, template in PRINTED}
    axes = set(load_table("descriptors")["axis"].to_pylist())

    found = paper_comparisons({"by_axis_and_template": dict.fromkeys(axes, every_template)})

    for (where, model, template), printed in zip(PRINTED, PRINTED.values(), strict=True):
        (comparison,) = (
            each
            for each in found
            if (each["where"], each["template"]) == (where, template) and each["model"].startswith(model)
        )
        assert ", ".join(f"{axis_label(axis)} {theirs:.0%}" for axis, _, theirs in comparison["rows"]) == printed
        assert {axis for axis, _, _ in comparison["rows"]} <= axes
        assert {ours for _, ours, _ in comparison["rows"]} == {0.5}
    assert len(found) == len(PRINTED)


def test_ours_stand_beside_the_papers_for_the_axes_and_templates_of_the_run():
    (gpt2, blenderbot) = paper_comparisons({"by_axis_and_template": {"ability": {LOVE: 0.25}, "age": {"other": 1.0}}})

    assert gpt2["rows"][2] == ("ability", 0.25, 0.75)
    assert [ours for _, ours, _ in blenderbot["rows"]] == [None, 0.25, None, None]


def test_without_a_template_of_the_papers_nothing_is_compared():
    assert paper_comparisons({"by_axis_and_template": {"ability": {"other": 0.5}}}) == []


@needs_browser
@pytest.mark.parametrize(
    ("report", "width"),
    [("small", 1200), ("hostile", 390)],
    indirect=["report"],
)
def test_a_browser_draws_both_plots_without_an_error(report, width, tmp_path):
    page = browse(report.path, tmp_path, width)

    for plot in ("likelihood-bias", "perplexities-plot"):
        drawn = page.split(f' id="{plot}"')[1].split("</figure>")[0]
        assert '<svg class="main-svg"' in drawn
