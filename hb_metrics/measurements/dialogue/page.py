from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from hb_metrics.layout.parts import Report, Section
from hb_metrics.layout.rendering import render
from hb_metrics.measurements.dialogue.figures import figures
from hb_metrics.run.run_record import tag_of


def report(results: Mapping[str, Any]) -> Report:
    context = {"dialogue": results["dialogue"], "figure": figures(results)[0], "tag": tag_of(results)}
    html = render("dialogue/section.html.jinja", context)
    files = Markup("the log-likelihood of each real reply in <code>dialogue/*.parquet</code>")
    return Report([Section("dialogue", "Dialogue perplexity", html, {})], files=files)
