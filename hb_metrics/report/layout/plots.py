"""Plots of figures, in Okabe and Ito's colours, which colour-blind readers can distinguish."""

import html
import json
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import plotly.graph_objects as go

from hb_metrics.report.layout.figure import PLAIN, Bounds, Figure

BLUE, ORANGE, GREY, PALE_BLUE = "#0072B2", "#D55E00", "#6b7280", "#a6cfe8"
ORANGE_TEXT = "#9a4200"  # the orange is too light for small letters
_FONT = {"family": "system-ui, sans-serif", "size": 13, "color": "#1f2937"}
_LOOK = {
    "template": "none",
    "font": _FONT,
    "margin": {"l": 8, "r": 8, "t": 48, "b": 8},
    "legend": {"orientation": "h", "x": 0, "xref": "container", "y": 1, "yref": "container", "yanchor": "top"},
    "hoverlabel": {"font": {"size": 13}},
    "paper_bgcolor": "white",
    "plot_bgcolor": "white",
}
_X_AXIS = {"gridcolor": "#e5e7eb", "zeroline": False, "automargin": True}
_Y_AXIS = {"ticksuffix": " ", "automargin": True}
LABELLED_WIDTH = 18  # characters; a longer term would run out of the picture on a phone
_WRAPPED_WIDTH = 26
# Plotly reads a few HTML tags in every label, such as links. `plain` escapes all text, so data cannot add tags; this
# character represents the tag that the plots themselves need.
BREAK = "\x1f"
_TAGS = str.maketrans({BREAK: "<br>"})
_TEMPLATES = ("hovertemplate", "texttemplate")  # contain tags; `in_template` escapes text in them
_GOLDEN = 0.6180339887498949
TICKS = {"share": ".1~%", "small_share": ".2~%"}  # Plotly's formats; other units are plain numbers
# Okabe and Ito's other colours that are visible on white. Together with the shapes, they distinguish 30 runs.
_COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", GREY)
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "star")
_SPREAD = 0.64  # part of a row's height that its runs span at most
_STEP = 0.2  # maximum distance between runs, so that rows stay apart


def shortened(name: str, width: int = LABELLED_WIDTH) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"


def wrapped(text: str) -> str:
    """Breaks a long label into lines, for the axis of a plot."""
    return BREAK.join(textwrap.wrap(text, _WRAPPED_WIDTH))


def in_template(text: str) -> str:
    """Escapes text from data for a hover template, where it could be read as a tag or a variable."""
    return html.escape(text, quote=False).replace("%{", "%&#123;")


def spread(count: int, width: float = 0.62) -> list[float]:
    """Returns offsets from −width/2 to width/2 that keep neighbouring points apart, and are the same in every call."""
    return [((index * _GOLDEN + 0.5) % 1 - 0.5) * width for index in range(count)]


def figures_plot(
    figures: Sequence[Figure],
    title: str,
    beside: Sequence[str] = (),
    wider: tuple[str, Mapping[str, Bounds]] | None = None,
) -> go.Figure:
    """Plots figures as dots on their intervals, one row each, the highest on top.

    Args:
        figures: Parts of one figure, such as its axes.
        title: The title of the horizontal axis.
        beside: Names of numbers beside the figures that are drawn as open marks.
        wider: The meaning of a second, paler bar, and name of a figure → its bounds.
    """
    rows = sorted(figures, key=lambda figure: -1.0 if figure.known is None else figure.known)
    heights = range(len(rows))
    tickformat = TICKS.get(rows[0].unit)
    hover = f"%{{customdata}}: %{{x:{tickformat or '.2f'}}}<extra></extra>"
    figure = go.Figure()
    if wider is not None:
        pale = [row._replace(interval=wider[1].get(row.name)) for row in rows]
        _add_intervals(figure, pale, heights, PALE_BLUE, width=9, name=wider[0])
    if any(row.interval is not None for row in rows):
        _add_intervals(figure, rows, heights, BLUE, name="interval" if wider is None else "for other replies")
    series = [(name, [row.beside[name].value for row in rows]) for name in beside]
    series.append(("debiased" if PLAIN in beside else "this run", [row.value for row in rows]))
    for index, (name, values) in enumerate(series):
        known = [(value, height) for value, height in zip(values, heights, strict=True) if value is not None]
        is_value = index == len(beside)
        colour, symbol = (BLUE, "circle") if is_value else ((GREY, ORANGE)[index % 2], "diamond-open")
        if known:
            figure.add_scatter(
                x=[value for value, _ in known],
                y=[height for _, height in known],
                customdata=[rows[height].label for _, height in known],
                mode="markers",
                name="plain, sampling noise included" if name == PLAIN else name,
                marker={"size": 10 if is_value else 8, "color": colour, "symbol": symbol},
                hovertemplate=hover,
            )
    figure.update_yaxes(
        tickvals=list(heights), ticktext=[wrapped(row.label) for row in rows], range=[-0.6, len(rows) - 0.4]
    )
    figure.update_xaxes(title=title, tickformat=tickformat)
    return _with_zero(finished(figure, height=110 + 30 * len(rows)))


def runs_plot(runs: Mapping[str, Sequence[Figure]], title: str) -> go.Figure:
    """Plots the same figures of several runs with their intervals: a row for each figure, a mark for each run."""
    labels = list(dict.fromkeys(figure.label for figures in runs.values() for figure in figures))[::-1]
    rows = {label: height for height, label in enumerate(labels)}
    step = min(_STEP, _SPREAD / max(1, len(runs) - 1))
    tickformat = next(TICKS.get(figure.unit) for figures in runs.values() for figure in figures)
    figure = go.Figure()
    for index, (name, figures) in enumerate(runs.items()):
        offset = step * ((len(runs) - 1) / 2 - index)
        colour = _COLOURS[index % len(_COLOURS)]
        known = [part for part in figures if part.value is not None]
        heights = [rows[part.label] + offset for part in known]
        _add_intervals(figure, known, heights, colour, showlegend=False)
        figure.add_scatter(
            x=[part.value for part in known],
            y=heights,
            customdata=[part.label for part in known],
            mode="markers",
            name=wrapped(name),
            marker={"size": 10, "color": colour, "symbol": _SYMBOLS[index % len(_SYMBOLS)]},
            hovertemplate=f"%{{customdata}}: %{{x:{tickformat or '.2f'}}}<extra></extra>",
        )
    figure.update_yaxes(tickvals=list(rows.values()), ticktext=[wrapped(label) for label in rows])
    figure.update_yaxes(range=[-0.6, len(rows) - 0.4])
    figure.update_xaxes(title=title, tickformat=tickformat)
    finished(figure, height=130 + len(rows) * (20 + 11 * len(runs)))
    # Above the plot, the legend has room for several lines of names on a narrow page.
    figure.update_layout(margin_t=8, legend={"xref": "paper", "yref": "paper", "y": 1.02, "yanchor": "bottom"})
    return _with_zero(figure)


def ranges_plot(
    points: Sequence[tuple[float, float, float, float]], titles: tuple[str, str], wanted: float | None = None
) -> go.Figure:
    """Plots a number with its range against a size on a logarithmic axis.

    `points` are the size, and the lowest, middle and highest number. `wanted` is a number to reach, drawn as a line.
    """
    sizes, lows, middles, highs = zip(*points, strict=True)
    figure = go.Figure()
    figure.add_scatter(x=sizes, y=lows, mode="lines", line={"width": 0}, hoverinfo="skip", showlegend=False)
    band = {"fill": "tonexty", "fillcolor": PALE_BLUE, "line": {"width": 0}, "hoverinfo": "skip"}
    figure.add_scatter(x=sizes, y=highs, mode="lines", name="range", **band)
    hover = "%{x}: %{y:.3~g}<extra></extra>"
    line = {"color": BLUE, "width": 2}
    figure.add_scatter(x=sizes, y=middles, mode="lines", name="expected", line=line, hovertemplate=hover)
    if wanted is not None:
        dashed = {"color": ORANGE, "width": 2, "dash": "dash"}
        ends = [sizes[0], sizes[-1]]
        figure.add_scatter(x=ends, y=[wanted] * 2, mode="lines", name="wanted", line=dashed, hoverinfo="skip")
    ticks = [size for size in (4, 5, 8, 16, 32, 64, 128, 256, 512, 1024, 2048) if sizes[0] <= size <= sizes[-1]]
    figure.update_xaxes(type="log", title=titles[0], tickvals=ticks, ticktext=list(map(str, ticks)))
    figure.update_yaxes(title=titles[1], rangemode="tozero")
    return finished(figure, height=360)


def _add_intervals(
    figure: go.Figure, rows: Sequence[Figure], heights: Sequence[float], colour: str, width: int = 2, **more: Any
) -> None:
    x: list[float | None] = []
    y: list[float | None] = []
    for row, height in zip(rows, heights, strict=True):
        if row.interval is not None:
            x += [*row.interval, None]
            y += [height, height, None]
    figure.add_scatter(x=x, y=y, mode="lines", line={"color": colour, "width": width}, hoverinfo="skip", **more)


def _with_zero(figure: go.Figure) -> go.Figure:
    figure.update_yaxes(zeroline=False)
    return figure.update_xaxes(rangemode="tozero", zeroline=True, zerolinecolor="#9ca3af")


def finished(figure: go.Figure, height: int) -> go.Figure:
    """Sets the report's style and a height in pixels; the plot's width follows the page."""
    layout = figure.layout.to_plotly_json()
    axes = sorted({"xaxis", "yaxis", *(name for name in layout if name.startswith(("xaxis", "yaxis")))})
    look = _LOOK | {"height": height} | {name: _X_AXIS if name.startswith("x") else _Y_AXIS for name in axes}
    for name, value in look.items():
        layout[name] = layout.get(name, {}) | value if isinstance(value, dict) else value
    # Changing the attributes of a figure one by one takes Plotly ten times as long.
    figure.layout = layout
    return figure


def plain(figure: go.Figure) -> dict[str, Any]:
    """Converts the plot to JSON for plotly.js, with tags in data escaped."""
    return _escaped(json.loads(figure.to_json()))


def _escaped(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: value if name in _TEMPLATES else _escaped(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_escaped(value) for value in part]
    return html.escape(part, quote=False).translate(_TAGS) if isinstance(part, str) else part
