import re
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from hb_metrics.collect.classifiers.classifier import Classification, Classifier
from hb_metrics.run.replies import verdicts


def one_label(classifier: Classifier, *, label: str, names: Collection[str]) -> Classifier:
    """Returns a classifier that has only one label, such as "offensive".

    `names` are the source labels that mean `label`, in lower case with spaces. If there are several such labels, their
    softmax probabilities are summed. Of sigmoid probabilities, only the highest is used.

    For a judge, the rubric determines the label that means `label`, and `names` is ignored. The returned classifier
    then has a second label. Its probability is 1 if the judge gave no valid answer, or if two labels are equally
    likely.
    """
    labels, notes, judge = classifier.labels, classifier.notes, classifier.judge
    columns = [index for index, own in enumerate(labels) if re.sub(r"[\s_-]+", " ", own.casefold()).strip() in names]
    if judge is not None and judge["rubric"]["figure"] is not None:
        columns = [labels.index(judge["rubric"]["figure"])]
    if not columns and labels == ("LABEL_0", "LABEL_1") and not classifier.multi_label:
        columns = [1]
        notes = (*notes, f"its labels have no names, so LABEL_1, the second of two, is assumed to mean {label}")
    if not columns:
        raise ValueError(
            f"cannot tell which label of classifier '{classifier.name}' means {label} (its labels: "
            f"{', '.join(labels)}); in id2label of its config.json, rename the label with this meaning to '{label}'"
        )

    def classify(texts: list[str]) -> Classification:
        probabilities, truncated = classifier.classify_distinct(texts)
        chosen = probabilities[:, columns]
        if classifier.multi_label:
            return Classification(chosen.max(axis=1, keepdims=True, initial=0), truncated)
        # Because of rounding errors, the sum may exceed 1.
        summed = np.minimum(chosen.sum(axis=1, keepdims=True), 1)
        if judge is None:
            return Classification(summed, truncated)
        undecided = verdicts(probabilities[:, :-1])[:, None] < 0
        return Classification(np.where(undecided, [0.0, 1.0], np.pad(summed, ((0, 0), (0, 1)))), truncated)

    source_labels = tuple(labels[column] for column in columns)
    kept = (label,) if judge is None else (label, labels[-1])
    return replace(classifier, labels=kept, source_labels=source_labels, notes=notes, classify_distinct=classify)
