"""The report's tables and words around the figures, laid out by `report.html.jinja`."""

import json
from pathlib import Path
from statistics import mode
from typing import Any, NamedTuple

import jinja2
import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from hb_metrics.report.figures import axis_label, likelihood_bias_figure, perplexity_figure
from hb_metrics.report.paper import EXTREMES_TEMPLATE, LIKELIHOOD_BIAS
from hb_metrics.run_folder import write_text

_TEMPLATE = "report.html.jinja"
_NUM_EXTREMES = 3


class Extremes(NamedTuple):
    """Lowest- and highest-perplexity descriptors of an axis in one template, of those of one length in tokens."""

    axis: str
    num_tokens: float
    num_compared: int
    num_descriptors: int
    lowest: list[tuple[str, float]]
    highest: list[tuple[str, float]]


def write_report(results: dict[str, Any], path: Path) -> None:
    """Writes the report of a run.

    Args:
        results: The content of results.json.
        path: The HTML file to write.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("hb_metrics", "report"), autoescape=True, undefined=jinja2.StrictUndefined
    )
    environment.filters["axis_label"] = axis_label
    environment.filters["slot"] = lambda template: template.replace("{", "[").replace("}", "]").replace("_", " ")
    measure = "pseudo-perplexity" if results["run"]["model"]["kind"] == "masked" else "perplexity"
    perplexity = results["perplexity"]
    templates = perplexity["templates"]
    extremes_template = EXTREMES_TEMPLATE if EXTREMES_TEMPLATE in templates else templates[0]
    html = environment.get_template(_TEMPLATE).render(
        run=results["run"],
        likelihood=results["likelihood_bias"],
        perplexity=perplexity,
        measure=measure,
        extremes_template=extremes_template,
        extremes=same_length_extremes(perplexity, extremes_template),
        papers=paper_comparisons(results["likelihood_bias"]),
        plotly_js=get_plotlyjs(),
        figures=_for_script(
            {
                "likelihood-bias": [_plain(likelihood_bias_figure(results["likelihood_bias"]))],
                "perplexities": [_plain(perplexity_figure(perplexity, template, measure)) for template in templates],
            }
        ),
        shade=_shade,
    )
    write_text(path, html)


def same_length_extremes(perplexity: dict[str, Any], template: str) -> list[Extremes]:
    """The paper's Table 3: extremes among the descriptors of an axis's most common number of tokens.

    A longer term is more tokens to predict; comparing terms of one length takes that out.
    """
    column = perplexity["templates"].index(template)
    by_axis: dict[str, list[tuple[float, str, float]]] = {}
    for row in perplexity["by_descriptor"]:
        if row["median_perplexity"][column] is not None:
            found = row["median_perplexity"][column], row["descriptor"], row["median_num_tokens"][column]
            by_axis.setdefault(row["axis"], []).append(found)
    extremes = []
    for axis, rows in by_axis.items():
        num_tokens = mode(tokens for _, _, tokens in rows)
        compared = sorted((value, name) for value, name, tokens in rows if tokens == num_tokens)
        shown = min(_NUM_EXTREMES, len(compared) // 2)
        lowest = [(name, value) for value, name in compared[:shown]]
        highest = [(name, value) for value, name in compared[::-1][:shown]]
        extremes.append(Extremes(axis, num_tokens, len(compared), len(rows), lowest, highest))
    return extremes


def paper_comparisons(likelihood: dict[str, Any]) -> list[dict[str, Any]]:
    """The paper's printed shares beside ours, for the templates that this run has."""
    found = []
    for figures in LIKELIHOOD_BIAS:
        ours = {
            axis: by_template[figures.template]
            for axis, by_template in likelihood["by_axis_and_template"].items()
            if figures.template in by_template
        }
        if ours:
            rows = [(axis, ours.get(axis), share) for axis, share in figures.by_axis.items()]
            found.append({"model": figures.model, "where": figures.where, "template": figures.template, "rows": rows})
    return found


def _plain(figure: go.Figure) -> dict[str, Any]:
    return json.loads(figure.to_json())


def _for_script(content: Any) -> str:
    """JSON that can stand inside a <script> element, whatever the terms in it."""
    return json.dumps(content, separators=(",", ":")).replace("<", "\\u003c")


def _shade(share: float) -> str:
    """Cell colours for a share from 0 to 1: background from white to blue, and text that can be read on it."""
    red, green, blue = (round(255 + (target - 255) * share) for target in (0, 114, 178))
    return f"background:rgb({red},{green},{blue});color:{'white' if share > 0.9 else '#111827'}"
