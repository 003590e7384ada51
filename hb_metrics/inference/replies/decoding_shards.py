"""Rows decoded into resumable shards: which are decoded together, by how many threads, and what if memory runs out.

Replies, continuations and paraphrases share it. What is decoded for a context follows from the context and its id
alone (see `decoding.py`), so that the shards are the same bytes whatever the batches.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import torch

from hb_metrics.inference.devices import input_device, weight_shares
from hb_metrics.inference.memory import is_out_of_memory, out_of_memory
from hb_metrics.inference.models.contexts import EndTokens
from hb_metrics.inference.models.loading import LoadedModel
from hb_metrics.inference.replies.decoding import decode
from hb_metrics.inference.replies.decoding_settings import Decoded, Decoding
from hb_metrics.inference.replies.sampling import draw_keys
from hb_metrics.inference.shards import Shard, fill_shards, plan_row_shards, read_shards
from hb_metrics.inference.units import one_thread_per_unit

# Rows (contexts × beams) of a batch at most. The last replies of a batch to end run nearly alone, which costs least in
# large batches; with the embedded model two CPU cores gain little beyond these.
MOST_ROWS = {"cpu": 256, "other": 512}
# Batches are not made smaller than this to have one for each core.
LEAST_CONTEXTS = 32


@dataclass(frozen=True, kw_only=True)
class DecodingPlan:
    """Rows that are decoded, and how: what replies, continuations and paraphrases have in common.

    Attributes:
        ids: [rows] what each row is keyed by; each once.
        contexts: [rows] token ids of what the model is given.
        decoding: How tokens are chosen.
        ends: What ends the decoded text.
        limits: [rows] tokens decoded at most; `None`: `decoding.max_new_tokens` for every row.
        seed: Of sampling.
        invariant: Whether what is decoded is the same in any batch: see `decoding.decode`.
        padded: Whether contexts of several lengths are decoded together: see `trials.takes_padding`.
        cached: Whether keys and values are kept from token to token: see `trials.takes_cache`.
    """

    ids: list[str]
    contexts: list[list[int]]
    decoding: Decoding
    ends: EndTokens
    limits: list[int] | None = None
    seed: int = 0
    invariant: bool
    padded: bool = False
    cached: bool = True


# Makes the columns beside `id` of some rows and what was decoded for each.
MakeColumns = Callable[[Sequence[int], Sequence[Decoded]], Mapping[str, Any]]


def decode_into_shards(
    plan: DecodingPlan,
    loaded: LoadedModel,
    folder: Path,
    *,
    schema: pa.Schema,
    make_columns: MakeColumns,
    name: str,
    purpose: str,
    rows_per_shard: int,
    batch_size: int | None = None,
    progress: bool = True,
) -> pa.Table | None:
    """Decodes what is not on disk yet, and reads all of it.

    Args:
        plan: What is decoded.
        loaded: The model that it was planned for.
        folder: Where the shards are; made if it is not there.
        schema: The columns of a shard; the first is `id`.
        make_columns: Makes the other columns.
        name: What the rows are, in the plural, for the progress bar.
        purpose: What is sampled, for `seeded_generator`.
        rows_per_shard: Rows in a shard.
        batch_size: Contexts of one length decoded together at most; `None`: what memory allows, of several lengths
            where the plan has them padded. Halved when memory runs out.
        progress: Whether the main process shows a progress bar.

    Returns:
        As `fill_shards`.

    Raises:
        MemoryError: Memory does not suffice for one context alone.
        ValueError: `batch_size` is less than 1.
    """
    device = input_device(loaded.model)
    shards = _shards(plan, folder, rows_per_shard)
    padded = plan.padded and batch_size is None
    limits = plan.limits or [plan.decoding.max_new_tokens] * len(plan.ids)
    longest = max((len(context) + limit for context, limit in zip(plan.contexts, limits, strict=True)), default=1)
    longest += plan.decoding.max_reasoning_tokens
    if batch_size is None:
        batch_size = fitting_batch_size(loaded, longest, plan.decoding.num_beams)
    size = _BatchSize(batch_size)

    def compute(mine: Sequence[int], advance: Callable[[int], object]) -> Iterator[pa.Table]:
        waiting = {index: len(shards[index].rows) for index in mine}
        done: dict[int, Decoded] = {}
        with one_thread_per_unit(loaded.model, longest) as workers, ThreadPoolExecutor(workers) as pool:
            try:
                batches = [
                    (index, batch)
                    for index in mine
                    for batch in _batches(plan.contexts, shards[index].rows, size.limit, workers, padded)
                ]
                if plan.invariant:  # the progress bar starts to move soon
                    first, later = batches[:workers], batches[workers:]
                    small = [(index, batch[:LEAST_CONTEXTS]) for index, batch in first]
                    rest = [(index, batch[LEAST_CONTEXTS:]) for index, batch in first if len(batch) > LEAST_CONTEXTS]
                    batches = [*small, *rest, *later]
                decode_some = partial(_decode_rows, plan, purpose, loaded)
                results = pool.map(partial(_decode_halving, decode_some, device, size), [batch for _, batch in batches])
                finished = 0
                for number, ((index, batch), decoded) in enumerate(zip(batches, results, strict=True), 1):
                    done |= zip(batch, decoded, strict=True)
                    finished += len(batch)
                    # The first of several that run at the same time is not reported alone, while the others are nearly
                    # done: the progress bar would take the speed for half of what it is, and the time left for twice.
                    if number % workers == 0 or number == len(batches):
                        advance(finished)
                        finished = 0
                    waiting[index] -= len(batch)
                    if not waiting[index]:
                        rows = shards[index].rows.tolist()
                        columns = make_columns(rows, [done.pop(row) for row in rows])
                        yield pa.table({"id": [plan.ids[row] for row in rows], **columns}, schema=schema)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)  # on Ctrl-C do not start the batches still waiting

    return fill_shards(
        shards,
        plan.ids,
        schema,
        compute,
        label=name,
        unit="row",
        inputs=plan.contexts,
        progress=progress,
    )


def read_decoded(plan: DecodingPlan, folder: Path, *, schema: pa.Schema, rows_per_shard: int) -> pa.Table:
    """Reads what `decode_into_shards` has written, on any process."""
    return read_shards(_shards(plan, folder, rows_per_shard), schema)


def decode_rows(plan: DecodingPlan, loaded: LoadedModel, rows: Sequence[int], *, purpose: str) -> list[Decoded]:
    """Decodes some rows in memory: the same as `decode_into_shards` does. Without limits of rows; errors as there."""
    order = np.array(sorted(rows, key=lambda row: (len(plan.contexts[row]), plan.contexts[row], plan.ids[row])))
    if not len(order):
        return []
    most = plan.decoding.max_new_tokens + plan.decoding.max_reasoning_tokens
    longest = max(len(plan.contexts[row]) for row in rows) + most
    size = _BatchSize(fitting_batch_size(loaded, longest, plan.decoding.num_beams))
    done: dict[int, Decoded] = {}
    with one_thread_per_unit(loaded.model, longest) as workers, ThreadPoolExecutor(workers) as pool:
        batches = _batches(plan.contexts, order, size.limit, workers, plan.padded)
        decode_some = partial(_decode_rows, plan, purpose, loaded)
        decode_batch = partial(_decode_halving, decode_some, input_device(loaded.model), size)
        for batch, decoded in zip(batches, pool.map(decode_batch, batches), strict=True):
            done |= zip(batch, decoded, strict=True)
    return [done[row] for row in rows]


def fitting_batch_size(loaded: LoadedModel, length: int, num_beams: int) -> int:
    """How many contexts of a length fit into a quarter of the free memory, with their keys, values and logits.

    Of a model that is spread over devices, each layer's keys and values are where the layer is; the device that fits
    the fewest counts.
    """
    model, device = loaded.model, input_device(loaded.model)
    config = model.config.get_text_config()
    heads = getattr(config, "num_attention_heads", None)
    width = getattr(config, "hidden_size", 1024)
    if isinstance(heads, int) and heads:  # keys and values are often of fewer heads than queries
        head_dim = max(getattr(config, name, None) or 0 for name in ("head_dim", "qk_head_dim")) or width // heads
        key_heads = getattr(config, "num_key_value_heads", None)
        width = head_dim * (key_heads if isinstance(key_heads, int) and key_heads else heads)
    layers = getattr(config, "num_hidden_layers", 32)
    cached, logits = (
        2 * length * width * layers * model.dtype.itemsize,
        4 * 4 * config.vocab_size * model.dtype.itemsize,
    )
    fitting = [MOST_ROWS["cpu" if device.type == "cpu" else "other"]]
    for where, share in weight_shares(model).items():
        free = torch.cuda.mem_get_info(where)[0] if where.type == "cuda" else psutil.virtual_memory().available
        fitting.append(int(free // 4 // (cached * share + logits)))
    return max(1, min(fitting) // num_beams)


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


def _shards(plan: DecodingPlan, folder: Path, rows_per_shard: int) -> list[Shard]:
    """Shards of contexts of similar length, equal ones together: there are many of one length, and each is run once."""
    order = sorted(range(len(plan.ids)), key=lambda row: (len(plan.contexts[row]), plan.contexts[row], plan.ids[row]))
    return plan_row_shards(len(plan.ids), rows_per_shard, folder, np.array(order, dtype=np.int64))


def _decode_rows(plan: DecodingPlan, purpose: str, loaded: LoadedModel, rows: Sequence[int]) -> list[Decoded]:
    """Decodes some rows together, each up to its own limit."""
    limits = None if plan.limits is None else [plan.limits[row] for row in rows]
    most = plan.decoding.max_new_tokens if limits is None else max(limits)
    keys = None
    if plan.decoding.sample:
        number = most + plan.decoding.max_reasoning_tokens
        keys = np.stack([draw_keys(plan.seed, purpose, plan.ids[row], number) for row in rows])
    contexts, decoding = [plan.contexts[row] for row in rows], replace(plan.decoding, max_new_tokens=most)
    return decode(loaded.model, contexts, decoding, plan.ends, keys, plan.padded, limits, plan.cached)


def _decode_halving(
    decode_some: Callable[[Sequence[int]], list[Decoded]], device: torch.device, size: _BatchSize, batch: Sequence[int]
) -> list[Decoded]:
    """Decodes a batch, in smaller ones if memory runs out."""
    decoded: list[Decoded] = []
    while len(decoded) < len(batch):
        rows = batch[len(decoded) :][: size.limit]
        try:
            with torch.inference_mode():  # is kept per thread
                decoded += decode_some(rows)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(rows) == 1:
                raise out_of_memory("one prompt", error) from error
            size.halve(len(rows))
        if device.type == "cuda" and len(rows) > size.limit:
            torch.cuda.empty_cache()
    return decoded
