"""Contexts decoded into resumable shards: which are decoded together, by how many threads, and what if memory runs out.

Replies, continuations and paraphrases share it. What is decoded for a context follows from the context and its id
alone (see `decoding.py`), so that the shards are the same bytes whatever the batches.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import NamedTuple

import numpy as np
import psutil
import pyarrow as pa
import torch

from hb_metrics.inference.memory import OUT_OF_MEMORY_ERROR, is_out_of_memory
from hb_metrics.inference.models.loading import LoadedModel
from hb_metrics.inference.replies.decoding import Decoded
from hb_metrics.inference.shards import Shard, fill_shards
from hb_metrics.inference.units import one_thread_per_unit

# Rows (contexts × beams) of a batch at most. The last replies of a batch to end run nearly alone, which costs least in
# large batches; with the embedded model two CPU cores gain little beyond these.
MOST_ROWS = {"cpu": 256, "other": 512}
# Fewer contexts are not parted further, to have a batch for each core.
LEAST_CONTEXTS = 32


class DecodingTask(NamedTuple):
    """What is decoded, and what becomes of it.

    Attributes:
        ids: [rows] what each row is keyed by; each once.
        contexts: [rows] token ids of each context.
        decode: Decodes the contexts of some rows together.
        schema: The columns of a shard; the first is `id`.
        make_table: Makes a shard's table of its rows and what was decoded for each.
        label: What the progress bar says.
        unit: What a row is: "reply", "continuation".
    """

    ids: Sequence[str]
    contexts: Sequence[Sequence[int]]
    decode: Callable[[Sequence[int]], list[Decoded]]
    schema: pa.Schema
    make_table: Callable[[Sequence[int], Sequence[Decoded]], pa.Table]
    label: str
    unit: str


def decode_into_shards(
    task: DecodingTask,
    shards: Sequence[Shard],
    device: torch.device,
    *,
    batch_size: int,
    padded: bool,
    progress: bool = True,
) -> pa.Table | None:
    """Decodes what is not on disk yet, and reads all of it.

    Args:
        task: What is decoded.
        shards: All shards of the rows, in each of which the contexts' lengths ascend.
        device: Where the model is.
        batch_size: Contexts decoded together at most. Halved when memory runs out.
        padded: Whether contexts of several lengths are decoded together.
        progress: Whether the main process shows a progress bar.

    Returns:
        As `fill_shards`.

    Raises:
        MemoryError: Memory does not suffice for one context alone.
        ValueError: `batch_size` is less than 1.
    """
    size = _BatchSize(batch_size)

    def compute(mine: Sequence[int], advance: Callable[[int], object]) -> Iterator[pa.Table]:
        waiting = {index: len(shards[index].rows) for index in mine}
        found: dict[int, Decoded] = {}
        with one_thread_per_unit(device) as workers, ThreadPoolExecutor(workers) as pool:
            try:
                parted = (
                    (index, _batches(task.contexts, shards[index].rows, size.limit, workers, padded)) for index in mine
                )
                batches = [(index, batch) for index, parts in parted for batch in parts]
                results = pool.map(partial(_decode, task, device, size), [batch for _, batch in batches])
                for (index, batch), decoded in zip(batches, results, strict=True):
                    found |= zip(batch, decoded, strict=True)
                    advance(len(batch))
                    waiting[index] -= len(batch)
                    if not waiting[index]:
                        rows = shards[index].rows.tolist()
                        yield task.make_table(rows, [found.pop(row) for row in rows])
            finally:
                pool.shutdown(wait=False, cancel_futures=True)  # on Ctrl-C do not start the batches still waiting

    return fill_shards(
        shards,
        task.ids,
        task.schema,
        compute,
        label=task.label,
        unit=task.unit,
        inputs=task.contexts,
        progress=progress,
    )


def fitting_batch_size(loaded: LoadedModel, length: int, num_beams: int) -> int:
    """How many contexts of a length fit into a quarter of the free memory, with their keys, values and logits."""
    model, device = loaded.model, loaded.model.device
    config = model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", None)
    width = getattr(config, "hidden_size", 1024)
    if isinstance(heads, int) and heads:  # keys and values are often of fewer heads than queries
        head_dim = max(getattr(config, name, None) or 0 for name in ("head_dim", "qk_head_dim")) or width // heads
        key_heads = getattr(config, "num_key_value_heads", None)
        width = head_dim * (key_heads if isinstance(key_heads, int) and key_heads else heads)
    layers = getattr(config, "num_hidden_layers", 32)
    per_row = (2 * length * width * layers + 4 * 4 * config.vocab_size) * model.dtype.itemsize
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    most = MOST_ROWS["cpu" if device.type == "cpu" else "other"]
    return max(1, min(most, free // 4 // per_row) // num_beams)


class _BatchSize:
    """The batch size in use, shared by the threads; goes down when memory runs out, never up."""

    def __init__(self, limit: int) -> None:
        if limit < 1:
            raise ValueError(f"batch_size is {limit}; give at least 1")
        self.limit = limit
        self.lock = Lock()

    def halve(self, failed: int) -> None:
        with self.lock:
            self.limit = min(self.limit, max(1, failed // 2))


def _batches(
    contexts: Sequence[Sequence[int]], rows: np.ndarray, limit: int, workers: int, padded: bool
) -> list[list[int]]:
    """The rows of a shard in batches of similar length or, without padding, of one length; as even as can be.

    What is decoded does not depend on how many workers there are: where it could (half precision), nothing is padded.
    """
    if padded:
        number = -(-len(rows) // min(limit, LEAST_CONTEXTS))
        number = min(number, -(-len(rows) // (limit * workers)) * workers)  # as many for each worker
        number = max(number, -(-len(rows) // limit))
        return [batch.tolist() for batch in np.array_split(rows, number)]
    lengths = np.array([len(contexts[row]) for row in rows])
    groups = np.split(rows, np.flatnonzero(np.diff(lengths)) + 1)
    return [batch.tolist() for group in groups for batch in np.array_split(group, -(-len(group) // limit))]


def _decode(task: DecodingTask, device: torch.device, size: _BatchSize, batch: Sequence[int]) -> list[Decoded]:
    """Decodes a batch, in smaller ones if memory runs out."""
    decoded: list[Decoded] = []
    while len(decoded) < len(batch):
        rows = batch[len(decoded) :][: size.limit]
        try:
            with torch.inference_mode():  # is kept per thread
                decoded += task.decode(rows)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(rows) == 1:
                message = str(error).split("\n", 1)[0]
                raise MemoryError(OUT_OF_MEMORY_ERROR.format(what="one prompt", error=message)) from error
            size.halve(len(rows))
        if device.type == "cuda" and len(rows) > size.limit:
            torch.cuda.empty_cache()
    return decoded
