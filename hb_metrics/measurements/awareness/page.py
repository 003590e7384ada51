from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from hb_metrics.measurements.awareness.figures import figures
from hb_metrics.report.layout.parts import Report, Section
from hb_metrics.report.layout.rendering import render


def report(results: Mapping[str, Any]) -> Report:
    context = {"awareness": results["awareness"], "figures": figures(results)}
    html = render("awareness/section.html.jinja", context)
    files = Markup("replies and divergences of difference awareness in <code>awareness/*/*.parquet</code>")
    return Report([Section("awareness", "Difference awareness", html, {})], files=files)
