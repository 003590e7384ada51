"""Runs trials of a model in float32, so that rounding errors do not hide a wrong computation."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn
from transformers import PreTrainedModel

from hb_metrics.models.devices import is_offloaded
from hb_metrics.models.quantization import is_exact

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
    lists = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    inner = {part for layers in lists for layer in layers for part in layer.modules() if part is not layer}
    layers = [layer for each in lists for layer in each if layer not in inner]
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
