"""Plots of several runs: one row or one mark per run, in a colour and shape of its own."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import plotly.graph_objects as go

from hb_metrics.display.figures import BLUE, GREY, ORANGE, add_intervals, finished, wrapped

# The rest of Okabe and Ito's colours that can be seen on white; with the shapes, 30 runs can be told apart.
_COLOURS = (BLUE, ORANGE, "#009E73", "#CC79A7", GREY)
_SYMBOLS = ("circle", "diamond", "square", "triangle-up", "x", "star")
_SPREAD = 0.64  # of a row, over which its runs are spread at most
_STEP = 0.2  # of a row, from run to run at most, so that rows stay apart


class Value(NamedTuple):
    """A number of a run.

    Attributes:
        value: The number; `None`: not measured.
        interval: Lowest and highest; `None`: not known.
    """

    value: float | None
    interval: tuple[float, float] | None = None


def runs_figure(values: Mapping[str, Value], title: str, tickformat: str | None = None) -> go.Figure:
    """Plots one value of each run with its interval, one row per run, the first on top.

    Args:
        values: Name of the run → its value.
        title: Title of the horizontal axis.
        tickformat: How numbers are written, in d3's language; `None`: with two digits.
    """
    names = list(values)[::-1]
    figure = go.Figure()
    for index, (name, value) in enumerate(values.items()):
        _add_run(figure, name, index, [name], [value], [float(len(names) - 1 - index)], tickformat)
    figure.update_yaxes(
        tickvals=list(range(len(names))), ticktext=[wrapped(name) for name in names], range=[-0.6, len(names) - 0.4]
    )
    figure.update_xaxes(title=title, tickformat=tickformat)
    finished(figure, height=70 + 46 * len(names)).update_layout(margin_t=8, showlegend=False)
    return _with_zero(figure)


def clusters_figure(runs: Mapping[str, Mapping[str, Value]], clusters: Sequence[str], title: str) -> go.Figure:
    """Plots each run's values by style cluster with their intervals, one row per cluster, the first on top.

    Args:
        runs: Name of the run → cluster → its value.
        clusters: The clusters to show.
        title: Title of the horizontal axis.
    """
    figure = go.Figure()
    rows = {cluster: len(clusters) - 1 - index for index, cluster in enumerate(clusters)}
    step = min(_STEP, _SPREAD / max(1, len(runs) - 1))
    for index, (name, values) in enumerate(runs.items()):
        offset = step * ((len(runs) - 1) / 2 - index)
        heights = [height + offset for height in rows.values()]
        _add_run(figure, name, index, list(rows), [values[cluster] for cluster in rows], heights)
    figure.update_yaxes(
        tickvals=list(rows.values()), ticktext=[wrapped(cluster) for cluster in rows], range=[-0.6, len(rows) - 0.4]
    )
    figure.update_xaxes(title=title)
    finished(figure, height=110 + len(rows) * (20 + 11 * len(runs)))
    # Above the plot, which makes way for as many lines as the names take on a narrow page.
    figure.update_layout(margin_t=8, legend={"xref": "paper", "yref": "paper", "y": 1.02, "yanchor": "bottom"})
    return _with_zero(figure)


def _add_run(
    figure: go.Figure,
    name: str,
    index: int,
    labels: list[str],
    values: list[Value],
    heights: list[float],
    tickformat: str | None = None,
) -> None:
    """Adds a run's marks and intervals at these heights, in the colour and shape of its index."""
    colour = _COLOURS[index % len(_COLOURS)]
    spans = [
        (height, *value.interval) for height, value in zip(heights, values, strict=True) if value.interval is not None
    ]
    known = [
        (height, label, value.value)
        for height, label, value in zip(heights, labels, values, strict=True)
        if value.value is not None
    ]
    add_intervals(figure, spans, colour)
    figure.add_scatter(
        x=[value for _, _, value in known],
        y=[height for height, _, _ in known],
        customdata=[label for _, label, _ in known],
        mode="markers",
        name=wrapped(name),
        marker={"size": 10, "color": colour, "symbol": _SYMBOLS[index % len(_SYMBOLS)]},
        hovertemplate=f"%{{customdata}}: %{{x:{tickformat or '.2f'}}}<extra></extra>",
    )


def _with_zero(figure: go.Figure) -> go.Figure:
    figure.update_yaxes(zeroline=False)
    return figure.update_xaxes(rangemode="tozero", zeroline=True, zerolinecolor="#9ca3af")
