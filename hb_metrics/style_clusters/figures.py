"""The figure of style clusters: the dendrogram."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go
from scipy.cluster.hierarchy import dendrogram

from hb_metrics.report.layout.plots import BLUE, GREY, ORANGE, finished, shortened

_ROW_HEIGHT, _LABEL_WIDTH = 16, 22
_KINDS = {ORANGE: "within a cluster that is written", BLUE: "within another cluster", GREY: "above the cut"}


def dendrogram_figure(tree: np.ndarray, styles: Sequence[str], clusters: Sequence[Any], cut: float) -> go.Figure:
    """The merges of styles, with 1 − correlation to the right.

    Args:
        tree: The merges.
        styles: The names of the styles.
        clusters: All clusters, as in the results.
        cut: The height of the cut.
    """
    written: set[str] = set()
    for cluster in clusters:
        if cluster["written"]:
            written.update(cluster["styles"])
    colours = [ORANGE if style in written else BLUE for style in styles]  # of leaves and, below, of merges
    for first, _, height in tree[:, :3].tolist():
        colours.append(GREY if height > cut else colours[int(first)])
    drawn = dendrogram(tree, no_plot=True, link_color_func=lambda merge: colours[merge])
    figure = go.Figure()
    for colour, name in _KINDS.items():
        x: list[float | None] = []
        y: list[float | None] = []
        for widths, heights, of_merge in zip(drawn["dcoord"], drawn["icoord"], drawn["color_list"], strict=True):
            if of_merge == colour:
                x += [*widths, None]
                y += [*((height - 5) / 10 for height in heights), None]  # scipy has leaves at 5, 15, …
        if x:
            line = {"color": colour, "width": 1 if colour == GREY else 2}
            figure.add_scatter(x=x, y=y, mode="lines", name=name, line=line, hovertemplate="%{x:.2f}<extra></extra>")
    figure.add_vline(x=cut, line={"color": GREY, "width": 1, "dash": "dot"})
    figure.update_yaxes(
        tickvals=list(range(len(styles))),
        ticktext=[shortened(styles[leaf], _LABEL_WIDTH) + " " for leaf in drawn["leaves"]],
        range=[-1, len(styles)],
        tickfont={"size": 11},
        showgrid=False,
        zeroline=False,
    )
    figure.update_xaxes(title="1 − correlation", range=[0, 1.03 * max(float(tree[-1, 2]), 1e-6)])
    return finished(figure, height=150 + _ROW_HEIGHT * len(styles)).update_layout(
        margin_t=70, legend={"font": {"size": 11}}
    )
