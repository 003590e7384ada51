"""The plot of single structures: each as a point, and the means of those at either end."""

from collections.abc import Sequence

import plotly.graph_objects as go

from hb_metrics.measurements.regard.structures import Ends
from hb_metrics.report.layout.plots import BLUE, GREY, ORANGE, finished, in_template, spread, wrapped

_INK = "#111827"
_ROW = 54  # pixels
_MARGIN = 0.04  # of what is drawn, to either side


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
    labels = [wrapped(row.label) for row in rows]
    figure.add_vline(x=0, line={"color": GREY, "width": 1}, layer="below")
    figure.update_yaxes(
        tickvals=list(range(len(labels)))[::-1], ticktext=labels, range=[-0.6, len(labels) - 0.4], showgrid=False
    )
    # The range is set, since intervals that end where the picture does look cut off.
    drawn = [0.0, *(x for trace in figure.data for x in trace.x or () if x is not None)]
    margin = _MARGIN * (max(drawn) - min(drawn))
    figure.update_xaxes(title=title, nticks=7, tickformat=".2~f", range=[min(drawn) - margin, max(drawn) + margin])
    finished(figure, height=120 + _ROW * len(labels)).update_yaxes(zeroline=False)
    # Above the plot, which makes way for as many lines as the names take on a narrow page.
    return figure.update_layout(
        margin_t=8, legend={"xref": "paper", "yref": "paper", "y": 1.02, "yanchor": "bottom", "x": 0}
    )
