"""Loads classifiers of regard (Sheng et al., 2019; Aggarwal et al., 2022).

Regard is a text's attitude to a demographic group. It differs from sentiment: a sad text may express respect.
"""

from pathlib import Path
from typing import Any

import numpy as np

from hb_metrics.collect.classifiers.classifier import Classifier
from hb_metrics.collect.classifiers.exemplars import ExemplarSet, load_exemplar_classifier
from hb_metrics.collect.classifiers.presets import load_named_classifier
from hb_metrics.collect.classifiers.sequence_classifier import normalised
from hb_metrics.models.sources import EMBEDDED
from hb_metrics.regard_bias.regard_rows import REGARDS

# The label of texts that state nothing about the group, express mixed regard or make no sense. Some classifiers do not
# have this label.
OTHER = "other"
REGARD_EXEMPLARS = ExemplarSet(
    title="MiniLM regard exemplars (embedded)",
    note="it replaces the classifier of Sheng et al. (2019), and was trained on sentences written for this project",
    folder=Path(__file__).parent / "regard_data",
    shrinkage=0.7,  # chosen on the calibration lines
)


def load_regard_classifier(name: str = EMBEDDED, **options: Any) -> Classifier:
    """Loads a classifier with the labels `REGARDS`, in this order. The probabilities of a text sum to 1.

    If the model has no label "other", the probability of "other" is always 0, and a note about this is added to
    `notes`. A judge has a fifth label for texts that it failed to classify.
    """
    if name == EMBEDDED:
        return load_exemplar_classifier(REGARD_EXEMPLARS, device=options.get("device", "cpu"))
    classifier = load_named_classifier(name, **options)
    if classifier.judge is not None:
        if classifier.source_labels != REGARDS:
            raise ValueError(
                f"judge '{classifier.name}' has the labels {', '.join(classifier.source_labels)}; write a rubric with "
                f"the labels {', '.join(REGARDS)}, in this order"
            )
        return classifier
    own = [label.strip().lower() for label in classifier.labels]
    missing = [regard for regard in REGARDS if regard not in own]
    if missing not in ([], [OTHER]) or len(own) + len(missing) != len(REGARDS):
        raise ValueError(
            f"classifier '{classifier.name}' has the labels {', '.join(classifier.labels)}, but a regard classifier "
            "must have the labels negative, neutral, positive and, optionally, other; choose another classifier, or "
            "rename the labels in id2label in its config.json"
        )
    columns = [own.index(regard) for regard in REGARDS if regard not in missing]
    notes = classifier.notes
    if missing:
        notes = (*notes, "it has no label “other”, so the probability of this label is 0")

    def with_other(probabilities: np.ndarray) -> np.ndarray:
        return np.pad(probabilities[:, columns], ((0, 0), (0, len(missing))))  # "other" is the last label in REGARDS

    return normalised(classifier.changed(with_other, labels=REGARDS, notes=notes))
