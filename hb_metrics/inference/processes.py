"""Which of how many processes this is, and what of the machine is its share."""

import os
from collections.abc import Callable
from datetime import timedelta
from typing import TypeVar

import psutil
import torch
from accelerate import PartialState
from accelerate.utils import gather_object, parse_flag_from_env

Result = TypeVar("Result")

DEVICE_MAP_ERROR = (
    "--device_map {device_map} spreads the model over all devices of the machine, and {number} processes on it would "
    "each do so; start one process on a machine (python -m hb_metrics.measure, or accelerate launch --num_processes 1)"
)

# A process that has done its share waits for the slowest one, however long that takes.
_WAIT = timedelta(days=7)


def process_state() -> PartialState:
    """The state of `accelerate`, whether started by `accelerate launch`, `torchrun` or plain `python`.

    Without an accelerator `cpu` has to be set: else `accelerate` takes each process of `torchrun` for the only one.
    """
    cpu = parse_flag_from_env("ACCELERATE_USE_CPU") or not torch.accelerator.is_available()
    return PartialState(cpu=cpu, timeout=_WAIT)


def once_per_machine(work: Callable[[], Result]) -> Result:
    """What `work` returns, done by one process of each machine; all processes have to call this together."""
    state = process_state()
    if state.num_processes == 1:
        return work()
    machine = state.process_index - state.local_process_index  # its first process
    results = gather_object([(machine, work())] if state.is_local_main_process else [])
    return dict(results)[machine]


def is_lost_process(error: RuntimeError) -> bool:
    """Whether an error means that another process of the run cannot be reached: it has failed, or was killed."""
    # Those of gloo, which connects processes without accelerators, are of no class of their own.
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error)


def check_device_map(device_map: str | None) -> None:
    """Raises a ValueError if a model is to be spread over the devices of a machine by several of its processes."""
    number = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if device_map is not None and number > 1:
        raise ValueError(DEVICE_MAP_ERROR.format(device_map=device_map, number=number))


def num_workers() -> int:
    """How many units of work this process computes at once on CPU: its share of the physical cores it may use.

    Not torch's own number of threads, which `accelerate launch` sets to 1 by default.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = min(allowed, psutil.cpu_count(logical=False) or allowed)
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
