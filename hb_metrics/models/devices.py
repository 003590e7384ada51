"""Finds the devices on which a model runs.

With `--device_map`, accelerate spreads a model over several devices. It attaches a hook to each layer, which moves data
to the layer's device.
"""

from collections import Counter
from typing import Any

import torch
from torch import nn


def input_device(model: nn.Module) -> torch.device:
    """Returns the device for a model's inputs. The model's logits are on the same device.

    `model.device` is not reliable. It may be "meta" if some weights are on disk.
    """
    embeddings = input_embeddings(model)
    return _run_device(model if embeddings is None else embeddings)


def input_embeddings(model: nn.Module) -> Any:
    get_embeddings: Any = getattr(model, "get_input_embeddings", None)
    embeddings = None if get_embeddings is None else get_embeddings()
    return embeddings if isinstance(embeddings, nn.Module) else None


def is_offloaded(model: nn.Module) -> bool:
    """Returns whether some weights are reloaded before each use. Only one thread at a time may run such a model."""
    return any(getattr(hook, "offload", False) for module in model.modules() for hook in _hooks(module))


def weight_shares(model: nn.Module) -> dict[torch.device, float]:
    counts: Counter[torch.device] = Counter()
    for module in model.modules():
        number = sum(weights.numel() for weights in module.parameters(recurse=False))
        if number:
            counts[_run_device(module)] += number
    total = counts.total()
    return {device: number / total for device, number in counts.items()}


def _run_device(module: nn.Module) -> torch.device:
    for hook in _hooks(module):
        device = getattr(hook, "execution_device", None)
        if device is not None and not isinstance(device, dict):
            return torch.device(device)
    return next((weights.device for weights in module.parameters()), torch.device("cpu"))


def _hooks(module: nn.Module) -> tuple[Any, ...]:
    hook = getattr(module, "_hf_hook", None)
    return () if hook is None else tuple(getattr(hook, "hooks", (hook,)))
