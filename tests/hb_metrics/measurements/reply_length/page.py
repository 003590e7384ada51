"""Its part of the report."""

from pathlib import Path

from markupsafe import Markup

from hb_metrics.report.layout.parts import Report, Section
from hb_metrics.report.layout.rendering import render
from reply_length.figures import figures


def report(results):
    whole, *terms = figures(results)
    html = render(Path(__file__).parent / "section.html.jinja", {"terms": terms})
    return Report(
        [Section("reply-length", "Length of replies", html, {})],
        answer=f"The longest and the shortest mean replies to a term are {whole.shown} words apart.",
        reading=Markup("<li><p>Longer is not better.</p></li>"),
    )
