from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from hb_metrics.layout.parts import Report
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.dialogue.figures import figures
from hb_metrics.measurements.dialogue.results import dialogue_of
from hb_metrics.run.run_record import tag_of


def report(results: Mapping[str, Any]) -> Report:
    context = {"dialogue": dialogue_of(results), "figure": figures(results)[0], "tag": tag_of(results)}
    files = Markup("the log-likelihood of each real reply in <code>dialogue/*.parquet</code>")
    return Report([section("dialogue", "Dialogue perplexity", "dialogue/section.html.jinja", context)], files=files)
