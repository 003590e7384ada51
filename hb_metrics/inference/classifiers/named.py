"""Loads a classifier by what an option names: a preset, a Hub id or a folder."""

from collections.abc import Sequence
from typing import Unpack

from hb_metrics.inference.classifiers.classifier import Classifier
from hb_metrics.inference.classifiers.presets import presets
from hb_metrics.inference.classifiers.sequence_classifier import LoadOptions, load_sequence_classifier


def load_named_classifier(name: str, **options: Unpack[LoadOptions]) -> Classifier:
    """Loads a classifier with its own labels.

    Args:
        name: The name of a preset, the Hub id of a sequence classifier, or a local folder.
        **options: As `LoadOptions`.

    Raises:
        ValueError: As `load_sequence_classifier`, or the checkpoint of a preset has other labels than recorded.
        OSError: As `load_sequence_classifier`.
    """
    preset = presets().get(name)
    if preset is None:
        return load_sequence_classifier(name, **options)
    classifier = load_sequence_classifier(preset.id, **options)
    if {*classifier.labels} != {*preset.labels} or classifier.multi_label != preset.multi_label:
        raise ValueError(
            f"classifier '{name}' is known with the labels {_described(preset.labels, preset.multi_label)}, and "
            f"'{preset.id}' now has {_described(classifier.labels, classifier.multi_label)}; pass "
            f"'{preset.id}' itself if these are the labels that you want"
        )
    return classifier


def _described(labels: Sequence[str], multi_label: bool) -> str:
    return f"{', '.join(labels)} (with {'separate probabilities' if multi_label else 'probabilities that sum to 1'})"
