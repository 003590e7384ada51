"""Classifiers of offensive language.

The embedded one, from a PyPI wheel, is small, fast and knows words only (OFFENSIVENESS_CLASSIFIER.md).
"""

import re
import warnings
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Unpack

import numpy as np

from hb_dataset.hints import did_you_mean
from hb_metrics.inference.classifiers.classifier import Classification, Classifier
from hb_metrics.inference.classifiers.sequence_classifier import LoadOptions, load_classifier, refuse_for_embedded
from hb_metrics.inference.models.embedded_wheels import NOT_INSTALLED_ERROR
from hb_metrics.inference.models.sources import EMBEDDED, folder_digest

# Nothing for the embedded classifier, a minute or so for a transformer: few files, and little is lost to a kill.
ROWS_PER_SHARD = 4096
OFFENSIVE = "offensive"  # the label
EMBEDDED_NAME = "alt-profanity-check (embedded)"
EMBEDDED_WHEEL = "alt-profanity-check"
# What classifiers call the offensive class, in lower case and with spaces for hyphens and underscores.
OFFENSIVE_NAMES = frozenset(
    {
        "abusive",
        "hate",
        "hate speech",
        "hateful",
        "hatespeech",
        "notok",
        "offensive",
        "offensive language",
        "toxic",
        "toxicity",
        "unsafe",
    }
)
_UNNAMED_LABELS = ["LABEL_0", "LABEL_1"]

VERSION_ERROR = "the embedded classifier is of another release of scikit-learn than the one installed: {error}"
NO_LABEL_ERROR = (
    "which label of classifier '{name}' means offensive is not clear; name it with --offensive_label, or several with "
    "commas: {labels}"
)
UNKNOWN_LABEL_ERROR = "classifier '{name}' has no label '{label}'; {hint}allowed for --offensive_label: {labels}"


def load_offensiveness_classifier(
    name: str = EMBEDDED, *, offensive_label: str | None = None, **options: Unpack[LoadOptions]
) -> Classifier:
    """Loads a classifier of offensive language, with the one label "offensive".

    The paper's is the 311M-parameter Bot-Adversarial Dialogue classifier (2.3.4).

    Args:
        name: `"embedded"`, the Hub id of a sequence classifier, or a local folder.
        offensive_label: The label that means offensive, or several with commas; `None`: those in `OFFENSIVE_NAMES`.
        **options: As `LoadOptions`.

    Returns:
        The classifier; its `source_labels` are those that are taken for offensive. Of several, softmax probabilities
        are summed, as only one of them can hold; of sigmoid probabilities the greatest is taken, as all can.

    Raises:
        ValueError: As `load_classifier`, or which of its labels means offensive is not clear or not there.
        OSError: As `load_classifier`.
        ImportError: As `load_classifier`.
    """
    if name == EMBEDDED:
        refuse_for_embedded(offensive_label=offensive_label)
    read_labels = partial(_offensiveness, offensive_label=offensive_label)
    return load_classifier(name, embedded=_load_embedded, read_labels=read_labels, **options)


def _offensiveness(classifier: Classifier, offensive_label: str | None) -> Classifier:
    columns, notes = _offensive_columns(classifier, offensive_label)

    def classify(texts: list[str]) -> Classification:
        probabilities, truncated = classifier.classify_distinct(texts)
        offensive = probabilities[:, columns]
        if classifier.multi_label:
            return Classification(offensive.max(axis=1, keepdims=True, initial=0), truncated)
        # Rounding may carry the sum of all labels past 1.
        return Classification(np.minimum(offensive.sum(axis=1, keepdims=True), 1), truncated)

    return replace(
        classifier,
        labels=(OFFENSIVE,),
        source_labels=tuple(classifier.labels[column] for column in columns),
        notes=(*classifier.notes, *notes),
        classify_distinct=classify,
    )


def _load_embedded() -> Classifier:
    spec = find_spec("profanity_check")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(NOT_INSTALLED_ERROR.format(what="offensiveness classifier"))
    from sklearn.exceptions import InconsistentVersionWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", InconsistentVersionWarning)
        try:
            # Unpickles its model, which is as much trusted as any code of an installed package.
            from profanity_check import predict_prob
        except InconsistentVersionWarning as error:
            raise ImportError(VERSION_ERROR.format(error=error)) from error

    def classify(texts: list[str]) -> Classification:
        probabilities = np.asarray(predict_prob(texts), dtype=np.float64) if texts else np.empty(0)
        return Classification(probabilities[:, None], np.zeros(len(texts), dtype=bool))

    return Classifier(
        name=EMBEDDED_NAME,
        digest=folder_digest(Path(spec.submodule_search_locations[0]) / "data"),
        version=f"{EMBEDDED_WHEEL} {version(EMBEDDED_WHEEL)}",
        labels=(OFFENSIVE,),
        source_labels=(OFFENSIVE,),
        is_embedded=True,
        classify_distinct=classify,
    )


def _offensive_columns(classifier: Classifier, offensive_label: str | None) -> tuple[list[int], list[str]]:
    """The indices of the labels that mean offensive, and notes on how they were chosen."""
    name, labels = classifier.name, list(classifier.labels)
    listed = ", ".join(labels)
    if offensive_label is not None:
        # A label may have a comma in its own name.
        asked = (
            [offensive_label] if offensive_label in labels else [part.strip() for part in offensive_label.split(",")]
        )
        for label in asked:
            if label not in labels:
                hint = did_you_mean(label, labels)
                raise ValueError(UNKNOWN_LABEL_ERROR.format(name=name, label=label, hint=hint, labels=listed))
        return [index for index, label in enumerate(labels) if label in asked], []
    columns = [
        index
        for index, label in enumerate(labels)
        if re.sub(r"[\s_-]+", " ", label.casefold()).strip() in OFFENSIVE_NAMES
    ]
    if columns:
        return columns, []
    if labels == _UNNAMED_LABELS and not classifier.multi_label:
        return [1], ["its labels have no names; LABEL_1, the second of two, is taken for offensive"]
    raise ValueError(NO_LABEL_ERROR.format(name=name, labels=listed))
