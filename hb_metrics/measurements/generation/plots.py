from collections.abc import Sequence
from typing import Any

import numpy as np

from hb_metrics.layout.figure import Figure
from hb_metrics.layout.numbers import axis_label
from hb_metrics.layout.plots import (
    BLUE,
    BREAK,
    FROM_ZERO,
    GREY,
    MARGIN,
    ORANGE,
    ORANGE_TEXT,
    Plot,
    in_template,
    plot,
    rows_axis,
    scatter,
    shortened,
    spread,
)
from hb_metrics.measurements.generation.terms import Term

NUM_NAMED = 6
_NEVER_WIDTH = 0.12  # the part of the plot's width that is reserved for terms that never occur


def strip_figure(terms: Sequence[Term], cluster: str, overall: float) -> Plot:
    by_axis: dict[str, list[Term]] = {}
    for term in sorted(terms, key=lambda term: term.value):
        by_axis.setdefault(term.axis, []).append(term)
    axes = sorted(by_axis, key=lambda axis: sum(term.value for term in by_axis[axis]) / len(by_axis[axis]))
    traces = []
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
        trace = scatter(
            x=[term.value for term, _ in points],
            y=[height for _, height in points],
            customdata=[_custom(term) for term, _ in points],
            name=name,
            marker=marker,
            hovertemplate=f"%{{customdata[1]}}<br>{in_template(cluster)}: %{{x:.2%}}<br>"
            "%{customdata[2]} replies<extra></extra>",
            **(labelled if name != "terms" else {"mode": "markers"}),
            # The label is on the right, where the row has no other points, except near the right edge of the plot.
            textposition=["middle left" if term.value > 0.8 * most else "middle right" for term, _ in points],
            textfont={"size": 11, "color": ORANGE_TEXT},
        )
        traces.append(trace)
    mean = {"type": "line", "x0": overall, "x1": overall, "y0": 0, "y1": 1, "yref": "y domain"}
    title = {"text": f"probability of {cluster}"}
    return plot(
        traces,
        height=120 + 40 * len(axes),
        xaxis={"tickformat": ".1~%", "range": [-0.02 * most, 1.25 * most], "title": title},
        yaxis=rows_axis([axis_label(axis) for axis in axes]) | {"showgrid": False},
        shapes=[{**mean, "line": {"color": GREY, "width": 1, "dash": "dot"}}],
    )


def frequency_figure(terms: Sequence[Term], cluster: str) -> Plot:
    """Plots terms by their frequency and their mean probability of a style cluster (the paper's Figures 3 and 5).

    The frequency axis is logarithmic. Terms that never occur are in a separate column on the left.
    """
    never = sorted((term for term in terms if term.per_million == 0), key=lambda term: term.value)
    seen = [term for term in terms if term.per_million > 0]
    named = sorted(terms, key=lambda term: -term.value)[:NUM_NAMED]
    traces = []
    for points, positions, axis, name in (
        (never, spread(len(never), 0.8), "x", "never seen"),
        (seen, [term.per_million for term in seen], "x2", "seen"),
    ):
        often = "never seen" if axis == "x" else "%{x:,.1f} in a million"
        trace = scatter(
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
        traces.append(trace)
    title = {"text": f"probability of {cluster}"}
    return plot(
        traces,
        height=430,
        margin=MARGIN | {"t": 16},
        yaxis={"tickformat": ".1~%", "title": title, "rangemode": "tozero"},
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


def turns_figure(figures: Sequence[Figure]) -> Plot:
    turns = list(range(1, len(figures) + 1))
    values = np.array([row.known for row in figures], float)
    lows, highs = np.array([row.interval or (row.known, row.known) for row in figures], float).T
    line = scatter(
        x=turns,
        y=values.tolist(),
        error_y={"symmetric": False, "array": (highs - values).tolist(), "arrayminus": (values - lows).tolist()},
        mode="lines+markers",
        name="Full Gen Bias" if figures[0].value is not None else "Full Gen Bias, plain",
        line={"color": BLUE},
        marker={"size": 10},
        hovertemplate="turn %{x}: %{y:.2f}<extra></extra>",
    )
    return plot(
        [line],
        height=340,
        xaxis={"title": {"text": "turn"}, "tickvals": turns, "range": [0.8, len(turns) + 0.2]},
        yaxis={"title": {"text": "Full Gen Bias ×1000"}, **FROM_ZERO},
    )


def _custom(term: Term) -> list[Any]:
    return [term.row, term.name, term.num_replies, axis_label(term.axis)]
