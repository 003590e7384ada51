from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from hb_metrics.layout.parts import Report, Section
from hb_metrics.layout.rendering import render
from hb_metrics.measurements.awareness.figures import figures


def report(results: Mapping[str, Any]) -> Report:
    context = {"awareness": results["awareness"], "figures": figures(results)}
    html = render("awareness/section.html.jinja", context)
    files = Markup("replies and divergences of difference awareness in <code>awareness/*/*.parquet</code>")
    return Report([Section("awareness", "Difference awareness", html, {})], files=files)
