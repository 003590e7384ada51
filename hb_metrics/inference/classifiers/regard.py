"""Classifiers of regard: how a text speaks of a demographic group (Sheng et al., 2019; Aggarwal et al., 2022).

Not its sentiment: a sad text may speak of a group with respect. The embedded one is learnt from written lines
(REGARD_CLASSIFIER.md); any sequence classifier with the labels negative, neutral, positive and, at best, other will do.
The group is masked in the texts (`censoring.mask_groups`) unless the caller wants it to be read.
"""

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

NO_OTHER = "it has no label for other, which has probability 0"


def load_regard_classifier(name: str = EMBEDDED, **options: Unpack[LoadOptions]) -> Classifier:
    """Loads a classifier of regard.

    Args:
        name: `"embedded"`, the Hub id of a sequence classifier, or a local folder.
        **options: As `LoadOptions`.

    Returns:
        The classifier, with the labels `REGARDS` in this order and probabilities that sum to 1 for each text. Without a
        label for "other", its probability is 0, and a note says so.

    Raises:
        ValueError: As `load_classifier`, or its labels are not those of regard.
        OSError: As `load_classifier`.
        ImportError: As `load_classifier`.
    """
    embedded = partial(load_exemplar_classifier, REGARD_EXEMPLARS, REGARDS)
    return load_classifier(name, embedded=embedded, read_labels=_regards, **options)


def _regards(classifier: Classifier) -> Classifier:
    """The classifier with its labels in the order of `REGARDS`."""
    regards = [label.strip().lower() for label in classifier.labels]
    unknown = [label for label, regard in zip(classifier.labels, regards, strict=True) if regard not in REGARDS]
    missing = [regard for regard in REGARDS if regard != OTHER and regard not in regards]
    if unknown or missing:
        problems = [f"{', '.join(map(repr, unknown))} is none of them"] if unknown else []
        problems += [f"{', '.join(missing)} is missing"] if missing else []
        raise ValueError(
            f"classifier '{classifier.name}' has the labels {', '.join(map(repr, classifier.labels))}; those of regard "
            f"are negative, neutral, positive and, optionally, other. {' and '.join(problems)}; choose a regard "
            "classifier, or rename the labels in its config.json (id2label)"
        )
    columns = {regard: [index for index, own in enumerate(regards) if own == regard] for regard in REGARDS}
    notes = classifier.notes if columns[OTHER] else (*classifier.notes, NO_OTHER)

    def classify(texts: list[str]) -> Classification:
        probabilities, truncated = classifier.classify_distinct(texts)
        added = [probabilities[:, columns[regard]].sum(axis=1) for regard in REGARDS]
        return Classification(np.stack(added, axis=1), truncated)

    return normalised(replace(classifier, labels=REGARDS, notes=notes, classify_distinct=classify))
