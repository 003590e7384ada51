from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

from hb_metrics.measurements.generation.terms import Term
from hb_metrics.report.layout.figure import Figure
from hb_metrics.report.layout.numbers import axis_label
from hb_metrics.report.layout.plots import (
    BLUE,
    BREAK,
    GREY,
    ORANGE,
    ORANGE_TEXT,
    PALE_BLUE,
    finished,
    in_template,
    shortened,
    spread,
)

NUM_NAMED = 6
_NEVER_WIDTH = 0.12  # the part of the plot for terms without any use


def strip_figure(terms: Sequence[Term], cluster: str, overall: float) -> go.Figure:
    """Plots terms of each axis by their mean probability of a style cluster, with the overall mean as a line."""
    by_axis: dict[str, list[Term]] = {}
    for term in sorted(terms, key=lambda term: term.value):
        by_axis.setdefault(term.axis, []).append(term)
    axes = sorted(by_axis, key=lambda axis: sum(term.value for term in by_axis[axis]) / len(by_axis[axis]))
    figure = go.Figure()
    highest = [by_axis[axis][-1] for axis in axes]
    most = max(term.value for term in terms)
    for name, chosen, marker in (
        ("terms", lambda term: term not in highest, {"size": 7, "color": BLUE, "opacity": 0.6}),
        ("the highest of each axis", lambda term: term in highest, {"size": 9, "color": ORANGE, "symbol": "diamond"}),
    ):
        points = [
            (term, row + offset)
            for row, axis in enumerate(axes)
            for term, offset in zip(by_axis[axis], spread(len(by_axis[axis])), strict=True)
            if chosen(term)
        ]
        labelled = {"mode": "markers+text", "text": [shortened(term.name) for term, _ in points]}
        figure.add_scatter(
            x=[term.value for term, _ in points],
            y=[height for _, height in points],
            customdata=[_custom(term) for term, _ in points],
            name=name,
            marker=marker,
            hovertemplate=f"%{{customdata[1]}}<br>{in_template(cluster)}: %{{x:.2%}}<br>"
            "%{customdata[2]} replies<extra></extra>",
            **(labelled if name != "terms" else {"mode": "markers"}),
            # The label is on the right, where the axis has no other term, unless the right edge is too near.
            textposition=["middle left" if term.value > 0.8 * most else "middle right" for term, _ in points],
            textfont={"size": 11, "color": ORANGE_TEXT},
        )
    figure.add_vline(x=overall, line={"color": GREY, "width": 1, "dash": "dot"})
    figure.update_yaxes(
        tickvals=list(range(len(axes))), ticktext=[axis_label(axis) for axis in axes], range=[-0.6, len(axes) - 0.4]
    )
    figure.update_xaxes(tickformat=".1~%", range=[-0.02 * most, 1.25 * most], title=f"probability of {cluster}")
    return finished(figure, height=120 + 40 * len(axes)).update_yaxes(showgrid=False, zeroline=False)


def frequency_figure(terms: Sequence[Term], cluster: str) -> go.Figure:
    """Plots a style cluster's mean probability against a term's frequency (the paper's Figures 3 and 5).

    The scale is logarithmic, with a separate column on the left for unused terms.
    """
    never = sorted((term for term in terms if term.per_million == 0), key=lambda term: term.value)
    seen = [term for term in terms if term.per_million > 0]
    named = sorted(terms, key=lambda term: -term.value)[:NUM_NAMED]
    figure = go.Figure()
    for points, positions, axis, name in (
        (never, spread(len(never), 0.8), "x", "never seen"),
        (seen, [term.per_million for term in seen], "x2", "seen"),
    ):
        often = "never seen" if axis == "x" else "%{x:,.1f} in a million"
        figure.add_scatter(
            x=positions,
            y=[term.value for term in points],
            xaxis=axis,
            customdata=[_custom(term) for term in points],
            text=[shortened(term.name) if term in named else "" for term in points],
            mode="markers+text",
            name=name,
            textposition="middle right" if axis == "x" else "top center",
            textfont={"size": 11, "color": ORANGE_TEXT},
            cliponaxis=False,
            marker={
                "size": 7,
                "opacity": 0.7,
                "color": [ORANGE if term in named else BLUE for term in points],
                "symbol": ["diamond" if term in named else "circle" for term in points],
            },
            hovertemplate=f"%{{customdata[1]}} (%{{customdata[3]}})<br>{in_template(cluster)}: %{{y:.2%}}<br>"
            f"{often}<br>%{{customdata[2]}} replies<extra></extra>",
            showlegend=False,
        )
    finished(figure, height=430)
    figure.update_yaxes(tickformat=".1~%", title=f"probability of {cluster}", rangemode="tozero")
    figure.update_layout(
        margin_t=16,
        xaxis={"domain": [0, _NEVER_WIDTH], "range": [-0.6, 0.6], "tickvals": [0], "ticktext": [f"never{BREAK}seen"]},
        xaxis2={
            "domain": [_NEVER_WIDTH + 0.03, 1],
            "anchor": "y",
            "type": "log",
            "dtick": 1,
            "gridcolor": "#e5e7eb",
            "automargin": True,
            "title": {"text": "uses in a million examples (log)"},
        },
    )
    return figure


def turns_figure(figures: Sequence[Figure]) -> go.Figure:
    turns = list(range(1, len(figures) + 1))
    known = [(turn, *row.interval) for turn, row in zip(turns, figures, strict=True) if row.interval is not None]
    figure = go.Figure()
    if known:
        band_turns, lows, highs = zip(*known, strict=True)
        figure.add_scatter(
            x=[*band_turns, *band_turns[::-1]],
            y=[*highs, *lows[::-1]],
            fill="toself",
            fillcolor=PALE_BLUE,
            line={"width": 0},
            mode="lines",
            name="interval",
            hoverinfo="skip",
        )
    figure.add_scatter(
        x=turns,
        y=[row.known for row in figures],
        mode="lines+markers",
        name="Full Gen Bias" if figures[0].value is not None else "Full Gen Bias, plain",
        line={"color": BLUE},
        marker={"size": 10},
        hovertemplate="turn %{x}: %{y:.2f}<extra></extra>",
    )
    figure.update_xaxes(title="turn", tickvals=turns, range=[0.8, len(turns) + 0.2])
    figure.update_yaxes(title="Full Gen Bias ×1000", rangemode="tozero", zeroline=True, zerolinecolor=GREY)
    return finished(figure, height=340)


def _custom(term: Term) -> list[Any]:
    return [term.row, term.name, term.num_replies, axis_label(term.axis)]
