"""Runs trials of a model in float32, so that rounding errors do not hide a wrong computation."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel

from hb_metrics.models.processes import is_offloaded


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


_Kept = list[tuple[torch.Tensor, torch.Tensor]]


def measured(model: PreTrainedModel, trial: Callable[[], float]) -> tuple[float, bool]:
    """Returns a trial's result, and whether the model computed it in float32.

    The second value is false for quantised models, for models whose weights are reloaded before each use, and for a few
    models that mix types.
    """
    with torch.inference_mode():
        if not (is_exact(model) or getattr(model, "is_quantized", False) or is_offloaded(model)):
            try:
                with _in_float32(model):
                    return trial(), True
            except Exception:  # noqa: BLE001 - without float32, the trial itself raises its own errors below
                pass
        return trial(), is_exact(model)


@contextmanager
def _in_float32(model: nn.Module) -> Iterator[None]:
    """Converts the weights of a model to float32, and restores them at the end.

    To save memory, the weights of each layer are converted only while the layer runs.
    """
    listed = [layer for module in model.modules() if isinstance(module, nn.ModuleList) for layer in module]
    inner = {part for layer in listed for part in layer.modules() if part is not layer}
    layers = [layer for layer in listed if layer not in inner]
    in_layers = {id(tensor) for layer in layers for tensor in (*layer.parameters(), *layer.buffers())}
    rest = [tensor for tensor in (*model.parameters(), *model.buffers()) if id(tensor) not in in_layers]
    kept: dict[nn.Module, _Kept] = {model: _converted(rest)}

    def convert(layer: nn.Module, _: object) -> None:
        kept[layer] = _converted([*layer.parameters(), *layer.buffers()])

    def restore(layer: nn.Module, *_: object) -> None:
        for tensor, before in kept.pop(layer, ()):
            tensor.data = before

    hooks = [layer.register_forward_pre_hook(convert) for layer in layers]
    hooks += [layer.register_forward_hook(restore, always_call=True) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        restore(model)


def _converted(tensors: list[torch.Tensor]) -> _Kept:
    kept = [(tensor, tensor.data) for tensor in tensors if tensor.is_floating_point() and tensor.itemsize < 4]
    for tensor, before in kept:
        tensor.data = before.float()
    return kept
