"""Calibration of a classifier: its temperature, and whether texts of a probability p are right p of the time."""

from html import escape
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

NUM_BINS = 10
_BOUNDS = (-5.0, 8.0)  # of the logarithm of the temperature

DIVERGED_ERROR = "training diverged: a logit is not a number; give a smaller --learning_rate than {rate:g}"


class Bin(NamedTuple):
    """Texts whose likeliest label has about the same probability.

    Attributes:
        probability: The mean probability of their likeliest label.
        accuracy: The share for which it is the right one.
        num_rows: How many texts.
    """

    probability: float
    accuracy: float
    num_rows: int


class Quality(NamedTuple):
    """How good probabilities are.

    Attributes:
        accuracy: The share of texts whose likeliest label is right.
        top_5: The share whose label is among the five likeliest.
        chance: The share of the most frequent label: the accuracy of always naming it.
        negative_log_likelihood: The mean over texts, natural log.
        calibration_error: The mean distance of probability and accuracy in bins of as many texts (expected calibration
            error).
        num_rows: How many texts.
        curve: The bins, from the lowest probability to the highest.
    """

    accuracy: float
    top_5: float
    chance: float
    negative_log_likelihood: float
    calibration_error: float
    num_rows: int
    curve: list[Bin]


def fit_temperature(logits: np.ndarray, labels: np.ndarray) -> float:
    """The number that logits are divided by so that the labels are likeliest (Guo et al., 2017).

    Args:
        logits: [rows, labels].
        labels: [rows] the index of each one's label.
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
    parts = [part for part in np.array_split(np.argsort(likeliest, kind="stable"), num_bins) if len(part)]
    curve = [Bin(float(likeliest[part].mean()), float(right[part].mean()), len(part)) for part in parts]
    return Quality(
        accuracy=float(right.mean()),
        top_5=float((rank < 5).mean()),
        chance=float(np.bincount(labels).max() / len(labels)),
        negative_log_likelihood=_loss(logits, labels),
        calibration_error=sum(abs(each.probability - each.accuracy) * each.num_rows for each in curve) / len(labels),
        num_rows=len(labels),
        curve=curve,
    )


def curve_svg(curve: list[Bin], title: str) -> str:
    """The calibration curve as a drawing: accuracy over probability, and the diagonal of a calibrated classifier."""
    left, top, size = 60, 34, 300
    title = escape(title)

    def place(probability: float, accuracy: float) -> str:
        return f"{left + size * probability:.1f},{top + size * (1 - accuracy):.1f}"

    ticks = []
    for tick in (0, 0.25, 0.5, 0.75, 1):
        across, down = left + size * tick, top + size * (1 - tick)
        ticks.append(
            f'<line x1="{across}" y1="{top}" x2="{across}" y2="{top + size}" stroke="#e3e3e3"/>'
            f'<line x1="{left}" y1="{down}" x2="{left + size}" y2="{down}" stroke="#e3e3e3"/>'
            f'<text x="{across}" y="{top + size + 18}" text-anchor="middle">{tick:.0%}</text>'
            f'<text x="{left - 8}" y="{down + 4}" text-anchor="end">{tick:.0%}</text>'
        )
    points = [place(each.probability, each.accuracy) for each in curve]
    dots = "".join('<circle cx="{}" cy="{}" r="4" fill="#2f5d8a"/>'.format(*point.split(",")) for point in points)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 380 390" width="380" height="390" role="img" \
font-family="sans-serif" font-size="12" fill="#222">
<title>{title}</title>
<rect width="380" height="390" fill="#ffffff"/>
<text x="{left}" y="20" font-size="13">{title}</text>
{"".join(ticks)}
<line x1="{left}" y1="{top + size}" x2="{left + size}" y2="{top}" stroke="#888888" stroke-dasharray="5 4"/>
<polyline points="{" ".join(points)}" fill="none" stroke="#2f5d8a" stroke-width="2"/>
{dots}
<text x="{left + size / 2}" y="{top + size + 40}" text-anchor="middle">probability of the likeliest label</text>
<text transform="translate(16 {top + size / 2}) rotate(-90)" text-anchor="middle">share that is right</text>
</svg>
"""


def _loss(logits: np.ndarray, labels: np.ndarray) -> float:
    predicted = log_softmax(logits.astype(np.float64), axis=1)
    return -float(predicted[np.arange(len(labels)), labels].mean())
