"""Makes a classifier with one label, such as "offensive", from a sequence classifier with its own labels."""

import re
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from hb_dataset.hints import did_you_mean
from hb_metrics.inference.classifiers.classifier import Classification, Classifier

_UNNAMED_LABELS = ["LABEL_0", "LABEL_1"]


def one_label(
    classifier: Classifier, *, label: str, names: Collection[str], option: str, asked: str | None
) -> Classifier:
    """The classifier with one label instead of its own.

    Args:
        classifier: One with the model's own labels.
        label: The one label, such as "offensive".
        names: Its names in classifiers, in lower case and with spaces for hyphens and underscores.
        option: The option that names the model's own labels, for errors.
        asked: The value of that option: a label, or several with commas; `None`: those in `names`.

    Returns:
        The classifier; its `source_labels` are those that mean `label`. Softmax probabilities of several are summed, as
        only one can hold; of sigmoid probabilities the greatest counts, as all can hold.

    Raises:
        ValueError: No label of the model is known to mean `label`, or it has no label that was asked for.
    """
    columns, notes = _columns(classifier, label, names, option, asked)

    def classify(texts: list[str]) -> Classification:
        probabilities, truncated = classifier.classify_distinct(texts)
        chosen = probabilities[:, columns]
        if classifier.multi_label:
            return Classification(chosen.max(axis=1, keepdims=True, initial=0), truncated)
        # Rounding may carry the sum of all labels past 1.
        return Classification(np.minimum(chosen.sum(axis=1, keepdims=True), 1), truncated)

    return replace(
        classifier,
        labels=(label,),
        source_labels=tuple(classifier.labels[column] for column in columns),
        notes=(*classifier.notes, *notes),
        classify_distinct=classify,
    )


def _columns(
    classifier: Classifier, label: str, names: Collection[str], option: str, asked: str | None
) -> tuple[list[int], list[str]]:
    """The indices of the labels that mean `label`, and notes on how they were chosen."""
    labels = list(classifier.labels)
    if asked is not None:
        # A label may have a comma in its own name.
        wanted = [asked] if asked in labels else [part.strip() for part in asked.split(",")]
        for own in wanted:
            if own not in labels:
                raise ValueError(
                    f"classifier '{classifier.name}' has no label '{own}'; {did_you_mean(own, labels)}allowed for "
                    f"{option}: {', '.join(labels)}"
                )
        return [index for index, own in enumerate(labels) if own in wanted], []
    columns = [index for index, own in enumerate(labels) if re.sub(r"[\s_-]+", " ", own.casefold()).strip() in names]
    if columns:
        return columns, []
    if labels == _UNNAMED_LABELS and not classifier.multi_label:
        return [1], [f"its labels have no names; LABEL_1, the second of two, is taken for {label}"]
    raise ValueError(
        f"no label of classifier '{classifier.name}' is known to mean {label}; rename one to '{label}' in its "
        f"config.json (id2label): {', '.join(labels)}"
    )
