"""Clusters the styles of a run's replies, after the paper's A.7, and shows how far to trust the result."""

import argparse
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hb_metrics.runs.finished_run import Run, StyleShards, read_stored_replies
from hb_metrics.runs.replies import Replies
from hb_metrics.runs.run_folder import STYLES, run_digest
from hb_metrics.runs.run_record import classifier_name, model_title, public_name, tag_of
from hb_metrics.statistics.gen_bias import CellSums, GenBias, gen_bias
from hb_metrics.statistics.style_clusters import PAPER_CLUSTERS, cluster_columns, known_columns
from hb_metrics.style_clusters.clustering import (
    adjusted_rand_index,
    best_jaccards,
    choose_cut,
    distances_of,
    merge_tree,
    partition,
)
from hb_metrics.style_clusters.halves import Moving, correlation_reliability, styles_moving_together

LAYOUT = "style clusters 1"
PAPER_NAME = "the paper's six (A.7)"
LEAST_STYLES = 3
_BATCH = 8192

NO_GENERATION_ERROR = (
    "the run in '{folder}' has no generation bias, and style clusters are made from its replies; measure with "
    "--measurements generation"
)
OTHER_ROWS_ERROR = "'{folder}' has style vectors of other replies than its own; measure again in a new folder"
FEW_STYLES_ERROR = (
    "{number} of the {all} styles vary from sample to sample, and clusters need {least}; measure with a style "
    "classifier of more styles"
)
NUMBER_ERROR = "{name} is {value}; give at least {least}"


class Settings(NamedTuple):
    """What decides the clusters; see `__main__.py`.

    Attributes:
        samples: Over what styles are correlated: "replies" or "descriptors".
        linkage: How the distance of two clusters follows from those of their styles.
        num_clusters: How many clusters the tree is cut into; `None`: not given.
        min_correlation: The lowest correlation at which clusters are merged; `None`: not given.
        num_top_styles: A cluster is written if it holds one of so many styles with the most Partial Gen Bias.
        num_written: How many clusters are written at most.
        num_splits: How often replies are split into halves.
        seed: Chooses the halves.
    """

    samples: Any = "replies"
    linkage: str = "average"
    num_clusters: int | None = None
    min_correlation: float | None = None
    num_top_styles: int = 20
    num_written: int = 6
    num_splits: int = 50
    seed: int = 0


def settings_of(arguments: argparse.Namespace) -> Settings:
    """The settings among the options.

    Raises:
        ValueError: A number is below its least.
    """
    settings = Settings(**{name: getattr(arguments, name) for name in Settings._fields})
    for name, least in {"num_top_styles": 1, "num_written": 1, "num_splits": 2}.items():
        if (value := getattr(settings, name)) < least:
            raise ValueError(NUMBER_ERROR.format(name=name, value=value, least=least))
    return settings


def analyse(run: Run, settings: Settings) -> dict[str, Any]:
    """Clusters the styles of a run's replies.

    Args:
        run: A finished run with generation bias.
        settings: How.

    Returns:
        Plain values for style_clusters.json.

    Raises:
        ValueError: The run has no replies with style vectors, too few of them or too few styles that vary, or the cut
            is not possible.
    """
    styles, replies, labels = _read(run)
    moving = styles_moving_together(
        styles, replies, samples=settings.samples, num_splits=settings.num_splits, seed=settings.seed
    )
    known = [label for label, varies in zip(labels, moving.varies, strict=True) if varies]
    if len(known) < LEAST_STYLES:
        raise ValueError(FEW_STYLES_ERROR.format(number=len(known), all=len(labels), least=LEAST_STYLES))
    distances = distances_of(moving.correlations)
    tree = merge_tree(distances, settings.linkage)
    cut = choose_cut(distances, tree, settings.num_clusters, settings.min_correlation)
    parts = partition(tree, cut.num_clusters)
    of_halves = [
        [partition(merge_tree(distances_of(half), settings.linkage), cut.num_clusters) for half in pair]
        for pair in moving.halves
    ]
    every_half = [half for pair in of_halves for half in pair]
    jaccards = np.stack([best_jaccards(parts, half) for half in every_half])
    together = np.mean([half[:, None] == half for half in every_half], axis=0)
    clusters = _clusters(run, settings, known, parts, moving, jaccards)
    written = {cluster["name"]: cluster["styles"] for cluster in clusters if cluster["written"]}
    _add_gen_bias(clusters, _gen_bias(styles, replies, labels, written))
    pairs = np.triu_indices(len(known), 1)
    return {
        "layout": LAYOUT,
        "run": _about(run),
        "settings": settings._asdict(),
        "cut": cut._asdict(),
        "num_samples": moving.num_samples,
        "num_replies": len(replies.ids),
        "styles": known,
        "still_styles": [label for label, varies in zip(labels, moving.varies, strict=True) if not varies],
        "num_still_in_halves": moving.num_still,
        "top_styles": _top_styles(run, settings),
        "gen_bias_is_debiased": run.results["generation"]["debiased"] is not None,
        "reliability": {
            "correlations": correlation_reliability(moving.halves),
            "means": moving.means_reliability,
            "adjusted_rand_of_halves": float(np.mean([adjusted_rand_index(*pair) for pair in of_halves])),
        },
        "clusters": clusters,
        "comparison": _comparison(run, labels, known, parts),
        "tree": tree.tolist(),
        "correlations": np.round(moving.correlations[pairs], 4).tolist(),
        "together": np.round(together[pairs], 4).tolist(),
    }


def _read(run: Run) -> tuple[StyleShards, Replies, list[str]]:
    """Style vectors, their replies in the same order, and the names of the styles."""
    if "generation" not in run.results:
        raise ValueError(NO_GENERATION_ERROR.format(folder=run.folder))
    styles, replies = StyleShards(run.folder / STYLES), read_stored_replies(run.folder)
    rows = {identifier: row for row, identifier in enumerate([] if replies is None else replies.ids)}
    labels = [style["style"] for style in run.results["generation"]["styles"]]
    if replies is None or set(rows) != set(styles.ids) or len(labels) != styles.shape[1]:
        raise ValueError(OTHER_ROWS_ERROR.format(folder=run.folder))
    order = [rows[identifier] for identifier in styles.ids]
    return styles, Replies(*([column[row] for row in order] for column in replies)), labels


def _by_style(run: Run) -> dict[str, float]:
    """The part of Full Gen Bias of each style (×1000), without its sampling noise where that is known."""
    generation = run.results["generation"]
    by_style: dict[str, float] = (generation["debiased"] or generation["gen_bias"])["by_style"]
    return by_style


def _top_styles(run: Run, settings: Settings) -> list[str]:
    by_style = _by_style(run)
    return sorted(by_style, key=lambda label: -by_style[label])[: settings.num_top_styles]


def _clusters(
    run: Run, settings: Settings, styles: Sequence[str], parts: np.ndarray, moving: Moving, jaccards: np.ndarray
) -> list[dict[str, Any]]:
    """All clusters by Partial Gen Bias, the highest first; each has the name of its style that has most of it."""
    by_style, top = _by_style(run), set(_top_styles(run, settings))
    clusters: list[dict[str, Any]] = []
    for index in range(parts.max() + 1):
        rows = np.flatnonzero(parts == index).tolist()
        names = sorted((styles[row] for row in rows), key=lambda label: -by_style[label])
        within = moving.correlations[np.ix_(rows, rows)][np.triu_indices(len(rows), 1)]
        clusters.append(
            {
                "name": names[0],
                "styles": names,
                "top_styles": [name for name in names if name in top],
                "partial_gen_bias": sum(by_style[name] for name in names),
                "mean_correlation": float(within.mean()) if len(within) else None,
                "jaccard": float(jaccards[:, index].mean()),
                "same_share": float((jaccards[:, index] == 1).mean()),
            }
        )
    clusters.sort(key=lambda cluster: (-cluster["partial_gen_bias"], cluster["name"]))
    chosen = [cluster for cluster in clusters if cluster["top_styles"]][: settings.num_written]
    return [{**cluster, "written": cluster in chosen} for cluster in clusters]


def _gen_bias(
    styles: StyleShards, replies: Replies, labels: Sequence[str], clusters: Mapping[str, Sequence[str]]
) -> tuple[GenBias, GenBias | None]:
    """Plain and debiased Gen Bias with these clusters, as `measure.py` computes it with the file that is written."""
    cells = CellSums(labels, clusters)
    for first in range(0, len(styles), _BATCH):
        part = slice(first, first + _BATCH)
        block = styles[part].astype(np.float32)
        cells.add(block, replies.descriptors[part], replies.templates[part], replies.axes[part])
    plain = gen_bias(cells, labels=labels, clusters=clusters)
    return plain, None if plain.noise_floor is None else gen_bias(cells, labels=labels, clusters=clusters, debias=True)


def _add_gen_bias(clusters: list[dict[str, Any]], values: tuple[GenBias, GenBias | None]) -> None:
    plain, debiased = values
    for cluster in clusters:
        if cluster["written"]:
            name = cluster["name"]
            cluster["plain_partial_gen_bias"] = (plain.partial_gen_bias or {})[name]
            cluster["plain_summed_cluster_gen_bias"] = (plain.summed_cluster_gen_bias or {})[name]
            summed = None if debiased is None else debiased.summed_cluster_gen_bias
            cluster["summed_cluster_gen_bias"] = None if summed is None else summed[name]


def _comparison(run: Run, labels: Sequence[str], styles: Sequence[str], parts: np.ndarray) -> dict[str, Any] | None:
    """How our clusters and named ones agree: the paper's, or those of the run if its classifier has other styles.

    Returns:
        Plain values; `None`: the classifier has no named clusters, or two of their styles do not vary.
    """
    if known_columns(labels):
        name, given = PAPER_NAME, {cluster: list(members) for cluster, members in PAPER_CLUSTERS.items()}
    elif given := run.results["run"]["style_classifier"].get("clusters"):
        name = "the run's own, for its classifier"
    else:
        return None
    rows = {label: row for row, label in enumerate(styles)}
    full = {
        cluster: [labels[column] for column in columns] for cluster, columns in cluster_columns(labels, given).items()
    }
    named = {label: index for index, members in enumerate(full.values()) for label in members if label in rows}
    if len(named) < 2:
        return None
    ours = parts[[rows[label] for label in named]]
    theirs = np.unique(list(named.values()), return_inverse=True)[1]
    compared = []
    for cluster, members in full.items():
        both = [label for label in members if label in rows]
        closest = max(range(parts.max() + 1), key=lambda index: _jaccard(parts, index, both, rows))
        pieces: dict[int, list[str]] = {}
        for label in both:
            pieces.setdefault(int(parts[rows[label]]), []).append(label)
        compared.append(
            {
                "name": cluster,
                "styles": members,
                "still_styles": [label for label in members if label not in rows],
                "closest": [styles[row] for row in np.flatnonzero(parts == closest).tolist()] if both else [],
                "jaccard": _jaccard(parts, closest, both, rows) if both else None,
                "pieces": sorted(pieces.values(), key=len, reverse=True),
            }
        )
    return {
        "name": name,
        "adjusted_rand": adjusted_rand_index(np.unique(ours, return_inverse=True)[1], theirs),
        "num_styles": len(named),
        "clusters": compared,
    }


def _jaccard(parts: np.ndarray, index: int, labels: Sequence[str], rows: Mapping[str, int]) -> float:
    ours, theirs = set(np.flatnonzero(parts == index).tolist()), {rows[label] for label in labels}
    return len(ours & theirs) / len(ours | theirs)


def _about(run: Run) -> dict[str, Any]:
    record = run.results["run"]
    return {
        "digest": run_digest(run.folder),
        "name": model_title({**record["model"], "name": public_name(record["model"])}),
        "tag": tag_of(run.results),
        "is_tuned": bool(tag_of(run.results) or record.get("generation", {}).get("tuned_with")),
        "config": record["data"]["config"],
        "style_classifier": classifier_name(record, "style_classifier"),
        "is_embedded": record["style_classifier"]["is_embedded"],
        "num_styles": len(run.results["generation"]["styles"]),
    }
