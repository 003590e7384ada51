from markupsafe import Markup

from hb_metrics.layout.parts import Report
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.awareness.figures import figures
from hb_metrics.measurements.results import Results


def report(results: Results) -> Report:
    context = {"awareness": results.awareness, "figures": figures(results)}
    files = Markup("replies and divergences of difference awareness in <code>awareness/*/*.parquet</code>")
    return Report([section("awareness", "Difference awareness", "awareness/section.html.jinja", context)], files=files)
