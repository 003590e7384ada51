from collections.abc import Mapping, Sequence
from typing import Any

import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence

from hb_metrics.models.architecture import decoder_prefix
from hb_metrics.models.contexts import ContextFormat, encode_rendered, encode_replies, reply_end
from hb_metrics.models.loading import LoadedModel
from hb_train.training.models import length_limit

IGNORED = -100  # the label of a token that is not learnt, as in torch and transformers


def encode_rows(
    rows: Dataset, loaded: LoadedModel, *, context: ContextFormat, suffix: str, with_tags: bool, max_length: int | None
) -> Dataset:
    """Encodes rows of `labels.ROW_SCHEMA` as the same tokens that the model reads in a measurement.

    The model does not learn where a truncated reply ends. Replies from files are assumed to be complete, because a file
    does not state whether its replies were truncated.

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

    def encode(row: Mapping[str, Any]) -> dict[str, list[int]]:
        prompt, replies = row["prompt"], [row["completion"]]
        if not with_tags:
            prompt = prompt.removesuffix(f" {row['tag']}{suffix}") + suffix
        (given,) = encode_rendered([prompt], tokenizer, context, is_encoder_decoder=is_encoder_decoder)
        (reply,) = encode_replies([prompt], replies, tokenizer, context, is_encoder_decoder=is_encoder_decoder)
        learnt = reply if row["truncated"] or end is None else [*reply, end]
        return encode_pair(row["id"], given, learnt, limit, prefix)

    return rows.map(encode, remove_columns=rows.column_names, load_from_cache_file=False, desc="encoding rows")


def encode_pair(
    name: str, context: list[int], reply: list[int], limit: int | None, prefix: Sequence[int] = ()
) -> dict[str, list[int]]:
    """Joins a context with its reply, of which only the reply is learnt.

    The decoder of an encoder-decoder model reads `prefix` and the reply, and its encoder the context.

    Raises `ValueError` if the model would read more tokens at once than `limit`.
    """
    tokens = context if prefix else [*context, *reply]
    before = prefix[1:] if prefix else context
    longest = max(len(tokens), len(before) + len(reply))
    if limit is not None and longest > limit:
        raise ValueError(
            f"row {name} has {longest} tokens, but the limit is {limit}; set a greater --max_length if the model "
            "allows it, or use shorter prompts and replies"
        )
    row = {"input_ids": tokens, "attention_mask": [1] * len(tokens), "labels": [IGNORED] * len(before) + reply}
    # The decoder's input is a column, because some models derive a wrong input from the labels.
    return {**row, "decoder_input_ids": [*prefix, *reply][:-1]} if prefix else row


def collate(rows: Sequence[Mapping[str, list[int]]]) -> dict[str, torch.Tensor]:
    """Combines rows into a batch, and pads them at their ends: [rows, longest].

    The padding may be any token, because models do not attend to it.
    """
    return {
        name: pad_sequence(
            [torch.tensor(row[name]) for row in rows],
            batch_first=True,
            padding_value=IGNORED if name == "labels" else 0,
        )
        for name in rows[0]
    }
