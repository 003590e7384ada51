"""Calibration of a classifier: its temperature, and the agreement of its probabilities with its accuracy."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

NUM_BINS = 10
_BOUNDS = (-5.0, 8.0)  # for the logarithm of the temperature


class Quality(NamedTuple):
    """The quality of probabilities.

    Attributes:
        accuracy: The share of texts whose likeliest label is right.
        top_5: The share whose label is among the five likeliest.
        chance: The share of the most frequent label: the accuracy of always naming it.
        negative_log_likelihood: The mean over texts, natural log.
        calibration_error: The mean distance between probability and accuracy in equally filled bins (expected
            calibration error).
        num_rows: The number of texts.
    """

    accuracy: float
    top_5: float
    chance: float
    negative_log_likelihood: float
    calibration_error: float
    num_rows: int


def fit_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """The divisor of logits that makes the labels likeliest (Guo et al., 2017).

    Args:
        logits: [rows, labels].
        labels: [rows] the index of each row's label.
    """

    def loss(log_temperature: float) -> float:
        return _loss(logits / np.exp(log_temperature), labels)

    best = minimize_scalar(loss, bounds=_BOUNDS, method="bounded", options={"xatol": 1e-6})
    return float(np.exp(best.x))


def quality(logits: np.ndarray, labels: np.ndarray, num_bins: int = NUM_BINS) -> Quality:
    """Accuracy and calibration. `logits` are [rows, labels], also log-probabilities; `labels` [rows] are indices."""
    rows = np.arange(len(labels))
    probabilities = np.exp(log_softmax(logits.astype(np.float64), axis=1))
    own = logits[rows, labels]
    rank = (logits > own[:, None]).sum(axis=1)
    right, likeliest = probabilities.argmax(axis=1) == labels, probabilities.max(axis=1)
    distance = 0.0
    for part in np.array_split(np.argsort(likeliest, kind="stable"), num_bins):
        distance += abs(float(likeliest[part].sum() - right[part].sum()))
    return Quality(
        accuracy=float(right.mean()),
        top_5=float((rank < 5).mean()),
        chance=float(np.bincount(labels).max() / len(labels)),
        negative_log_likelihood=_loss(logits, labels),
        calibration_error=distance / len(labels),
        num_rows=len(labels),
    )


def _loss(logits: np.ndarray, labels: np.ndarray) -> float:
    predicted = log_softmax(logits.astype(np.float64), axis=1)
    return -float(predicted[np.arange(len(labels)), labels].mean())
