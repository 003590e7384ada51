"""Loads classifiers of offensive language.

The embedded classifier is small and fast, but it recognises only words, not their meaning (see
OFFENSIVENESS_CLASSIFIER.md).
"""

import warnings
from importlib.metadata import version
from typing import Any

import numpy as np

from hb_metrics.collect.classifiers.classifier import Classification, Classifier
from hb_metrics.collect.classifiers.named import load_named_classifier
from hb_metrics.collect.classifiers.one_label import one_label
from hb_metrics.models.embedded_wheels import wheel_folder
from hb_metrics.models.sources import EMBEDDED, folder_digest

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
    """Loads a classifier of offensive language, with "offensive" as its only label (see `one_label`).

    The paper uses the Bot-Adversarial Dialogue classifier, which has 311M parameters (Smith et al., 2022, 2.3.4).
    """
    if name == EMBEDDED:
        return _load_embedded()
    return one_label(load_named_classifier(name, **options), label=OFFENSIVE, names=OFFENSIVE_NAMES)


def _load_embedded() -> Classifier:
    folder = wheel_folder("profanity_check", "offensiveness classifier")
    from sklearn.exceptions import InconsistentVersionWarning

    with warnings.catch_warnings():
        warnings.simplefilter("error", InconsistentVersionWarning)
        try:
            # The import unpickles the classifier. The pickle is trusted, because it is part of an installed package.
            from profanity_check import predict_prob
        except InconsistentVersionWarning as error:
            raise ImportError(
                f"alt-profanity-check {version(EMBEDDED_WHEEL)} does not support the installed release of scikit-learn "
                f"({error}); install the release that the message in parentheses names"
            ) from error

    def classify(texts: list[str]) -> Classification:
        probabilities = np.asarray(predict_prob(texts), dtype=np.float64) if texts else np.empty(0)
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
