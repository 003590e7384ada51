"""Which of how many processes this is, and what of the machine is its share."""

import os
from datetime import timedelta

import psutil
import torch
from accelerate import PartialState
from accelerate.utils import parse_flag_from_env

# A process that has done its share waits for the slowest one, however long that takes.
_WAIT = timedelta(days=7)


def process_state() -> PartialState:
    """The state of `accelerate`, whether started by `accelerate launch`, `torchrun` or plain `python`.

    Without an accelerator `cpu` has to be set: else `accelerate` takes each process of `torchrun` for the only one.
    """
    cpu = parse_flag_from_env("ACCELERATE_USE_CPU") or not torch.accelerator.is_available()
    return PartialState(cpu=cpu, timeout=_WAIT)


def is_lost_process(error: RuntimeError) -> bool:
    """Whether an error means that another process of the run cannot be reached: it has failed, or was killed."""
    # Those of gloo, which connects processes without accelerators, are of no class of their own.
    return isinstance(error, torch.distributed.DistError) or "gloo" in str(error)


def num_workers() -> int:
    """How many units of work this process computes at once on CPU: its share of the physical cores it may use.

    Not torch's own number of threads, which `accelerate launch` sets to 1 by default.
    """
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = min(allowed, psutil.cpu_count(logical=False) or allowed)
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))
