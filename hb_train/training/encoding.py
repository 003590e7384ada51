from collections.abc import Mapping, Sequence
from typing import Any

import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence

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
    limit = length_limit(loaded, max_length)
    # `map` computes a hash of every object that `encode` uses. `encode` must therefore not use `loaded`, which contains
    # the weights.
    tokenizer = loaded.tokenizer
    end = reply_end(tokenizer, context)

    def encode(row: Mapping[str, Any]) -> dict[str, list[int]]:
        prompt = row["prompt"] if with_tags else row["prompt"].removesuffix(f" {row['tag']}{suffix}") + suffix
        (given,) = encode_rendered([prompt], tokenizer, context, is_encoder_decoder=False)
        (reply,) = encode_replies([prompt], [row["completion"]], tokenizer, context, is_encoder_decoder=False)
        return encode_pair(row["id"], given, reply if row["truncated"] or end is None else [*reply, end], limit)

    return rows.map(encode, remove_columns=rows.column_names, load_from_cache_file=False, desc="encoding rows")


def encode_pair(name: str, context: list[int], reply: list[int], limit: int | None) -> dict[str, list[int]]:
    """Joins a context with its reply, of which only the reply is learnt.

    Raises `ValueError` if they have more tokens than `limit`.
    """
    tokens = [*context, *reply]
    if limit is not None and len(tokens) > limit:
        raise ValueError(
            f"row {name} has {len(tokens)} tokens, but the limit is {limit}; set a greater --max_length if the model "
            "allows it, or use shorter prompts and replies"
        )
    labels = [IGNORED] * len(context) + reply
    return {"input_ids": tokens, "attention_mask": [1] * len(tokens), "labels": labels}


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
