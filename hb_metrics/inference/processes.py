"""The processes of a run, and the share of the machine that each process uses."""

import os
from datetime import timedelta
from typing import TypeVar

import psutil
import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list, parse_flag_from_env

# The longest time that a process waits for the slowest process.
_WAIT = timedelta(days=7)
T = TypeVar("T")


def process_state() -> PartialState:
    """Returns the state of `accelerate`, whether a run was started by `accelerate launch`, `torchrun` or `python`.

    If there is no accelerator, `cpu` must be set. Otherwise, `accelerate` would treat each `torchrun` process as the
    only one.
    """
    cpu = parse_flag_from_env("ACCELERATE_USE_CPU") or not torch.accelerator.is_available()
    return PartialState(cpu=cpu, timeout=_WAIT)


def of_main_process(value: T) -> T:
    shared: list[T] = broadcast_object_list([value])
    return shared[0]


def is_lost_process(error: RuntimeError) -> bool:
    # gloo connects processes without accelerators, and raises plain RuntimeErrors.
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error)


def check_device_map(device_map: str | None) -> None:
    number = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    if device_map is not None and number > 1:
        raise ValueError(
            f"--device_map {device_map} spreads the model over all devices of the machine, but {number} processes on "
            "the machine would each do so; start one process per machine (holistic-bias measure, or accelerate "
            "launch --num_processes 1)"
        )


def num_workers() -> int:
    """Returns the number of units of work that this process computes simultaneously on CPU.

    The number is `OMP_NUM_THREADS` if this variable is set, and otherwise the process's share of the available physical
    cores. `accelerate launch` and `torchrun` set the variable to 1 by default, so a value of 1 under them counts as not
    set.
    """
    threads = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    launched = "LOCAL_WORLD_SIZE" in os.environ or "ACCELERATE_MIXED_PRECISION" in os.environ
    if threads.isdecimal() and int(threads) > (1 if launched else 0):
        return int(threads)
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = min(allowed, psutil.cpu_count(logical=False) or allowed)
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
