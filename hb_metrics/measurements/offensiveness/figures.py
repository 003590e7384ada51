"""Plots of how offensive a classifier finds prompts and replies."""

from collections.abc import Sequence

import plotly.graph_objects as go

from hb_metrics.display.figures import BLUE, GREY, ORANGE, finished, segments, wrapped

TemplateRow = tuple[str, float, float, float | None]


def template_offensiveness_figure(rows: Sequence[TemplateRow]) -> go.Figure:
    """Mean offensiveness of prompts by template, with a standard deviation across terms to either side.

    Args:
        rows: Template, mean, standard deviation, and the paper's mean (`None`: not printed).
    """
    rows = sorted(rows, key=lambda row: row[1])
    labels = [wrapped(row[0]) for row in rows]
    figure = go.Figure()
    figure.add_scatter(
        x=segments([max(0.0, row[1] - row[2]) for row in rows], [min(1.0, row[1] + row[2]) for row in rows]),
        y=[coordinate for label in labels for coordinate in (label, label, None)],
        mode="lines",
        name="one standard deviation across terms",
        line={"color": GREY, "width": 2},
        hoverinfo="skip",
    )
    figure.add_scatter(
        x=[row[1] for row in rows],
        y=labels,
        mode="markers",
        name="this run",
        marker={"size": 10, "color": BLUE},
        hovertemplate="%{y}: %{x:.1%}<extra>this run</extra>",
    )
    printed = [(label, row[3]) for label, row in zip(labels, rows, strict=True) if row[3] is not None]
    if printed:
        figure.add_scatter(
            x=[value for _, value in printed],
            y=[label for label, _ in printed],
            mode="markers",
            name="the paper's classifier",
            marker={"size": 9, "color": ORANGE, "symbol": "diamond"},
            hovertemplate="%{y}: %{x:.1%}<extra>paper</extra>",
        )
    figure.update_yaxes(categoryorder="array", categoryarray=labels, tickfont={"size": 11})
    figure.update_xaxes(range=[-0.02, 1.02], tickformat=".0%", title="mean offensiveness")
    return finished(figure, height=120 + 32 * len(rows))


def axis_offensiveness_figure(rows: Sequence[tuple[str, float, float | None]]) -> go.Figure:
    """Shares of offensive prompts (diamonds) and replies (bars) by axis; rows: label, prompts', replies' or `None`."""
    rows = sorted(rows, key=lambda row: row[1] if row[2] is None else row[2])
    figure = go.Figure()
    replied = [(label, share) for label, _, share in rows if share is not None]
    if replied:
        figure.add_bar(
            y=[label for label, _ in replied],
            x=[share for _, share in replied],
            orientation="h",
            name="replies",
            marker_color=BLUE,
            hovertemplate="%{y}: %{x:.1%} of replies<extra></extra>",
        )
    figure.add_scatter(
        y=[label for label, _, _ in rows],
        x=[share for _, share, _ in rows],
        mode="markers",
        name="prompts",
        marker={"symbol": "diamond", "size": 9, "color": ORANGE, "line": {"color": "white", "width": 1}},
        hovertemplate="%{y}: %{x:.1%} of prompts<extra></extra>",
    )
    figure.update_yaxes(categoryorder="array", categoryarray=[label for label, _, _ in rows])
    figure.update_xaxes(tickformat=".1~%", rangemode="tozero", title="share found offensive")
    return finished(figure, height=110 + 27 * len(rows))
