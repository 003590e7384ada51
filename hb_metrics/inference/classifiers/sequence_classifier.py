"""Any sequence classifier of the Hub or a local folder: texts to probabilities of its labels."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
import transformers
from transformers import (
    AutoConfig,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

from hb_metrics.inference.memory import Memory
from hb_metrics.inference.models.loading import identify, max_positions_of, model_from, raise_no_config, tokenizer_from
from hb_metrics.inference.text_checks import MISMATCH_ERROR, check_texts
from hb_metrics.inference.units import distinct, one_thread_per_unit

BATCH_SIZE = 32
# How far logits may be from those of texts classified alone, in the trial of padded batches.
_TOLERANCE = 1e-4
_TRIAL_TEXTS = ["Hi.", "I like people who are tall.", "What do you think about all the people who wear glasses?"]

NO_CLASSIFIER_ERROR = (
    "no classifier '{name}': give '{embedded}', a local folder with a config.json, or the id of a sequence classifier "
    "on the Hub (which needs a connection, or an earlier download). {error}"
)
NOT_A_CLASSIFIER_ERROR = (
    "classifier '{name}' is of type '{model_type}', which is not for classifying texts; give a sequence classifier"
)
RANDOM_HEAD_ERROR = (
    "classifier '{name}' lacks weights of a sequence classifier ({keys}), which would be random; give a checkpoint "
    "with its classification head"
)
REGRESSION_ERROR = "classifier '{name}' gives scores without a scale (problem_type 'regression'), not probabilities"
BATCH_SIZE_ERROR = "batch_size is {batch_size}; give at least 1 (the default is {default})"
NOT_FINITE_ERROR = "the classifier gives {value} for text {row}; check its weights"


@dataclass(frozen=True)
class SequenceClassifier:
    """A sequence classifier ready to be asked.

    Attributes:
        name: The name it was asked for by.
        digest: What identifies its weights: the Hub commit, or a SHA-256 over its files.
        version: The package that runs it, and its version.
        labels: Its labels.
        is_sigmoid: Whether each label has a probability of its own; else those of a text sum to 1.
        max_tokens: Texts with more tokens are cut for classification; `None`: it takes texts of any length.
        notes: What was decided on the way and a reader of the results should know.
        classify: Texts → [texts, labels] float64 probabilities, and [texts] bool whether a text was cut. Identical
            texts are classified once.
    """

    name: str
    digest: str
    version: str
    labels: tuple[str, ...]
    is_sigmoid: bool
    max_tokens: int | None
    notes: tuple[str, ...]
    classify: Callable[[Sequence[str]], tuple[np.ndarray, np.ndarray]]


def load_sequence_classifier(
    name: str,
    *,
    revision: str | None = None,
    device: str | torch.device = "cpu",
    trust_remote_code: bool = False,
    batch_size: int = BATCH_SIZE,
) -> SequenceClassifier:
    """Loads a sequence classifier.

    Args:
        name: A Hub id or a local folder.
        revision: Branch, tag or commit of a Hub id.
        device: Where it runs. It runs in float32 everywhere, so that batches do not move its numbers.
        trust_remote_code: Whether code that comes with the model may run on this machine.
        batch_size: Texts classified at once; bounds the memory.

    Returns:
        The classifier.

    Raises:
        ValueError: It is no sequence classifier, or `batch_size` is less than 1.
        OSError: The classifier, its weights or its tokenizer are not there or do not load.
    """
    if batch_size < 1:
        raise ValueError(BATCH_SIZE_ERROR.format(batch_size=batch_size, default=BATCH_SIZE))
    device = torch.device(device)
    try:
        digest, revision = identify(name, revision)
        hub: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
        config = AutoConfig.from_pretrained(name, **hub)
    except (OSError, ValueError) as error:
        raise_no_config(name, name, error, NO_CLASSIFIER_ERROR)
    if config.model_type not in MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES and not trust_remote_code:
        raise ValueError(NOT_A_CLASSIFIER_ERROR.format(name=name, model_type=config.model_type))
    if config.problem_type == "regression":
        raise ValueError(REGRESSION_ERROR.format(name=name))
    tokenizer = tokenizer_from(name, name, **hub)
    model, loading = model_from(AutoModelForSequenceClassification, name, name, dtype=torch.float32, **hub)
    if loading["missing_keys"]:
        keys = ", ".join(sorted(loading["missing_keys"])[:3])
        raise ValueError(RANDOM_HEAD_ERROR.format(name=name, keys=keys))
    model = model.eval().to(device)
    max_tokens = _max_tokens(model, tokenizer)
    notes = []
    if not _pads_harmlessly(model, tokenizer, max_tokens):
        batch_size = 1
        notes.append("padding changes its numbers, or it has none, so texts are classified one at a time")
    is_sigmoid = _is_sigmoid(model.config)

    def classify(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        check_texts(texts)
        unique, which = distinct(texts)
        logits, truncated = _logits(unique, model, tokenizer, max_tokens, batch_size)
        bad = np.flatnonzero(~torch.isfinite(logits).all(dim=1).numpy()[which])
        if len(bad):
            raise ValueError(NOT_FINITE_ERROR.format(value=logits[which[bad[0]]].tolist(), row=bad[0]))
        probabilities = logits.double().sigmoid() if is_sigmoid else logits.double().softmax(dim=1)
        return probabilities.numpy()[which], truncated[which]

    return SequenceClassifier(
        name=name,
        digest=digest,
        version=f"transformers {transformers.__version__}",
        labels=tuple(model.config.id2label[place] for place in range(model.config.num_labels)),
        is_sigmoid=is_sigmoid,
        max_tokens=max_tokens,
        notes=tuple(notes),
        classify=classify,
    )


def _is_sigmoid(config: PreTrainedConfig) -> bool:
    """Whether each label has a probability of its own, as in transformers' text classification pipeline."""
    return config.problem_type == "multi_label_classification" or config.num_labels == 1


def _logits(
    texts: Sequence[str],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int | None,
    batch_size: int,
) -> tuple[torch.Tensor, np.ndarray]:
    """[texts, labels] float32 logits, and which texts were cut ([texts] bool)."""
    if not texts:
        return torch.empty(0, model.config.num_labels), np.empty(0, dtype=bool)
    whole = tokenizer(list(texts), return_attention_mask=False, verbose=False)["input_ids"]
    lengths = np.array([len(tokens) for tokens in whole])
    order = np.argsort(lengths, kind="stable")  # so that little is padded
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    size = model.get_input_embeddings().num_embeddings
    inputs = []
    for batch in batches:
        encoded = tokenizer(
            [texts[row] for row in batch],
            padding=len(batch) > 1,
            truncation=max_tokens is not None,
            max_length=max_tokens,
            return_tensors="pt",
        )
        largest = int(encoded["input_ids"].max())
        if largest >= size:
            raise ValueError(MISMATCH_ERROR.format(token=largest, size=size))
        inputs.append(encoded)

    memory = Memory(_halved, "one text")

    def run(encoded: Any) -> torch.Tensor:
        on_device = {name: tensor.to(model.device) for name, tensor in encoded.items()}
        return model(**on_device).logits.float().cpu()

    found = torch.empty(len(texts), model.config.num_labels)
    with one_thread_per_unit(model.device) as workers, ThreadPoolExecutor(workers) as pool:
        for batch, logits in zip(batches, pool.map(partial(memory.run, run), inputs), strict=True):
            found[torch.from_numpy(batch)] = torch.cat(logits)
    memory.report("batches of texts to classify", f"they hold {batch_size} texts at most")
    return found, lengths > (np.inf if max_tokens is None else max_tokens)


def _halved(encoded: Any) -> tuple[Any, Any] | None:
    """The two halves of a batch of encoded texts; `None` for a single text."""
    middle = len(encoded["input_ids"]) // 2
    if not middle:
        return None
    first, second = (
        {name: each[part] for name, each in encoded.items()} for part in (slice(middle), slice(middle, None))
    )
    return first, second


def _pads_harmlessly(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_tokens: int | None) -> bool:
    """Whether texts get the same logits in a padded batch as alone: found out by trying it on a few.

    It depends on the architecture, on the side of the padding, and on whether model and tokenizer mean the same token.
    """
    if tokenizer.pad_token_id is None:
        return False
    alone, _ = _logits(_TRIAL_TEXTS, model, tokenizer, max_tokens, batch_size=1)
    try:
        padded, _ = _logits(_TRIAL_TEXTS, model, tokenizer, max_tokens, batch_size=len(_TRIAL_TEXTS))
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001 - whatever it is, texts are then classified one at a time
        return False
    return torch.allclose(padded, alone, rtol=_TOLERANCE, atol=_TOLERANCE, equal_nan=True)


def _max_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> int | None:
    """How many tokens the model takes, special ones included; `None`: any number."""
    limit = min(each for each in (tokenizer.model_max_length, max_positions_of(model)) if each is not None)
    # A tokenizer that knows no limit says 10³⁰.
    return None if limit > np.iinfo(np.int32).max else limit
