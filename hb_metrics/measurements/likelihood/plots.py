from typing import Any

from hb_metrics.layout.numbers import axis_label
from hb_metrics.layout.plots import BLUE, GREY, ORANGE, ORANGE_TEXT, Plot, plot, scatter, shortened


def perplexity_figure(perplexity: dict[str, Any], template: str, measure: str) -> Plot:
    """Plots the perplexities in a template: a point for each descriptor, and a box for each axis (paper, Figure 2)."""
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
    boxes = {
        "type": "box",
        "orientation": "h",
        "name": "sentences (5, 25, 50, 75, 95 %)",
        "y": labels,
        "lowerfence": low,
        "q1": lower,
        "median": middle,
        "q3": upper,
        "upperfence": high,
        "line": {"color": GREY, "width": 1},
        "width": 0.45,
        "fillcolor": "rgba(107,114,128,0.12)",
        "hoverinfo": "skip",
        "showlegend": True,
    }
    hover = "%{customdata}: %{x:,.0f}<extra></extra>"
    highest = [max(points[axis]) for axis in axes]
    others = [
        (label, *point)
        for axis, label, top in zip(axes, labels, highest, strict=True)
        for point in points[axis]
        if point != top
    ]
    dots = scatter(
        y=[label for label, _, _ in others],
        x=[value for _, value, _ in others],
        customdata=[name for _, _, name in others],
        mode="markers",
        name="descriptors (median)",
        marker={"size": 6, "color": BLUE, "opacity": 0.55},
        hovertemplate=hover,
    )
    diamonds = scatter(
        y=labels,
        x=[value for value, _ in highest],
        customdata=[name for _, name in highest],
        text=[shortened(name) for _, name in highest],
        mode="markers+text",
        textposition="top left",
        textfont={"size": 11, "color": ORANGE_TEXT},
        name="the highest of each axis",
        marker={"size": 8, "color": ORANGE, "symbol": "diamond"},
        hovertemplate=hover,
    )
    axis = {
        "type": "log",
        "dtick": 1,
        "minor": {"dtick": "D1", "showgrid": False},
        "title": {"text": f"{measure} (log scale)"},
    }
    return plot([boxes, dots, diamonds], height=110 + 34 * len(axes), xaxis=axis)
