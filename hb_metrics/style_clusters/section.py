"""The section of a report on style clusters, and their page; `section.html.jinja` lays both out."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from plotly.offline import get_plotlyjs

from hb_metrics.report.layout.numbers import count, fixed, rho
from hb_metrics.report.layout.parts import Section, Tile
from hb_metrics.report.layout.plots import plain
from hb_metrics.report.layout.rendering import for_script, render
from hb_metrics.runs.run_folder import read_json
from hb_metrics.style_clusters.analysis import LAYOUT, TOP_STYLES
from hb_metrics.style_clusters.figures import dendrogram_figure, heat_figure, restricted_tree, shown_rows

_FOLDER = Path(__file__).parent
STABLE = 0.75  # Hennig's (2007) limit for the mean Jaccard index of a cluster


def is_results(content: Any) -> bool:
    """Whether it is what this package writes as style_clusters.json."""
    return isinstance(content, dict) and content.get("layout") == LAYOUT and isinstance(content.get("files"), dict)


def read_results(path: Path, digest: str) -> dict[str, Any]:
    """Reads the style clusters of the run with this digest.

    Raises:
        ValueError: The file holds none, or those of another run.
        OSError: It cannot be read.
    """
    results = read_json(path)
    problem = None if is_results(results) else "does not hold style clusters"
    if problem is None and results["run"]["digest"] != digest:
        problem = f"is about another run ({results['run']['name']})"
    if problem is not None:
        raise ValueError(f"'{path}' {problem}; give the style_clusters.json that `style-clusters` wrote of this run")
    clusters: dict[str, Any] = results
    return clusters


def style_clusters_section(results: Mapping[str, Any]) -> Section:
    """The section of a report.

    Args:
        results: The values that `analysis.analyse` returns.
    """
    rows = shown_rows(results)
    written = [cluster for cluster in results["clusters"] if cluster["written"]]
    stable = sum(cluster["jaccard"] >= STABLE for cluster in written)
    num_clusters, styles = count(results["cut"]["num_clusters"]), f"of {len(results['styles'])} styles"
    tiles = [
        Tile("clusters", num_clusters, (styles, f"{len(written)} written")),
        Tile("of these, stable", f"{stable} of {len(written)}", (f"Jaccard index of {fixed(STABLE, 2)} or more",)),
        Tile("reliability of correlations", rho(results["reliability"]), ("from halves of the replies",)),
    ]
    if (comparison := results["comparison"]) is not None:
        details = (f"with {comparison['name']}", f"over {comparison['num_styles']} styles; 0 by chance")
        tiles.append(Tile("adjusted Rand index", rho(comparison["adjusted_rand"]), details))
    context = {
        "results": results,
        "written": written,
        "opposed": opposed(results),
        "num_shown": len(rows),
        "num_top_styles": min(TOP_STYLES, len(results["styles"])),
        "tiles": tiles,
        "num_single": sum(len(cluster["styles"]) == 1 for cluster in results["clusters"]),
    }
    html = render(_FOLDER / "section.html.jinja", context)
    return Section("style-clusters", "Style clusters", html, _figures(results, rows))


def clusters_page(results: Mapping[str, Any]) -> str:
    """The page of the clusters as HTML that loads nothing."""
    section = style_clusters_section(results)
    data = {"figures": for_script(section.figures), "terms": "null", "plotly_js": get_plotlyjs()}
    return render(_FOLDER / "results.html.jinja", {"section": section, "results": results, **data})


def opposed(results: Mapping[str, Any]) -> list[str]:
    """The names of written clusters whose styles are negatively correlated on average, so do not go together."""
    names = []
    for cluster in results["clusters"]:
        if cluster["written"] and (cluster["mean_correlation"] or 0) < 0:
            names.append(cluster["name"])
    return names


def _figures(results: Mapping[str, Any], rows: list[int]) -> dict[str, list[dict[str, Any]]]:
    styles, tree = results["styles"], np.array(results["tree"])
    correlations = np.eye(len(styles))
    correlations[np.triu_indices(len(styles), 1)] = results["correlations"]
    correlations += np.triu(correlations, 1).T
    figures: dict[str, list[dict[str, Any]]] = {"clusters-dendrogram": [], "clusters-heat": []}
    for drawn in (rows, list(range(len(styles)))):
        if len(drawn) > 1:
            part, names = restricted_tree(tree, drawn), [styles[row] for row in drawn]
            dendrogram = dendrogram_figure(part, names, results["clusters"], results["cut"]["height"])
            heat = heat_figure(part, names, correlations[np.ix_(drawn, drawn)])
            figures["clusters-dendrogram"].append(plain(dendrogram))
            figures["clusters-heat"].append(plain(heat))
    return figures
