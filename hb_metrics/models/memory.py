"""Halves a batch when memory runs out. Halving changes only the last digits of the results."""

from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

import psutil
import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

Result = TypeVar("Result")


class Memory:
    """Runs batches, and halves a batch when memory runs out. Threads may share an instance.

    `halve` returns the two halves of a batch, or `None` if the batch cannot be halved. In the error message, `smallest`
    describes a batch that cannot be halved, such as "one text".
    """

    def __init__(self, halve: Callable[[Any], tuple[Any, Any] | None], smallest: str) -> None:
        self.halve = halve
        self.smallest = smallest
        self.num_halved = 0
        self.lock = Lock()

    def run(self, work: Callable[[Any], Result], batch: Any) -> list[Result]:
        waiting, results = [batch], []
        while waiting:
            part = waiting.pop()
            halves = None
            try:
                with torch.inference_mode():  # applies only to this thread
                    results.append(work(part))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                halves = self.halve(part)
                if halves is None:
                    raise MemoryError(
                        f"memory runs out even for {self.smallest} alone ({str(error).splitlines()[0]}); use a machine "
                        "or device with more memory, start fewer processes, or load the weights as bfloat16 (dtype)"
                    ) from error
            if halves is not None:  # after the `except` block, because the error object keeps the memory in use
                with self.lock:
                    self.num_halved += 1
                clear_device_cache()
                waiting += reversed(halves)
        return results

    def report(self, what: str) -> None:
        if self.num_halved:
            print(f"{what} run in halves because memory ran out: {self.num_halved:,}")


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


def halved(payload: Any) -> tuple[Any, Any] | None:
    middle = len(payload) // 2
    return (payload[:middle], payload[middle:]) if middle else None


def is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or should_reduce_batch_size(error)
