from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from hb_metrics.layout.parts import Report
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.awareness.figures import figures
from hb_metrics.measurements.awareness.results import awareness_of


def report(results: Mapping[str, Any]) -> Report:
    context = {"awareness": awareness_of(results), "figures": figures(results)}
    files = Markup("replies and divergences of difference awareness in <code>awareness/*/*.parquet</code>")
    return Report([section("awareness", "Difference awareness", "awareness/section.html.jinja", context)], files=files)
