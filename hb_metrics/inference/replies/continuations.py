"""Plans a model's continuations of prompts: plain text that continues where a prompt stops.

Aggarwal et al. (2022), section 3, after Sheng et al. (2019): the model gets a prompt such as "The woman worked as"
without a chat template or a line break, and ten seeds draw ten continuations of at most 40 tokens together with the
prompt. The run's seed, the prompt's id and the seed's index determine a continuation, whatever its batch, its row in
the data or the number of processes.

A continuation ends with a special token of the tokenizer, such as the end-of-text token, which is left out, or with the
first line break after a word, since the next line belongs to another text. Line breaks before the first word are white
space, which is removed.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hb_metrics.inference.models.architecture import max_positions_of
from hb_metrics.inference.models.contexts import (
    EndTokens,
    check_lengths,
    encode_rendered,
    end_tokens,
    reply_text,
)
from hb_metrics.inference.models.loading import LoadedModel
from hb_metrics.inference.models.quantization import is_exact
from hb_metrics.inference.replies.decoding_settings import Decoded, Decoding
from hb_metrics.inference.replies.decoding_shards import DecodingPlan
from hb_metrics.inference.replies.trials import takes_cache, takes_padding

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
    """Prompts to continue, and how; a row is a prompt and the index of a seed.

    `ids` are `"<prompt id>:<seed index>"`, and `decoding.max_new_tokens` is the limit of a prompt and its continuation
    together. The other attributes are those of `DecodingPlan`.

    Attributes:
        prompt_ids: [rows] the prompt's id.
        texts: [rows] the prompt.
        seed_indices: [rows] which of the seeds.
        start_token: The token that the tokenizer puts before every text, or `None`.
    """

    schema = CONTINUATION_SCHEMA
    label = "continuations"
    purpose = "continuation"
    prompt_ids: list[str]
    texts: list[str]
    seed_indices: list[int]
    start_token: str | None

    def columns(self, loaded: LoadedModel, rows: Sequence[int], decoded: Sequence[Decoded]) -> dict[str, Any]:
        """The columns of `CONTINUATION_SCHEMA`, without `id`.

        `continuation` has no white space around it, and is null where the model wrote nothing. `num_tokens` includes
        white space; `truncated` means cut at the limit, and `ended_line` ended by a line break.
        """
        breaks = set(self.ends.kept)
        texts = [reply_text(continuation.tokens, loaded.tokenizer) for continuation in decoded]
        return {
            "prompt_id": [self.prompt_ids[row] for row in rows],
            "text": [self.texts[row] for row in rows],
            "seed_index": [self.seed_indices[row] for row in rows],
            "continuation": [text or None for text in texts],
            "num_tokens": [len(continuation.tokens) for continuation in decoded],
            "truncated": [continuation.truncated for continuation in decoded],
            "ended_line": [
                bool(text) and not continuation.truncated and continuation.tokens[-1] in breaks
                for continuation, text in zip(decoded, texts, strict=True)
            ],
        }

    def description(self) -> dict[str, Any]:
        """The record of the plan, for run.json."""
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


def plan_continuations(
    ids: Sequence[str],
    texts: Sequence[str],
    loaded: LoadedModel,
    *,
    drawn: Sequence[tuple[int, int]],
    temperature: float,
    top_k: int,
    max_tokens: int,
    seed: int = 0,
) -> ContinuationPlan:
    """Encodes the prompts, each for the seeds that it is drawn with.

    Args:
        ids: [prompts] their ids; each once.
        texts: [prompts] the prompts, without white space at the end.
        loaded: A causal model.
        drawn: [rows] (row of the prompt, index of the seed) of each continuation.
        temperature: The sampling temperature.
        top_k: The number of likeliest tokens to draw from.
        max_tokens: The greatest number of tokens of a prompt and its continuation, including a token that the tokenizer
            puts before every text.
        seed: The run's seed.

    Returns:
        The plan; its rows are in the order of `drawn`.

    Raises:
        ValueError: The model does not continue texts, or a prompt leaves no room for a continuation, has no token or
            another model's tokens.
    """
    if loaded.kind != "causal":
        raise ValueError(
            f"the model is {loaded.kind} and does not continue a text; use a causal one, such as GPT-2, or leave "
            "regard out of --measurements"
        )
    decoding = Decoding(sample=True, temperature=temperature, top_k=top_k, top_p=1.0, max_new_tokens=max_tokens)
    encoded = encode_rendered(texts, loaded.tokenizer, "plain", is_encoder_decoder=False)
    check_lengths(encoded, ids, loaded.model, max_new_tokens=0)
    limit = max_positions_of(loaded.model)
    for identifier, tokens in zip(ids, encoded, strict=True):
        if len(tokens) >= max_tokens:
            raise ValueError(
                f"prompt {identifier} has {len(tokens)} tokens, and may have {max_tokens} with its continuation; use "
                "shorter names of groups"
            )
    cached = takes_cache(loaded.model, encoded, max_tokens)
    return ContinuationPlan(
        ids=[f"{ids[row]}:{index}" for row, index in drawn],
        prompt_ids=[ids[row] for row, _ in drawn],
        texts=[texts[row] for row, _ in drawn],
        seed_indices=[index for _, index in drawn],
        contexts=[encoded[row] for row, _ in drawn],
        limits=[max_tokens - len(encoded[row]) for row, _ in drawn],
        start_token=_start_token(loaded, encoded),
        decoding=decoding,
        ends=_ends(loaded),
        seed=seed,
        invariant=is_exact(loaded.model),
        padded=_fits_padded(encoded, max_tokens, limit) and takes_padding(loaded.model, encoded, cached=cached),
        cached=cached,
    )


def count_continuations(continuations: pa.Table) -> dict[str, int]:
    """Counts continuations: all, empty ones, those cut at the limit, and those ended by a line break."""
    return {
        "num_continuations": len(continuations),
        "num_blank": continuations["continuation"].null_count,
        "num_truncated": sum(continuations["truncated"].to_pylist()),
        "num_ended_line": sum(continuations["ended_line"].to_pylist()),
    }


def _ends(loaded: LoadedModel) -> EndTokens:
    """The ends of a continuation: special tokens, and a line break after a word."""
    ends = end_tokens(loaded.model, loaded.tokenizer, "plain")
    return EndTokens(dropped=tuple(sorted({*ends.dropped, *ends.marks})), kept=ends.kept, blank=ends.blank)


def _fits_padded(encoded: Sequence[Sequence[int]], max_tokens: int, limit: int | None) -> bool:
    """Whether the longest prompt has positions for as many tokens as the shortest may be continued by."""
    lengths = [len(tokens) for tokens in encoded]
    return limit is None or max(lengths, default=0) + max_tokens - min(lengths, default=0) <= limit


def _start_token(loaded: LoadedModel, encoded: Sequence[Sequence[int]]) -> str | None:
    """The token that the tokenizer puts before every text, if it marks the start."""
    start = loaded.tokenizer.bos_token_id
    starts = {tokens[0] for tokens in encoded}
    return loaded.tokenizer.bos_token if starts == {start} else None
