"""Writes a page as a single file that loads no other files."""

import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import jinja2
from markupsafe import Markup

from hb_dataset.whole_files import write_text
from hb_metrics.layout import numbers, paper
from hb_metrics.layout.figure import Figure, table_notes
from hb_metrics.layout.parts import Section
from hb_metrics.layout.plots import Plot

_PACKAGE = Path(__file__).parents[1]
_FILTERS = (
    "and_list", "axis_label", "bias", "count", "fixed", "p_value", "p_words",
    "share", "signed_share", "slot", "term_names",
)  # fmt: skip
# The name of a template contains its folder, such as "report/report.html.jinja" or "judge/section.html.jinja".
_LOADER = jinja2.FileSystemLoader([_PACKAGE / "layout", _PACKAGE, _PACKAGE / "measurements"], encoding="utf-8")
_ENVIRONMENT = jinja2.Environment(
    loader=_LOADER, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_ENVIRONMENT.filters |= {name: getattr(numbers, name) for name in _FILTERS} | {"table_notes": table_notes}


def render(template: str, context: Mapping[str, object]) -> Markup:
    return Markup(_ENVIRONMENT.get_template(template).render(paper=paper, shade=_shade, **context))


def section(
    id: str,
    title: str,
    template: str,
    context: Mapping[str, object],
    plots: Mapping[str, Sequence[Plot]] = MappingProxyType({}),
) -> Section:
    """Returns a section of a page. `plots` maps the ids of charts to their variants, from which readers choose one."""
    return Section(id, title, partial(render, template, {**context, "plots": plots}))


def figures_section(
    id: str, title: str, sentences: Sequence[str], tables: Mapping[str, Sequence[Figure]] = MappingProxyType({})
) -> Section:
    """Returns a section of paragraphs and tables. `tables` maps the heading of the first column to a table's rows."""
    return section(id, title, "figures.html.jinja", {"sentences": sentences, "tables": tables})


def write_page(template: str, path: Path, context: Mapping[str, object], terms: Any = None) -> None:
    """Writes a page as one file, with styles, scripts and data inside.

    `template` extends `base.html.jinja`. Readers choose a term from `terms` (see `page.js`).
    """
    write_text(path, render(template, {**context, "terms": for_script(terms)}))


def for_script(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPES)


# Some programs read these separators as ends of lines. JavaScript does not.
_ESCAPES = {ord("<"): "\\u003c", 0x2028: "\\u2028", 0x2029: "\\u2029", 0x85: "\\u0085"}


def _shade(value: float) -> str:
    return f"background:rgb(0 114 178 / {round(60 * value)}%)"
