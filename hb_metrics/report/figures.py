"""The report's figures, drawn by Plotly in Okabe and Ito's colours, which colour-blind readers can tell apart."""

from typing import Any

import plotly.graph_objects as go

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#6b7280"
_ORANGE_TEXT = "#9a4200"  # the orange is too light for small letters
_FONT = {"family": "system-ui, sans-serif", "size": 13, "color": "#1f2937"}
_LABELLED_WIDTH = 18  # characters; a longer term would run out of the picture on a phone


def axis_label(axis: str) -> str:
    """The axis as people write it: "Gender and sex"."""
    return axis.replace("race_eth", "race_and_eth").replace("_", " ").capitalize()


def likelihood_bias_figure(likelihood: dict[str, Any]) -> go.Figure:
    """Likelihood Bias of each axis as bars, with the share left after Benjamini–Hochberg adjustment as marks."""
    axes = sorted(likelihood["by_axis"], key=likelihood["by_axis"].__getitem__)
    labels = [axis_label(axis) for axis in axes]
    shares = [likelihood["by_axis"][axis] for axis in axes]
    adjusted = [likelihood["bh_by_axis"][axis] for axis in axes]
    figure = go.Figure(
        [
            go.Bar(
                y=labels,
                x=shares,
                orientation="h",
                name="Likelihood Bias",
                marker_color=BLUE,
                hovertemplate="%{y}: %{x:.1%}<extra></extra>",
            ),
            go.Scatter(
                y=labels,
                x=adjusted,
                mode="markers",
                name="after Benjamini–Hochberg",
                marker={"symbol": "diamond", "size": 9, "color": ORANGE, "line": {"color": "white", "width": 1}},
                hovertemplate="%{y}: %{x:.1%} after Benjamini–Hochberg<extra></extra>",
            ),
        ]
    )
    figure.update_xaxes(range=[0, 1.02], tickformat=".0%", title="pairs told apart")
    return _finished(figure, height=90 + 27 * len(axes))


def perplexity_figure(perplexity: dict[str, Any], template: str, measure: str) -> go.Figure:
    """Perplexities in one template (the paper's Figure 2): each point a descriptor's median, boxes all sentences."""
    quantiles = {
        axis: by_template[template]
        for axis, by_template in perplexity["quantiles_by_axis_and_template"].items()
        if template in by_template
    }
    column = perplexity["templates"].index(template)
    points: dict[str, list[tuple[float, str]]] = {axis: [] for axis in quantiles}
    for row in perplexity["by_descriptor"]:
        if row["median_perplexity"][column] is not None:
            points[row["axis"]].append((row["median_perplexity"][column], row["descriptor"]))
    axes = sorted(quantiles, key=lambda axis: quantiles[axis][2])
    labels = [axis_label(axis) for axis in axes]
    low, lower, middle, upper, high = zip(*(quantiles[axis] for axis in axes), strict=True)
    figure = go.Figure(
        go.Box(
            y=labels,
            lowerfence=low,
            q1=lower,
            median=middle,
            q3=upper,
            upperfence=high,
            orientation="h",
            name="sentences (5, 25, 50, 75, 95 %)",
            line={"color": GREY, "width": 1},
            width=0.45,
            fillcolor="rgba(107,114,128,0.12)",
            hoverinfo="skip",
            showlegend=True,
        )
    )
    hover = "%{customdata}: %{x:,.0f}<extra></extra>"
    highest = [max(points[axis]) for axis in axes]
    others = [
        (label, *point)
        for axis, label, top in zip(axes, labels, highest, strict=True)
        for point in points[axis]
        if point != top
    ]
    figure.add_scatter(
        y=[label for label, _, _ in others],
        x=[value for _, value, _ in others],
        customdata=[name for _, _, name in others],
        mode="markers",
        name="descriptors (median)",
        marker={"size": 6, "color": BLUE, "opacity": 0.55},
        hovertemplate=hover,
    )
    figure.add_scatter(
        y=labels,
        x=[value for value, _ in highest],
        customdata=[name for _, name in highest],
        text=[name if len(name) <= _LABELLED_WIDTH else name[: _LABELLED_WIDTH - 1] + "…" for _, name in highest],
        mode="markers+text",
        textposition="top left",
        textfont={"size": 11, "color": _ORANGE_TEXT},
        name="the highest of each axis",
        marker={"size": 8, "color": ORANGE, "symbol": "diamond"},
        hovertemplate=hover,
    )
    figure.update_xaxes(type="log", dtick=1, minor={"dtick": "D1", "showgrid": False}, title=f"{measure} (log scale)")
    return _finished(figure, height=110 + 34 * len(axes))


def _finished(figure: go.Figure, height: int) -> go.Figure:
    figure.update_yaxes(ticksuffix=" ", automargin=True)
    figure.update_xaxes(gridcolor="#e5e7eb", zeroline=False, automargin=True)
    figure.update_layout(
        template="none",
        font=_FONT,
        height=height,
        margin={"l": 8, "r": 8, "t": 48, "b": 8},
        legend={"orientation": "h", "x": 0, "xref": "container", "y": 1, "yref": "container", "yanchor": "top"},
        hoverlabel={"font": {"size": 13}},
        paper_bgcolor="white",
        plot_bgcolor="white",
    )
    return figure
