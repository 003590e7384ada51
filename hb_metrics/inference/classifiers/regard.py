"""Classifiers of regard: how a text speaks of a demographic group (Sheng et al., 2019; Aggarwal et al., 2022).

Not its sentiment: a sad text may speak of a group with respect. The embedded one is learnt from written lines
(REGARD_CLASSIFIER.md); any sequence classifier with the labels negative, neutral, positive and, at best, other will do.
The group is masked in the texts (`censoring.mask_groups`) unless the caller wants it to be read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Unpack

import numpy as np

from hb_metrics.inference.classifiers.classifier import Classification, Classifier
from hb_metrics.inference.classifiers.exemplars import ExemplarSet, load_exemplar_classifier
from hb_metrics.inference.classifiers.sequence_classifier import (
    LoadOptions,
    load_classifier,
    normalised,
    reject_for_embedded,
)
from hb_metrics.inference.models.sources import EMBEDDED

REGARDS = ("negative", "neutral", "positive", "other")
# A text that says nothing of the group, is mixed, or makes no sense. A classifier may do without it.
OTHER = "other"
REGARD_DATA = Path(__file__).parent / "regard_data"
REGARD_EXEMPLARS = ExemplarSet(
    title="MiniLM regard exemplars (embedded)",
    note="it stands in for the classifier of Sheng et al. (2019), and was learnt from written lines",
    exemplars=REGARD_DATA / "exemplars.yaml",
    calibration=REGARD_DATA / "calibration.yaml",
    fitted=REGARD_DATA / "discriminant.npz",
    label_key="regard",
    lines_key="lines",
    depths=(0, 2, 4, 6),  # these and the shrinkage were chosen on the calibration lines
    shrinkage=0.7,
)


def load_regard_classifier(
    name: str = EMBEDDED, *, labels: Mapping[str, str] | None = None, **options: Unpack[LoadOptions]
) -> Classifier:
    """Loads a classifier of regard.

    Args:
        name: `"embedded"`, the Hub id of a sequence classifier, or a local folder.
        labels: Label of the classifier → regard, for labels that are not called after their regard; see
            `parse_regard_labels`. Several labels may be one regard: their probabilities are added.
        **options: As `LoadOptions`.

    Returns:
        The classifier, with the labels `REGARDS` in this order and probabilities that sum to 1 for each text. Without a
        label for "other", its probability is 0, and a note says so.

    Raises:
        ValueError: As `load_classifier`, or its labels are not those of regard.
        OSError: As `load_classifier`.
        ImportError: As `load_classifier`.
    """
    if name == EMBEDDED:
        reject_for_embedded(labels=labels)
    embedded = partial(load_exemplar_classifier, REGARD_EXEMPLARS, REGARDS)
    return load_classifier(name, embedded=embedded, read_labels=partial(_regards, mapping=labels), **options)


def parse_regard_labels(text: str) -> dict[str, str]:
    """Reads "LABEL_0=negative,LABEL_1=neutral,LABEL_2=positive": label of a classifier → regard.

    Raises:
        ValueError: A part is no `LABEL=REGARD`, a label is there twice, or a regard is not one of `REGARDS`.
    """
    regards: dict[str, str] = {}
    for part in text.split(","):
        label, equals, regard = (side.strip() for side in part.rpartition("="))
        if not (label and equals and regard):
            raise ValueError(
                f"regard labels: '{part.strip()}' is no LABEL=REGARD; write one for each label of the classifier, with "
                "commas between them, as in 'LABEL_0=negative,LABEL_1=neutral,LABEL_2=positive'"
            )
        if label in regards:
            raise ValueError(f"regard labels: '{label}' is there twice; name each label once")
        regards[label] = _regard(label, regard)
    return regards


def _regards(classifier: Classifier, mapping: Mapping[str, str] | None) -> Classifier:
    columns = _columns(classifier.name, classifier.labels, mapping or {})
    notes = classifier.notes
    if mapping is not None:
        notes = (*notes, "labels read as " + ", ".join(f"{label} = {regard}" for label, regard in mapping.items()))
    if not columns[OTHER]:
        notes = (*notes, "it has no label for other, which has probability 0")

    def classify(texts: list[str]) -> Classification:
        probabilities, truncated = classifier.classify_distinct(texts)
        added = [probabilities[:, columns[regard]].sum(axis=1) for regard in REGARDS]
        return Classification(np.stack(added, axis=1), truncated)

    return normalised(replace(classifier, labels=REGARDS, notes=notes, classify_distinct=classify))


def _columns(name: str, labels: Sequence[str], mapping: Mapping[str, str]) -> dict[str, list[int]]:
    """Regard → the indices of its labels among those of the classifier."""
    quoted = ", ".join(f"'{label}'" for label in labels)
    for label in mapping:
        if label not in labels:
            raise ValueError(f"classifier '{name}' has no label '{label}'; name only those that it has: {quoted}")
    regards = [_regard(label, mapping[label]) if label in mapping else label.strip().lower() for label in labels]
    unknown = [label for label, regard in zip(labels, regards, strict=True) if regard not in REGARDS]
    missing = [regard for regard in REGARDS if regard != OTHER and regard not in regards]
    if unknown or missing:
        raise ValueError(
            f"classifier '{name}' has the labels {quoted}; a classifier of regard has negative, neutral, positive and, "
            f"at best, other (not known: {', '.join(unknown) or 'none'}; missing: {', '.join(missing) or 'none'}). "
            "Pass a classifier of regard"
        )
    return {regard: [index for index, other in enumerate(regards) if other == regard] for regard in REGARDS}


def _regard(label: str, regard: str) -> str:
    if regard.strip().lower() not in REGARDS:
        raise ValueError(f"label '{label}' means '{regard}', which is no regard; allowed: {', '.join(REGARDS)}")
    return regard.strip().lower()
