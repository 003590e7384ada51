"""Loading a classifier: an embedded one, or any sequence classifier of the Hub or a local folder."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, TypedDict, Unpack

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

from hb_metrics.inference.classifiers.classifier import Classification, Classifier, ParlaiOrigin
from hb_metrics.inference.classifiers.parlai.models import MODEL_TYPES as PARLAI_MODEL_TYPES
from hb_metrics.inference.memory import Memory
from hb_metrics.inference.models.architecture import beyond_rope_switch, max_positions_of, num_known_tokens
from hb_metrics.inference.models.loading import model_from, raise_no_config, tokenizer_from
from hb_metrics.inference.models.sources import EMBEDDED, identify
from hb_metrics.inference.text_checks import MISMATCH_ERROR, shown
from hb_metrics.inference.units import one_thread_per_unit

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
EMBEDDED_OPTION_ERROR = "the embedded classifier has no {option} '{value}'; leave it out"
NOT_FINITE_ERROR = "the classifier gives {value} for the text {text!r}; check its weights"
ZERO_ERROR = "classifier '{name}' gives the text {text!r} probability 0 of every label; check its weights"
NORMALISED_NOTE = "its labels have probabilities of their own; they are divided by their sum"


class LoadOptions(TypedDict, total=False):
    """How a classifier is loaded.

    Attributes:
        revision: Branch, tag or commit of a Hub id.
        device: Where it runs, in float32, so that batches do not move its numbers.
        trust_remote_code: Whether code that comes with the model may run on this machine.
        batch_size: Texts classified at once; bounds the memory.
    """

    revision: str | None
    device: str | torch.device
    trust_remote_code: bool
    batch_size: int


def load_classifier(
    name: str,
    *,
    embedded: Callable[..., Classifier],
    read_labels: Callable[[Classifier], Classifier],
    **options: Unpack[LoadOptions],
) -> Classifier:
    """Loads an embedded classifier, or a sequence classifier whose labels are then given their meaning.

    Args:
        name: `"embedded"`, the Hub id of a sequence classifier, or a local folder.
        embedded: Loads the embedded classifier, given the keyword `device`.
        read_labels: Makes a classifier of, for example, regard of one with the model's own labels.
        **options: As `LoadOptions`.

    Returns:
        The classifier.

    Raises:
        ValueError: It is no sequence classifier, its labels do not fit, an option is invalid, or the embedded one is
            given a revision.
        OSError: The classifier, its weights or its tokenizer are not there or do not load.
        ImportError: The embedded classifier is not installed, or not one that the installed packages can read.
    """
    batch_size = options.get("batch_size", BATCH_SIZE)
    if batch_size < 1:
        raise ValueError(BATCH_SIZE_ERROR.format(batch_size=batch_size, default=BATCH_SIZE))
    if name == EMBEDDED:
        refuse_for_embedded(revision=options.get("revision"))
        return embedded(device=options.get("device", "cpu"))
    return read_labels(load_sequence_classifier(name, **options))


def refuse_for_embedded(**options: object) -> None:
    """Raises a ValueError that names the first of these options that was given: an embedded classifier has none."""
    for option, value in options.items():
        if value is not None:
            raise ValueError(EMBEDDED_OPTION_ERROR.format(option=option, value=value))


def normalised(classifier: Classifier) -> Classifier:
    """The classifier with the probabilities of each text divided by their sum."""

    def classify(texts: list[str]) -> Classification:
        probabilities, truncated = classifier.classify_distinct(texts)
        totals = probabilities.sum(axis=1, keepdims=True)
        if not totals.all():
            text = shown(texts[np.flatnonzero(totals == 0)[0]])
            raise ValueError(ZERO_ERROR.format(name=classifier.name, text=text))
        return Classification(probabilities / totals, truncated)

    notes = (*classifier.notes, NORMALISED_NOTE) if classifier.multi_label else classifier.notes
    return replace(classifier, notes=notes, classify_distinct=classify)


def load_sequence_classifier(
    name: str,
    *,
    revision: str | None = None,
    device: str | torch.device = "cpu",
    trust_remote_code: bool = False,
    batch_size: int = BATCH_SIZE,
) -> Classifier:
    """Loads a sequence classifier with the labels of its config.

    Args:
        name: A Hub id or a local folder.
        revision: Branch, tag or commit of a Hub id.
        device: Where it runs. It runs in float32 everywhere, so that batches do not move its numbers.
        trust_remote_code: Whether code that comes with the model may run on this machine.
        batch_size: Texts classified at once; bounds the memory.

    Returns:
        The classifier.

    Raises:
        ValueError: It is no sequence classifier.
        OSError: The classifier, its weights or its tokenizer are not there or do not load.
    """
    device = torch.device(device)
    try:
        digest, revision = identify(name, revision)
        hub: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
        config = AutoConfig.from_pretrained(name, **hub)
    except (OSError, ValueError) as error:
        raise_no_config(name, name, error, NO_CLASSIFIER_ERROR)
    known = {*MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES, *PARLAI_MODEL_TYPES}
    if config.model_type not in known and not trust_remote_code:
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
    multi_label = _has_own_probabilities(model.config)

    def classify(texts: list[str]) -> Classification:
        logits, truncated = _logits(texts, model, tokenizer, max_tokens, batch_size)
        bad = np.flatnonzero(~torch.isfinite(logits).all(dim=1).numpy())
        if len(bad):
            raise ValueError(NOT_FINITE_ERROR.format(value=logits[bad[0]].tolist(), text=shown(texts[bad[0]])))
        probabilities = logits.double().sigmoid() if multi_label else logits.double().softmax(dim=1)
        return Classification(probabilities.numpy(), truncated)

    labels = tuple(model.config.id2label[index] for index in range(model.config.num_labels))
    return Classifier(
        name=name,
        digest=digest,
        version=f"transformers {transformers.__version__}",
        labels=labels,
        source_labels=labels,
        multi_label=multi_label,
        max_tokens=max_tokens,
        notes=tuple(notes),
        parlai=_parlai(model),
        classify_distinct=classify,
    )


def _parlai(model: PreTrainedModel) -> ParlaiOrigin | None:
    """What `convert-classifier` wrote into the config; `None`: the model was not converted."""
    origin = getattr(model.config, "parlai", None)
    if not isinstance(origin, dict):
        return None
    return ParlaiOrigin(kind=str(origin.get("kind")), agent=str(origin.get("agent")), parameters=model.num_parameters())


def _has_own_probabilities(config: PreTrainedConfig) -> bool:
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
    if beyond_rope_switch(model, lengths.max()):
        batch_size = 1
    order = np.argsort(lengths, kind="stable")  # so that little is padded
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    size = num_known_tokens(model)
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

    logits = torch.empty(len(texts), model.config.num_labels)
    with one_thread_per_unit(model, lengths.max()) as workers, ThreadPoolExecutor(workers) as pool:
        for batch, parts in zip(batches, pool.map(partial(memory.run, run), inputs), strict=True):
            logits[torch.from_numpy(batch)] = torch.cat(parts)
    memory.report("batches of texts to classify", f"they hold {batch_size} texts at most")
    return logits, lengths > (np.inf if max_tokens is None else max_tokens)


def _halved(encoded: Any) -> tuple[Any, Any] | None:
    """The two halves of a batch of encoded texts; `None` for a single text."""
    middle = len(encoded["input_ids"]) // 2
    if not middle:
        return None
    first, second = (
        {name: tensor[part] for name, tensor in encoded.items()} for part in (slice(middle), slice(middle, None))
    )
    return first, second


def _pads_harmlessly(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, max_tokens: int | None) -> bool:
    """Whether texts get the same logits in a padded batch as alone: tried on a few.

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
    limit = min(limit for limit in (tokenizer.model_max_length, max_positions_of(model)) if limit is not None)
    # A tokenizer that knows no limit has 10³⁰.
    return None if limit > np.iinfo(np.int32).max else limit
