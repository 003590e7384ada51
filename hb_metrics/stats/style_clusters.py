"""Finds the columns of style clusters, and computes the three Gen Bias metrics from variances of columns.

An array has one column per style, followed by one column per cluster. A cluster's column is the sum over its styles.
"""

import difflib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from hb_metrics.stats.inputs import check_column

# The paper's six clusters (A.7), in the order of its tables.
PAPER_CLUSTERS: Mapping[str, Sequence[str]] = {
    "Sympathy": ("Sympathetic", "Compassionate", "Empathetic"),
    "Envy": ("Envious",),
    "Curiosity": ("Curious", "Questioning"),
    "Confusion": ("Vacuous", "Absentminded", "Bewildered", "Stupid", "Confused"),
    "Hate": ("Hateful", "Resentful"),
    "Care": ("Sensitive", "Considerate", "Warm", "Kind", "Caring", "Respectful"),
}


def check_labels(labels: Sequence[str]) -> list[str]:
    check_column("labels", labels)
    names = [str(label) for label in labels]
    for label, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"label {label!r} occurs {count} times; use a different name for each style")
    return names


def cluster_columns(
    labels: Sequence[str] | None, clusters: Mapping[str, Sequence[str]] | None = None
) -> dict[str, list[int]]:
    """Finds the columns of each cluster's styles, in the order of the clusters.

    Args:
        labels: [styles] name of each column.
        clusters: The styles of each cluster. A style is named by its full label, or by the part of the label before "
            (". `None` selects the paper's six clusters.

    Raises:
        ValueError: There are no labels. A cluster is empty, or contains a style that is unknown, ambiguous or listed
            twice. `clusters` is `None`, and the labels lack styles of the paper's clusters.
    """
    if labels is None:
        raise ValueError("style clusters need labels; pass the names of the styles, in the order of the columns")
    if clusters is None:
        if lacking := _lacking(labels):
            raise ValueError(
                f"the labels lack {len(lacking)} styles of the paper's clusters ({', '.join(lacking)}), so the "
                "labels come from another classifier; pass clusters made for these labels"
            )
        clusters = PAPER_CLUSTERS
    if not isinstance(clusters, Mapping) or not clusters or not all(map(_is_list_of_styles, clusters.values())):
        raise ValueError(
            f"clusters is {clusters!r}; pass a mapping from the name of each cluster to a list of one or more styles"
        )
    return {cluster: _columns(cluster, styles, labels) for cluster, styles in clusters.items()}


def known_columns(
    labels: Sequence[str] | None, clusters: Mapping[str, Sequence[str]] | None = None
) -> dict[str, list[int]]:
    """Returns the result of `cluster_columns`, or {} if the labels lack styles of the paper's default clusters."""
    if clusters is None and (labels is None or _lacking(labels)):
        return {}
    return cluster_columns(labels, clusters)


def cluster_sums(values: np.ndarray, columns: Mapping[str, Sequence[int]]) -> np.ndarray:
    return np.stack([values[:, styles].sum(axis=1) for styles in columns.values()], axis=1)


def with_cluster_sums(values: np.ndarray, columns: Mapping[str, Sequence[int]]) -> np.ndarray:
    """Appends the sum over each cluster's styles: [rows, styles] to [rows, styles + clusters]."""
    return np.hstack([values, cluster_sums(values, columns)]) if columns else values


def read_metrics(variances: np.ndarray, columns: Mapping[str, Sequence[int]]) -> np.ndarray:
    """Computes the three Gen Bias metrics, which are sums of the variances of columns (A.7).

    The result, [..., 1 + 2 × clusters], contains Full Gen Bias, then each cluster's Partial Gen Bias, then each
    cluster's Summed-Cluster Gen Bias.
    """
    num_styles = variances.shape[-1] - len(columns)
    by_style, summed = variances[..., :num_styles], variances[..., num_styles:]
    partial = [by_style[..., styles].sum(axis=-1, keepdims=True) for styles in columns.values()]
    return np.concatenate([by_style.sum(axis=-1, keepdims=True), *partial, summed], axis=-1)


def _is_list_of_styles(styles: object) -> bool:
    return isinstance(styles, Collection) and not isinstance(styles, str) and len(styles) > 0


def _columns(cluster: str, styles: Sequence[str], labels: Sequence[str]) -> list[int]:
    columns: list[int] = []
    for style in sorted(styles) if isinstance(styles, AbstractSet) else styles:  # the results are in this order
        # A full label takes precedence. "Earnest" is a full label, and also the beginning of "Earnest (Enthusiastic)".
        matches = [column for column, label in enumerate(labels) if label == style]
        matches = matches or [column for column, label in enumerate(labels) if _before_bracket(label) == style]
        if len(matches) != 1:
            found = ", ".join(repr(labels[column]) for column in matches) or f"none of the {len(labels)} labels"
            close = difflib.get_close_matches(str(style), [*labels, *map(_before_bracket, labels)], n=1)
            hint = f"did you mean '{close[0]}'? " if close and not matches else ""
            raise ValueError(
                f"cluster {cluster!r} names the style {style!r}, which matches {found}; {hint}pass a label, or the "
                "part before ' (' if only one label begins with it"
            )
        if matches[0] in columns:
            raise ValueError(f"cluster {cluster!r} contains the style {labels[matches[0]]!r} twice; list it once")
        columns += matches
    return columns


def _lacking(labels: Sequence[str]) -> list[str]:
    known = {*labels, *map(_before_bracket, labels)}
    return [style for styles in PAPER_CLUSTERS.values() for style in styles if style not in known]


def _before_bracket(label: str) -> str:
    return label.split(" (")[0]
