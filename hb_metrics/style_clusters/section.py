"""The section of a report on style clusters, and the page of its own; `section.html.jinja` lays it out."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from plotly.offline import get_plotlyjs

from hb_metrics.report.numbers import bias, count, fixed, rho
from hb_metrics.report.parts import Section, Tile
from hb_metrics.report.plots import plain
from hb_metrics.report.rendering import for_script, render
from hb_metrics.runs.run_folder import read_json
from hb_metrics.style_clusters.analysis import LAYOUT
from hb_metrics.style_clusters.figures import (
    dendrogram_figure,
    heat_figure,
    leaf_order,
    restricted_tree,
    shown_rows,
)

_FOLDER = Path(__file__).parent
# Hennig's (2007) limits for the mean Jaccard index of a cluster.
STABLE, PATTERN = 0.75, 0.6
LOW_RELIABILITY = 0.7

NOT_RESULTS_ERROR = "'{path}' does not hold style clusters; give the style_clusters.json that `style-clusters` wrote"
OTHER_RUN_ERROR = "'{path}' is about another run ({name}); give the style_clusters.json of this run"


def is_results(content: Any) -> bool:
    """Whether it is what this package writes as style_clusters.json."""
    return isinstance(content, dict) and content.get("layout") == LAYOUT and isinstance(content.get("files"), dict)


def read_results(path: Path) -> dict[str, Any]:
    """Reads style clusters.

    Raises:
        ValueError: The file does not hold any.
        OSError: It cannot be read.
    """
    try:
        results: dict[str, Any] = read_json(path)
    except ValueError as error:
        raise ValueError(NOT_RESULTS_ERROR.format(path=path)) from error
    if not is_results(results):
        raise ValueError(NOT_RESULTS_ERROR.format(path=path))
    return results


def check_run(results: Mapping[str, Any], digest: str, path: Path) -> None:
    """Raises a ValueError if style clusters are of another run than the one with this digest."""
    if results["run"]["digest"] != digest:
        raise ValueError(OTHER_RUN_ERROR.format(path=path, name=results["run"]["name"]))


def style_clusters_section(results: Mapping[str, Any]) -> Section:
    """The section of a report.

    Args:
        results: What `analysis.analyse` returns.
    """
    rows = shown_rows(results)
    written = [cluster for cluster in results["clusters"] if cluster["written"]]
    context = {
        "results": results,
        "written": written,
        "opposed": opposed(written),
        "num_shown": len(rows),
        "tiles": _tiles(results),
        "stable": STABLE,
        "pattern": PATTERN,
        "low_reliability": LOW_RELIABILITY,
        "stability": stability,
        "shown_bias": shown_bias,
        "num_single": sum(len(cluster["styles"]) == 1 for cluster in results["clusters"]),
    }
    html = render(_FOLDER / "section.html.jinja", context)
    return Section("style-clusters", "Style clusters", html, _figures(results, rows))


def clusters_page(results: Mapping[str, Any]) -> str:
    """The page of the clusters as HTML that loads nothing."""
    section = style_clusters_section(results)
    context = {"section": section, "results": results}
    data = {"figures": for_script(section.figures), "terms": "null", "plotly_js": get_plotlyjs()}
    return render(_FOLDER / "results.html.jinja", {**context, **data})


def opposed(clusters: Iterable[Mapping[str, Any]]) -> list[str]:
    """The names of clusters whose styles are negatively correlated on average, and so do not go together."""
    return [cluster["name"] for cluster in clusters if (cluster["mean_correlation"] or 0) < 0]


def stability(jaccard: float) -> str:
    """What a mean Jaccard index says of a cluster (Hennig, 2007)."""
    return "stable" if jaccard >= STABLE else "a pattern" if jaccard >= PATTERN else "not stable"


def _tiles(results: Mapping[str, Any]) -> list[Tile]:
    written = [cluster for cluster in results["clusters"] if cluster["written"]]
    stable = sum(cluster["jaccard"] >= STABLE for cluster in written)
    reliability, comparison = results["reliability"], results["comparison"]
    tiles = [
        Tile(
            "clusters",
            count(results["cut"]["num_clusters"]),
            (f"of {len(results['styles'])} styles", f"{len(written)} written"),
        ),
        Tile("of these, stable", f"{stable} of {len(written)}", (f"Jaccard index of {fixed(STABLE, 2)} or more",)),
        Tile("reliability of correlations", rho(reliability["correlations"]), ("from halves of the replies",)),
    ]
    if reliability["means"] is not None:
        tiles.append(
            Tile("reliability of terms' means", rho(reliability["means"]), ("the share that is not noise of replies",))
        )
    if comparison is not None:
        details = (f"with {comparison['name']}", f"over {comparison['num_styles']} styles; 0 by chance")
        tiles.append(Tile("adjusted Rand index", rho(comparison["adjusted_rand"]), details))
    return tiles


def _figures(results: Mapping[str, Any], rows: list[int]) -> dict[str, list[dict[str, Any]]]:
    styles, tree = results["styles"], np.array(results["tree"])
    matrices = []
    for values in (results["correlations"], results["together"]):
        matrix = np.eye(len(styles))
        matrix[np.triu_indices(len(styles), 1)] = values
        matrices.append(matrix + np.triu(matrix, 1).T)
    orders, dendrograms = [], []
    if len(rows) > 1:
        part = restricted_tree(tree, rows)
        orders.append([rows[leaf] for leaf in leaf_order(part)])
        names = [styles[row] for row in rows]
        dendrograms.append(dendrogram_figure(part, names, results["clusters"], results["cut"]["height"]))
    orders.append(leaf_order(tree))
    dendrograms.append(dendrogram_figure(tree, styles, results["clusters"], results["cut"]["height"]))
    heats = [
        heat_figure(matrix, order, styles, what, is_share=is_share)
        for order in orders
        for matrix, what, is_share in (
            (matrices[0], "correlation", False),
            (matrices[1], "halves with both in one cluster", True),
        )
    ]
    return {
        "clusters-dendrogram": [plain(figure) for figure in dendrograms],
        "clusters-heat": [plain(figure) for figure in heats],
    }


def shown_bias(cluster: Mapping[str, Any], name: str) -> tuple[str, str]:
    """A Gen Bias value of a cluster and, below it, the plain one where both are known."""
    value, plain_value = cluster[name], cluster[f"plain_{name}"]
    if value is None:
        return bias(plain_value), "plain"
    return bias(value), f"plain {bias(plain_value)}"
