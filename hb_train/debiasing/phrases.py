from collections.abc import Sequence
from pathlib import Path

import torch
from datasets import Dataset
from transformers import PreTrainedTokenizerBase

from hb_dataset.bias_specification import BiasSpecification
from hb_dataset.reddit_bias import load_reddit_bias
from hb_train.debiasing.terms import Terms, covering_tokens, find_terms, form_of, term_pattern

# Columns that mark tokens. 0 means that a token is not marked. `targets` marks the first token of each target term, and
# `attributes` marks all tokens of each attribute.
TARGETS, ATTRIBUTES = "targets", "attributes"
MARKS = {"lmd": TARGETS, "add": ATTRIBUTES, "hd": ATTRIBUTES}  # of each method that has a debiasing loss
T1, T2 = "text_t1", "text_t2"


def read_phrases(folder: Path, specification: BiasSpecification) -> dict[str, dict[str, list[str]]]:
    """Reads phrases about the minoritized group (`T1`) and their counterfactuals (`T2`) from both splits."""
    splits = load_reddit_bias(folder, specification)
    missing = {"train", "validation"} - splits.keys()
    if missing:
        raise ValueError(
            f"'{folder}' has no split for {', '.join(sorted(missing))}, but debiasing needs training and validation "
            "phrases; add the missing files"
        )
    return {name: {side: list(splits[name][side]) for side in (T1, T2)} for name in ("train", "validation")}


def encode_phrases(
    texts: Sequence[str],
    tokenizer: PreTrainedTokenizerBase,
    terms: Terms,
    attributes: Sequence[str],
    *,
    max_length: int | None,
) -> tuple[Dataset, dict[str, int]]:
    """Encodes phrases and marks their terms. As in the bias measure, there are no start or end tokens.

    Returns:
        The phrases, and counts of marked terms and of dropped phrases. The columns, all of shape [length], are:

        * `input_ids` and `attention_mask`
        * `labels`: the same ids, because every token contributes to the loss.
        * `targets`: for a marked token, 1 + form × number of terms + index of the term (see `terms.form_of`).
        * `attributes`: for a marked token, the number of the attribute in its row, counted from 1.

        `num_first` counts the target terms at the first token. They are not marked, because the model does not predict
        the first token. `num_too_short` counts dropped phrases of one token. `num_cut` counts truncated phrases.
    """
    target_pattern = term_pattern(terms.terms)
    attribute_pattern = term_pattern(attributes) if attributes else None
    rows: list[dict[str, list[int]]] = []
    counts = dict.fromkeys(("targets", "first", "attributes", "too_short", "cut"), 0)
    encoded = tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True)
    for text, tokens, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        counts["cut"] += max_length is not None and len(tokens) > max_length
        tokens, offsets = tokens[:max_length], offsets[:max_length]
        if len(tokens) < 2:
            counts["too_short"] += 1
            continue
        targets, spans = [0] * len(tokens), [0] * len(tokens)
        for match in find_terms(text, target_pattern):
            covering = covering_tokens(offsets, match.start, match.end)
            if covering and covering[0] > 0:
                targets[covering[0]] = 1 + form_of(text, match) * len(terms.terms) + match.term
            counts["first"] += covering[:1] == [0]
        for match in find_terms(text, attribute_pattern) if attribute_pattern else ():
            number = max(spans) + 1
            for token in covering_tokens(offsets, match.start, match.end):
                spans[token] = number
        counts["targets"] += sum(mark > 0 for mark in targets)
        counts["attributes"] += max(spans)
        marks = {TARGETS: targets, ATTRIBUTES: spans}
        rows.append({"input_ids": tokens, "attention_mask": [1] * len(tokens), "labels": tokens, **marks})
    return Dataset.from_list(rows), {"num_phrases": len(rows), **{f"num_{what}": counts[what] for what in counts}}


def num_occurrences(batch: dict[str, torch.Tensor], marks: str) -> int:
    if marks == ATTRIBUTES:
        return int(batch[ATTRIBUTES].max(1).values.sum())
    return int((batch[marks][:, 1:] > 0).sum())
