"""Quantised checkpoints: their description, and how exactly a model computes."""

from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel

_BITS = ("bits", "weight_bits", "w_bit")
_FORMATS = ("format", "quant_type", "weights", "fmt")


def quantization_of(config: PreTrainedConfig) -> str | None:
    """Describes how the checkpoint of a config is quantised, such as "gptq, 4 bits"; `None`: it is not."""
    content: Any = getattr(config, "quantization_config", None)
    if content is None:
        content = getattr(config.get_text_config(), "quantization_config", None)
    if content is None:
        return None
    content = content if isinstance(content, dict) else content.to_dict()
    method = content.get("quant_method") or "method not named"
    bits = next((content[name] for name in _BITS if isinstance(content.get(name), int)), None)
    words = [content.get(name) for name in _FORMATS]
    for name, loaded_bits in (("load_in_4bit", 4), ("load_in_8bit", 8)):  # bitsandbytes
        if content.get(name) or content.get(f"_{name}"):
            bits = loaded_bits
            words = [content.get("bnb_4bit_quant_type") if loaded_bits == 4 else None]
    parts = [getattr(method, "value", method), None if bits is None else f"{bits} bits", *words]
    return ", ".join(part for part in parts if isinstance(part, str))


def is_exact(model: PreTrainedModel) -> bool:
    """Whether a model computes in float32 or float64 throughout: a batch then moves only the last digits.

    A quantised model may round its activations to few bits, and a last digit then becomes a whole step.
    """
    return model.dtype in (torch.float32, torch.float64) and not computes_quantized(model)


def computes_quantized(model: PreTrainedModel) -> bool:
    """Whether a model computes with quantised weights; loading makes those of a GGUF file full."""
    return getattr(model, "is_quantized", False) and getattr(model, "quantization_method", None) != "gguf"
