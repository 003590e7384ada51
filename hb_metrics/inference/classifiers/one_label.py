import re
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from hb_metrics.inference.classifiers.classifier import Classification, Classifier
from hb_metrics.runs.replies import verdicts


def one_label(classifier: Classifier, *, label: str, names: Collection[str]) -> Classifier:
    """Reduces a classifier to one label, such as "offensive". `names` are the label's names in classifiers.

    Names are in lower case, with spaces. If several labels have one of the names, their softmax probabilities are
    summed, because only one label can apply. Of sigmoid probabilities, the highest counts, because all labels can
    apply. For a judge, the rubric states which label counts, and a second label means no answer or several likeliest
    labels.
    """
    labels, notes, judge = classifier.labels, classifier.notes, classifier.judge
    columns = [index for index, own in enumerate(labels) if re.sub(r"[\s_-]+", " ", own.casefold()).strip() in names]
    if judge is not None and judge["rubric"]["figure"] is not None:
        columns = [labels.index(judge["rubric"]["figure"])]
    if not columns and labels == ("LABEL_0", "LABEL_1") and not classifier.multi_label:
        columns = [1]
        notes = (*notes, f"its labels have no names; LABEL_1, the second of two, is taken for {label}")
    if not columns:
        raise ValueError(
            f"no label of classifier '{classifier.name}' is known to mean {label} ({', '.join(labels)}); rename the "
            f"right label to '{label}' in id2label of its config.json, or pass another classifier"
        )

    def classify(texts: list[str]) -> Classification:
        probabilities, truncated = classifier.classify_distinct(texts)
        chosen = probabilities[:, columns]
        if classifier.multi_label:
            return Classification(chosen.max(axis=1, keepdims=True, initial=0), truncated)
        # Rounding may raise the sum of all labels above 1.
        summed = np.minimum(chosen.sum(axis=1, keepdims=True), 1)
        if judge is None:
            return Classification(summed, truncated)
        undecided = verdicts(probabilities[:, :-1])[:, None] < 0
        return Classification(np.where(undecided, [0.0, 1.0], np.pad(summed, ((0, 0), (0, 1)))), truncated)

    source_labels = tuple(labels[column] for column in columns)
    kept = (label,) if judge is None else (label, labels[-1])
    return replace(classifier, labels=kept, source_labels=source_labels, notes=notes, classify_distinct=classify)
