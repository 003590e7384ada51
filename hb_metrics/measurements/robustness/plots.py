"""Plot of a bias figure from single templates, and from random halves of the templates."""

import plotly.graph_objects as go

from hb_metrics.measurements.robustness.figures import Measure
from hb_metrics.report.layout.numbers import slot
from hb_metrics.report.layout.plots import BLUE, GREY, ORANGE, finished, wrapped

_BAND = "rgba(213,94,0,0.16)"  # the orange, light


def templates_figure(row: Measure) -> go.Figure:
    """Plots each template alone as a point, the highest on top; a band for 95 % of halves, a line for all templates."""
    known = {name: value for name, value in row.robustness["by_template"].items() if value is not None}
    names = sorted(known, key=lambda name: (known[name], name))
    is_share = row.unit == "share"
    low, high = row.robustness["half_interval"]
    top = len(names) - 0.4
    figure = go.Figure()
    figure.add_scatter(
        x=[low, high, high, low, low],
        y=[-0.6, -0.6, top, top, -0.6],
        fill="toself",
        fillcolor=_BAND,
        mode="lines",
        line={"color": ORANGE, "width": 1},
        name="95% of random halves",
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=[row.robustness["overall"]] * 2,
        y=[-0.6, top],
        mode="lines",
        name="all templates",
        line={"color": GREY, "width": 2, "dash": "dot"},
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=[known[name] for name in names],
        y=list(range(len(names))),
        customdata=[slot(name) for name in names],
        mode="markers",
        name="one template alone",
        marker={"size": 9, "color": BLUE},
        hovertemplate="%{customdata}<br>%{x:" + (".1%" if is_share else ".2f") + "}<extra></extra>",
    )
    figure.update_yaxes(
        tickvals=list(range(len(names))),
        ticktext=[wrapped(slot(name)) for name in names],
        tickfont={"size": 11},
        range=[-0.6, top],
        showgrid=False,
    )
    figure.update_xaxes(
        title=row.label if is_share else f"{row.label}, ×1000", tickformat=".0%" if is_share else None, nticks=7
    )
    return finished(figure, height=130 + 32 * len(names)).update_yaxes(zeroline=False)
