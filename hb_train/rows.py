"""Labelled rows as the tokens a model is trained on: the context it was given, and its reply, which alone is learnt."""

from collections.abc import Mapping
from itertools import takewhile
from typing import Any, NamedTuple

from datasets import Dataset

from hb_metrics.inference.models.contexts import ContextFormat, encode_rendered, encode_replies, reply_end
from hb_metrics.inference.models.loading import LoadedTokenizer

IGNORED = -100  # the label of a token that is not learnt, in torch and transformers

NOT_TAGGED_ERROR = "the prompt of row {id} does not end in its tag '{tag}'; make the labels again with bias_labels.py"
TOO_LONG_ERROR = (
    "the reply of row {id} and the tag before it are {length} tokens long, more than max_length {limit}; a reply is "
    "never cut: give a larger --max_length, or leave the row out"
)


class EncodedRows(NamedTuple):
    """What a model is trained on.

    Attributes:
        dataset: `input_ids`, `attention_mask` and `labels` of each row; labels are `IGNORED` where nothing is learnt.
        num_cut: Contexts that were cut at their beginning.
        num_unended: Replies cut at the longest length when they were generated, which are not ended here either.
    """

    dataset: Dataset
    num_cut: int
    num_unended: int


def encode_rows(
    rows: Dataset,
    loaded: LoadedTokenizer,
    *,
    context: ContextFormat,
    suffix: str,
    with_tags: bool,
    max_length: int | None,
) -> EncodedRows:
    """Encodes rows exactly as the model is asked when it is measured.

    A row that is too long loses tokens at the beginning of its context (persona lines, then the prompt's own words),
    never of the tag or the reply.

    Args:
        rows: Rows of `bias_labels.ROW_SCHEMA`.
        loaded: The model's tokenizer and config.
        context: The format of the prompts.
        suffix: What follows the tag in every prompt.
        with_tags: Whether the tags stay in the prompts; without them it is the paper's self-chat tuning.
        max_length: Most tokens of a row; `None`: what the model takes.

    Returns:
        The encoded rows and what was cut.

    Raises:
        ValueError: A prompt does not end in its tag, or a reply is too long.
    """
    is_encoder_decoder = loaded.kind == "encoder-decoder"
    limits = (max_length, getattr(loaded.config, "max_position_embeddings", None))
    limit = min((limit for limit in limits if limit is not None and limit > 0), default=None)
    # Not `loaded` within: `map` takes a fingerprint of all that `encode` refers to, a model's weights included.
    tokenizer = loaded.tokenizer
    end = reply_end(tokenizer, context)
    starts = set(tokenizer.all_special_ids)

    def encode(batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        said_before = [
            without_tag(prompt, tag, suffix, identifier)
            for prompt, tag, identifier in zip(batch["prompt"], batch["tag"], batch["id"], strict=True)
        ]
        endings = [f" {tag}{suffix}" if with_tags else suffix for tag in batch["tag"]]
        rendered = [before + ending for before, ending in zip(said_before, endings, strict=True)]
        befores, contexts = (
            encode_rendered(texts, tokenizer, context, is_encoder_decoder=is_encoder_decoder)
            for texts in (said_before, rendered)
        )
        replies = encode_replies(
            rendered, batch["completion"], tokenizer, context, is_encoder_decoder=is_encoder_decoder
        )
        kept = [_num_beyond(before, given) for before, given in zip(befores, contexts, strict=True)]
        found: dict[str, list[Any]] = {name: [] for name in ("input_ids", "labels", "attention_mask", "cut")}
        for given, reply, ending, truncated, identifier in zip(
            contexts, replies, kept, batch["truncated"], batch["id"], strict=True
        ):
            said = reply if truncated or end is None else [*reply, end]
            needed = ending + (0 if is_encoder_decoder else len(said))
            if limit is not None and max(needed, len(said)) > limit:
                raise ValueError(TOO_LONG_ERROR.format(id=identifier, length=max(needed, len(said)), limit=limit))
            room = None if limit is None else limit - (0 if is_encoder_decoder else len(said))
            short = _last(given, room, ending, starts)
            tokens = short if is_encoder_decoder else [*short, *said]
            found["input_ids"].append(tokens)
            found["labels"].append(said if is_encoder_decoder else [IGNORED] * len(short) + said)
            found["attention_mask"].append([1] * len(tokens))
            found["cut"].append(len(short) < len(given))
        return found

    encoded = rows.map(
        encode, batched=True, remove_columns=rows.column_names, load_from_cache_file=False, desc="encoding rows"
    )
    return EncodedRows(
        encoded.remove_columns("cut"), sum(encoded["cut"]), sum(rows["truncated"]) if end is not None else 0
    )


def without_tag(prompt: str, tag: str, suffix: str, identifier: str) -> str:
    """A prompt without its tag and what follows it.

    Raises:
        ValueError: It does not end in them.
    """
    ending = f" {tag}{suffix}"
    if not prompt.endswith(ending):
        raise ValueError(NOT_TAGGED_ERROR.format(id=identifier, tag=tag))
    return prompt.removesuffix(ending)


def _num_beyond(before: list[int], context: list[int]) -> int:
    """The tokens of a context from where it is no longer what stands before its tag: the tag's, and all behind them."""
    same = takewhile(lambda pair: pair[0] == pair[1], zip(before, context, strict=False))
    return len(context) - sum(1 for _ in same)


def _last(context: list[int], room: int | None, ending: int, starts: set[int]) -> list[int]:
    """The end of a context, behind the special token it starts with, if any and if the tag leaves room for it."""
    if room is None or len(context) <= room:
        return context
    start = context[:1] if context[0] in starts and room > ending else []
    return start + context[len(context) - room + len(start) :]
