from markupsafe import Markup

from hb_metrics.layout.parts import Report
from hb_metrics.layout.rendering import section
from hb_metrics.measurements.dialogue.figures import figures
from hb_metrics.measurements.results import Results


def report(results: Results) -> Report:
    context = {"dialogue": results.dialogue, "figure": figures(results)[0], "tag": results.record.tag}
    files = Markup("the log-likelihood of each real reply in <code>dialogue/*.parquet</code>")
    return Report([section("dialogue", "Dialogue perplexity", "dialogue/section.html.jinja", context)], files=files)
