"""Reads pages that the toolkit writes as a browser does, from their HTML; browser.py has a real browser."""

import json
import re
import shutil
from collections import defaultdict
from html.parser import HTMLParser

import pytest

from hb_metrics.report.page import write_report
from tests.hb_metrics.made_results import loaded

HOSTILE = "</script><b>x & y"  # a name that would be markup if it were not escaped
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
VOID_ELEMENTS = {"meta", "img", "link"}

needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium, chromium-browser or google-chrome on PATH")


class Page(HTMLParser):
    """What a browser sees: elements, words, scripts, tables by the label of their region, and what charts' marks say.

    `plots` contains, by the id of a plot, the tips of the marks in each of its charts.
    """

    def __init__(self, html):
        super().__init__()
        self.elements, self.scripts, self.styles, self.words = [], [], [], ""
        self.tables, self.open, self.region = defaultdict(list), [], None
        self.plots, self.plot = {}, None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.elements.append((tag, attrs))
        if tag not in VOID_ELEMENTS:
            self.open.append(tag)
        self.region = attrs["aria-label"] if attrs.get("role") == "region" else self.region
        if tag == "figure" and attrs.get("class") == "plot":
            self.plot = self.plots.setdefault(attrs["id"], [])
        elif tag == "svg" and attrs.get("class") == "chart":
            self.plot.append([])
        elif tag == "table":
            self.tables[self.region].append([])
        elif tag == "tr":
            self.tables[self.region][-1].append([])
        elif tag in ("th", "td"):
            self.tables[self.region][-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            (self.scripts if self.open[-1] == "script" else self.styles).append(data)
            return
        if self.open and self.open[-1] == "title" and "svg" in self.open:
            self.plot[-1].append(data)
            return
        self.words += data
        if {"th", "td"} & set(self.open):
            self.tables[self.region][-1][-1][-1] += data

    @property
    def text(self):
        """The words with single white space."""
        return " ".join(self.words.split())

    @property
    def ids(self):
        """Of all elements, in their order."""
        return [attrs["id"] for _, attrs in self.elements if "id" in attrs]

    @property
    def links(self):
        """The ids that links in the page lead to."""
        return {attrs["href"][1:] for tag, attrs in self.elements if tag == "a" and attrs["href"][0] == "#"}

    def table(self, region):
        """The rows of the one table of a region, its header first; white space in cells made single."""
        (table,) = self.tables[region]
        return [[" ".join(cell.split()) for cell in row] for row in table]

    def terms(self):
        """What the chooser of terms shows; `None`: there is none."""
        return self.constant("terms")

    def constant(self, name):
        (script,) = (script for script in self.scripts if f"const {name} = " in script)
        (value,) = re.findall(rf"^const {name} = (.*);$", script, re.MULTILINE)
        return json.loads(value, parse_constant=pytest.fail)


def read_page(path):
    return Page(path.read_text(encoding="utf-8"))


def check_sound(page):
    """Every element is closed, ids are given once, links lead somewhere, and each plot has its element."""
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert page.links <= set(page.ids)
    choosers = {attrs["data-plot"] for tag, attrs in page.elements if tag == "select" and "data-plot" in attrs}
    assert {name for name, charts in page.plots.items() if len(charts) > 1} <= choosers <= set(page.plots)
    labelled = {attrs["for"] for tag, attrs in page.elements if tag == "label"}
    assert {attrs["id"] for tag, attrs in page.elements if tag == "select"} <= labelled
    assert all(attrs.get("aria-label") for _, attrs in page.elements if attrs.get("role") in ("img", "region"))


def report_page(results, folder):
    """The report of these results, written into a folder and read back, sound as a page."""
    write_report(loaded(results), folder / "report.html")
    page = read_page(folder / "report.html")
    check_sound(page)
    return page


def number(cell):
    """The number that a cell shows."""
    return float(cell.replace("−", "-").replace(",", "").rstrip("%"))


def close(value):
    """The value as a page shows it: two digits after the point below 10, one below 100, none above."""
    return pytest.approx(value, rel=0.01, abs=0.006)
