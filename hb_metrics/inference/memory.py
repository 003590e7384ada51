"""Runs a batch in halves where memory runs out, and reports it.

The numbers of the halves differ in their last digits only, as those of any other batch do.
"""

from collections.abc import Callable
from threading import Lock
from typing import Any, TypeVar

import torch
from accelerate.utils.memory import clear_device_cache, should_reduce_batch_size

Result = TypeVar("Result")


class Memory:
    """Runs batches in smaller ones where memory runs out, and counts how often; threads may share one.

    Args:
        halve: Cuts a batch in two; `None` for one that cannot be cut.
        smallest: The name of such a batch, for the error.
    """

    def __init__(self, halve: Callable[[Any], tuple[Any, Any] | None], smallest: str) -> None:
        self.halve = halve
        self.smallest = smallest
        self.num_halved = 0
        self.lock = Lock()

    def run(self, work: Callable[[Any], Result], batch: Any) -> list[Result]:
        """Runs a batch in inference mode.

        Returns:
            The results of `work` for the batch, or for its parts in order.

        Raises:
            MemoryError: Memory does not suffice for the smallest batch.
        """
        waiting, results = [batch], []
        while waiting:
            part = waiting.pop()
            halves = None
            try:
                with torch.inference_mode():  # is kept per thread
                    results.append(work(part))
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                halves = self.halve(part)
                if halves is None:
                    raise out_of_memory(self.smallest, error) from error
            if halves is not None:  # no longer in `except`: the error holds on to the memory
                with self.lock:
                    self.num_halved += 1
                clear_device_cache()
                waiting += reversed(halves)
        return results

    def report(self, what: str, remedy: str = "") -> None:
        """Prints how often memory ran out, if it did."""
        if self.num_halved:
            print(f"{what} run in halves because memory ran out: {self.num_halved:,}{remedy}")


def halved(payload: Any) -> tuple[Any, Any] | None:
    """The two halves of a list; `None` for a list of one."""
    middle = len(payload) // 2
    return (payload[:middle], payload[middle:]) if middle else None


def out_of_memory(smallest: str, error: Exception) -> MemoryError:
    """The error where memory does not suffice for the smallest batch, which is `smallest` ("one text")."""
    return MemoryError(
        f"memory runs out even for {smallest} alone ({str(error).splitlines()[0]}); use a machine or device with more, "
        "fewer processes on it, or --dtype bfloat16"
    )


def is_out_of_memory(error: Exception) -> bool:
    """Whether the memory of any device ran out."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or should_reduce_batch_size(error)
