"""A model's replies to prompts: which prompts, how they are put to the model, and the replies as resumable shards.

Smith et al. (2022), A.4 and A.5. Everything random (which prompts, persona lines, variations, sampling) is drawn by a
prompt's id and the seed; a reply does not depend on its batch, its place in the data or the number of processes.
"""

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import torch

from hb_dataset.hints import did_you_mean
from hb_dataset.variations import VARIATIONS, mixed_variations
from hb_metrics.inference.contexts import (
    ContextFormat,
    check_lengths,
    draw_personas,
    encode_contexts,
    end_tokens,
    prompt_generator,
    reply_text,
)
from hb_metrics.inference.decoding import Decoded, Decoding, EndTokens, decode, is_invariant, takes_padding
from hb_metrics.inference.memory import OUT_OF_MEMORY_ERROR, is_out_of_memory
from hb_metrics.inference.models import LoadedModel
from hb_metrics.inference.shards import Shard, fill_shards, plan_row_shards, read_shards
from hb_metrics.inference.units import one_thread_per_unit

PRESETS = {
    # For a quick look: a sentence or so, drawn at random.
    "sample": Decoding(
        sample=True, temperature=0.7, top_k=50, top_p=0.9, min_new_tokens=10, max_new_tokens=40, end_after_sentence=True
    ),
    "greedy": Decoding(max_new_tokens=60),
    # The paper's settings (A.4). It names no maximum; 60 tokens is that of the released Blenderbot models.
    "dialogpt": Decoding(num_beams=10, min_new_tokens=20, max_new_tokens=60, no_repeat_ngram_size=3),
    "blenderbot2": Decoding(num_beams=3, min_new_tokens=20, max_new_tokens=60, no_repeat_ngram_size=3),
}
ROWS_PER_SHARD = 1024
# Rows (contexts × beams) of a batch at most. The last replies of a batch to end run nearly alone, which costs least in
# large batches; with the embedded model two CPU cores gain little beyond these.
MOST_ROWS = {"cpu": 256, "other": 512}
# Fewer contexts are not parted further, to have a batch for each core.
LEAST_CONTEXTS = 32

REPLY_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.string()),
        ("personas", pa.list_(pa.string())),
        *((name, pa.bool_()) for name in VARIATIONS),
        ("reply", pa.string()),
        ("num_tokens", pa.int64()),
        ("truncated", pa.bool_()),
    ]
)

PRESET_ERROR = "decoding '{name}' is not known; {hint}allowed: {allowed}"
KIND_ERROR = (
    "a {kind} language model gives no replies; measure its likelihoods (--measurements likelihood), or give a causal "
    "or encoder-decoder model"
)
CELL_ERROR = "replies_per_cell is {number}; give at least 1, or leave it out for a reply to every prompt"


@dataclass(frozen=True, kw_only=True)
class ReplyPlan:
    """What is to be replied to, and how.

    Attributes:
        ids: Prompt ids.
        texts: The prompts as the model is given them, variations applied.
        flags: Which variation was applied to each ([prompts] bool by name).
        personas: Persona lines of each.
        contexts: Token ids of each context.
        context: The format of the contexts.
        context_reason: Why, in words for the report.
        tag: The control tag that each prompt ends in (see `bias_tags.py`); `None`: none.
        tag_reason: Why, in words for the report.
        decoding: How replies are decoded.
        ends: What ends a reply.
        seed: Of sampling.
        invariant: Whether a reply is the same in any batch: see `decoding.decode`.
        padded: Whether contexts of several lengths are decoded together: see `decoding.takes_padding`.
    """

    ids: list[str]
    texts: list[str]
    flags: dict[str, np.ndarray]
    personas: list[list[str]]
    contexts: list[list[int]]
    context: ContextFormat
    context_reason: str
    tag: str | None
    tag_reason: str
    decoding: Decoding
    ends: EndTokens
    seed: int
    invariant: bool
    padded: bool

    def description(self) -> dict[str, Any]:
        """What is recorded of it."""
        return {
            "context": self.context,
            "context_reason": self.context_reason,
            "tag": self.tag,
            "tag_reason": self.tag_reason,
            "num_prompts": len(self.ids),
            "prompts_digest": hashlib.sha256("\x1f".join(self.texts).encode()).hexdigest(),
            "persona_lines": len(self.personas[0]) if self.personas else 0,
            "personas_digest": hashlib.sha256(repr(self.personas).encode()).hexdigest(),
            **asdict(self.decoding),
            "same_in_any_batch": self.invariant,
        }


def decoding_preset(name: str, **changes: Any) -> Decoding:
    """A preset, with the settings changed that are not `None`.

    Raises:
        ValueError: There is no such preset, or a change cannot be decoded with.
    """
    if name not in PRESETS:
        hint = did_you_mean(name, PRESETS)
        raise ValueError(PRESET_ERROR.format(name=name, hint=hint, allowed=", ".join(PRESETS)))
    return replace(PRESETS[name], **{key: value for key, value in changes.items() if value is not None})


def select_prompts(prompts: pa.Table, replies_per_cell: int | None, *, seed: int) -> pa.Table:
    """Draws the prompts of each cell (axis, descriptor and template) that are replied to.

    Args:
        prompts: Prompts with the columns `id`, `axis`, `descriptor` and `template`.
        replies_per_cell: How many a cell; all of a cell that has fewer; `None`: all.
        seed: Another seed, other prompts.

    Returns:
        The prompts drawn, in the order they were in.

    Raises:
        ValueError: `replies_per_cell` is less than 1.
    """
    if replies_per_cell is None:
        return prompts
    if replies_per_cell < 1:
        raise ValueError(CELL_ERROR.format(number=replies_per_cell))
    cells = defaultdict(list)
    columns = [prompts[name].to_pylist() for name in ("axis", "descriptor", "template", "id")]
    for row, (*cell, identifier) in enumerate(zip(*columns, strict=True)):
        cells[tuple(cell)].append((prompt_generator(seed, "prompts", identifier).random(), row))
    rows = [row for cell in cells.values() for _, row in sorted(cell)[:replies_per_cell]]
    return prompts.take(pa.array(sorted(rows), pa.int64()))


def plan_replies(
    prompts: pa.Table,
    loaded: LoadedModel,
    *,
    decoding: Decoding,
    context: ContextFormat,
    context_reason: str = "",
    tag: str | None = None,
    tag_reason: str = "",
    personas: Sequence[str] = (),
    num_personas: int = 0,
    variations: bool = False,
    seed: int = 0,
) -> ReplyPlan:
    """Varies the prompts, draws persona lines and encodes the contexts.

    Args:
        prompts: The prompts, as the dataset has them.
        loaded: A causal or encoder–decoder model.
        decoding: How replies are decoded.
        context: How a prompt becomes what the model is given.
        context_reason: Why this format, for the record.
        tag: The control tag that each prompt ends in; `None`: none.
        tag_reason: Why this tag, for the record.
        personas: Sentences to draw persona lines from.
        num_personas: Persona lines before each prompt.
        variations: Whether the paper's stylistic variations (A.3) are mixed in.
        seed: Chooses persona lines, variations and what is sampled.

    Returns:
        The plan.

    Raises:
        ValueError: The model gives no replies, or cannot take these contexts.
    """
    if loaded.kind == "masked":
        raise ValueError(KIND_ERROR.format(kind=loaded.kind))
    ids = prompts["id"].to_pylist()
    if variations:
        varied = mixed_variations(prompts, seed=seed)
        texts, flags = varied.texts.to_pylist(), varied.flags
    else:
        texts, flags = prompts["text"].to_pylist(), {name: np.zeros(len(ids), bool) for name in VARIATIONS}
    drawn = draw_personas(ids, personas, num_personas, seed=seed)
    contexts = encode_contexts(texts, drawn, loaded.model, loaded.tokenizer, context, tag)
    check_lengths(contexts, ids, loaded.model, decoding.max_new_tokens)
    return ReplyPlan(
        ids=ids,
        texts=texts,
        flags=flags,
        personas=drawn,
        contexts=contexts,
        context=context,
        context_reason=context_reason,
        tag=tag,
        tag_reason=tag_reason,
        decoding=decoding,
        ends=end_tokens(loaded.model, loaded.tokenizer, context),
        seed=seed,
        invariant=is_invariant(loaded.model),
        padded=takes_padding(loaded.model, contexts),
    )


def reply_into_shards(
    plan: ReplyPlan,
    loaded: LoadedModel,
    folder: Path,
    *,
    batch_size: int | None = None,
    progress: bool = True,
) -> pa.Table | None:
    """Generates the replies that are not on disk yet, and reads all of them.

    Args:
        plan: What is to be replied to.
        loaded: The model it was planned for.
        folder: Where the shards are; made if it is not there.
        batch_size: Contexts of one length decoded together at most; `None`: what memory allows, of several lengths
            where the plan has them padded. Halved when memory runs out.
        progress: Whether the main process shows a progress bar.

    Returns:
        A table with the columns of `REPLY_SCHEMA` in the order of the plan, on the main process; `None` on all others.
        `reply` is null where the model said nothing.
    """
    shards = _shards(plan, folder)
    longest = max(map(len, plan.contexts), default=0) + plan.decoding.max_new_tokens
    padded = plan.padded and batch_size is None
    size = _BatchSize(batch_size or fitting_batch_size(loaded, longest, plan.decoding.num_beams))

    def compute(mine: Sequence[int], advance: Callable[[int], object]) -> Iterator[pa.Table]:
        waiting = {index: len(shards[index].rows) for index in mine}
        replies: dict[int, Decoded] = {}
        with one_thread_per_unit(loaded.model.device) as workers, ThreadPoolExecutor(workers) as pool:
            try:
                parted = ((index, _batches(plan, shards[index].rows, size.limit, workers, padded)) for index in mine)
                batches = [(index, batch) for index, found in parted for batch in found]
                run = partial(_reply, plan, loaded, size)
                results = pool.map(run, [batch for _, batch in batches])
                for (index, batch), decoded in zip(batches, results, strict=True):
                    replies |= zip(batch, decoded, strict=True)
                    advance(len(batch))
                    waiting[index] -= len(batch)
                    if not waiting[index]:
                        rows = shards[index].rows.tolist()
                        yield _reply_table(plan, loaded, rows, [replies.pop(row) for row in rows])
            finally:
                pool.shutdown(wait=False, cancel_futures=True)  # on Ctrl-C do not start the batches still waiting

    return fill_shards(shards, plan.ids, REPLY_SCHEMA, compute, label="replies", unit="reply", progress=progress)


def read_replies(plan: ReplyPlan, folder: Path) -> pa.Table:
    """Reads the replies that `reply_into_shards` has written, on any process."""
    return read_shards(_shards(plan, folder), REPLY_SCHEMA)


def fitting_batch_size(loaded: LoadedModel, length: int, num_beams: int) -> int:
    """How many contexts of a length fit into a quarter of the free memory, with their keys, values and logits."""
    model, device = loaded.model, loaded.model.device
    config = model.config.get_text_config()
    width = getattr(config, "hidden_size", 1024)
    layers = getattr(config, "num_hidden_layers", 32)
    per_row = (2 * length * width * layers + 4 * 4 * config.vocab_size) * model.dtype.itemsize
    free = torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else psutil.virtual_memory().available
    most = MOST_ROWS["cpu" if device.type == "cpu" else "other"]
    return max(1, min(most, free // 4 // per_row) // num_beams)


def _shards(plan: ReplyPlan, folder: Path) -> list[Shard]:
    """Shards of contexts of similar length, so that there are many of one length in each."""
    order = sorted(range(len(plan.ids)), key=lambda row: (len(plan.contexts[row]), plan.contexts[row], plan.ids[row]))
    return plan_row_shards(len(plan.ids), ROWS_PER_SHARD, folder, np.array(order, dtype=np.int64))


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


def _batches(plan: ReplyPlan, rows: np.ndarray, limit: int, workers: int, padded: bool) -> list[list[int]]:
    """The rows of a shard in batches of similar length or, without padding, of one length; as even as can be.

    Replies do not depend on how many workers there are: where they could (half precision), nothing is padded.
    """
    if padded:
        number = -(-len(rows) // min(limit, LEAST_CONTEXTS))
        number = min(number, -(-len(rows) // (limit * workers)) * workers)  # as many for each worker
        number = max(number, -(-len(rows) // limit))
        return [batch.tolist() for batch in np.array_split(rows, number)]
    lengths = np.array([len(plan.contexts[row]) for row in rows])
    groups = np.split(rows, np.flatnonzero(np.diff(lengths)) + 1)
    return [batch.tolist() for group in groups for batch in np.array_split(group, -(-len(group) // limit))]


def _reply(plan: ReplyPlan, loaded: LoadedModel, size: _BatchSize, batch: Sequence[int]) -> list[Decoded]:
    """Decodes a batch, in smaller ones if memory runs out."""
    decoded: list[Decoded] = []
    while len(decoded) < len(batch):
        rows = batch[len(decoded) :][: size.limit]
        uniforms = None
        if plan.decoding.sample:
            generators = (prompt_generator(plan.seed, "sampling", plan.ids[row]) for row in rows)
            uniforms = np.stack([each.random(plan.decoding.max_new_tokens) for each in generators])
        try:
            with torch.inference_mode():  # is kept per thread
                contexts = [plan.contexts[row] for row in rows]
                decoded += decode(loaded.model, contexts, plan.decoding, plan.ends, uniforms, plan.padded)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            if len(rows) == 1:
                message = str(error).split("\n", 1)[0]
                raise MemoryError(OUT_OF_MEMORY_ERROR.format(what="one prompt", error=message)) from error
            size.halve(len(rows))
        if loaded.model.device.type == "cuda" and len(rows) > size.limit:
            torch.cuda.empty_cache()
    return decoded


def _reply_table(plan: ReplyPlan, loaded: LoadedModel, rows: Sequence[int], decoded: Sequence[Decoded]) -> pa.Table:
    replies = [reply_text(each.tokens, loaded.tokenizer) for each in decoded]
    return pa.table(
        {
            "id": [plan.ids[row] for row in rows],
            "text": [plan.texts[row] for row in rows],
            "personas": [plan.personas[row] for row in rows],
            **{name: flags[rows] for name, flags in plan.flags.items()},
            "reply": [reply or None for reply in replies],
            "num_tokens": [len(each.tokens) for each in decoded],
            "truncated": [each.truncated for each in decoded],
        },
        schema=REPLY_SCHEMA,
    )
