"""Figures of how the style of replies varies: Gen Bias with intervals, terms by style cluster, and frequencies."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import plotly.graph_objects as go

from hb_metrics.display.figures import (
    BLUE,
    BREAK,
    GREY,
    ORANGE,
    ORANGE_TEXT,
    axis_label,
    finished,
    in_template,
    segments,
    shortened,
    spread,
)

NUM_NAMED = 6
_STYLE_WIDTH = 24  # characters of a style's label
_NEVER_WIDTH = 0.12  # of the picture, for the terms that are never seen


class Measured(NamedTuple):
    """A value with what is known about its sampling noise.

    Attributes:
        name: An axis's or a cluster's label.
        plain: By the paper's formula.
        debiased: Less the estimated sampling noise; `None`: not known.
        interval: Lowest and highest of the value with endless replies; `None`: not known.
        reason: Why there is no interval; `None` with one.
    """

    name: str
    plain: float
    debiased: float | None
    interval: tuple[float, float] | None
    reason: str | None = None


class Term(NamedTuple):
    """A descriptor as a point.

    Attributes:
        axis: Its demographic axis.
        name: The descriptor.
        row: Its row in `by_descriptor` of the results, for the script that shows its replies.
        num_replies: How many replies its value is computed from.
        value: The mean probability of a style cluster.
        per_million: How often it is used in a million training examples; only for `frequency_figure`.
    """

    axis: str
    name: str
    row: int
    num_replies: int
    value: float
    per_million: float = 0.0


def interval_figure(rows: Sequence[Measured], title: str, confidence_level: float) -> go.Figure:
    """Debiased values as dots on their intervals, the highest on top; plain values as open diamonds."""
    rows = sorted(rows, key=lambda row: row.plain if row.debiased is None else row.debiased)
    labels = [row.name for row in rows]
    figure = go.Figure()
    spans = [(row.name, *row.interval) for row in rows if row.interval is not None]
    if spans:
        figure.add_scatter(
            x=segments([low for _, low, _ in spans], [high for _, _, high in spans]),
            y=[coordinate for name, _, _ in spans for coordinate in (name, name, None)],
            mode="lines",
            name=f"{confidence_level:.0%} interval",
            line={"color": BLUE, "width": 2},
            hovertemplate="%{y}: %{x:.2f}<extra>end of interval</extra>",
        )
    figure.add_scatter(
        x=[row.plain for row in rows],
        y=labels,
        mode="markers",
        name="plain, sampling noise included",
        marker={"symbol": "diamond-open", "size": 8, "color": GREY, "line": {"width": 1.5}},
        hovertemplate="%{y}: %{x:.2f} plain<extra></extra>",
    )
    known = [row for row in rows if row.debiased is not None]
    if known:
        figure.add_scatter(
            x=[row.debiased for row in known],
            y=[row.name for row in known],
            mode="markers",
            name="debiased",
            marker={"size": 10, "color": BLUE},
            hovertemplate="%{y}: %{x:.2f} debiased<extra></extra>",
        )
    figure.update_yaxes(categoryorder="array", categoryarray=labels)
    figure.update_xaxes(title=title)
    finished(figure, height=110 + 28 * len(rows))
    return figure.update_xaxes(zeroline=True, zerolinecolor="#9ca3af")


def share_interval_figure(rows: Sequence[tuple[str, float, tuple[float, float]]], what: str, level: str) -> go.Figure:
    """Shares as dots on their intervals, the highest on top; rows: label, share, lowest and highest."""
    rows = sorted(rows, key=lambda row: row[1])
    labels = [label for label, _, _ in rows]
    figure = go.Figure()
    figure.add_scatter(
        x=segments([bounds[0] for _, _, bounds in rows], [bounds[1] for _, _, bounds in rows]),
        y=[coordinate for label in labels for coordinate in (label, label, None)],
        mode="lines",
        name=f"{level} interval",
        line={"color": BLUE, "width": 2},
        hovertemplate="%{y}: %{x:.1%}<extra>end of interval</extra>",
    )
    figure.add_scatter(
        x=[share for _, share, _ in rows],
        y=labels,
        mode="markers",
        name=f"share of {what}",
        marker={"size": 10, "color": BLUE},
        hovertemplate="%{y}: %{x:.1%}<extra></extra>",
    )
    figure.update_yaxes(categoryorder="array", categoryarray=labels)
    figure.update_xaxes(tickformat=".1~%", rangemode="tozero", title=f"share of {what} among replies")
    return finished(figure, height=110 + 28 * len(rows))


def styles_figure(styles: Sequence[tuple[str, float]], title: str) -> go.Figure:
    """The styles that vary most as bars, the first on top."""
    names = [name for name, _ in styles][::-1]
    figure = go.Figure(
        go.Bar(
            y=names,
            x=[value for _, value in styles][::-1],
            orientation="h",
            marker_color=BLUE,
            hovertemplate="%{y}: %{x:.3f}<extra></extra>",
        )
    )
    figure.update_yaxes(tickvals=names, ticktext=[shortened(name, _STYLE_WIDTH) + " " for name in names])
    figure.update_xaxes(title=title)
    return finished(figure, height=90 + 24 * len(names)).update_layout(margin_t=8)


def strip_figure(terms: Sequence[Term], cluster: str, overall: float) -> go.Figure:
    """Terms of each axis by their mean probability of one style cluster, with the mean over all terms as a line."""
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
            # To the right, where no other term of the axis is; near the right end there is no room.
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
    """A style cluster's mean probability against how often a term is used (the paper's Figures 3 and 5).

    The scale is logarithmic; terms that are never used have a column of their own at its left.
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


def _custom(term: Term) -> list[Any]:
    return [term.row, term.name, term.num_replies, axis_label(term.axis)]
