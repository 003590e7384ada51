"""Figures of style clusters: the dendrogram, and heat maps in its order."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from scipy.cluster.hierarchy import cophenet, leaves_list, linkage
from scipy.spatial.distance import squareform

from hb_metrics.report.plots import BLUE, GREY, ORANGE, finished, segments, shortened

_ROW_HEIGHT = 16
_CELL_HEIGHT = 12
_LABEL_WIDTH = 22
_WRITTEN, _OTHER, _ABOVE = "within a cluster that is written", "within another cluster", "above the cut"


def shown_rows(results: Mapping[str, Any]) -> list[int]:
    """Rows of the styles in clusters that hold one of the styles with the most Partial Gen Bias."""
    shown = {style for cluster in results["clusters"] if cluster["top_styles"] for style in cluster["styles"]}
    return [row for row, style in enumerate(results["styles"]) if style in shown]


def restricted_tree(tree: np.ndarray, rows: Sequence[int]) -> np.ndarray:
    """The tree without the styles of other rows: each merge is at the height where the whole tree has it."""
    heights = squareform(cophenet(tree))[np.ix_(rows, rows)]
    # The heights at which styles meet in a tree have that tree only, whatever the linkage.
    return linkage(squareform(heights, checks=False), "single")


def leaf_order(tree: np.ndarray) -> list[int]:
    """The leaves from the bottom to the top of the dendrogram."""
    order: list[int] = leaves_list(tree).tolist()
    return order


def dendrogram_figure(tree: np.ndarray, styles: Sequence[str], clusters: Sequence[Any], cut: float) -> go.Figure:
    """The merges of styles, with 1 − correlation to the right.

    Args:
        tree: Merges of these styles.
        styles: Their names.
        clusters: All clusters, as in the results.
        cut: The height of the cut.
    """
    order = leaf_order(tree)
    written = {style for cluster in clusters if cluster["written"] for style in cluster["styles"]}
    heights = {leaf: float(row) for row, leaf in enumerate(order)}
    widths = dict.fromkeys(order, 0.0)
    in_written = {leaf: styles[leaf] in written for leaf in order}
    # Lines by what they are in: from and to, along both axes.
    lines: dict[str, list[tuple[float, float, float, float]]] = {_WRITTEN: [], _OTHER: [], _ABOVE: []}
    for step, (first, second, width) in enumerate(tree[:, :3].tolist()):
        one, other, merged = int(first), int(second), len(styles) + step
        heights[merged], widths[merged] = (heights[one] + heights[other]) / 2, width
        in_written[merged] = in_written[one]
        for child in (one, other):  # a branch is within its cluster as far as the cut
            within = lines[_WRITTEN if in_written[child] else _OTHER]
            if widths[child] <= min(width, cut):
                within.append((widths[child], min(width, cut), heights[child], heights[child]))
            if width > cut:
                lines[_ABOVE].append((max(widths[child], cut), width, heights[child], heights[child]))
        (lines[_ABOVE] if width > cut else within).append((width, width, heights[one], heights[other]))
    figure = go.Figure()
    for (name, parts), colour in zip(lines.items(), (ORANGE, BLUE, GREY), strict=True):
        if parts:
            starts, ends, lows, highs = zip(*parts, strict=True)
            figure.add_scatter(
                x=segments(starts, ends),
                y=segments(lows, highs),
                mode="lines",
                name=name,
                line={"color": colour, "width": 1 if colour == GREY else 2},
                hovertemplate="%{x:.2f}<extra></extra>",
            )
    figure.add_vline(x=cut, line={"color": GREY, "width": 1, "dash": "dot"})
    figure.update_yaxes(
        tickvals=list(range(len(order))),
        ticktext=[shortened(styles[leaf], _LABEL_WIDTH) + " " for leaf in order],
        range=[-1, len(order)],
        tickfont={"size": 11},
        showgrid=False,
        zeroline=False,
    )
    figure.update_xaxes(title="1 − correlation", range=[0, 1.03 * max(float(tree[-1, 2]), 1e-6)])
    return finished(figure, height=150 + _ROW_HEIGHT * len(order)).update_layout(
        margin_t=70, legend={"font": {"size": 11}}
    )


def heat_figure(
    matrix: np.ndarray, order: Sequence[int], styles: Sequence[str], what: str, *, is_share: bool
) -> go.Figure:
    """Pairs of styles as colours, in the order of the dendrogram; the diagonal is empty.

    Args:
        matrix: [styles, styles].
        order: The rows that are drawn, from the bottom to the top.
        styles: All names.
        what: What a value is, for the pointer.
        is_share: Whether values are shares, and else correlations.
    """
    values = matrix[np.ix_(order, order)].copy()
    np.fill_diagonal(values, np.nan)
    names = [styles[row] for row in order]
    most = max(float(np.nanmax(np.abs(values), initial=0)), 1e-6)
    colours = (
        {"zmin": 0, "zmax": 1, "colorscale": [[0, "white"], [1, BLUE]]}
        if is_share
        else {"zmin": -most, "zmax": most, "colorscale": [[0, ORANGE], [0.5, "white"], [1, BLUE]]}
    )
    form = ".0%" if is_share else ".2f"
    figure = go.Figure(
        go.Heatmap(
            z=[[None if np.isnan(value) else round(float(value), 2) for value in row] for row in values],
            x=names,
            y=names,
            hovertemplate=f"%{{y}}<br>%{{x}}<br>{what}: %{{z:{form}}}<extra></extra>",
            colorbar={"thickness": 10, "tickformat": form, "orientation": "h", "y": 0, "yanchor": "top", "ypad": 8},
            **colours,
        )
    )
    figure.update_yaxes(
        tickvals=names,
        ticktext=[shortened(name, _LABEL_WIDTH) + " " for name in names],
        tickfont={"size": 10},
        ticks="",
    )
    figure.update_xaxes(showticklabels=False, ticks="")
    return finished(figure, height=90 + max(_CELL_HEIGHT * len(order), 200)).update_layout(margin_t=16)
