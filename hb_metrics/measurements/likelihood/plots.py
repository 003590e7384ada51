from typing import Any

from hb_metrics.layout.numbers import axis_label, count
from hb_metrics.layout.plots import Dot, Mark, Plot, Row, rows_plot, shortened


def perplexity_figure(perplexity: dict[str, Any], template: str, measure: str) -> Plot:
    """Plots the perplexities in a template: a point for each descriptor, and a box for each axis (paper, Figure 2)."""
    column = perplexity["templates"].index(template)
    points: dict[str, list[Dot]] = {}
    for index, row in enumerate(perplexity["by_descriptor"]):
        if row["median_perplexity"][column] is not None:
            points.setdefault(row["axis"], []).append(Dot(row["median_perplexity"][column], index))
    quantiles = {
        axis: by_template[template]
        for axis, by_template in perplexity["quantiles_by_axis_and_template"].items()
        if template in by_template
    }
    rows = []
    for axis, box in sorted(quantiles.items(), key=lambda item: -item[1][2]):
        highest = max(points[axis])
        name = perplexity["by_descriptor"][highest.index]["descriptor"]
        mark = Mark(highest.value, f"{name}: {count(highest.value)}", look=1, text=shortened(name))
        rows.append(Row(axis_label(axis), [mark], [dot for dot in points[axis] if dot != highest], box))
    legend = [("the highest of each axis", 1, False)]
    title = f"{measure} (log); boxes: 5, 25, 50, 75 and 95 % of sentences"
    return rows_plot(rows, title, "count", legend, height=36, is_log=True)
