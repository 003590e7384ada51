"""Figures of Language Model Bias on RedditBias."""

from collections.abc import Sequence

import plotly.graph_objects as go

from hb_metrics.display.figures import BLUE, GREY, ORANGE, finished, wrapped
from hb_metrics.measurements.reddit.tables import RedditRow


def t_figure(rows: Sequence[RedditRow]) -> go.Figure:
    """Plots the t of each bias type, on perplexities and on their logarithms."""
    labels = [wrapped(row.label) for row in rows][::-1]
    figure = go.Figure()
    drawn = (("t", "on perplexities", BLUE, "circle"), ("t_log", "on their logarithms", ORANGE, "diamond"))
    for field, name, color, symbol in drawn:
        known = [(wrapped(row.label), row.test[field]) for row in rows if row.test[field] is not None]
        figure.add_scatter(
            y=[label for label, _ in known],
            x=[value for _, value in known],
            mode="markers",
            name=name,
            marker={"size": 11, "color": color, "symbol": symbol, "line": {"color": "white", "width": 1}},
            hovertemplate="%{y}: t = %{x:.2f}<extra>" + name + "</extra>",
        )
    figure.add_vline(x=0, line={"color": GREY, "width": 1})
    figure.update_yaxes(categoryorder="array", categoryarray=labels)
    figure.update_xaxes(title="← stereotyped side likelier   t   other side likelier →")
    return finished(figure, height=130 + 36 * len(rows))


def share_figure(rows: Sequence[RedditRow]) -> go.Figure:
    """Plots the share of pairs in which the stereotyped side is the likelier one."""
    figure = go.Figure(
        go.Bar(
            y=[wrapped(row.label) for row in rows],
            x=[row.test["share_t1_likelier"] for row in rows],
            orientation="h",
            name="stereotyped side likelier",
            marker_color=BLUE,
            hovertemplate="%{y}: %{x:.1%} of pairs<extra></extra>",
        )
    )
    figure.add_vline(x=0.5, line={"color": GREY, "width": 1})
    figure.update_yaxes(autorange="reversed")
    figure.update_xaxes(range=[0, 1.02], tickformat=".0%", title="pairs in which the stereotyped side is likelier")
    return finished(figure, height=110 + 32 * len(rows))
