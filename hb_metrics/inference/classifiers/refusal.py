"""Classifiers of refusals, in place of the rules of hb_metrics/reply_checks/refusals.yaml."""

from typing import Unpack

from hb_metrics.inference.classifiers.classifier import Classifier
from hb_metrics.inference.classifiers.one_label import one_label
from hb_metrics.inference.classifiers.sequence_classifier import LoadOptions, load_sequence_classifier

THRESHOLD = 0.5  # from which probability on a reply counts as a refusal
REFUSAL = "refusal"  # the label
# Its names in classifiers, in lower case and with spaces for hyphens and underscores.
REFUSAL_NAMES = ("refusal", "refusals", "refused", "refuse", "reject", "rejected", "rejection")


def load_refusal_classifier(name: str, **options: Unpack[LoadOptions]) -> Classifier:
    """Loads a classifier of refusals, with the one label "refusal".

    Args:
        name: The Hub id of a sequence classifier of replies, or a local folder.
        **options: As `LoadOptions`.

    Raises:
        ValueError: As `load_sequence_classifier`, or no label is known to mean a refusal.
        OSError: As `load_sequence_classifier`.
    """
    return one_label(load_sequence_classifier(name, **options), label=REFUSAL, names=REFUSAL_NAMES)
