"""Loads classifiers of conversational style (Smith et al., 2022, A.6), and reads clusters of styles.

The embedded classifier has 217 styles. It is a substitute for the paper's 3B-parameter classifier (Smith et al.,
2020a), which was not published for Hugging Face.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from hb_dataset.yaml_lines import Fault, load_with_lines
from hb_metrics.inference.classifiers.classifier import Classifier
from hb_metrics.inference.classifiers.exemplars import ExemplarSet, load_exemplar_classifier
from hb_metrics.inference.classifiers.named import load_named_classifier
from hb_metrics.inference.classifiers.sequence_classifier import normalised
from hb_metrics.inference.models.sources import EMBEDDED

STYLE_DATA = Path(__file__).parent / "style_data"
STYLE_EXEMPLARS = ExemplarSet(
    title="MiniLM style exemplars (embedded)",
    note="it is a substitute for the paper's 3B-parameter classifier",
    exemplars=STYLE_DATA / "exemplars.yaml",
    calibration=STYLE_DATA / "calibration.yaml",
    fitted=STYLE_DATA / "discriminant.npz",
    label_key="style",
    lines_key="replies",
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
        raise ValueError(
            f"classifier '{classifier.name}' has only one label ('{classifier.labels[0]}'), so all replies would have "
            "the same style; pass a classifier with at least two labels"
        )
    return normalised(classifier)


def read_style_clusters(path: str | Path) -> dict[str, list[str]]:
    """Reads clusters of styles from a YAML file. Returns the labels in each cluster.

    Raises:
        ValueError: The file is not valid YAML, or contains no clusters.
        OSError: The file cannot be read.
    """
    faults: list[Fault] = []
    try:
        content, _ = load_with_lines(Path(path), faults)
        problem = f"line {faults[0].line}: {faults[0].message}" if faults else "it has no clusters"
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        content, problem = None, f"it is not valid YAML ({error})"
    clusters = content.get("clusters") if isinstance(content, Mapping) and not faults else None
    is_clusters = isinstance(clusters, Mapping) and all(
        isinstance(labels, list) and labels and all(isinstance(label, str) and label for label in labels)
        for labels in clusters.values()
    )
    if not clusters or not is_clusters:
        raise ValueError(
            f"{path}: {problem}; write `clusters:`, followed by one indented line per cluster, such as "
            "`Sympathy: [label, label]`"
        )
    return dict(clusters)


def clusters_for(labels: Sequence[str]) -> dict[str, list[str]] | None:
    """Returns the package's clusters whose styles are all labels of the classifier, or `None`."""
    names = {form for label in labels for form in (label, label.split(" (")[0])}
    for path in CLUSTER_FILES:
        clusters = read_style_clusters(path)
        if all(label in names for members in clusters.values() for label in members):
            return clusters
    return None
