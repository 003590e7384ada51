"""Plots figures in Okabe and Ito's colours, which colour-blind readers can distinguish."""

import html
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from hb_metrics.layout.figure import PLAIN, Bounds, Figure

Plot = dict[str, Any]  # a plot in the form that plotly.js reads: "data" (the traces) and "layout"
BLUE, ORANGE, GREY, PALE_BLUE = "#0072B2", "#D55E00", "#6b7280", "#a6cfe8"
ORANGE_TEXT = "#9a4200"  # the orange is too light for small text
_FONT = {"family": "system-ui, sans-serif", "size": 13, "color": "#1f2937"}
MARGIN = {"l": 8, "r": 8, "t": 48, "b": 8}
_LEGEND = {"orientation": "h", "x": 0, "xref": "container", "y": 1, "yref": "container", "yanchor": "top"}
_LOOK = {
    "font": _FONT,
    "margin": MARGIN,
    "legend": _LEGEND,
    "hoverlabel": {"font": {"size": 13}},
    "paper_bgcolor": "white",
    "plot_bgcolor": "white",
}
_X_AXIS = {"gridcolor": "#e5e7eb", "zeroline": False, "automargin": True}
_Y_AXIS = {"ticksuffix": " ", "automargin": True}
FROM_ZERO = {"rangemode": "tozero", "zeroline": True, "zerolinecolor": "#9ca3af"}
LABELLED_WIDTH = 18  # the maximum number of characters in a label; longer labels do not fit on a phone's screen
_WRAPPED_WIDTH = 26
# Plotly reads some HTML tags in labels, such as links. `plot` escapes all text, so data cannot add tags. This character
# represents a line break, which is the only tag that the plots themselves need.
BREAK = "\x1f"
_TAGS = str.maketrans({BREAK: "<br>"})
_TEMPLATES = ("hovertemplate", "texttemplate")  # they contain tags, so `plot` does not escape them
_GOLDEN = 0.6180339887498949
TICKS = {"share": ".1~%", "small_share": ".2~%", "points": ".1~%"}  # Plotly's formats; other units are plain numbers
# The colours of Okabe and Ito that are visible on white, and grey. Together with the shapes below, they distinguish 30
# runs.
_COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", GREY)
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "star")
_SPREAD = 0.64  # the maximum distance between the first and the last run in a row
_STEP = 0.2  # the maximum distance between neighbouring runs in a row


def shortened(name: str, width: int = LABELLED_WIDTH) -> str:
    return name if len(name) <= width else name[: width - 1] + "…"


def wrapped(text: str) -> str:
    return BREAK.join(textwrap.wrap(text, _WRAPPED_WIDTH))


def in_template(text: str) -> str:
    """Escapes text for a hover template. Otherwise, Plotly could read parts of the text as tags or variables."""
    return html.escape(text, quote=False).replace("%{", "%&#123;")


def spread(count: int, width: float = 0.62) -> list[float]:
    """Returns `count` offsets from −width/2 to width/2, which keep neighbouring points apart. They are not random."""
    return [((index * _GOLDEN + 0.5) % 1 - 0.5) * width for index in range(count)]


def figures_plot(
    figures: Sequence[Figure],
    title: str,
    beside: Sequence[str] = (),
    wider: tuple[str, Mapping[str, Bounds]] | None = None,
) -> Plot:
    """Plots figures as dots with intervals. Each figure has a row, and the highest value is on top.

    The numbers `beside` the figures are drawn as open marks. `wider` adds a second, paler bar for each figure. `wider`
    contains the name of these bars in the legend, and the ends of each bar by the name of the figure.
    """
    rows = sorted(figures, key=lambda figure: -1.0 if figure.known is None else figure.known)
    heights = range(len(rows))
    tickformat = TICKS.get(rows[0].unit)
    hover = f"%{{customdata}}: %{{x:{tickformat or '.2f'}}}<extra></extra>"
    traces = []
    if wider is not None:
        pale = [row._replace(interval=wider[1].get(row.name)) for row in rows]
        traces.append(_intervals(pale, heights, PALE_BLUE, width=9, name=wider[0]))
    if any(row.interval is not None for row in rows):
        name = "interval" if wider is None else "for other replies"
        traces.append(_intervals(rows, heights, BLUE, name=name))
    series = [(name, [row.beside[name].value for row in rows]) for name in beside]
    series.append(("debiased" if PLAIN in beside else "this run", [row.value for row in rows]))
    for index, (name, values) in enumerate(series):
        known = [(value, height) for value, height in zip(values, heights, strict=True) if value is not None]
        is_value = index == len(beside)
        colour, symbol = (BLUE, "circle") if is_value else ((GREY, ORANGE)[index % 2], "diamond-open")
        if known:
            trace = scatter(
                x=[value for value, _ in known],
                y=[height for _, height in known],
                customdata=[rows[height].label for _, height in known],
                mode="markers",
                name="plain, sampling noise included" if name == PLAIN else name,
                marker={"size": 10 if is_value else 8, "color": colour, "symbol": symbol},
                hovertemplate=hover,
            )
            traces.append(trace)
    return plot(
        traces,
        height=110 + 30 * len(rows),
        xaxis={"title": {"text": title}, "tickformat": tickformat, **FROM_ZERO},
        yaxis=rows_axis([wrapped(row.label) for row in rows]),
    )


def runs_plot(runs: Mapping[str, Sequence[Figure]], title: str) -> Plot:
    labels = list(dict.fromkeys(figure.label for figures in runs.values() for figure in figures))[::-1]
    rows = {label: height for height, label in enumerate(labels)}
    step = min(_STEP, _SPREAD / max(1, len(runs) - 1))
    tickformat = next(TICKS.get(figure.unit) for figures in runs.values() for figure in figures)
    traces = []
    for index, (name, figures) in enumerate(runs.items()):
        offset = step * ((len(runs) - 1) / 2 - index)
        colour = _COLOURS[index % len(_COLOURS)]
        known = [part for part in figures if part.value is not None]
        heights = [rows[part.label] + offset for part in known]
        traces.append(_intervals(known, heights, colour, showlegend=False))
        trace = scatter(
            x=[part.value for part in known],
            y=heights,
            customdata=[part.label for part in known],
            mode="markers",
            name=wrapped(name),
            marker={"size": 10, "color": colour, "symbol": _SYMBOLS[index % len(_SYMBOLS)]},
            hovertemplate=f"%{{customdata}}: %{{x:{tickformat or '.2f'}}}<extra></extra>",
        )
        traces.append(trace)
    return plot(
        traces,
        height=130 + len(rows) * (20 + 11 * len(runs)),
        xaxis={"title": {"text": title}, "tickformat": tickformat, **FROM_ZERO},
        yaxis=rows_axis([wrapped(label) for label in rows]),
        margin=MARGIN | {"t": 8},
        # The legend is above the plot, where it has room for several lines of names on a narrow page.
        legend=_LEGEND | {"xref": "paper", "yref": "paper", "y": 1.02, "yanchor": "bottom"},
    )


def _intervals(
    rows: Sequence[Figure], heights: Sequence[float], colour: str, width: int = 2, **more: Any
) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[float | None] = []
    for row, height in zip(rows, heights, strict=True):
        if row.interval is not None:
            x += [*row.interval, None]
            y += [height, height, None]
    return scatter(x=x, y=y, mode="lines", line={"color": colour, "width": width}, hoverinfo="skip", **more)


def rows_axis(labels: Sequence[str]) -> dict[str, Any]:
    count = len(labels)
    return {"tickvals": list(range(count)), "ticktext": labels, "range": [-0.6, count - 0.4], "zeroline": False}


def scatter(**trace: Any) -> dict[str, Any]:
    return {"type": "scatter", **trace}


def plot(traces: Sequence[Mapping[str, Any]], height: int, **layout: Any) -> Plot:
    """Makes a plot in the style of the report. Tags in data are escaped.

    `height` is in pixels. `layout` overrides settings of Plotly's layout, such as `xaxis`.
    """
    for name, look in (("xaxis", _X_AXIS), ("yaxis", _Y_AXIS)):
        layout[name] = look | layout.get(name, {})
    return _escaped({"data": traces, "layout": {**_LOOK, "height": height, **layout}})


def _escaped(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: value if name in _TEMPLATES else _escaped(value) for name, value in part.items()}
    if isinstance(part, (list, tuple)):
        return [_escaped(value) for value in part]
    return html.escape(part, quote=False).translate(_TAGS) if isinstance(part, str) else part
