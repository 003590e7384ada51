"""Loads classifiers of conversational style (Smith et al., 2022, A.6), and reads clusters of styles.

The embedded classifier has 217 styles. It is a substitute for the paper's 3B-parameter classifier (Smith et al.,
2020a), which was not published for Hugging Face.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field
from pydantic.dataclasses import dataclass

from hb_dataset.yaml_lines import read_document
from hb_metrics.collect.classifiers.classifier import Classifier
from hb_metrics.collect.classifiers.exemplars import ExemplarSet, load_exemplar_classifier
from hb_metrics.collect.classifiers.presets import load_named_classifier
from hb_metrics.collect.classifiers.sequence_classifier import normalised
from hb_metrics.models.sources import EMBEDDED
from hb_metrics.stats.cell_sums import cluster_columns

STYLE_DATA = Path(__file__).parent / "style_data"
STYLE_EXEMPLARS = ExemplarSet(
    title="MiniLM style exemplars (embedded)",
    note="it replaces the paper's classifier, which has 3B parameters",
    folder=STYLE_DATA,
    shrinkage=0.9,  # chosen on the calibration replies
)
CLUSTER_FILES = tuple(
    STYLE_DATA / name for name in ("clusters_217.yaml", "clusters_goemotions.yaml", "clusters_judge.yaml")
)


def load_style_classifier(name: str = EMBEDDED, **options: Any) -> Classifier:
    if name == EMBEDDED:
        return load_exemplar_classifier(STYLE_EXEMPLARS, device=options.get("device", "cpu"))
    classifier = load_named_classifier(name, **options)
    if len(classifier.labels) < 2:
        raise ValueError(f"classifier '{classifier.name}' has only one label; pass one with at least two labels")
    return normalised(classifier)


_Label = Annotated[str, Field(min_length=1)]


@dataclass(frozen=True, kw_only=True)
class _Content:
    clusters: Annotated[dict[str, Annotated[list[_Label], Field(min_length=1)]], Field(min_length=1)]


def read_style_clusters(path: str | Path) -> dict[str, list[str]]:
    """Reads clusters of styles from a YAML file. Returns the labels in each cluster.

    Raises:
        ValueError: The file is not valid YAML, or contains no clusters.
        OSError: The file cannot be read.
    """
    how = "write `clusters:`, followed by one indented line per cluster, such as `Sympathy: [label, label]`"
    content, _ = read_document(Path(path), _Content, "clusters:", "clusters of styles", remedy=how)
    return content.clusters


def clusters_for(labels: Sequence[str], path: str | None = None) -> dict[str, list[str]] | None:
    """Returns the clusters in a file, or the package's clusters whose styles are all labels of the classifier.

    Returns `None` if the package has no such clusters. Raises a ValueError if the file names other labels.
    """
    if path is not None:
        own = read_style_clusters(path)
        cluster_columns(labels, own)  # raises an error for labels that the classifier does not have
        return own
    names = {form for label in labels for form in (label, label.split(" (")[0])}
    for file in CLUSTER_FILES:
        clusters = read_style_clusters(file)
        if all(label in names for members in clusters.values() for label in members):
            return clusters
    return None
