from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any, NamedTuple

import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence

from hb_metrics.models.contexts import ContextFormat, encode_rendered, encode_replies, reply_end
from hb_metrics.models.loading import LoadedModel
from hb_train.training.models import length_limit

IGNORED = -100  # the label of a token that is not learnt, as in torch and transformers


class EncodedRows(NamedTuple):
    """Tokenized rows. Tokens that the model does not learn have the label `IGNORED`.

    `num_cut` counts the contexts whose beginning was cut.
    """

    dataset: Dataset
    num_cut: int


def encode_rows(
    rows: Dataset, loaded: LoadedModel, *, context: ContextFormat, suffix: str, with_tags: bool, max_length: int | None
) -> EncodedRows:
    """Encodes rows of `labels.ROW_SCHEMA` as the same tokens that the model reads in a measurement.

    If a row is too long, the beginning of its context is cut: first the persona lines, then the prompt's words. The tag
    and the reply are never cut. The model does not learn where a truncated reply ends. Replies from files are assumed
    to be complete, because a file does not state whether its replies were truncated.

    `suffix` is the text that follows the tag in every prompt. Rows without tags (`with_tags=False`) train the model on
    its own replies, as in the paper's self-chat tuning.
    """
    limit = length_limit(loaded, max_length)
    # `map` computes a hash of every object that `encode` uses. `encode` must therefore not use `loaded`, which contains
    # the weights.
    tokenizer = loaded.tokenizer
    end = reply_end(tokenizer, context)
    start_tokens = set(tokenizer.all_special_ids)

    def encode(row: Mapping[str, Any]) -> dict[str, Any]:
        untagged = row["prompt"].removesuffix(f" {row['tag']}{suffix}")
        prompt = row["prompt"] if with_tags else untagged + suffix
        before, whole = encode_rendered([untagged, prompt], tokenizer, context, is_encoder_decoder=False)
        (reply,) = encode_replies([prompt], [row["completion"]], tokenizer, context, is_encoder_decoder=False)
        learnt = reply if row["truncated"] or end is None else [*reply, end]
        same = takewhile(lambda pair: pair[0] == pair[1], zip(before, whole, strict=False))
        num_kept = len(whole) - sum(1 for _ in same)  # from the tag on
        needed = num_kept + len(learnt)
        if limit is not None and needed > limit:
            raise ValueError(
                f"row {row['id']} needs {needed} tokens for its tag and its reply, which cannot be cut; set "
                f"--max_length above {limit}, or remove the row"
            )
        cut, room = whole, len(whole) if limit is None else limit - len(learnt)
        if len(whole) > room:
            # A special token at the start is also kept, unless there is room only for the tag.
            start = whole[:1] if whole[0] in start_tokens and room > num_kept else []
            cut = start + whole[len(whole) - room + len(start) :]
        return {
            "input_ids": [*cut, *learnt],
            "attention_mask": [1] * len(cut + learnt),
            "labels": [IGNORED] * len(cut) + learnt,
            "cut": len(cut) < len(whole),
        }

    encoded = rows.map(encode, remove_columns=rows.column_names, load_from_cache_file=False, desc="encoding rows")
    return EncodedRows(encoded.remove_columns("cut"), sum(encoded["cut"]))


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
