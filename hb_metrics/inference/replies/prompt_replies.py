"""A model's replies to prompts: which prompts, how they are given to the model, and the replies as resumable shards.

Smith et al. (2022), A.4 and A.5. Everything random (which prompts, persona lines, variations, sampling) is drawn by a
prompt's id and the seed; a reply does not depend on its batch, its row in the data or the number of processes.
"""

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hb_dataset.hints import did_you_mean
from hb_dataset.seeded_draws import seeded_generator
from hb_dataset.variations import VARIATIONS, mixed_variations
from hb_metrics.inference.models.contexts import (
    ContextFormat,
    check_lengths,
    draw_personas,
    encode_contexts,
    end_tokens,
    reply_text,
)
from hb_metrics.inference.models.loading import LoadedModel
from hb_metrics.inference.replies.decoding import Decoded, Decoding, is_invariant, takes_padding
from hb_metrics.inference.replies.decoding_shards import DecodingPlan, decode_into_shards, read_decoded

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
class ReplyPlan(DecodingPlan):
    """What is replied to, and how; a row is a prompt, and the other attributes are those of `DecodingPlan`.

    Attributes:
        texts: [prompts] the prompts as the model is given them, variations applied.
        flags: Which variation was applied to each ([prompts] bool by name).
        personas: [prompts] the persona lines of each.
        context: The format of the contexts.
        context_reason: Why, in words for the report.
        tag: The control tag that each prompt ends in (see `bias_tags.py`); `None`: none.
        tag_reason: Why, in words for the report.
    """

    texts: list[str]
    flags: dict[str, np.ndarray]
    personas: list[list[str]]
    context: ContextFormat
    context_reason: str
    tag: str | None
    tag_reason: str

    def description(self) -> dict[str, Any]:
        """What run.json records of the plan."""
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
        cells[tuple(cell)].append((seeded_generator(seed, "prompts", identifier).random(), row))
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
        plan: What is replied to.
        loaded: The model it was planned for.
        folder: Where the shards are; made if it is not there.
        batch_size: As `decode_into_shards`.
        progress: Whether the main process shows a progress bar.

    Returns:
        A table with the columns of `REPLY_SCHEMA` in the order of the plan, on the main process; `None` on all others.
        `reply` is null where the model wrote nothing.
    """

    def make_columns(rows: Sequence[int], decoded: Sequence[Decoded]) -> dict[str, Any]:
        replies = [reply_text(reply.tokens, loaded.tokenizer) for reply in decoded]
        return {
            "text": [plan.texts[row] for row in rows],
            "personas": [plan.personas[row] for row in rows],
            **{name: flags[rows] for name, flags in plan.flags.items()},
            "reply": [reply or None for reply in replies],
            "num_tokens": [len(reply.tokens) for reply in decoded],
            "truncated": [reply.truncated for reply in decoded],
        }

    return decode_into_shards(
        plan,
        loaded,
        folder,
        schema=REPLY_SCHEMA,
        make_columns=make_columns,
        name="replies",
        purpose="sampling",
        rows_per_shard=ROWS_PER_SHARD,
        batch_size=batch_size,
        progress=progress,
    )


def read_replies(plan: ReplyPlan, folder: Path) -> pa.Table:
    """Reads the replies that `reply_into_shards` has written, on any process."""
    return read_decoded(plan, folder, schema=REPLY_SCHEMA, rows_per_shard=ROWS_PER_SHARD)
