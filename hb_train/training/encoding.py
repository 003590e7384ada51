from collections.abc import Mapping
from itertools import takewhile
from typing import Any, NamedTuple

from datasets import Dataset

from hb_metrics.inference.models.contexts import ContextFormat, encode_rendered, encode_replies, reply_end
from hb_metrics.inference.models.loading import LoadedTokenizer

IGNORED = -100  # the label of a token that is not learnt, as in torch and transformers


class EncodedRows(NamedTuple):
    """Tokenized rows. Tokens that the model does not learn have the label `IGNORED`.

    `num_cut` counts the contexts whose beginning was cut. `num_unended` counts the replies that were truncated when
    they were generated. For these replies, the model does not learn where to end.
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
    """Encodes rows of `labels.ROW_SCHEMA` as the same tokens that the model reads in a measurement.

    If a row is too long, the beginning of its context is cut: first the persona lines, then the prompt's words. The tag
    and the reply are never cut. Replies from files are assumed to be complete, because a file does not state whether
    its replies were truncated.

    `suffix` is the text that follows the tag in every prompt. Rows without tags (`with_tags=False`) train the model on
    its own replies, as in the paper's self-chat tuning.
    """
    is_encoder_decoder = loaded.kind == "encoder-decoder"
    limit = length_limit(loaded, max_length)
    # `map` computes a hash of every object that `encode` uses. `encode` must therefore not use `loaded`, which contains
    # the weights.
    tokenizer = loaded.tokenizer
    end = reply_end(tokenizer, context)
    start_tokens = set(tokenizer.all_special_ids)

    def encode(batch: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
        untagged = [
            prompt.removesuffix(f" {tag}{suffix}") for prompt, tag in zip(batch["prompt"], batch["tag"], strict=True)
        ]
        endings = [f" {tag}{suffix}" if with_tags else suffix for tag in batch["tag"]]
        rendered = [text + ending for text, ending in zip(untagged, endings, strict=True)]
        untagged_contexts, contexts = (
            encode_rendered(texts, tokenizer, context, is_encoder_decoder=is_encoder_decoder)
            for texts in (untagged, rendered)
        )
        replies = encode_replies(
            rendered, batch["completion"], tokenizer, context, is_encoder_decoder=is_encoder_decoder
        )
        columns: dict[str, list[Any]] = {}
        for untagged_context, whole, reply, truncated, identifier in zip(
            untagged_contexts, contexts, replies, batch["truncated"], batch["id"], strict=True
        ):
            learnt = reply if truncated or end is None else [*reply, end]
            num_in_input = 0 if is_encoder_decoder else len(learnt)
            num_kept = _num_from_tag(untagged_context, whole)
            needed = max(num_kept + num_in_input, len(learnt))
            if limit is not None and needed > limit:
                raise ValueError(
                    f"row {identifier} needs {needed} tokens for its tag and its reply, which cannot be cut; set "
                    f"--max_length above {limit}, or remove the row"
                )
            cut = whole if limit is None else last_tokens(whole, limit - num_in_input, start_tokens, num_kept)
            add_row(columns, cut, learnt, is_encoder_decoder=is_encoder_decoder)
            columns.setdefault("cut", []).append(len(cut) < len(whole))
        return columns

    encoded = rows.map(
        encode, batched=True, remove_columns=rows.column_names, load_from_cache_file=False, desc="encoding rows"
    )
    return EncodedRows(
        encoded.remove_columns("cut"), sum(encoded["cut"]), sum(map(bool, rows["truncated"])) if end is not None else 0
    )


def add_row(
    columns: dict[str, list[Any]],
    context: list[int],
    reply: list[int],
    *,
    is_encoder_decoder: bool,
    side: str = "",
    labels: list[int] | None = None,
) -> None:
    """Adds a context and its reply to three columns: tokens, attention mask and labels.

    The names of the columns begin with `side`. By default, the whole reply is learnt.
    """
    learnt = reply if labels is None else labels
    tokens = context if is_encoder_decoder else [*context, *reply]
    labels = learnt if is_encoder_decoder else [IGNORED] * len(context) + learnt
    for name, value in (("input_ids", tokens), ("attention_mask", [1] * len(tokens)), ("labels", labels)):
        columns.setdefault(f"{side}{name}", []).append(value)


def length_limit(loaded: LoadedTokenizer, max_length: int | None) -> int | None:
    limits = (max_length, getattr(loaded.config, "max_position_embeddings", None))
    return min((limit for limit in limits if limit is not None and limit > 0), default=None)


def last_tokens(context: list[int], limit: int, start_tokens: set[int], num_kept: int = 0) -> list[int]:
    """Shortens a context to its last `limit` tokens.

    A special token at the start is also kept, unless there is room only for the last `num_kept` tokens. These tokens
    are always kept.
    """
    if len(context) <= limit:
        return context
    start = context[:1] if context[0] in start_tokens and limit > num_kept else []
    return start + context[len(context) - limit + len(start) :]


def _num_from_tag(untagged: list[int], tagged: list[int]) -> int:
    same = takewhile(lambda pair: pair[0] == pair[1], zip(untagged, tagged, strict=False))
    return len(tagged) - sum(1 for _ in same)
