"""A model's replies to prompts: which prompts, how they are given to the model, and the replies as resumable shards.

Smith et al. (2022), A.4 and A.5. Everything random (which prompts, persona lines, variations, sampling) is drawn by a
prompt's id and the seed, questions after a cue by its template (see `cues.py`); a reply does not depend on its batch,
its row in the data or the number of processes.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from hb_dataset.seeded_draws import seeded_generator
from hb_dataset.variations import VARIATIONS, mixed_variations
from hb_metrics.inference.models.chats import DEFAULT_CHAT, ChatOptions, Thoughts, split_thought
from hb_metrics.inference.models.contexts import (
    ContextFormat,
    check_lengths,
    draw_personas,
    encode_contexts,
    end_tokens,
    reply_text,
)
from hb_metrics.inference.models.loading import LoadedModel
from hb_metrics.inference.replies.cues import Cue, check_cue, draw_questions, place_cues
from hb_metrics.inference.replies.decoding import is_invariant
from hb_metrics.inference.replies.decoding_settings import Decoded, Decoding
from hb_metrics.inference.replies.decoding_shards import DecodingPlan, decode_into_shards, read_decoded
from hb_metrics.inference.replies.presets import Extent
from hb_metrics.inference.replies.trials import takes_cache, takes_padding

REASONING_TOKENS = 2048  # of what a model thinks before a reply at most, unless the options say otherwise
ROWS_PER_SHARD = 1024

REPLY_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("text", pa.string()),
        ("question", pa.string()),  # what the user asked after it, with another cue than the prompt
        ("personas", pa.list_(pa.string())),
        *((name, pa.bool_()) for name in VARIATIONS),
        ("reply", pa.string()),
        ("num_tokens", pa.int64()),
        ("truncated", pa.bool_()),
        ("reasoning", pa.string()),
        ("num_reasoning_tokens", pa.int64()),
        ("reasoning_unclosed", pa.bool_()),
    ]
)

KIND_ERROR = (
    "a {kind} language model gives no replies; measure its likelihoods (--measurements likelihood), or give a causal "
    "or encoder-decoder model"
)
BEAMS_ERROR = (
    "the model thinks before it replies, and beam search (num_beams {num_beams}) does not know a thought from a reply; "
    "give --num_beams 1, turn thinking off (for many models --chat_template_kwargs '{{\"enable_thinking\": false}}'), "
    "or give --max_reasoning_tokens 0 if the model never thinks"
)
CELL_ERROR = "replies_per_cell is {number}; give at least 1, or leave it out for a reply to every prompt"


@dataclass(frozen=True, kw_only=True)
class ReplyPlan(DecodingPlan):
    """What is replied to, and how; a row is a prompt, and the other attributes are those of `DecodingPlan`.

    Attributes:
        texts: [prompts] the prompts as the model is given them, variations applied.
        cue: Where the model is told who the user is: in the prompt itself, or before (see `cues.py`).
        questions: [prompts] what the user asks after a cue before the prompt; `None`: the prompts are the cues.
        all_questions: The questions that these were drawn from.
        flags: Which variation was applied to each ([prompts] bool by name).
        personas: [prompts] the persona lines of each.
        context: The format of the contexts.
        context_reason: Why, in words for the report.
        tag: The control tag that each prompt ends in (see `bias_tags.py`); `None`: none.
        tag_reason: Why, in words for the report.
        chat_description: What run.json records of what the chat template is given.
        extent: Whether a reply is all that the model writes, or its first line.
        extent_reason: Why, in words for the report.
        thoughts: How the model marks what it thinks; `None`: it does not think.
    """

    texts: list[str]
    flags: dict[str, np.ndarray]
    personas: list[list[str]]
    context: ContextFormat
    context_reason: str
    tag: str | None
    tag_reason: str
    cue: Cue = "prompt"
    questions: list[str] | None = None
    all_questions: list[str] = field(default_factory=list)
    chat_description: dict[str, Any] = field(default_factory=dict)
    extent: Extent = "first_line"
    extent_reason: str = ""
    thoughts: Thoughts | None = None

    def description(self) -> dict[str, Any]:
        """What run.json records of the plan."""
        return {
            "context": self.context,
            "context_reason": self.context_reason,
            "tag": self.tag,
            "tag_reason": self.tag_reason,
            **self.chat_description,
            "cue": self.cue,
            **({} if self.cue == "prompt" else {"questions": self.all_questions}),
            "reply": self.extent,
            "reply_reason": self.extent_reason,
            "thinks": self.thoughts is not None,
            "num_prompts": len(self.ids),
            "prompts_digest": hashlib.sha256("\x1f".join(self.texts).encode()).hexdigest(),
            "contexts_digest": hashlib.sha256(json.dumps(self.contexts).encode()).hexdigest(),
            "persona_lines": len(self.personas[0]) if self.personas else 0,
            "personas_digest": hashlib.sha256(repr(self.personas).encode()).hexdigest(),
            **asdict(self.decoding),
            "same_in_any_batch": self.invariant,
        }


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
    rows = [row for cell in drawn_cells(prompts, seed=seed).values() for row in cell[:replies_per_cell]]
    return prompts.take(pa.array(sorted(rows), pa.int64()))


def drawn_cells(prompts: pa.Table, *, seed: int) -> dict[tuple[str, str, str], list[int]]:
    """The rows of each cell (axis, descriptor and template), in the order in which its prompts are drawn."""
    cells = defaultdict(list)
    columns = [prompts[name].to_pylist() for name in ("axis", "descriptor", "template", "id")]
    for row, (axis, descriptor, template, identifier) in enumerate(zip(*columns, strict=True)):
        draw = seeded_generator(seed, "prompts", identifier).random()
        cells[axis, descriptor, template].append((draw, row))
    return {cell: [row for _, row in sorted(drawn)] for cell, drawn in cells.items()}


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
    chat: ChatOptions = DEFAULT_CHAT,
    extent: Extent = "first_line",
    extent_reason: str = "",
    max_reasoning_tokens: int | None = None,
    cue: Cue = "prompt",
    questions: Sequence[str] = (),
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
        chat: What the chat template is given beside the prompt.
        extent: Whether a reply is all that the model writes, or its first line.
        extent_reason: Why, for the record.
        max_reasoning_tokens: Tokens of a thought before a reply at most; `None`: `REASONING_TOKENS` for a model that
            thinks.
        cue: Where the model is told who the user is; with another than "prompt", `prompts` are `prompts_for_cue`.
        questions: The neutral questions that are then drawn from.

    Returns:
        The plan.

    Raises:
        ValueError: The model gives no replies, or cannot take these contexts.
    """
    if loaded.kind == "masked":
        raise ValueError(KIND_ERROR.format(kind=loaded.kind))
    check_cue(cue, context, context_reason)
    ids = prompts["id"].to_pylist()
    if variations:
        varied = mixed_variations(prompts, seed=seed)
        texts, flags = varied.texts.to_pylist(), varied.flags
    else:
        texts, flags = prompts["text"].to_pylist(), {name: np.zeros(len(ids), bool) for name in VARIATIONS}
    drawn = draw_personas(ids, personas, num_personas, seed=seed)
    asked = None if cue == "prompt" else draw_questions(drawn_cells(prompts, seed=seed), questions, seed=seed)
    placed = place_cues(cue, texts, asked, drawn)
    contexts = encode_contexts(
        placed.texts, placed.lines, loaded.model, loaded.tokenizer, context, tag, chat, placed.earlier
    )
    ends = end_tokens(loaded.model, loaded.tokenizer, context, whole=extent == "whole", chat=chat)
    thoughts = ends.thoughts
    if thoughts is not None:
        if max_reasoning_tokens is None:
            max_reasoning_tokens = 0 if thoughts.is_closed else REASONING_TOKENS
        decoding = replace(decoding, max_reasoning_tokens=max_reasoning_tokens)
        if decoding.num_beams > 1:
            if max_reasoning_tokens:
                raise ValueError(BEAMS_ERROR.format(num_beams=decoding.num_beams))
            ends = replace(ends, thoughts=None, blank=())
    check_lengths(contexts, ids, loaded.model, decoding.max_new_tokens, decoding.max_reasoning_tokens)
    cached = takes_cache(loaded.model, contexts, decoding.max_new_tokens + decoding.max_reasoning_tokens)
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
        cue=cue,
        questions=asked,
        all_questions=list(questions),
        decoding=decoding,
        ends=ends,
        chat_description=chat.description(loaded.tokenizer) if context == "chat" else {},
        extent=extent,
        extent_reason=extent_reason,
        thoughts=thoughts,
        seed=seed,
        invariant=is_invariant(loaded.model),
        padded=takes_padding(loaded.model, contexts, cached=cached),
        cached=cached,
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
        `reply` is null where the model wrote nothing, or did not end its thought (`reasoning_unclosed`); `num_tokens`
        are those of the reply. `reasoning` is null where the model did not think.
    """

    def make_columns(rows: Sequence[int], decoded: Sequence[Decoded]) -> dict[str, Any]:
        split = [split_thought(reply.tokens, plan.thoughts, loaded.tokenizer) for reply in decoded]
        whole = plan.extent == "whole"
        replies = [reply_text(part.reply, loaded.tokenizer, whole=whole) for part in split]
        return {
            "text": [plan.texts[row] for row in rows],
            "question": [None if plan.questions is None else plan.questions[row] for row in rows],
            "personas": [plan.personas[row] for row in rows],
            **{name: flags[rows] for name, flags in plan.flags.items()},
            "reply": [reply or None for reply in replies],
            "num_tokens": [len(part.reply) for part in split],
            "truncated": [reply.truncated and not part.is_open for reply, part in zip(decoded, split, strict=True)],
            "reasoning": [part.reasoning for part in split],
            "num_reasoning_tokens": [part.num_reasoning_tokens for part in split],
            "reasoning_unclosed": [part.is_open for part in split],
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
