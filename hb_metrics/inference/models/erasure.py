"""Adds linear erasures to a model, and reads and writes their files.

A linear erasure is an affine map that removes a concept from a model's activations. It is applied to the output of a
decoder layer, at each position separately, so results do not depend on caches, prefix trees or batches.
"""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from transformers import PreTrainedModel

from hb_dataset.whole_files import write_atomically
from hb_metrics.inference.models.sources import ADAPTER_CONFIG, file_of
from hb_metrics.runs.run_folder import write_json

ERASURE_FILE = "erasure.safetensors"
PEFT_TYPE = "LINEAR_ERASURE"  # unknown to peft, so that peft does not load the folder


class Erasure(NamedTuple):
    """The map x ↦ x − `writes` · `reads` · (x − `mean`), where x is an activation.

    Attributes:
        writes: [width, rank]
        reads: [rank, width]
        mean: [width]
    """

    writes: torch.Tensor
    reads: torch.Tensor
    mean: torch.Tensor

    def apply(self, activations: torch.Tensor) -> torch.Tensor:
        """Returns the changed activations, [..., width], computed in float32."""
        writes, reads, mean = (part.to(activations.device) for part in self)
        x = activations.float()
        return (x - ((x - mean) @ reads.T) @ writes.T).to(activations.dtype)


def decoder_layers(model: PreTrainedModel) -> nn.ModuleList:
    number = getattr(model.config.get_text_config(decoder=True), "num_hidden_layers", None)
    lists = [
        module
        for name, module in model.get_decoder().named_modules()
        if isinstance(module, nn.ModuleList) and len(module) == number and not any(map(str.isdigit, name.split(".")))
    ]
    if len(lists) != 1:
        raise ValueError(
            f"no erasure can be applied to a {type(model).__name__}, because it does not have exactly one list of "
            "decoder layers; pass a causal language model, such as Llama or GPT-2"
        )
    return lists[0]


def add_erasures(model: PreTrainedModel, erasures: Mapping[int, Erasure]) -> None:
    layers = decoder_layers(model)
    for index, erasure in erasures.items():
        device = next(layers[index].parameters()).device
        if device.type != "meta":  # "meta" means that the weights are loaded each time the layer is used
            erasure = Erasure(*(part.to(device) for part in erasure))
        layers[index].register_forward_hook(after_layer(erasure.apply))


def after_layer(change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    def hook(layer: nn.Module, inputs: Any, output: Any) -> Any:
        return (change(output[0]), *output[1:]) if isinstance(output, tuple | list) else change(output)

    return hook


def save_erasures(folder: Path, erasures: Mapping[int, Erasure], base: Mapping[str, Any], record: Any) -> None:
    """Writes erasures into a folder that can be loaded like an adapter.

    `erasures` maps the indices of layers to their erasures. `base` contains the name, the revision and the digest of
    the model to which the erasures were fitted. `record` describes the fit.
    """
    tensors = {
        f"{index}.{name}": part.contiguous()
        for index, erasure in erasures.items()
        for name, part in erasure._asdict().items()
    }
    write_atomically(folder / ERASURE_FILE, lambda scratch: save_file(tensors, scratch))
    config = {
        "peft_type": PEFT_TYPE,
        "base_model_name_or_path": base["name"],
        "revision": base["revision"],
        "base_digest": base["digest"],
        "erasure": record,
    }
    write_json(folder / ADAPTER_CONFIG, config)


def is_erasure(adapter: str, revision: str | None) -> bool:
    config = file_of(adapter, ADAPTER_CONFIG, revision)  # the file that every adapter has
    return config is not None and json.loads(config.read_text(encoding="utf-8")).get("peft_type") == PEFT_TYPE


def load_erasures(model: PreTrainedModel, adapter: str, revision: str | None, digest: str) -> None:
    config, weights = (file_of(adapter, name, revision) for name in (ADAPTER_CONFIG, ERASURE_FILE))
    parts: dict[int, dict[str, torch.Tensor]] = {}
    try:
        content = json.loads(str(config and config.read_text(encoding="utf-8")))
        name, fitted_on = content["base_model_name_or_path"], content["base_digest"]
        for key, tensor in load_file(str(weights)).items():
            index, _, part = key.partition(".")
            parts.setdefault(int(index), {})[part] = tensor
        erasures = {index: Erasure(**named) for index, named in parts.items()}
    except (ValueError, KeyError, TypeError, FileNotFoundError, SafetensorError) as error:
        raise OSError(
            f"the erasure '{adapter}' cannot be loaded ({error}); fit a new erasure with hb_train/erase.py"
        ) from error
    if fitted_on != digest:
        raise ValueError(
            f"the erasure '{adapter}' was fitted on '{name}' (digest {fitted_on}), but this model has the digest "
            f"{digest}; pass the model on which the erasure was fitted, or fit a new erasure with erase.py"
        )
    add_erasures(model, erasures)
