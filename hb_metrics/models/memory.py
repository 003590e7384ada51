"""Halves a batch when memory runs out. Halving changes only the last digits of the results."""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import psutil
import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

Result = TypeVar("Result")


def run_batch(work: Callable[[Any], Result], batch: Sequence[Any]) -> list[Result]:
    """Runs a batch, and halves it when memory runs out. Returns the results of its parts, in order."""
    waiting, results = [batch], []
    while waiting:
        part = waiting.pop()
        try:
            with torch.inference_mode():  # applies only to this thread
                results.append(work(part))
            continue
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(part) < 2:
                raise MemoryError(
                    f"memory runs out even for one text alone ({first_line(error)}); use a machine or device with "
                    "more memory, start fewer processes, or load the weights as bfloat16 (dtype)"
                ) from error
        # After the `except` block, because the error object keeps the memory in use. By default, Python shows this
        # warning only the first time.
        warnings.warn("memory ran out, so some batches run in halves, which takes longer", stacklevel=1)
        clear_device_cache()
        middle = len(part) // 2
        waiting += [part[middle:], part[:middle]]
    return results


def free_memory(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> int:
    """Returns the free main memory in bytes, within the limits of a container or cluster job.

    The limits are those of Linux control groups, version 2. Cached files that the kernel can drop count as free memory.
    """
    free = int(psutil.virtual_memory().available)
    lines = own.read_text(encoding="utf-8").splitlines() if own.is_file() else []
    group = next((groups / line.removeprefix("0::/") for line in lines if line.startswith("0::/")), groups)
    while group.is_relative_to(groups):
        limit = group / "memory.max"
        if limit.is_file() and (most := limit.read_text(encoding="utf-8").strip()) != "max":
            used = int((group / "memory.current").read_text(encoding="utf-8"))
            stat = (group / "memory.stat").read_text(encoding="utf-8").split()
            free = min(free, int(most) - used + int(stat[stat.index("inactive_file") + 1]))
        group = group.parent
    return max(free, 0)


def is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or should_reduce_batch_size(error)


def first_line(error: BaseException) -> str:
    """Returns the first line of an error's message, or the error itself. Python's MemoryError has no message."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines and not isinstance(error, KeyError) else repr(error)
