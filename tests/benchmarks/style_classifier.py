"""Measures the embedded style classifier on replies it has never seen: the table of its card.

python tests/benchmarks/style_classifier.py
"""

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from hb_metrics.inference.classifiers.exemplars import DEPTHS, ExemplarClassifier, LabelledLines, read_labelled
from hb_metrics.inference.classifiers.styles import CLUSTER_FILES, STYLE_EXEMPLARS, read_style_clusters
from hb_metrics.inference.models.contexts import read_personas
from hb_metrics.inference.processes import num_workers
from hb_metrics.stats.gen_bias import cluster_columns

LABELLED = Path(__file__).parents[1] / "hb_metrics" / "inference" / "classifiers" / "labelled_replies.yaml"


class Ranks(NamedTuple):
    """How often the style of a reply is the likeliest, among the five likeliest, and its median rank from 1."""

    top_1: float
    top_5: float
    median_rank: float


def ranks(scores: np.ndarray, styles: np.ndarray) -> Ranks:
    """From [replies, styles] scores and the style of each reply."""
    found = (scores > scores[np.arange(len(scores)), styles][:, None]).sum(1) + 1
    return Ranks(float((found == 1).mean()), float((found <= 5).mean()), float(np.median(found)))


def name_similarity(embedded: ExemplarClassifier, texts: list[str]) -> np.ndarray:
    """[texts, styles] cosine of a reply's embedding (final layer, mean-pooled) and that of the style's name."""
    width = embedded.model.config.hidden_size
    top = slice((len(DEPTHS) - 1) * width, None)
    return embedded.features(texts)[:, top] @ embedded.features(embedded.labels)[:, top].T


def cluster_recall(
    probabilities: np.ndarray, replies: LabelledLines, clusters: dict[str, list[str]]
) -> dict[str, tuple[int, float]]:
    """Cluster → how many replies are in its styles, and the share of those whose likeliest cluster it is.

    A cluster's probability is the sum over its styles; the styles in none count as a cluster of their own, "none".
    """
    columns = cluster_columns(replies.labels, clusters)
    inside = {column for members in columns.values() for column in members}
    columns["none"] = [column for column in range(len(replies.labels)) if column not in inside]
    likeliest = np.stack([probabilities[:, members].sum(1) for members in columns.values()], 1).argmax(1)
    found = {}
    for place, (cluster, members) in enumerate(columns.items()):
        here = np.isin(replies.label_indices, members)
        found[cluster] = int(here.sum()), float((likeliest[here] == place).mean())
    return found


def main() -> None:
    """Prints the tables."""
    with tempfile.TemporaryDirectory() as folder:
        loads = []
        for _ in range(4):
            start = time.perf_counter()
            embedded = ExemplarClassifier(STYLE_EXEMPLARS, folder)
            loads.append(time.perf_counter() - start)
    replies = read_labelled(LABELLED)
    assert replies.labels == embedded.labels
    probabilities, _ = embedded.classify(replies.texts)

    print(f"{len(replies.texts)} replies in {len(replies.labels)} styles\n")
    print("| | likeliest style is right | among the five likeliest | median rank |\n| --- | ---: | ---: | ---: |")
    rows = {
        "classifier": ranks(probabilities, replies.label_indices),
        "similarity to the style's name": ranks(name_similarity(embedded, replies.texts), replies.label_indices),
        "chance": Ranks(1 / len(replies.labels), 5 / len(replies.labels), (len(replies.labels) + 1) / 2),
    }
    for name, found in rows.items():
        print(f"| {name} | {found.top_1:.1%} | {found.top_5:.1%} | {found.median_rank:g} |")
    plain, _ = embedded.classify(read_personas())
    print("\n| replies | mean probability of the likeliest style |\n| --- | ---: |")
    print(f"| the {len(probabilities)} labelled ones | {probabilities.max(1).mean():.1%} |")
    print(f"| {len(plain)} plain statements (personas.yaml) | {plain.max(1).mean():.1%} |")

    print("\n| cluster | replies | likeliest cluster is right |\n| --- | ---: | ---: |")
    for cluster, (number, share) in cluster_recall(
        probabilities, replies, read_style_clusters(CLUSTER_FILES[0])
    ).items():
        print(f"| {cluster} | {number} | {share:.0%} |")

    texts = read_labelled(STYLE_EXEMPLARS.exemplars).texts
    times = []
    for _ in range(3):
        start = time.perf_counter()
        embedded.classify(texts)
        times.append(time.perf_counter() - start)
    print(f"\nloaded in {loads[0]:.1f} s the first time, {median(loads[1:]):.2f} s later")
    print(
        f"{len(texts) / median(times):,.0f} replies/s with {num_workers()} threads (median of 3; {len(texts)} replies)"
    )


if __name__ == "__main__":
    main()
