"""Probabilities that texts are offensive, from a classifier embedded in a PyPI wheel or any sequence classifier.

The embedded one is small, fast and knows words only (OFFENSIVENESS_CLASSIFIER.md); it lets everything run offline.
"""

import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch

from hb_dataset.hints import did_you_mean
from hb_metrics.inference.classifiers.sequence_classifier import (
    BATCH_SIZE,
    BATCH_SIZE_ERROR,
    SequenceClassifier,
    load_sequence_classifier,
)
from hb_metrics.inference.models.embedded_wheels import NOT_INSTALLED_ERROR
from hb_metrics.inference.models.loading import EMBEDDED, folder_digest
from hb_metrics.inference.shards import fill_shards, plan_row_shards
from hb_metrics.inference.text_checks import check_texts
from hb_metrics.inference.units import distinct

# Nothing for the embedded classifier, a minute or so for a transformer: few files, and little is lost to a kill.
ROWS_PER_SHARD = 4096
OFFENSIVENESS_SCHEMA = pa.schema([("id", pa.string()), ("probability", pa.float64()), ("truncated", pa.bool_())])
EMBEDDED_CLASSIFIER_NAME = "alt-profanity-check (embedded)"
EMBEDDED_CLASSIFIER_WHEEL = "alt-profanity-check"
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

BLANK_ERROR = "text {row} is blank; leave empty replies out and count them"
VERSION_ERROR = "the embedded classifier is of another release of scikit-learn than the one installed: {error}"
EMBEDDED_OPTION_ERROR = "the embedded classifier has no {option} '{value}'; leave it out"
NO_LABEL_ERROR = (
    "which label of classifier '{name}' means offensive is not clear; name it with --offensive_label, or several with "
    "commas: {labels}"
)
UNKNOWN_LABEL_ERROR = "classifier '{name}' has no label '{label}'; {hint}allowed for --offensive_label: {labels}"


class OffensivenessScores(NamedTuple):
    """What a classifier finds; arrays are [texts].

    Attributes:
        probabilities: float64, the probability that a text is offensive.
        truncated: bool, whether a text was longer than the classifier takes and was cut.
    """

    probabilities: np.ndarray
    truncated: np.ndarray

    @property
    def num_truncated(self) -> int:
        """How many texts were cut."""
        return int(self.truncated.sum())


@dataclass(frozen=True)
class OffensivenessClassifier:
    """A classifier ready to be asked.

    Attributes:
        name: The name it was asked for by; `EMBEDDED_CLASSIFIER_NAME` for the embedded one.
        digest: What identifies its weights: the Hub commit, or a SHA-256 over its files.
        version: The package that runs it, and its version.
        offensive_labels: The labels that are taken for offensive. Of several, softmax probabilities are summed, as
            only one of them can hold; of sigmoid probabilities the greatest is taken, as all can.
        max_tokens: Texts with more tokens are cut for classification; `None`: it takes texts of any length.
        notes: What was decided on the way and a reader of the results should know.
        classify: Classifies texts, none of them blank; identical ones once.
    """

    name: str
    digest: str
    version: str
    offensive_labels: tuple[str, ...]
    max_tokens: int | None
    notes: tuple[str, ...]
    classify: Callable[[Sequence[str]], OffensivenessScores]

    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """[texts] float64 probability that each text is offensive; a ValueError names a text that is blank."""
        return self.classify(texts).probabilities


def load_offensiveness_classifier(
    name: str = EMBEDDED,
    *,
    revision: str | None = None,
    device: str | torch.device = "cpu",
    trust_remote_code: bool = False,
    offensive_label: str | None = None,
    batch_size: int = BATCH_SIZE,
) -> OffensivenessClassifier:
    """Loads a classifier of offensive language.

    The paper's is the 311M-parameter Bot-Adversarial Dialogue classifier (2.3.4).

    Args:
        name: `"embedded"`, the Hub id of a sequence classifier, or a local folder.
        revision: Branch, tag or commit of a Hub id.
        device: Where it runs. It runs in float32 everywhere, so that batches do not move its numbers.
        trust_remote_code: Whether code that comes with the model may run on this machine.
        offensive_label: The label that means offensive, or several with commas; `None`: found by `OFFENSIVE_NAMES`.
        batch_size: Texts classified at once; bounds the memory.

    Returns:
        The classifier.

    Raises:
        ValueError: It is no sequence classifier, which of its labels means offensive is not clear or not there, or
            `batch_size` is less than 1.
        OSError: The classifier or its tokenizer is not there.
        ImportError: The embedded classifier is not installed, or not the one for the scikit-learn installed.
    """
    if batch_size < 1:
        raise ValueError(BATCH_SIZE_ERROR.format(batch_size=batch_size, default=BATCH_SIZE))
    if name == EMBEDDED:
        for option, value in (("revision", revision), ("offensive_label", offensive_label)):
            if value is not None:
                raise ValueError(EMBEDDED_OPTION_ERROR.format(option=option, value=value))
        return _load_embedded()
    classifier = load_sequence_classifier(
        name, revision=revision, device=device, trust_remote_code=trust_remote_code, batch_size=batch_size
    )
    columns, notes = _offensive_columns(classifier, offensive_label)

    def classify(texts: Sequence[str]) -> OffensivenessScores:
        check_texts(texts)
        _check_blank(texts)
        probabilities, truncated = classifier.classify(texts)
        of_labels = probabilities[:, columns]
        if classifier.is_sigmoid:
            return OffensivenessScores(of_labels.max(axis=1, initial=0), truncated)
        # Rounding may carry the sum of all labels past 1.
        return OffensivenessScores(np.minimum(of_labels.sum(axis=1), 1), truncated)

    return OffensivenessClassifier(
        name=name,
        digest=classifier.digest,
        version=classifier.version,
        offensive_labels=tuple(classifier.labels[column] for column in columns),
        max_tokens=classifier.max_tokens,
        notes=(*classifier.notes, *notes),
        classify=classify,
    )


def offensiveness_into_shards(
    texts: Sequence[str],
    ids: Sequence[str],
    classifier: OffensivenessClassifier,
    folder: Path,
    *,
    progress: bool = True,
) -> pa.Table | None:
    """Classifies the texts that are not on disk yet, and reads all probabilities.

    Args:
        texts: Prompts or replies, none of them blank.
        ids: What each is keyed by; each id once.
        classifier: The classifier.
        folder: Where the shards are; made if it is not there.
        progress: Whether the main process shows a progress bar.

    Returns:
        A table with the columns of `OFFENSIVENESS_SCHEMA` in the order of `texts`, on the main process; `None` on all
        others.
    """
    shards = plan_row_shards(len(texts), ROWS_PER_SHARD, folder)

    def compute(mine: Sequence[int], advance: Callable[[int], object]) -> Iterator[pa.Table]:
        for index in mine:
            rows = shards[index].rows
            scores = classifier.classify([texts[row] for row in rows])
            columns = {"id": [ids[row] for row in rows], "probability": scores.probabilities}
            yield pa.table({**columns, "truncated": scores.truncated}, schema=OFFENSIVENESS_SCHEMA)
            advance(len(rows))

    label = f"offensiveness of {folder.name}"
    return fill_shards(
        shards, ids, OFFENSIVENESS_SCHEMA, compute, label=label, unit="text", inputs=texts, progress=progress
    )


def _load_embedded() -> OffensivenessClassifier:
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

    def classify(texts: Sequence[str]) -> OffensivenessScores:
        check_texts(texts)
        _check_blank(texts)
        unique, which = distinct(texts)
        probabilities = np.asarray(predict_prob(unique), dtype=np.float64) if unique else np.empty(0)
        return OffensivenessScores(probabilities[which], np.zeros(len(texts), dtype=bool))

    return OffensivenessClassifier(
        name=EMBEDDED_CLASSIFIER_NAME,
        digest=folder_digest(Path(spec.submodule_search_locations[0]) / "data"),
        version=f"{EMBEDDED_CLASSIFIER_WHEEL} {version(EMBEDDED_CLASSIFIER_WHEEL)}",
        offensive_labels=("offensive",),
        max_tokens=None,
        notes=(),
        classify=classify,
    )


def _offensive_columns(classifier: SequenceClassifier, offensive_label: str | None) -> tuple[list[int], list[str]]:
    """The places of the labels that mean offensive, and what there is to note about them."""
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
        return [place for place, label in enumerate(labels) if label in asked], []
    found = [
        place
        for place, label in enumerate(labels)
        if re.sub(r"[\s_-]+", " ", label.casefold()).strip() in OFFENSIVE_NAMES
    ]
    if found:
        return found, []
    if labels == _UNNAMED_LABELS and not classifier.is_sigmoid:
        return [1], ["its labels have no names; LABEL_1, the second of two, is taken for offensive"]
    raise ValueError(NO_LABEL_ERROR.format(name=name, labels=listed))


def _check_blank(texts: Sequence[str]) -> None:
    """Raises a ValueError that names the first text of white space only."""
    for row, text in enumerate(texts):
        if not text.strip():
            raise ValueError(BLANK_ERROR.format(row=row))
