"""What all plots of a report share: their look, and the colours of Okabe and Ito, distinct for colour-blind readers."""

import html
import json
import textwrap
from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#6b7280"
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
# Plotly reads a few HTML tags in every label, links among them. `plain` escapes all text, so that what comes from data
# is shown as it is; these characters represent the tags that the plots themselves need.
BREAK, SMALL, END_SMALL = "\x1f", "\x1d", "\x1c"
_TAGS = str.maketrans({BREAK: "<br>", SMALL: f'<span style="color:{GREY};font-size:11px">', END_SMALL: "</span>"})
_TEMPLATES = ("hovertemplate", "texttemplate")  # written by figures, with tags; for text in them there is `in_template`
_GOLDEN = 0.6180339887498949


def axis_label(axis: str) -> str:
    """The axis as people write it: "Gender and sex"."""
    return axis.replace("race_eth", "race_and_eth").replace("_", " ").replace("+", " + ").capitalize()


def shortened(name: str, width: int = LABELLED_WIDTH) -> str:
    """Shortens a term beside its point, or a label beside its row, to at most `width` characters."""
    return name if len(name) <= width else name[: width - 1] + "…"


def wrapped(text: str) -> str:
    """Breaks a long label into lines, for the axis of a plot."""
    return BREAK.join(textwrap.wrap(text, _WRAPPED_WIDTH))


def in_template(text: str) -> str:
    """Escapes text from data for a hover template, where it could be read as a tag or a variable."""
    return html.escape(text, quote=False).replace("%{", "%&#123;")


def spread(count: int, width: float = 0.62) -> list[float]:
    """Offsets from −width/2 to width/2 that keep neighbours in a row of points apart, the same ones every time."""
    return [((index * _GOLDEN + 0.5) % 1 - 0.5) * width for index in range(count)]


def segments(lows: Sequence[float], highs: Sequence[float]) -> list[float | None]:
    """Coordinates of unconnected lines, for intervals."""
    return [coordinate for pair in zip(lows, highs, strict=True) for coordinate in (*pair, None)]


def add_intervals(figure: go.Figure, spans: Sequence[tuple[float, float, float]], colour: str) -> None:
    """Draws intervals as lines: the height of each, its lowest and its highest value."""
    figure.add_scatter(
        x=segments([low for _, low, _ in spans], [high for _, _, high in spans]),
        y=[coordinate for height, _, _ in spans for coordinate in (height, height, None)],
        mode="lines",
        line={"color": colour, "width": 2},
        hoverinfo="skip",
        showlegend=False,
    )


def finished(figure: go.Figure, height: int) -> go.Figure:
    """Gives the plot the report's look and a height in pixels; its width follows the page."""
    layout = figure.layout.to_plotly_json()
    axes = sorted({"xaxis", "yaxis", *(name for name in layout if name.startswith(("xaxis", "yaxis")))})
    look = _LOOK | {"height": height} | {name: _X_AXIS if name.startswith("x") else _Y_AXIS for name in axes}
    for name, value in look.items():
        layout[name] = layout.get(name, {}) | value if isinstance(value, dict) else value
    # All at once: Plotly takes ten times as long to change, one by one, what a figure has.
    figure.layout = layout
    return figure


def plain(figure: go.Figure) -> dict[str, Any]:
    """The plot as JSON for plotly.js, in which no text from data is read as a tag."""
    return _escaped(json.loads(figure.to_json()))


def _escaped(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: value if name in _TEMPLATES else _escaped(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_escaped(value) for value in part]
    return html.escape(part, quote=False).translate(_TAGS) if isinstance(part, str) else part
