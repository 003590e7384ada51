"""Runs a batch in halves if memory runs out. This changes only the last digits of the batch's numbers."""

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

Result = TypeVar("Result")


class Memory:
    """Splits batches when memory runs out, and counts the splits. Threads may share an instance.

    `halve` cuts a batch in two, or returns `None` if the batch is indivisible. `smallest` is the name of an indivisible
    batch in the error.
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
                    raise out_of_memory(self.smallest, error) from error
            if halves is not None:  # outside of `except`, because the error keeps references to the memory
                with self.lock:
                    self.num_halved += 1
                clear_device_cache()
                waiting += reversed(halves)
        return results

    def report(self, what: str, remedy: str = "") -> None:
        if self.num_halved:
            print(f"{what} run in halves because memory ran out: {self.num_halved:,}{remedy}")


def halved(payload: Any) -> tuple[Any, Any] | None:
    middle = len(payload) // 2
    return (payload[:middle], payload[middle:]) if middle else None


def out_of_memory(smallest: str, error: Exception) -> MemoryError:
    return MemoryError(
        f"memory runs out even for {smallest} alone ({str(error).splitlines()[0]}); use a machine or device with "
        f"more memory, fewer processes, or --dtype bfloat16"
    )


def is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or should_reduce_batch_size(error)
