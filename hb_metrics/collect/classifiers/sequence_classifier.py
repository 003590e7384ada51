import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
import transformers
from transformers import AutoModelForSequenceClassification, PreTrainedModel, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES

from hb_metrics.collect.classifiers.classifier import Classification, Classifier
from hb_metrics.collect.classifiers.parlai import MODEL_TYPE as PARLAI_MODEL_TYPE
from hb_metrics.collect.units import alike_units, map_units
from hb_metrics.models.architecture import check_token_ids, max_positions_of
from hb_metrics.models.loading import model_from, read_config, tokenizer_from
from hb_metrics.models.memory import run_batch
from hb_metrics.run.replies import LeftOutError

MAX_POSITIONS = 2048  # the maximum number of tokens in a batch


def normalised(classifier: Classifier) -> Classifier:
    def shares(probabilities: np.ndarray) -> np.ndarray:
        totals = probabilities.sum(axis=1, keepdims=True)
        if not totals.all():
            raise LeftOutError(f"classifier '{classifier.name}' assigns probability 0 to all labels; check its weights")
        return probabilities / totals

    notes = classifier.notes
    if classifier.multi_label:
        notes = (*notes, "its labels have independent probabilities, which are divided by their sum")
    return classifier.changed(shares, notes=notes)


def load_sequence_classifier(
    name: str,
    *,
    revision: str | None = None,
    device: str | torch.device = "cpu",
    trust_remote_code: bool = False,
    weights: bool = True,
) -> Classifier:
    """Loads a classifier or, without `weights`, only its labels."""
    config, digest, revision = read_config(
        name, name, revision, sought="sequence classifier", trust_remote_code=trust_remote_code
    )
    known = {*MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES, PARLAI_MODEL_TYPE}
    if config.problem_type == "regression" or (config.model_type not in known and not trust_remote_code):
        raise ValueError(
            f"classifier '{name}' (type '{config.model_type}', problem_type {config.problem_type!r}) does not compute "
            "label probabilities; pass a model for sequence classification"
        )
    # The text classification pipeline of transformers uses the same rule.
    multi_label = config.problem_type == "multi_label_classification" or config.num_labels == 1
    labels = tuple(config.id2label[index] for index in range(config.num_labels))
    described = Classifier(
        name=name,
        digest=digest,
        version=f"transformers {transformers.__version__}",
        labels=labels,
        source_labels=labels,
        multi_label=multi_label,
    )
    if not weights:
        return described
    tokenizer = tokenizer_from(name, name, revision, trust_remote_code)
    hub: dict[str, object] = {"revision": revision, "trust_remote_code": trust_remote_code}
    model, _ = model_from(AutoModelForSequenceClassification, name, name, dtype=torch.float32, **hub)
    model = model.eval().to(device)
    limit = min(limit for limit in (tokenizer.model_max_length, max_positions_of(model)) if limit is not None)
    max_tokens = None if limit > sys.maxsize else limit  # transformers sets 10³⁰ if the tokenizer has no limit
    max_positions = MAX_POSITIONS if model.config.pad_token_id is not None else 1  # some models then reject batches

    def classify(texts: list[str]) -> Classification:
        logits, truncated = _logits(texts, model, tokenizer, max_tokens, max_positions)
        bad = ~torch.isfinite(logits).all(dim=1)
        if bad.any():
            raise LeftOutError(f"classifier '{name}' returned {logits[bad][0].tolist()} as logits; check its weights")
        probabilities = logits.double().sigmoid() if multi_label else logits.double().softmax(dim=1)
        return Classification(probabilities.numpy(), truncated)

    return replace(described, classify_distinct=classify)


def _logits(
    texts: Sequence[str],
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    max_tokens: int | None,
    max_positions: int,
) -> tuple[torch.Tensor, np.ndarray]:
    whole = tokenizer(list(texts), return_attention_mask=False, verbose=False)["input_ids"]
    lengths = np.array([len(tokens) for tokens in whole])
    check_token_ids(model, whole)
    encoded = tokenizer(list(texts), truncation=max_tokens is not None, max_length=max_tokens)
    rows = [dict(zip(encoded, values, strict=True)) for values in zip(*encoded.values(), strict=True)]
    units = alike_units(rows, [(len(row["input_ids"]),) for row in rows], max_positions)

    def run(batch: Sequence[dict[str, list[int]]]) -> torch.Tensor:
        inputs = {name: torch.tensor([row[name] for row in batch], device=model.device) for name in batch[0]}
        return model(**inputs).logits.float().cpu()

    logits = torch.empty(len(texts), model.config.num_labels)
    for unit, parts in map_units(lambda unit: run_batch(run, unit.payload), units, model):
        logits[torch.from_numpy(unit.sequences)] = torch.cat(parts)
    return logits, lengths > (max_tokens or sys.maxsize)
