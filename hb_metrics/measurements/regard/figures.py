"""Figures of regard: groups and pairs from fixed prompts beside all structures, and single structures."""

from collections.abc import Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from hb_metrics.display.figures import (
    BLUE,
    BREAK,
    END_SMALL,
    GREY,
    ORANGE,
    SMALL,
    finished,
    in_template,
    segments,
    spread,
    wrapped,
)
from hb_metrics.measurements.regard.tables import Ends, GapRow, GroupRow, interval_of

_INK = "#111827"
_OFFSET = 0.17  # of a row, from its middle to the marks of either side
_ROW = 50  # pixels
_MARGIN = 0.04  # of what is drawn, to either side
_ALL, _FIXED = "all structures", "fixed prompts"
_LABEL_COLOURS = {"negative": ORANGE, "neutral": "#d1d5db", "positive": BLUE, "other": "#9ca3af"}
_WHITE_ON = {"negative", "positive"}
_LEAST_LABELLED = 0.09  # a narrower part of a bar has no room for its number on a phone


class _Mark(NamedTuple):
    """A mark of a group or a pair in a row of the figure; `None`: not known."""

    row: int
    label: str
    value: float
    interval: Sequence[float] | None
    sd: float | None = None


def means_figure(rows: Sequence[GroupRow], level: float) -> go.Figure:
    """Plots mean regard of each group with its interval, and one standard deviation to either side (Figure 3a)."""
    sides = [
        [
            _Mark(index, row.name, figures["mean"], interval_of(figures), figures["sd"])
            for index, (row, figures) in enumerate(side)
            if figures is not None and figures["mean"] is not None
        ]
        for side in ([(row, row.over_all) for row in rows], [(row, row.fixed) for row in rows])
    ]
    figure = _beside_each_other(sides[0], sides[1], len(rows), level)
    _add_key(figure, "one standard deviation of texts", 1, "dot")
    return _in_rows(figure, [wrapped(row.name) for row in rows], "mean regard", _ROW)


def gaps_figure(rows: Sequence[GapRow], level: float) -> go.Figure:
    """Plots the gap of each pair with its interval (Figure 3c)."""
    sides = [
        [
            _Mark(index, row.label, figures["gap"], interval_of(figures))
            for index, (row, figures) in enumerate(side)
            if figures is not None and figures["gap"] is not None
        ]
        for side in ([(row, row.over_all) for row in rows], [(row, row.fixed) for row in rows])
    ]
    figure = _beside_each_other(sides[0], sides[1], len(rows), level)
    labels = [
        f"{wrapped(row.label)}{BREAK}" + wrapped(f"{row.over_all['advantaged']} − {row.over_all['disadvantaged']}")
        for row in rows
    ]
    return _in_rows(figure, labels, "gap in mean regard", _ROW + 14)


def distribution_figure(rows: Sequence[GroupRow], labels: Sequence[str]) -> go.Figure:
    """Plots shares of labels as stacked bars: of all structures, and below them of the fixed prompts (Figure 2)."""
    heights: list[float] = []
    names: list[str] = []
    tick_labels: list[str] = []
    bars = []
    for index, row in enumerate(rows):
        sides = [(f"{row.name}, {_ALL}", wrapped(row.name), row.over_all["distribution"])]
        if row.fixed is not None:
            sides.append((f"{row.name}, {_FIXED}", f"{SMALL}{_FIXED}{END_SMALL}", row.fixed["distribution"]))
        for side, (name, label, shares) in enumerate(sides):
            heights.append(-len(sides) * index - 0.84 * side)
            names.append(name)
            tick_labels.append(label)
            bars.append(shares)
    figure = go.Figure()
    for label in labels:
        values = [shares[label] or 0.0 for shares in bars]
        figure.add_bar(
            y=heights,
            x=values,
            orientation="h",
            name=label,
            width=0.72,
            marker_color=_LABEL_COLOURS[label],
            text=[f"{value:.0%}" if value >= _LEAST_LABELLED else "" for value in values],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"size": 11, "color": "white" if label in _WHITE_ON else _INK},
            customdata=names,
            hovertemplate="%{customdata}: %{x:.1%}<extra>" + in_template(label) + "</extra>",
        )
    figure.update_layout(barmode="stack")
    figure.update_yaxes(tickvals=heights, ticktext=tick_labels, showgrid=False, zeroline=False)
    figure.update_xaxes(range=[0, 1.02], tickformat=".0%", title="share of texts")
    return finished(figure, height=110 + 28 * len(bars)).update_layout(legend_traceorder="normal")


def ends_figure(rows: Sequence[Ends], overall: Sequence[float | None], title: str, ends: tuple[str, str]) -> go.Figure:
    """Plots every structure as a small point, and the mean of those at either end (Figures 3b and 3d).

    Args:
        rows: Groups, or pairs, with the values of structures.
        overall: [rows] the figure from all structures.
        title: Title of the horizontal axis.
        ends: What the upper and the lower end are called.
    """
    heights = [float(len(rows) - 1 - index) for index in range(len(rows))]
    points = [
        (value, height + offset, structure)
        for height, row in zip(heights, rows, strict=True)
        for (structure, value), offset in zip(row.values.items(), spread(len(row.values), 0.5), strict=True)
    ]
    figure = go.Figure()
    figure.add_scatter(
        x=[value for value, _, _ in points],
        y=[height for _, height, _ in points],
        customdata=[structure for _, _, structure in points],
        mode="markers",
        name="one structure",
        marker={"size": 5, "color": GREY, "opacity": 0.4},
        hovertemplate="%{customdata}: %{x:+.3f}<extra></extra>",
    )
    for name, symbol, size, colour, values in (
        ("all structures", "line-ns-open", 17, _INK, overall),
        (ends[0], "triangle-right", 13, BLUE, [row.mean(row.high) for row in rows]),
        (ends[1], "triangle-left", 13, ORANGE, [row.mean(row.low) for row in rows]),
    ):
        known = [(value, height, row.label) for value, height, row in zip(values, heights, rows, strict=True)]
        known = [point for point in known if point[0] is not None]
        figure.add_scatter(
            x=[value for value, _, _ in known],
            y=[height for _, height, _ in known],
            customdata=[label for _, _, label in known],
            mode="markers",
            name=name,
            marker={"size": size, "symbol": symbol, "color": colour, "line": {"width": 2 if symbol[0] == "l" else 0}},
            hovertemplate="%{customdata}: %{x:+.3f}<extra>" + in_template(name) + "</extra>",
        )
    return _in_rows(figure, [wrapped(row.label) for row in rows], title, _ROW + 4)


def _beside_each_other(over_all: Sequence[_Mark], fixed: Sequence[_Mark], num_rows: int, level: float) -> go.Figure:
    """Plots all structures, and in the same row below them the fixed prompts, if there are any to compare."""
    figure = go.Figure()
    for marks, name, colour, symbol, offset in (
        (over_all, _ALL, BLUE, "circle", _OFFSET if fixed else 0.0),
        (fixed, _FIXED, ORANGE, "diamond", -_OFFSET),
    ):
        if not marks:
            continue
        known = [(num_rows - 1 - mark.row + offset, mark) for mark in marks]
        deviations = [
            (y, max(-1.0, mark.value - mark.sd), min(1.0, mark.value + mark.sd)) for y, mark in known if mark.sd
        ]
        intervals = [(y, mark.interval[0], mark.interval[1]) for y, mark in known if mark.interval is not None]
        _add_lines(figure, deviations, colour, 1, "dot")
        _add_lines(figure, intervals, colour, 4, "solid")
        figure.add_scatter(
            x=[mark.value for _, mark in known],
            y=[y for y, _ in known],
            customdata=[mark.label for _, mark in known],
            mode="markers",
            name=name,
            marker={"size": 9, "color": colour, "symbol": symbol, "line": {"color": "white", "width": 1}},
            hovertemplate="%{customdata}: %{x:+.3f}<extra>" + in_template(name) + "</extra>",
        )
    _add_key(figure, f"{level:.0%} interval", 4, "solid")
    return figure


def _add_lines(
    figure: go.Figure, spans: Sequence[tuple[float, float, float]], colour: str, width: int, dash: str
) -> None:
    """Adds horizontal lines, each at a height from a lowest to a highest value."""
    figure.add_scatter(
        x=segments([low for _, low, _ in spans], [high for _, _, high in spans]),
        y=[coordinate for y, _, _ in spans for coordinate in (y, y, None)],
        mode="lines",
        line={"color": colour, "width": width, "dash": dash},
        hoverinfo="skip",
        showlegend=False,
    )


def _add_key(figure: go.Figure, name: str, width: int, dash: str) -> None:
    """Adds to the legend what a kind of line means, whatever its colour."""
    figure.add_scatter(x=[None], y=[None], mode="lines", name=name, line={"color": GREY, "width": width, "dash": dash})


def _in_rows(figure: go.Figure, labels: Sequence[str], title: str, row: int) -> go.Figure:
    """Lays out a figure with a row for each label, the first on top, and a line at 0."""
    figure.add_vline(x=0, line={"color": GREY, "width": 1}, layer="below")
    figure.update_yaxes(
        tickvals=list(range(len(labels)))[::-1],
        ticktext=list(labels),
        range=[-0.6, len(labels) - 0.4],
        showgrid=False,
    )
    # The range is given, since intervals that end where the picture does look cut off.
    drawn = [0.0, *(x for trace in figure.data for x in trace.x or () if x is not None)]
    margin = _MARGIN * (max(drawn) - min(drawn))
    figure.update_xaxes(title=title, nticks=7, tickformat=".2~f", range=[min(drawn) - margin, max(drawn) + margin])
    finished(figure, height=120 + row * len(labels)).update_yaxes(zeroline=False)
    # Above the plot, which makes way for as many lines as the names take on a narrow page.
    return figure.update_layout(
        margin_t=8, legend={"xref": "paper", "yref": "paper", "y": 1.02, "yanchor": "bottom", "x": 0}
    )
