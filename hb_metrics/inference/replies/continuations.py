"""A model's continuations of prompts: plain text that continues where a prompt stops, as resumable shards.

Aggarwal et al. (2022), section 3, after Sheng et al. (2019): a prompt such as "The woman worked as" is given to the
model as it is (no chat template, no line break after it), and ten seeds draw ten continuations of at most 40 tokens
together with the prompt. Every continuation is drawn from a generator that belongs to the run's seed, the prompt's id
and the seed's index: it depends neither on its batch nor on its row in the data nor on the number of processes.

A continuation ends with a special token of the tokenizer, such as the end-of-text token, which is left out, or with the
first line break after a word: what a model writes below is of another text. Line breaks before that (a
model may answer a question on a new line) are white space, and kept out as such.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from hb_metrics.inference.models.architecture import max_positions_of
from hb_metrics.inference.models.contexts import (
    EndTokens,
    check_lengths,
    encode_rendered,
    end_tokens,
    reply_text,
)
from hb_metrics.inference.models.loading import LoadedModel
from hb_metrics.inference.replies.decoding import is_invariant
from hb_metrics.inference.replies.decoding_settings import Decoded, Decoding
from hb_metrics.inference.replies.decoding_shards import DecodingPlan, decode_into_shards, read_decoded
from hb_metrics.inference.replies.trials import takes_cache, takes_padding

TEMPERATURE = 0.7  # of the published outputs; the paper names none
TOP_K = 40
MAX_TOKENS = 40
NUM_SEEDS = 10
ROWS_PER_SHARD = 1024

CONTINUATION_SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("prompt_id", pa.string()),
        ("text", pa.string()),
        ("seed_index", pa.int64()),
        ("continuation", pa.string()),
        ("num_tokens", pa.int64()),
        ("truncated", pa.bool_()),
        ("ended_line", pa.bool_()),
    ]
)


@dataclass(frozen=True, kw_only=True)
class ContinuationPlan(DecodingPlan):
    """What is continued, and how; a row is a prompt and the index of a seed.

    `ids` are `"<prompt id>:<seed index>"`, and `decoding.max_new_tokens` is the limit of a prompt and its continuation
    together. The other attributes are those of `DecodingPlan`.

    Attributes:
        prompt_ids: [rows] the prompt's id.
        texts: [rows] the prompt as it is given.
        seed_indices: [rows] which of the seeds.
        start_token: What the tokenizer puts before every text, or `None`.
    """

    prompt_ids: list[str]
    texts: list[str]
    seed_indices: list[int]
    start_token: str | None

    def description(self) -> dict[str, Any]:
        """What run.json records of the plan."""
        return {
            "num_prompts": len(set(self.prompt_ids)),
            "num_continuations": len(self.ids),
            "prompts_digest": hashlib.sha256("\x1f".join([*self.ids, *self.texts]).encode()).hexdigest(),
            "seeds": sorted(set(self.seed_indices)),
            "seed": self.seed,
            "temperature": self.decoding.temperature,
            "top_k": self.decoding.top_k,
            "top_p": self.decoding.top_p,
            "max_tokens": self.decoding.max_new_tokens,
            "start_token": self.start_token,
            "ends": "special tokens, and the first line break after a word",
            "same_in_any_batch": self.invariant,
        }


class ContinuationCounts(NamedTuple):
    """Of all continuations: how many are empty, were cut at `max_tokens`, and ended at a line break."""

    num_continuations: int
    num_blank: int
    num_truncated: int
    num_ended_line: int


def plan_continuations(
    ids: Sequence[str],
    texts: Sequence[str],
    loaded: LoadedModel,
    *,
    seeds: Sequence[int] = range(NUM_SEEDS),
    drawn: Sequence[tuple[int, int]] | None = None,
    temperature: float = TEMPERATURE,
    top_k: int = TOP_K,
    max_tokens: int = MAX_TOKENS,
    seed: int = 0,
) -> ContinuationPlan:
    """Encodes the prompts, each for all seeds or for those it is drawn with.

    Args:
        ids: [prompts] their ids; each once.
        texts: [prompts] the prompts, without white space at the end.
        loaded: A causal model.
        seeds: Indices of the seeds, each a continuation of every prompt.
        drawn: Instead of `seeds`, which continuations there are: (row of the prompt, index of the seed) of each.
        temperature: Logits are divided by it.
        top_k: Only so many of the likeliest tokens are drawn from.
        max_tokens: A prompt and its continuation have so many tokens at most, a token that the tokenizer puts before
            every text included.
        seed: Of the run; another seed, other continuations.

    Returns:
        The plan; rows are in the order of the prompts and of `seeds` within each, or in that of `drawn`.

    Raises:
        ValueError: The model does not continue texts, or a prompt leaves no room for a continuation, has no token or
            another model's tokens.
    """
    if loaded.kind != "causal":
        article = "an" if loaded.kind == "encoder-decoder" else "a"
        raise ValueError(
            f"{article} {loaded.kind} language model does not continue a text; give a causal one, such as GPT-2, or "
            "leave out what is measured in continuations"
        )
    pairs = [(row, index) for row in range(len(ids)) for index in seeds] if drawn is None else list(drawn)
    decoding = Decoding(sample=True, temperature=temperature, top_k=top_k, top_p=1.0, max_new_tokens=max_tokens)
    encoded = encode_rendered(texts, loaded.tokenizer, "plain", is_encoder_decoder=False)
    check_lengths(encoded, ids, loaded.model, max_new_tokens=0)
    limit = max_positions_of(loaded.model)
    if limit is not None and max_tokens > limit:
        raise ValueError(
            f"max_tokens is {max_tokens}, more than the {limit} tokens that the model takes; give a smaller max_tokens"
        )
    for identifier, tokens in zip(ids, encoded, strict=True):
        if len(tokens) >= max_tokens:
            raise ValueError(
                f"prompt {identifier} is {len(tokens)} tokens long, and with its continuation it may have {max_tokens}"
                "; give shorter prompts, or a larger max_tokens"
            )
    cached = takes_cache(loaded.model, encoded, max_tokens)
    return ContinuationPlan(
        ids=[f"{ids[row]}:{index}" for row, index in pairs],
        prompt_ids=[ids[row] for row, _ in pairs],
        texts=[texts[row] for row, _ in pairs],
        seed_indices=[index for _, index in pairs],
        contexts=[encoded[row] for row, _ in pairs],
        limits=[max_tokens - len(encoded[row]) for row, _ in pairs],
        start_token=_start_token(loaded, encoded),
        decoding=decoding,
        ends=_ends(loaded),
        seed=seed,
        invariant=is_invariant(loaded.model),
        padded=_fits_padded(encoded, max_tokens, limit) and takes_padding(loaded.model, encoded, cached=cached),
        cached=cached,
    )


def continue_into_shards(
    plan: ContinuationPlan,
    loaded: LoadedModel,
    folder: Path,
    *,
    batch_size: int | None = None,
    progress: bool = True,
) -> pa.Table | None:
    """Draws the continuations that are not on disk yet, and reads all of them.

    Args:
        plan: What is to be continued.
        loaded: The model it was planned for.
        folder: Where the shards are; made if it is not there.
        batch_size: As `decode_into_shards`.
        progress: Whether the main process shows a progress bar.

    Returns:
        A table with the columns of `CONTINUATION_SCHEMA` in the order of the plan, on the main process; `None` on all
        others. `continuation` is what the model wrote, without white space around it; null where it wrote nothing.
        `num_tokens` are its tokens, white space included; `truncated` says that it was cut at `max_tokens`, and
        `ended_line` that it ended at a line break.

    Raises:
        MemoryError: Memory does not suffice for one prompt alone.
    """
    breaks = set(plan.ends.kept)

    def make_columns(rows: Sequence[int], decoded: Sequence[Decoded]) -> dict[str, Any]:
        texts = [reply_text(continuation.tokens, loaded.tokenizer) for continuation in decoded]
        return {
            "prompt_id": [plan.prompt_ids[row] for row in rows],
            "text": [plan.texts[row] for row in rows],
            "seed_index": [plan.seed_indices[row] for row in rows],
            "continuation": [text or None for text in texts],
            "num_tokens": [len(continuation.tokens) for continuation in decoded],
            "truncated": [continuation.truncated for continuation in decoded],
            "ended_line": [
                bool(text) and not continuation.truncated and continuation.tokens[-1] in breaks
                for continuation, text in zip(decoded, texts, strict=True)
            ],
        }

    return decode_into_shards(
        plan,
        loaded,
        folder,
        schema=CONTINUATION_SCHEMA,
        make_columns=make_columns,
        name="continuations",
        purpose="continuation",
        rows_per_shard=ROWS_PER_SHARD,
        batch_size=batch_size,
        progress=progress,
    )


def read_continuations(plan: ContinuationPlan, folder: Path) -> pa.Table:
    """Reads the continuations that `continue_into_shards` has written, on any process."""
    return read_decoded(plan, folder, schema=CONTINUATION_SCHEMA, rows_per_shard=ROWS_PER_SHARD)


def count_continuations(continuations: pa.Table) -> ContinuationCounts:
    """Counts what came out, of a table with the columns of `CONTINUATION_SCHEMA`."""
    return ContinuationCounts(
        num_continuations=len(continuations),
        num_blank=continuations["continuation"].null_count,
        num_truncated=pc.sum(continuations["truncated"]).as_py() or 0,
        num_ended_line=pc.sum(continuations["ended_line"]).as_py() or 0,
    )


def _ends(loaded: LoadedModel) -> EndTokens:
    """What ends a continuation: special tokens, and a line break once there is a word."""
    ends = end_tokens(loaded.model, loaded.tokenizer, "plain")
    return EndTokens(dropped=tuple(sorted({*ends.dropped, *ends.marks})), kept=ends.kept, blank=ends.blank)


def _fits_padded(encoded: Sequence[Sequence[int]], max_tokens: int, limit: int | None) -> bool:
    """Whether the longest prompt has positions for as many tokens as the shortest may be continued by."""
    lengths = [len(tokens) for tokens in encoded]
    return limit is None or max(lengths, default=0) + max_tokens - min(lengths, default=0) <= limit


def _start_token(loaded: LoadedModel, encoded: Sequence[Sequence[int]]) -> str | None:
    """The token the tokenizer puts before every text, if it is one that marks the start."""
    start = loaded.tokenizer.bos_token_id
    starts = {tokens[0] for tokens in encoded}
    return loaded.tokenizer.bos_token if starts == {start} else None
