from typing import Any

import torch
from transformers import PreTrainedConfig, PreTrainedModel


def quantization_of(config: PreTrainedConfig) -> str | None:
    """Describes a checkpoint's quantisation, such as "gptq, 4 bits". Returns `None` if it is not quantised."""
    for part in (config, config.get_text_config()):
        content: Any = getattr(part, "quantization_config", None)
        if content is not None:
            content = content if isinstance(content, dict) else content.to_dict()
            method, bits = content.get("quant_method"), content.get("bits")
            if content.get("load_in_4bit") or content.get("load_in_8bit"):  # bitsandbytes
                bits = 4 if content.get("load_in_4bit") else 8
            method = getattr(method, "value", method) or "method not named"
            return f"{method}, {bits} bits" if isinstance(bits, int) else str(method)
    return None


def is_exact(model: PreTrainedModel) -> bool:
    """Returns whether a model computes only in float32 or float64. If so, batches affect only the last digits.

    The result is false for quantised models, because they may round activations to a few bits.
    """
    return model.dtype in (torch.float32, torch.float64) and not getattr(model, "is_quantized", False)
