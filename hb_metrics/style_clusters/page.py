"""The page of style clusters; `results.html.jinja` lays it out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from plotly.offline import get_plotlyjs

from hb_metrics.report.layout.numbers import count, fixed, rho
from hb_metrics.report.layout.parts import Tile
from hb_metrics.report.layout.plots import plain
from hb_metrics.report.layout.rendering import for_script, render
from hb_metrics.style_clusters.analysis import TOP_STYLES
from hb_metrics.style_clusters.figures import dendrogram_figure

STABLE = 0.75  # Hennig's (2007) limit for the mean Jaccard index of a cluster


def clusters_page(results: Mapping[str, Any]) -> str:
    """The page of the clusters as HTML that loads nothing.

    Args:
        results: The values that `analysis.analyse` returns.
    """
    written = [cluster for cluster in results["clusters"] if cluster["written"]]
    stable = sum(cluster["jaccard"] >= STABLE for cluster in written)
    num_clusters, styles = count(results["cut"]["num_clusters"]), f"of {len(results['styles'])} styles"
    tiles = [
        Tile("clusters", num_clusters, (styles, f"{len(written)} written")),
        Tile("of these, stable", f"{stable} of {len(written)}", (f"Jaccard index of {fixed(STABLE, 2)} or more",)),
        Tile("reliability of correlations", rho(results["reliability"]), ("from halves of the replies",)),
    ]
    tree, height = np.array(results["tree"]), results["cut"]["height"]
    dendrogram = plain(dendrogram_figure(tree, results["styles"], results["clusters"], height))
    context = {
        "results": results,
        "written": written,
        "opposed": opposed(results),
        "num_top_styles": min(TOP_STYLES, len(results["styles"])),
        "tiles": tiles,
        "num_single": sum(len(cluster["styles"]) == 1 for cluster in results["clusters"]),
        "figures": for_script({"clusters-dendrogram": [dendrogram]}),
        "terms": "null",
        "plotly_js": get_plotlyjs(),
    }
    return render(Path(__file__).parent / "results.html.jinja", context)


def opposed(results: Mapping[str, Any]) -> list[str]:
    """The names of written clusters whose styles are negatively correlated on average, so do not go together."""
    names = []
    for cluster in results["clusters"]:
        if cluster["written"] and (cluster["mean_correlation"] or 0) < 0:
            names.append(cluster["name"])
    return names
