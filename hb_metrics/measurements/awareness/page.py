from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from hb_metrics.measurements.awareness.figures import figures
from hb_metrics.report.layout.parts import Report
from hb_metrics.report.layout.rendering import section


def report(results: Mapping[str, Any]) -> Report:
    context = {"awareness": results["awareness"], "figures": figures(results)}
    files = Markup("replies and divergences of difference awareness in <code>awareness/*/*.parquet</code>")
    return Report([section("awareness", "Difference awareness", "awareness/section.html.jinja", context)], files=files)
