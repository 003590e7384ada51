"""Clusters the styles of a run's replies, after the paper's A.7, and measures how far to trust the result."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from hb_metrics.runs.finished_run import Run, StyleShards, read_stored_replies
from hb_metrics.runs.replies import Replies
from hb_metrics.runs.run_folder import STYLES
from hb_metrics.runs.run_record import classifier_name, model_title, public_name, tag_of
from hb_metrics.style_clusters.clustering import (
    best_jaccards,
    choose_cut,
    distances_of,
    merge_tree,
    partition,
)
from hb_metrics.style_clusters.halves import correlation_reliability, styles_moving_together

LEAST_STYLES = 3
# The paper's: clusters around the 20 styles with the most Partial Gen Bias, and the six highest of these clusters.
TOP_STYLES, WRITTEN = 20, 6


def analyse(run: Run, *, num_clusters: int | None = None, num_splits: int = 50, seed: int = 0) -> dict[str, Any]:
    """Clusters the styles of a run's replies.

    Args:
        run: A finished run with generation bias.
        num_clusters: The number of clusters that the tree is cut into; `None`: the number with the best silhouette.
        num_splits: The number of splits of the replies into halves.
        seed: Chooses the halves.

    Returns:
        Plain values for style_clusters.json.

    Raises:
        ValueError: The run has no style vectors of its replies, too few replies or too few styles that vary, or the
            number of clusters is out of range.
    """
    styles, replies, labels = _read(run)
    moving = styles_moving_together(styles, replies, num_splits=num_splits, seed=seed)
    known = [label for label, varies in zip(labels, moving.varies, strict=True) if varies]
    still = [label for label in labels if label not in known]
    if len(known) < LEAST_STYLES:
        raise ValueError(
            f"{len(known)} of {len(labels)} styles vary between replies, and clusters need {LEAST_STYLES}; measure "
            "with a style classifier of more styles"
        )
    distances = distances_of(moving.correlations)
    tree = merge_tree(distances)
    cut = choose_cut(distances, tree, num_clusters)
    parts = partition(tree, cut.num_clusters)
    jaccards = []
    for pair in moving.halves:
        for half in pair:
            jaccards.append(best_jaccards(parts, partition(merge_tree(distances_of(half)), cut.num_clusters)))
    generation = run.results["generation"]
    by_style = (generation["debiased"] or generation["gen_bias"])["by_style"]
    return {
        "run": _about(run),
        "settings": {"num_clusters": num_clusters, "num_splits": num_splits, "seed": seed},
        "cut": cut._asdict(),
        "num_replies": len(replies.ids),
        "styles": known,
        "still_styles": still,
        "num_still_in_halves": moving.num_still,
        "gen_bias_is_debiased": generation["debiased"] is not None,
        "reliability": correlation_reliability(moving.halves),
        "clusters": _clusters(by_style, known, parts, moving.correlations, np.stack(jaccards)),
        "tree": tree.tolist(),
    }


def _read(run: Run) -> tuple[StyleShards, Replies, list[str]]:
    """Style vectors, their replies in the same order, and the names of the styles."""
    styles, replies = StyleShards(run.folder / STYLES), read_stored_replies(run.folder)
    generation = run.results.get("generation", {"styles": []})
    rows = {} if replies is None else {identifier: row for row, identifier in enumerate(replies.ids)}
    labels = [style["style"] for style in generation["styles"]]
    if replies is None or set(rows) != set(styles.ids) or len(labels) != styles.shape[1]:
        raise ValueError(
            f"the run in '{run.folder}' has no generation bias, or style vectors of other replies; measure in a new "
            "folder with --measurements generation"
        )
    columns = []
    for column in replies:
        columns.append([column[rows[identifier]] for identifier in styles.ids])
    return styles, Replies(*columns), labels


def _clusters(
    by_style: Mapping[str, float],
    styles: Sequence[str],
    parts: np.ndarray,
    correlations: np.ndarray,
    jaccards: np.ndarray,
) -> list[dict[str, Any]]:
    """All clusters, highest Partial Gen Bias (×1000) first, each named by its style with the most."""
    top = sorted(by_style, key=lambda label: -by_style[label])[:TOP_STYLES]
    clusters: list[dict[str, Any]] = []
    for index in range(parts.max() + 1):
        rows = np.flatnonzero(parts == index).tolist()
        names = sorted((styles[row] for row in rows), key=lambda label: -by_style[label])
        within = correlations[np.ix_(rows, rows)][np.triu_indices(len(rows), 1)]
        clusters.append(
            {
                "name": names[0],
                "styles": names,
                "has_top_style": names[0] in top,
                "partial_gen_bias": sum(by_style[name] for name in names),
                "mean_correlation": float(within.mean()) if len(within) else None,
                "jaccard": float(jaccards[:, index].mean()),
            }
        )
    clusters.sort(key=lambda cluster: (-cluster["partial_gen_bias"], cluster["name"]))
    left = WRITTEN
    for cluster in clusters:
        cluster["written"] = cluster["has_top_style"] and left > 0
        left -= cluster["written"]
    return clusters


def _about(run: Run) -> dict[str, Any]:
    record, tag = run.results["run"], tag_of(run.results)
    return {
        "name": model_title({**record["model"], "name": public_name(record["model"])}),
        "tag": tag,
        "is_tuned": bool(tag or record.get("generation", {}).get("tuned_with")),
        "config": record["data"]["config"],
        "style_classifier": classifier_name(record, "style_classifier"),
        "is_embedded": record["style_classifier"]["is_embedded"],
    }
