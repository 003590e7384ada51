from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence

from hb_metrics.models.contexts import ContextFormat, encode_rendered, encode_replies, reply_end
from hb_metrics.models.loading import LoadedModel, LoadedTokenizer
from hb_metrics.models.starts import decoder_prefix

IGNORED = -100  # the label of a token that is not learnt, as in torch and transformers


class EncodedRows(NamedTuple):
    """Tokenized rows. Tokens that the model does not learn have the label `IGNORED`.

    `num_cut` counts the contexts whose beginning was cut. `num_unended` counts the replies that were truncated when
    they were generated. For these replies, the model does not learn where to end. The first `num_read` labels of a row
    are not part of the reply, because the decoder always reads them before it.
    """

    dataset: Dataset
    num_cut: int
    num_unended: int
    num_read: int = 0


def encode_rows(
    rows: Dataset,
    loaded: LoadedModel,
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
    prefix = decoder_prefix(loaded.model, loaded.tokenizer) if is_encoder_decoder else []
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
        rendered = batch["prompt"] if with_tags else [text + suffix for text in untagged]
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
            needed = max(num_kept + num_in_input, len(prefix) + len(learnt) - 1)
            if limit is not None and needed > limit:
                raise ValueError(
                    f"row {identifier} needs {needed} tokens for its tag and its reply, which cannot be cut; set "
                    f"--max_length above {limit}, or remove the row"
                )
            cut = whole if limit is None else last_tokens(whole, limit - num_in_input, start_tokens, num_kept)
            add_row(columns, cut, learnt, prefix)
            columns.setdefault("cut", []).append(len(cut) < len(whole))
        return columns

    encoded = rows.map(
        encode, batched=True, remove_columns=rows.column_names, load_from_cache_file=False, desc="encoding rows"
    )
    num_unended = sum(map(bool, rows["truncated"])) if end is not None else 0
    return EncodedRows(encoded.remove_columns("cut"), sum(encoded["cut"]), num_unended, len(prefix[1:]))


def add_row(
    columns: dict[str, list[Any]],
    context: list[int],
    reply: list[int],
    prefix: Sequence[int] = (),
    *,
    side: str = "",
    labels: list[int] | None = None,
) -> None:
    """Adds a context and its reply to columns whose names begin with `side`: tokens, attention mask and labels.

    If the model has an encoder, `prefix` contains the tokens that its decoder reads before a reply. The decoder's input
    is another column, because some models derive a wrong input from the labels. By default, the whole reply is learnt.
    """
    learnt = reply if labels is None else labels
    row = {"input_ids": [*context, *reply], "labels": [IGNORED] * len(context) + learnt}
    if prefix:
        row = {"input_ids": context, "labels": [*prefix[1:], *learnt], "decoder_input_ids": [*prefix, *reply][:-1]}
    for name, value in {**row, "attention_mask": [1] * len(row["input_ids"])}.items():
        columns.setdefault(f"{side}{name}", []).append(value)


def collate(rows: Sequence[Mapping[str, list[int]]]) -> dict[str, torch.Tensor]:
    """Combines rows into a batch, and pads them at their ends: [rows, longest].

    The padding may be any token, because models do not attend to it.
    """
    return {
        name: pad_sequence(
            [torch.tensor(row[name]) for row in rows],
            batch_first=True,
            padding_value=IGNORED if name.endswith("labels") else 0,
        )
        for name in rows[0]
    }


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
