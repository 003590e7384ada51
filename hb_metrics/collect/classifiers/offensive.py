"""Loads classifiers of offensive language.

The embedded classifier is small and fast, but it recognises only words, not their meaning (see
OFFENSIVENESS_CLASSIFIER.md).
"""

import re
import warnings
from importlib.metadata import version
from typing import Any

import numpy as np

from hb_metrics.collect.classifiers.classifier import Classification, Classifier
from hb_metrics.collect.classifiers.presets import load_named_classifier
from hb_metrics.models.sources import EMBEDDED, folder_digest, wheel_folder
from hb_metrics.run.replies import verdicts

# A transformer needs about a minute for this many rows. Little work is lost if the run is killed, and a run has few
# files.
ROWS_PER_SHARD = 4096
OFFENSIVE = "offensive"
EMBEDDED_NAME = "alt-profanity-check (embedded)"
EMBEDDED_WHEEL = "alt-profanity-check"
# Labels that mean "offensive" in known classifiers, in lower case, with spaces in place of hyphens and underscores.
OFFENSIVE_NAMES = (
    "abusive", "hate", "hate speech", "hateful", "hatespeech", "notok", "offensive", "offensive language", "toxic",
    "toxicity", "unsafe",
)  # fmt: skip


def load_offensiveness_classifier(name: str = EMBEDDED, **options: Any) -> Classifier:
    """Loads a classifier of offensive language, with "offensive" as its only label.

    If several labels of the model mean "offensive" (`OFFENSIVE_NAMES`), their softmax probabilities are summed. Of
    sigmoid probabilities, only the highest is used. For a judge, the rubric determines the label. The classifier then
    has a second label, whose probability is 1 if the judge gave no valid answer, or if two labels are equally likely.

    The paper uses the Bot-Adversarial Dialogue classifier, which has 311M parameters (Smith et al., 2022, 2.3.4).
    """
    if name == EMBEDDED:
        return _load_embedded()
    classifier = load_named_classifier(name, **options)
    labels, notes, judge = classifier.labels, classifier.notes, classifier.judge
    columns = [
        index for index, own in enumerate(labels) if re.sub(r"[\s_-]+", " ", own.casefold()).strip() in OFFENSIVE_NAMES
    ]
    if judge is not None and judge["rubric"]["figure"] is not None:
        columns = [labels.index(judge["rubric"]["figure"])]
    if not columns and labels == ("LABEL_0", "LABEL_1") and not classifier.multi_label:
        columns = [1]
        notes = (*notes, f"its labels have no names, so LABEL_1, the second of two, is assumed to mean {OFFENSIVE}")
    if not columns:
        raise ValueError(
            f"cannot tell which label of classifier '{classifier.name}' means {OFFENSIVE} (its labels: "
            f"{', '.join(labels)}); in id2label of its config.json, rename the label with this meaning to '{OFFENSIVE}'"
        )

    def offensive(probabilities: np.ndarray) -> np.ndarray:
        chosen = probabilities[:, columns]
        if classifier.multi_label:
            return chosen.max(axis=1, keepdims=True, initial=0)
        # Because of rounding errors, the sum may exceed 1.
        summed = np.minimum(chosen.sum(axis=1, keepdims=True), 1)
        if judge is None:
            return summed
        undecided = verdicts(probabilities[:, :-1])[:, None] < 0
        return np.where(undecided, [0.0, 1.0], np.pad(summed, ((0, 0), (0, 1))))

    source_labels = tuple(labels[column] for column in columns)
    kept = (OFFENSIVE,) if judge is None else (OFFENSIVE, labels[-1])
    return classifier.changed(offensive, labels=kept, source_labels=source_labels, notes=notes)


def _load_embedded() -> Classifier:
    folder = wheel_folder("profanity_check", "offensiveness classifier")
    from sklearn.exceptions import InconsistentVersionWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", InconsistentVersionWarning)
        try:
            # The import unpickles the classifier. The pickle is trusted, because it is part of an installed package.
            from profanity_check import predict_prob
        except InconsistentVersionWarning as error:
            raise ImportError(f"{EMBEDDED_WHEEL} needs another release of scikit-learn: {error}") from error

    def classify(texts: list[str]) -> Classification:
        probabilities = np.asarray(predict_prob(texts), dtype=np.float64)
        return Classification(probabilities[:, None], np.zeros(len(texts), dtype=bool))

    return Classifier(
        name=EMBEDDED_NAME,
        digest=folder_digest(folder / "data"),
        version=f"{EMBEDDED_WHEEL} {version(EMBEDDED_WHEEL)}",
        labels=(OFFENSIVE,),
        source_labels=(OFFENSIVE,),
        is_embedded=True,
        classify_distinct=classify,
    )
