from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from hb_metrics.layout.figure import by_part
from hb_metrics.layout.numbers import axis_label
from hb_metrics.layout.parts import Report, Section
from hb_metrics.layout.plots import figures_plot
from hb_metrics.layout.rendering import render
from hb_metrics.measurements.decisions.figures import TERMS, decisions_of, figures, verdict

MIN_MASS = 0.5


def report(results: Mapping[str, Any]) -> Report:
    decisions, parts = decisions_of(results), by_part(figures(results))
    whole = parts.pop("")
    terms = parts.pop(TERMS, [])
    example, answer = decisions.example, verdict(results)
    context = {
        "verdict": answer,
        "answers": results["run"]["decisions"]["answers"],
        "whole": whole,
        "parts": parts,
        "terms": terms,
        "example": example,
        "axis": None if example is None else axis_label(example.axis),
        "mass": decisions.option_mass,
        "is_low": decisions.option_mass is not None and decisions.option_mass < MIN_MASS,
    }
    name, first = next(iter(parts.items()))
    plots = {"decisions-by-axis": [figures_plot(first, name.lower(), [])]} if first else {}
    html = render("decisions/section.html.jinja", context)
    files = Markup("what was asked and answered in <code>decisions/*.parquet</code>")
    return Report([Section("decisions", "Decisions", html, plots)], answer=answer, files=files)
