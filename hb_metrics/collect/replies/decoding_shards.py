import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import torch

from hb_metrics.collect.replies.decoding import NextLogits, decode
from hb_metrics.collect.replies.decoding_settings import Decoded, Decoding
from hb_metrics.collect.replies.forward import Forward, Paths
from hb_metrics.collect.replies.sampling import draw_keys
from hb_metrics.collect.shards import fill_shards, plan_row_shards, read_shards
from hb_metrics.collect.units import map_units, units_at_once
from hb_metrics.models.contexts import EndTokens
from hb_metrics.models.loading import LoadedModel
from hb_metrics.models.memory import free_memory, run_batch
from hb_metrics.models.processes import input_device, weight_shares

ROWS_PER_SHARD = 1024
# The maximum number of contexts per batch. Larger batches are faster. However, with the embedded model
# on two CPU cores, increasing the size further gained hardly any speed.
MOST_ROWS = {"cpu": 256, "other": 512}
# The minimum number of contexts per batch when batches are made smaller to use all cores.
LEAST_CONTEXTS = 32


@dataclass(frozen=True, kw_only=True)
class DecodingPlan:
    """The contexts to decode, and the settings for decoding them. Replies and continuations have their own subclasses.

    Attributes:
        limits: [rows] The maximum number of tokens of each text. `None` means `decoding.max_new_tokens`.
        invariant: Whether a decoded text does not depend on its batch.
        paths: The paths through the code by which the model decodes the contexts.
        start: A function for `decode`, which returns an object that computes a batch's logits.
        num_read: The number of contexts that `start` reads for each reply.
        purpose: An argument of `seeded_generator`. It differs between subclasses, and so do their random numbers.
    """

    ids: list[str]
    contexts: list[list[int]]
    decoding: Decoding
    ends: EndTokens
    limits: list[int] | None = None
    seed: int = 0
    invariant: bool
    paths: Paths
    start: Callable[..., NextLogits] = Forward
    num_read: int = 1
    schema: ClassVar[pa.Schema]
    label: ClassVar[str]
    purpose: ClassVar[str]

    def limits_of(self, rows: Sequence[int]) -> list[int]:
        return [self.decoding.max_new_tokens if self.limits is None else self.limits[row] for row in rows]

    def columns(self, loaded: LoadedModel, rows: Sequence[int], decoded: Sequence[Decoded]) -> Mapping[str, object]:
        raise NotImplementedError


def decode_into_shards(plan: DecodingPlan, loaded: LoadedModel, folder: Path) -> pa.Table:
    """Decodes the rows that are not on disk yet, and then reads all rows.

    Returns:
        On all processes, a table of all rows in the plan's order.
    """
    order = np.array(_by_length(plan, range(len(plan.ids))), dtype=np.int64)
    shards = plan_row_shards(len(plan.ids), ROWS_PER_SHARD, folder, order)

    def compute(mine: Sequence[int], advance: Callable[..., object]) -> Iterator[Mapping[str, object]]:
        done: dict[int, Decoded] = {}
        groups = [shards[index].rows for index in mine]
        with closing(_decoded(plan, loaded, groups)) as batches:
            for index in mine:
                rows = shards[index].rows.tolist()
                while not done.keys() >= set(rows):
                    batch, decoded = next(batches)
                    done |= zip(batch, decoded, strict=True)
                    advance(len(batch))
                yield plan.columns(loaded, rows, [done.pop(row) for row in rows])

    fill_shards(shards, plan.ids, plan.schema, compute, label=plan.label, unit="row", inputs=plan.contexts)
    return read_shards(shards, plan.schema)


def decode_rows(plan: DecodingPlan, loaded: LoadedModel, rows: Sequence[int]) -> list[Decoded]:
    if not rows:
        return []
    done: dict[int, Decoded] = {}
    for batch, decoded in _decoded(plan, loaded, [np.array(_by_length(plan, rows), np.int64)]):
        done |= zip(batch, decoded, strict=True)
    return [done[row] for row in rows]


def _decoded(
    plan: DecodingPlan, loaded: LoadedModel, groups: Sequence[np.ndarray]
) -> Generator[tuple[list[int], list[Decoded]], None, None]:
    """Yields the rows of each batch and their decoded texts. The size of the batches depends on the free memory."""
    limits = plan.limits_of(range(len(plan.ids)))
    longest = max((len(context) + limit for context, limit in zip(plan.contexts, limits, strict=True)), default=1)
    size = 1  # beam search decodes one context at a time
    if plan.decoding.num_beams == 1:
        size = max(1, fitting_batch_size(loaded, longest + plan.decoding.max_reasoning_tokens) // plan.num_read)
    workers = units_at_once(loaded.model)
    batches = [batch for rows in groups for batch in _batches(plan.contexts, rows, size, workers, plan.paths.padded)]

    def decode_batch(batch: list[int]) -> list[Decoded]:
        return list(chain.from_iterable(run_batch(partial(_decode_rows, plan, loaded), batch)))

    return map_units(decode_batch, batches, loaded.model)


def fitting_batch_size(loaded: LoadedModel, length: int) -> int:
    """Returns the number of contexts that fit into a quarter of each device's free memory.

    `length` is the number of tokens of a context and its reply.
    """
    model = loaded.model
    config = model.config.get_text_config()
    logits = 4 * 4 * config.vocab_size * model.dtype.itemsize
    width = getattr(config, "hidden_size", 1024)
    # Keys and values often have fewer heads than queries.
    key_heads = getattr(config, "num_key_value_heads", None)
    head_dim = max(getattr(config, name, None) or 0 for name in ("head_dim", "qk_head_dim"))
    if isinstance(key_heads, int) and head_dim:
        width = head_dim * key_heads
    layers = getattr(config, "num_hidden_layers", 32)
    cached = 2 * length * width * layers * model.dtype.itemsize
    fitting = [MOST_ROWS["cpu" if input_device(model).type == "cpu" else "other"]]
    for where, share in weight_shares(model).items():
        if where.type == "cuda":
            free = torch.cuda.mem_get_info(where)[0]
        else:  # the processes of a machine share its memory
            free = free_memory() // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        fitting.append(int(free // 4 // (cached * share + logits)))
    return max(1, min(fitting))


def _batches(
    contexts: Sequence[Sequence[int]], rows: np.ndarray, limit: int, workers: int, padded: bool
) -> list[list[int]]:
    """Divides the rows of a shard into batches of about equal size.

    If `padded` is true, the contexts in a batch have similar lengths, and there are enough batches for all workers.
    Otherwise, the contexts in a batch have the same length.
    """
    if padded:
        number = -(-len(rows) // min(limit, LEAST_CONTEXTS))
        number = min(number, -(-len(rows) // (limit * workers)) * workers)  # the same number of batches per worker
        number = max(number, -(-len(rows) // limit))
        return [batch.tolist() for batch in np.array_split(rows, number)]
    lengths = np.array([len(contexts[row]) for row in rows])
    groups = np.split(rows, np.flatnonzero(np.diff(lengths)) + 1)
    return [batch.tolist() for group in groups for batch in np.array_split(group, -(-len(group) // limit))]


def _by_length(plan: DecodingPlan, rows: Sequence[int]) -> list[int]:
    return sorted(rows, key=lambda row: (len(plan.contexts[row]), plan.contexts[row], plan.ids[row]))


def _decode_rows(plan: DecodingPlan, loaded: LoadedModel, rows: Sequence[int]) -> list[Decoded]:
    limits = plan.limits_of(rows)
    keys = None
    if plan.decoding.sample:
        number = max(limits) + plan.decoding.max_reasoning_tokens
        keys = np.stack([draw_keys(plan.seed, plan.purpose, plan.ids[row], number) for row in rows])
    contexts = [plan.contexts[row] for row in rows]
    return decode(loaded.model, contexts, plan.decoding, plan.ends, keys, limits, plan.paths.cached, plan.start)
