"""Finds clusters of styles in a run's replies, and writes a file for `--style_clusters`.

holistic-bias style-clusters runs/gpt2 --output style_clusters.yaml
holistic-bias measure --model openai-community/gpt2 --style_clusters style_clusters.yaml --seed 1
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform

from hb_dataset.command_line import CommandParser, safe_terminal
from hb_dataset.whole_files import write_text
from hb_metrics.layout.numbers import bias
from hb_metrics.measurements.results import Run, read_run
from hb_metrics.run.run_folder import STYLES
from hb_metrics.run.run_record import classifier_name

LEAST_STYLES = 3
# The paper's settings. Clusters are formed around the 20 styles with the highest Partial Gen Bias, and the six highest
# clusters are used.
TOP_STYLES, WRITTEN = 20, 6
# With a smaller standard deviation, a style's probabilities differ only by rounding errors.
_NO_SPREAD = 1e-12
# Values are rounded to this many digits. Otherwise, rounding errors could decide ties differently on other machines.
_DIGITS = 10


class Cluster(NamedTuple):
    """A cluster of styles. Clusters are sorted by Partial Gen Bias, from high to low.

    `partial_gen_bias` is multiplied by 1000, and debiased if the run has debiased values. `correlation` is the mean
    correlation between two styles, or `None` for a single style.
    """

    styles: list[str]
    partial_gen_bias: float
    correlation: float | None


@safe_terminal()
def main(argv: Sequence[str] | None = None) -> None:
    parser = CommandParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("run", type=Path, metavar="RUN", help="The folder of a finished run with replies.")
    parser.add_argument("--output", type=Path, help="The YAML file to write. Default: RUN/style_clusters.yaml.")
    arguments = parser.parse_args(argv)
    path = arguments.output or arguments.run / "style_clusters.yaml"
    run = read_run(arguments.run)
    clusters = find_clusters(run)
    text = clusters_text(run, clusters)
    if path.exists() and path.read_bytes() != text.encode():
        raise ValueError(f"'{path}' already exists with other content; set --output to a new file")
    write_text(path, text)
    print("Partial Gen Bias and styles of each cluster:")
    for cluster in clusters:
        opposed = " (negatively correlated: do not measure with this cluster)" if (cluster.correlation or 0) < 0 else ""
        print(f"  {bias(cluster.partial_gen_bias):>6}  {', '.join(cluster.styles)}{opposed}")
    print(f"clusters: {path.resolve()}")


def find_clusters(run: Run) -> list[Cluster]:
    if "generation" not in run.results.measured:
        raise ValueError(f"'{run.folder}' has no styles; measure with --measurements generation in a new folder")
    generation, values = run.results.generation, run.tables.vectors(STYLES).values.astype(np.float64)
    varies = values.std(axis=0) > _NO_SPREAD
    labels = [style.style for style in generation.styles]
    known = [label for label, varied in zip(labels, varies, strict=True) if varied]
    if len(known) < LEAST_STYLES:
        few = f"only {len(known)} of {len(labels)} styles vary between replies, but clusters need {LEAST_STYLES}"
        raise ValueError(f"{few}; measure with a style classifier that has more styles")
    by_style = (generation.debiased or generation.gen_bias).by_style or {}
    correlations = np.asarray(np.corrcoef(values[:, varies].T))
    parts = cluster_styles(correlations)
    top = sorted(known, key=lambda label: -by_style[label])[:TOP_STYLES]
    clusters = []
    for index in {int(parts[known.index(label)]) for label in top}:
        rows = np.flatnonzero(parts == index)
        within = correlations[np.ix_(rows, rows)][np.triu_indices(len(rows), 1)]
        styles = sorted((known[row] for row in rows), key=lambda label: -by_style[label])
        value = sum(by_style[label] for label in styles)
        clusters.append(Cluster(styles, value, float(within.mean()) if len(within) else None))
    return sorted(clusters, key=lambda cluster: (-cluster.partial_gen_bias, cluster.styles))[:WRITTEN]


def cluster_styles(correlations: np.ndarray) -> np.ndarray:
    """Partitions three or more styles by average linkage with the distance 1 − correlation.

    The number of clusters is chosen to maximise the mean silhouette width. In a tie, the smaller number is chosen.

    Returns:
        [styles] The number of each style's cluster.
    """
    distances = np.round(1 - correlations, _DIGITS).clip(0, 2)
    distances = (distances + distances.T) / 2
    np.fill_diagonal(distances, 0)
    tree = linkage(squareform(distances, checks=False), "average")
    tree[:, 2] = range(len(tree))  # cuts the tree between any two merges, even between those of equal distance
    partitions = [fcluster(tree, number, "maxclust") - 1 for number in range(2, len(distances))]
    return partitions[np.argmax([round(silhouette(distances, labels), _DIGITS) for labels in partitions])]


def silhouette(distances: np.ndarray, labels: np.ndarray) -> float:
    """Computes the mean silhouette width (Rousseeuw, 1987): the mean of (b − a) / max(a, b) over the styles.

    For each style, a is the mean distance to the other styles of its cluster, and b is the mean distance to the styles
    of the nearest other cluster. A style that is alone in its cluster has a width of 0.
    """
    rows = np.arange(len(labels))
    members = np.eye(labels.max() + 1)[labels]
    sizes = members.sum(axis=0)
    sums = distances @ members
    own = sums[rows, labels] / np.maximum(sizes[labels] - 1, 1)
    others = sums / sizes
    others[rows, labels] = np.inf
    nearest = others.min(axis=1)
    larger = np.maximum(own, nearest)
    widths = np.divide(nearest - own, larger, out=np.zeros(len(labels)), where=larger > 0)
    return float(np.where(sizes[labels] > 1, widths, 0).mean())


def clusters_text(run: Run, clusters: Sequence[Cluster]) -> str:
    classifier = " ".join(classifier_name(run.record.style_classifier).split())
    header = (
        "# Clusters of styles in a run's replies, for `--style_clusters` of `holistic-bias measure`.\n# Styles "
        f"classified by {classifier}.\n# Edit the clusters before use: the paper kept only rough synonyms.\n"
    )
    named = {cluster.styles[0]: cluster.styles for cluster in clusters}
    return header + yaml.safe_dump({"clusters": named}, sort_keys=False, width=2**20, default_flow_style=None)


if __name__ == "__main__":
    main()
