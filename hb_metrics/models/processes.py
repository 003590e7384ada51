"""Connects the processes of a run, and finds the devices on which a model runs.

With `--device_map`, accelerate spreads a model over several devices. It attaches a hook to each layer, which moves data
to the layer's device.
"""

import os
from collections import Counter
from datetime import timedelta
from typing import Any, TypeVar

import psutil
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, parse_flag_from_env
from torch import nn

T = TypeVar("T")

# The maximum time that a process waits for another process.
_WAIT = timedelta(days=7)


def process_state() -> PartialState:
    """Returns accelerate's state, even if the run was started with `torchrun` or `python`."""
    # On a machine without an accelerator, `cpu` must be true. Otherwise, accelerate would not connect the processes
    # that `torchrun` started.
    cpu = parse_flag_from_env("ACCELERATE_USE_CPU") or not torch.accelerator.is_available()
    state = PartialState(cpu=cpu, timeout=_WAIT)
    if state.device.type == "cpu":
        # With several processes, accelerate calls the device cpu:0. Weights that move from cpu to cpu:0 are copied to
        # other alignments in memory, which changes the last digit of some products.
        state.device = torch.device("cpu")
    return state


def of_main_process(value: T) -> T:
    """Returns the main process's value on all processes. Call it on all processes."""
    (shared,) = broadcast_object_list([value])
    return shared


def is_lost_process(error: RuntimeError) -> bool:
    # On CPU, gloo connects the processes. It raises errors of the general type RuntimeError.
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error)


def check_device_map(device_map: str | None) -> None:
    number = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if device_map is not None and number > 1:
        raise ValueError(
            f"--device_map {device_map} needs one process per machine, but {number} run here; start only one"
        )


def num_workers() -> int:
    """Returns the number of batches that this process computes at the same time on CPU.

    The environment variable `OMP_NUM_THREADS` sets this number. By default, the processes of a machine share its
    physical cores equally. Under `accelerate launch` and `torchrun`, a value of 1 is ignored, because these launchers
    set it by default.
    """
    threads = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    launched = "LOCAL_WORLD_SIZE" in os.environ or "ACCELERATE_MIXED_PRECISION" in os.environ
    if threads.isdecimal() and int(threads) > (1 if launched else 0):
        return int(threads)
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = min(allowed, psutil.cpu_count(logical=False) or allowed)
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


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
