"""Encodes groups of prompts (rows of `own_rows`), and combines them into batches."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch

from hb_metrics.models.contexts import ContextFormat, encode_rendered, encode_replies, reply_end
from hb_train.training.encoding import IGNORED, EncodedRows, collate, length_limit
from hb_train.tuning.own_rows import GroupRow
from hb_train.tuning.swap import name_starts

if TYPE_CHECKING:
    from datasets import Dataset

    from hb_metrics.models.loading import LoadedModel

NO_TOKEN = -1
_ARTICLE = re.compile(r"\s?an?\b", re.IGNORECASE)


def encode_groups(
    rows: "Dataset", loaded: "LoadedModel", context: ContextFormat, anchor_share: float, max_length: int | None
) -> EncodedRows:
    """Encodes each prompt of a group with its reply. Contexts are never cut.

    Columns with a list per prompt: `input_ids`, `attention_mask`, `labels`, and `shared`, which is 1 at the tokens that
    all prompts of the group share. Before such a token, all replies are the same, except for the names in them. `names`
    contains numbers of two prompts and the first tokens of their names (see `_first_tokens`). `weight` is chosen so
    that anchors have the share `anchor_share` of the weight of all tokens.
    """
    limit = length_limit(loaded, max_length)
    # `map` computes a hash of every object that `encode` uses. `encode` must therefore not use `loaded`, which contains
    # the weights.
    tokenizer = loaded.tokenizer
    end = reply_end(tokenizer, context)

    def encode(row: Mapping[str, Any]) -> dict[str, object]:
        group = GroupRow(**row)
        contexts = encode_rendered(group.prompts, tokenizer, context, is_encoder_decoder=False)
        names = _first_tokens(tokenizer, group.names, group.after)
        inputs: list[list[int]] = []
        labels: list[list[int]] = []
        marks: list[list[int]] = []
        replies = _reply_tokens(group, tokenizer, context, names)
        for given, (tokens, shared) in zip(contexts, replies, strict=True):
            if not group.truncated and end is not None:
                tokens, shared = [*tokens, end], [*shared, 1]
            if limit is not None and len(given) + len(tokens) > limit:
                raise ValueError(
                    f"row {group.id} has {len(given) + len(tokens)} tokens, and its reply cannot be cut; set "
                    f"--max_length above {limit}, or sample shorter replies"
                )
            inputs.append([*given, *tokens])
            labels.append([IGNORED] * len(given) + tokens)
            marks.append([0] * len(given) + shared)
        return {
            "input_ids": inputs,
            "attention_mask": [[1] * len(tokens) for tokens in inputs],
            "labels": labels,
            "shared": marks,
            "names": names,
            "num_labels": sum(map(len, labels)) - sum(map(len, contexts)),
        }

    encoded = rows.map(encode, remove_columns=rows.column_names, load_from_cache_file=False, desc="encoding rows")
    is_anchor = [len(members) == 1 for members in encoded["input_ids"]]
    totals = [0, 0]
    for anchor, number in zip(is_anchor, encoded["num_labels"], strict=True):
        totals[anchor] += number
    weight = anchor_share / (1 - anchor_share) * totals[0] / totals[1] if all(totals) else 1.0
    encoded = encoded.add_column("weight", [weight if anchor else 1.0 for anchor in is_anchor])
    num_unended = sum(map(bool, rows["truncated"])) if end is not None else 0
    return EncodedRows(encoded.remove_columns("num_labels"), 0, num_unended)


def collate_groups(rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """Combines groups into a batch with a row per prompt. `group` is the number of each prompt's group.

    In `names`, the numbers of prompts are rows of the batch.
    """
    prompts: list[dict[str, list[int]]] = []
    groups, weights, names = [], [], []
    for number, row in enumerate(rows):
        names += [[own + len(prompts), other + len(prompts), *tokens] for own, other, *tokens in row["names"]]
        for member in range(len(row["input_ids"])):
            prompts.append({name: row[name][member] for name in ("input_ids", "attention_mask", "labels", "shared")})
            groups.append(number)
            weights.append(row["weight"])
    return {
        **collate(prompts),
        "group": torch.tensor(groups),
        "weight": torch.tensor(weights),
        "names": torch.tensor(names, dtype=torch.int64).reshape(-1, 4),
    }


def _first_tokens(tokenizer: Any, names: Sequence[str], after: Sequence[bool]) -> list[list[int]]:
    """Returns lists of four numbers: a prompt, a prompt of its group, and the first tokens of both names.

    The two names are spelt alike, such as " tall" and " Deaf". Only one of them may follow its noun ("with asthma").
    Where that one begins, it is too late or too early for the other one, so the first prompt's token is `NO_TOKEN`.
    """
    found: dict[tuple[int, int, int], int] = {}
    for own, term in enumerate(names):
        for other, source in enumerate(names):
            for start, instead in name_starts(source, term) if source else ():
                theirs, ours = (tokenizer(text, add_special_tokens=False)["input_ids"][0] for text in (start, instead))
                found.setdefault((own, other, theirs), ours if after[own] == after[other] else NO_TOKEN)
    return [[own, other, ours, theirs] for (own, other, theirs), ours in found.items()]


def _reply_tokens(
    group: GroupRow, tokenizer: Any, context: ContextFormat, names: Sequence[Sequence[int]]
) -> list[tuple[list[int], list[int]]]:
    """Returns the tokens of each reply of a group, and 1 for each token that is shared.

    Outside the spans of names, all replies have the tokens of the first one. Of a span, only the first token can be
    shared, and only if no reply begins it with an article, which depends on the name.
    """
    pieces = []
    for prompt, reply, spans in zip(group.prompts, group.completions, group.spans, strict=True):
        cuts = [0, *(place for span in spans for place in span), len(reply)]
        before, parts = [prompt + reply[:start] for start in cuts[:-1]], [reply[a:b] for a, b in pairwise(cuts)]
        tokens = encode_replies(before, parts, tokenizer, context, is_encoder_decoder=False)
        pieces.append(list(zip(parts, tokens, strict=True)))
    starts = {(member, theirs) for _, member, _, theirs in names}
    replies: list[tuple[list[int], list[int]]] = [([], []) for _ in pieces]
    for number, of_members in enumerate(zip(*pieces, strict=True)):
        is_span = number % 2 == 1
        is_shared = is_span and all(
            (member, tokens[0]) in starts or (group.after[member] and not _ARTICLE.match(text))
            for member, (text, tokens) in enumerate(of_members)
        )
        for (whole, shared), (_, own) in zip(replies, of_members, strict=True):
            whole += own if is_span else of_members[0][1]
            shared += [int(is_shared), *[0] * (len(own) - 1)] if is_span else [1] * len(of_members[0][1])
    return replies
