from typing import Any

from hb_metrics.layout.numbers import axis_label
from hb_metrics.layout.plots import BLUE, GREY, ORANGE, ORANGE_TEXT, Plot, plot, rows_axis, scatter, shortened
from hb_metrics.layout.plots import spread as spread_out
from hb_metrics.stats.contrasts import NONCE_AXIS, Contrasts

NUM_ENDS = 5


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


def contrast_figure(contrasts: Contrasts) -> Plot:
    """Plots the contrasts of terms. The five terms at either end have a row each, and the others share one."""
    ranked = sorted(contrasts.terms, key=lambda term: term.contrast.value or 0.0)
    terms = [term for term in ranked if term.axis != NONCE_AXIS]
    shown = min(NUM_ENDS, len(terms) // 2)
    ends = [*terms[:shown], *terms[len(terms) - shown :]]
    others = terms[shown : len(terms) - shown]
    heights = [*range(shown), *range(shown + 2, 2 * shown + 2)]
    x: list[float | None] = []
    y: list[float | None] = []
    for term, height in zip(ends, heights, strict=True):
        if term.contrast.interval is not None:
            x += [*term.contrast.interval, None]
            y += [height, height, None]
    traces = [scatter(x=x, y=y, mode="lines", name="interval", line={"color": BLUE, "width": 2}, hoverinfo="skip")]
    nonce = [term for term in ranked if term.axis == NONCE_AXIS]
    rows = [(ends, heights, BLUE, 9, "terms at either end")]
    for number, (group, colour, name) in enumerate(((nonce, GREY, "nonce words"), (others, BLUE, "other terms"))):
        rows.append((group, [shown + number + offset for offset in spread_out(len(group))], colour, 6, name))
    for group, places, colour, size, name in rows:
        traces.append(
            scatter(
                x=[term.contrast.value for term in group],
                y=places,
                customdata=[f"{term.term} ({axis_label(term.axis)})" for term in group],
                mode="markers",
                name=name,
                marker={"size": size, "color": colour, "opacity": 0.7},
                hovertemplate="%{customdata}: %{x:.2f}<extra></extra>",
            )
        )
    labels = [shortened(term.term) for term in ends]
    labels[shown:shown] = ["nonce words", f"{len(others)} other terms"]
    band = [] if contrasts.nonce_range is None else [contrasts.nonce_range]
    shapes = [
        {"type": "rect", "xref": "x", "x0": low, "x1": high, "yref": "paper", "y0": 0, "y1": 1, "layer": "below"}
        | {"fillcolor": "rgba(107,114,128,0.15)", "line": {"width": 0}}
        for low, high in band
    ]
    title = "favourable minus unfavourable, in nats (grey: the range of nonce words)"
    return plot(
        traces, 110 + 30 * len(labels), xaxis={"title": {"text": title}}, yaxis=rows_axis(labels), shapes=shapes
    )
