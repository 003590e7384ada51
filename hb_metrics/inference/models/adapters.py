"""PEFT adapters, measured on the model that they were trained on without being merged into it."""

import importlib.util
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from hb_metrics.inference.devices import input_device, is_offloaded
from hb_metrics.inference.models.sources import ADAPTER_CONFIG, Source, identify

_TRIAL_TOKENS = 8
_SHOWN = 3  # names of weights in an error
_WHOLE_LAYER = ".modules_to_save."

NO_PEFT_ERROR = (
    "the adapter '{name}' needs the package peft: pip install 'holistic-bias[adapters]' (or pip install peft)"
)
ADAPTER_ERROR = "the adapter '{name}' does not fit model '{model}'{trained_on}: {error}"
TRAINED_ON = ", but '{base}', which it was trained on"
WAYS_ERROR = (
    "the adapter '{name}' ({kind}) does more than change layers of the model, such as adding virtual tokens before a "
    "text; only adapters of layers (LoRA and its kin) can be measured"
)
OFFLOADED_ERROR = (
    "an adapter cannot be loaded onto a model of which a part is on disk or in host memory; use more devices, or merge "
    "the adapter into the model (merge_and_unload of peft)"
)
NEW_TOKENS_ERROR = (
    "the tokenizer of the adapter '{name}' has {tokens:,} tokens, model '{model}' has {rows:,}, and the adapter brings "
    "no embeddings of the others; save it again with save_embedding_layers=True"
)


@dataclass(frozen=True, kw_only=True)
class Adapter:
    """An adapter that is measured.

    Attributes:
        name: As it was given: a folder or a Hub id.
        revision: The commit of a Hub id; `None` for a folder.
        digest: What identifies its weights: the commit, or a SHA-256 over the files of its folder.
        trained_on: The model that it says it was trained on.
    """

    name: str
    revision: str | None
    digest: str
    trained_on: str | None


def find_adapter(source: Source, digests: Mapping[str, str] | None = None) -> Adapter | None:
    """What identifies the adapter of a model; `None`: it has none.

    Raises:
        ModuleNotFoundError: The package peft is not installed.
    """
    if source.adapter is None:
        return None
    if importlib.util.find_spec("peft") is None:
        raise ModuleNotFoundError(NO_PEFT_ERROR.format(name=source.adapter))
    digest, revision = identify(source.adapter, source.adapter_revision, ADAPTER_CONFIG, digests)
    return Adapter(name=source.adapter, revision=revision, digest=digest, trained_on=source.trained_on)


def with_adapter(
    model: PreTrainedModel, adapter: Adapter, name: str, tokenizer: PreTrainedTokenizerBase
) -> PreTrainedModel:
    """The model with an adapter in its layers, not merged.

    Args:
        model: The model, in evaluation mode; it is changed.
        adapter: The adapter.
        name: The name of the model.
        tokenizer: The tokenizer they are measured with, which may have tokens that the adapter brings.

    Raises:
        ValueError: The adapter does not fit the model, or is of a kind that cannot be measured.
    """
    from peft import PeftConfig, PeftModel

    if is_offloaded(model):
        raise ValueError(OFFLOADED_ERROR)
    other = adapter.trained_on is not None and adapter.trained_on != name
    trained_on = TRAINED_ON.format(base=adapter.trained_on) if other else ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they warn of is an error below
        try:
            config = PeftConfig.from_pretrained(adapter.name, revision=adapter.revision)
            kind = str(getattr(config.peft_type, "value", config.peft_type))
            if config.is_prompt_learning:
                raise ValueError(WAYS_ERROR.format(name=adapter.name, kind=kind))
            weights = _weights(adapter)
            _make_room(model, adapter, name, tokenizer, weights, config)
            config.inference_mode = True
            wrapped = PeftModel(model, config)
            result = wrapped.load_adapter(adapter.name, "default", revision=adapter.revision, is_trainable=False)
        except (OSError, ImportError):
            raise
        except (RuntimeError, ValueError, KeyError, TypeError, AttributeError) as error:
            if str(error).startswith(("the adapter", "the tokenizer")):
                raise
            raise ValueError(
                ADAPTER_ERROR.format(name=adapter.name, model=name, trained_on=trained_on, error=_shape_line(error))
            ) from error
    unfit = [*result.missing_keys, *(key for key in result.unexpected_keys if not _is_twice(key, weights))]
    if unfit:
        what = f"weights of one and not of the other are {', '.join(sorted(unfit)[:_SHOWN])}"
        raise ValueError(ADAPTER_ERROR.format(name=adapter.name, model=name, trained_on=trained_on, error=what))
    wrapped.eval()
    base: PreTrainedModel = wrapped.get_base_model()
    if not _same(wrapped, base):
        raise ValueError(WAYS_ERROR.format(name=adapter.name, kind=kind))
    return base


def _weights(adapter: Adapter) -> dict[str, torch.Tensor]:
    from peft import load_peft_weights

    return load_peft_weights(adapter.name, device="cpu", revision=adapter.revision)


def _is_twice(key: str, weights: Mapping[str, torch.Tensor]) -> bool:
    """Whether a file has the weights of a key under another one too, as peft saves embeddings trained as a whole."""
    other = weights.get(key.replace(_WHOLE_LAYER, "."))
    return _WHOLE_LAYER in key and other is not None and torch.equal(weights[key], other)


def _make_room(
    model: PreTrainedModel,
    adapter: Adapter,
    name: str,
    tokenizer: PreTrainedTokenizerBase,
    weights: Mapping[str, torch.Tensor],
    config: Any,
) -> None:
    """Gives the model as many embeddings as the adapter brings, or trains tokens of."""
    rows = model.get_input_embeddings().weight.shape[0]
    names = {
        f"{path}.weight"
        for path, module in model.named_modules()
        if module is model.get_input_embeddings() or module is model.get_output_embeddings()
    }
    saved = {
        len(tensor)
        for key, tensor in weights.items()
        if tensor.ndim == 2 and "lora_" not in key and any(key.endswith(path) for path in names)
    }
    indices = getattr(config, "trainable_token_indices", None) or []
    lists = indices.values() if isinstance(indices, dict) else [indices]
    trained = max((index + 1 for each in lists for index in each), default=0)
    needed = saved.pop() if len(saved) == 1 else max(rows, trained)
    if needed != rows:
        model.resize_token_embeddings(needed, mean_resizing=False)
    new = set(range(rows, len(tokenizer))) - {index for each in lists for index in each}
    if len(tokenizer) > needed or (new and trained > rows):
        raise ValueError(NEW_TOKENS_ERROR.format(name=adapter.name, tokens=len(tokenizer), model=name, rows=rows))


def _same(wrapped: Any, base: PreTrainedModel) -> bool:
    """Whether the model with the adapter in its layers is all that PEFT would run: some kinds hook into its calls."""
    tokens = torch.arange(_TRIAL_TOKENS, device=input_device(base))[None] % base.get_input_embeddings().weight.shape[0]
    inputs = {"input_ids": tokens, **({"decoder_input_ids": tokens} if base.config.is_encoder_decoder else {})}
    with torch.inference_mode():
        return torch.equal(wrapped(**inputs).logits, base(**inputs).logits)


def _shape_line(error: Exception) -> str:
    """The line of an error that names what does not fit: torch lists shapes under a heading."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return next((line for line in lines if "size mismatch" in line), lines[0] if lines else repr(error))
