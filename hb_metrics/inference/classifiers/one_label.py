"""A sequence classifier as one of a single thing, such as offensive language: which of its labels mean it."""

import re
from collections.abc import Collection
from dataclasses import replace

import numpy as np

from hb_dataset.hints import did_you_mean
from hb_metrics.inference.classifiers.classifier import Classification, Classifier

_UNNAMED_LABELS = ["LABEL_0", "LABEL_1"]

NO_LABEL_ERROR = (
    "which label of classifier '{name}' means {label} is not clear: {labels}; rename it to '{label}' in its "
    "config.json (id2label)"
)
UNKNOWN_LABEL_ERROR = "classifier '{name}' has no label '{label}'; {hint}allowed for {option}: {labels}"


def one_label(
    classifier: Classifier, *, label: str, names: Collection[str], option: str, asked: str | None
) -> Classifier:
    """The classifier with one label instead of its own.

    Args:
        classifier: One with the model's own labels.
        label: The one label, such as "offensive".
        names: What classifiers call it, in lower case and with spaces for hyphens and underscores.
        option: The option that names its own labels, for errors.
        asked: What was given for that option: a label, or several with commas; `None`: those in `names`.

    Returns:
        The classifier; its `source_labels` are those that are taken for `label`. Of several, softmax probabilities are
        summed, as only one of them can hold; of sigmoid probabilities the greatest is taken, as all can.

    Raises:
        ValueError: Which of its labels mean it is not clear, or the ones asked for are not there.
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
    """The indices of the labels that mean it, and notes on how they were chosen."""
    name, labels = classifier.name, list(classifier.labels)
    listed = ", ".join(labels)
    if asked is not None:
        # A label may have a comma in its own name.
        wanted = [asked] if asked in labels else [part.strip() for part in asked.split(",")]
        for own in wanted:
            if own not in labels:
                hint = did_you_mean(own, labels)
                raise ValueError(
                    UNKNOWN_LABEL_ERROR.format(name=name, label=own, hint=hint, option=option, labels=listed)
                )
        return [index for index, own in enumerate(labels) if own in wanted], []
    columns = [index for index, own in enumerate(labels) if re.sub(r"[\s_-]+", " ", own.casefold()).strip() in names]
    if columns:
        return columns, []
    if labels == _UNNAMED_LABELS and not classifier.multi_label:
        return [1], [f"its labels have no names; LABEL_1, the second of two, is taken for {label}"]
    raise ValueError(NO_LABEL_ERROR.format(name=name, label=label, labels=listed))
