"""Writes a page as a single file that loads no other files."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from hb_dataset.whole_files import write_text
from hb_metrics.layout import numbers, paper

_PACKAGE = Path(__file__).parents[1]
_plotly_js = cache(get_plotlyjs)  # reading the file takes a sixth of the time needed to write a page
_FILTERS = ("slot", "axis_label", "term_names", "share", "bias", "signed_share", "fixed", "count")
# The name of a template contains its folder, such as "report/report.html.jinja" or "judge/section.html.jinja".
_LOADER = jinja2.FileSystemLoader([_PACKAGE / "layout", _PACKAGE, _PACKAGE / "measurements"], encoding="utf-8")
_ENVIRONMENT = jinja2.Environment(
    loader=_LOADER, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_ENVIRONMENT.filters |= {name: getattr(numbers, name) for name in _FILTERS}


def render(template: str, context: dict[str, Any]) -> Markup:
    try:
        return Markup(_ENVIRONMENT.get_template(template).render(paper=paper, shade=_shade, **context))
    except jinja2.UndefinedError as error:
        raise KeyError(str(error)) from error


def write_page(template: str, path: Path, context: dict[str, Any], figures: dict[str, Any], terms: Any = None) -> None:
    """Writes a page as one file, with styles, scripts and data inside.

    `template` extends `base.html.jinja`. `figures` maps the id of each HTML element to its Plotly figures. If an
    element has several figures, readers choose the one to show. Readers also choose a term from `terms` (see
    `page.js`).
    """
    data = {"figures": for_script(figures), "terms": for_script(terms)}
    write_text(path, render(template, {**context, **data, "plotly_js": _plotly_js()}))


def for_script(content: Any) -> str:
    return json.dumps(content, separators=(",", ":"), ensure_ascii=False).translate(_ESCAPES)


# Some programs read these separators as ends of lines. JavaScript does not.
_ESCAPES = {ord("<"): "\\u003c", 0x2028: "\\u2028", 0x2029: "\\u2029", 0x85: "\\u0085"}


def _shade(value: float) -> str:
    red, green, blue = (round(255 + (target - 255) * value) for target in (0, 114, 178))
    return f"background:rgb({red},{green},{blue});color:{'white' if value > 0.9 else '#111827'}"
