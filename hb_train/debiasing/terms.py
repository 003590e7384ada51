"""Reads and encodes phrases, and finds the tokens of a bias specification's terms.

Terms match whole words, in upper or lower case and in any typography. The longest term wins: "american" does not match
inside the term "african american". An attribute may end in a wildcard: "greed*" matches greed, greedy and greediness.
Terms are found in the text first and then mapped to tokens, so any fast tokenizer is suitable.
"""

import re
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import torch
from datasets import Dataset
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from hb_dataset.bias_specification import BiasSpecification
from hb_dataset.counterfactuals import regular_plural
from hb_dataset.matching import plain_text, words_pattern
from hb_dataset.reddit_bias import load_reddit_bias

_CASES = (str.lower, str.title, str.upper)
# The number of a term's forms: lower, title and upper case, each with and without a space before the term. Tokens
# differ between forms, so a term in a text is compared only with terms in the same form.
NUM_FORMS = 2 * len(_CASES)
RUNNING_FORM = 1  # in lower case and after a space, as in running text
# Columns that mark tokens. 0 means that a token is not marked. `targets` marks the first token of each target term, and
# `attributes` marks all tokens of each attribute.
TARGETS, ATTRIBUTES = "targets", "attributes"
MARKS = {"lmd": TARGETS, "add": ATTRIBUTES, "hd": ATTRIBUTES}  # of each method that has a debiasing loss
T1, T2 = "text_t1", "text_t2"


class Terms(NamedTuple):
    """The target terms of a bias specification, in lower case.

    Attributes:
        pairs: The indices of the terms of each pair: [pairs, 2].
        ids: The tokens of each term in each form, padded with −1: [forms, terms, longest].
    """

    terms: tuple[str, ...]
    pairs: torch.Tensor
    ids: torch.Tensor


class Match(NamedTuple):
    """A term in a text: its start, its exclusive end, and the index of the term."""

    start: int
    end: int
    term: int


def read_terms(
    specification: BiasSpecification, tokenizer: PreTrainedTokenizerBase, *, with_forms: bool = False
) -> Terms:
    """Returns the terms of a specification's pairs and the tokens of each form.

    The pairs come from the paper's list. `with_forms` adds pairs of plurals and of other forms.
    """
    if not tokenizer.is_fast:
        raise ValueError("the tokenizer is slow; set a model that has a fast tokenizer")
    pairs = list(dict.fromkeys((pair.t1, pair.t2) for pair in specification.pairs))
    if with_forms:
        forms = [form for pair in specification.pairs for form in pair.forms]
        known = {form for pair in (*pairs, *forms) for form in pair}
        plurals = [(regular_plural(t1), regular_plural(t2)) for t1, t2 in pairs]
        pairs = list(dict.fromkeys([*pairs, *forms, *(pair for pair in plurals if not known & {*pair})]))
    terms = tuple(dict.fromkeys(term for pair in pairs for term in pair))
    tokens = [
        torch.tensor(_tokens_of(case(term), tokenizer, after_space=after_space))
        for case, after_space, term in product(_CASES, (False, True), terms)
    ]
    ids = pad_sequence(tokens, batch_first=True, padding_value=-1).view(NUM_FORMS, len(terms), -1)
    return Terms(terms, torch.tensor([[terms.index(t1), terms.index(t2)] for t1, t2 in pairs]), ids)


def term_pattern(terms: Sequence[str]) -> re.Pattern[str]:
    longest_first = sorted(range(len(terms)), key=lambda index: -len(terms[index]))
    groups = "|".join(f"(?P<t{index}>{words_pattern(terms[index], same_signs=True)})" for index in longest_first)
    return re.compile(rf"(?<!\w)(?:{groups})(?!\w)", re.IGNORECASE)


def find_terms(text: str, pattern: re.Pattern[str]) -> list[Match]:
    plain = plain_text(text)
    matches = pattern.finditer(plain.text)
    return [Match(*plain.original_span(*match.span()), int(str(match.lastgroup)[1:])) for match in matches]


def form_of(text: str, match: Match) -> int:
    """Returns the code of a term's form.

    The code is twice the code of the case (0 lower, 1 title, 2 upper), plus 1 if a space precedes the term.
    """
    word = text[match.start : match.end]
    case = 2 if len(word) > 1 and word.isupper() else int(word[0].isupper())
    return 2 * case + (text[match.start - 1 : match.start] == " ")


def covering_tokens(offsets: Sequence[tuple[int, int]], start: int, end: int) -> list[int]:
    return [index for index, (first, last) in enumerate(offsets) if first < end and last > start and last > first]


def read_phrases(folder: Path, specification: BiasSpecification) -> dict[str, dict[str, list[str]]]:
    """Reads phrases about the minoritized group (`T1`) and their counterfactuals (`T2`) from both splits."""
    splits = load_reddit_bias(folder, specification)
    if missing := {"train", "validation"} - splits.keys():
        raise ValueError(f"'{folder}' has no phrases for {' and '.join(sorted(missing))}; add them")
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
        The phrases, and their counts. The columns, all of shape [length], are:

        * `input_ids` and `attention_mask`
        * `labels`: the same ids, because every token contributes to the loss.
        * `targets`: for a marked token, 1 + form × number of terms + index of the term (see `form_of`). The first token
          is not marked, because the model does not predict it.
        * `attributes`: for a marked token, the number of the attribute in its row, counted from 1.

        `num_too_short` counts dropped phrases of one token. `num_cut` counts truncated phrases.
    """
    target_pattern = term_pattern(terms.terms)
    attribute_pattern = term_pattern(attributes)
    rows: list[dict[str, list[int]]] = []
    num_cut = 0
    encoded = tokenizer(list(texts), add_special_tokens=False, return_offsets_mapping=True)
    for text, tokens, offsets in zip(texts, encoded["input_ids"], encoded["offset_mapping"], strict=True):
        num_cut += max_length is not None and len(tokens) > max_length
        tokens, offsets = tokens[:max_length], offsets[:max_length]
        if len(tokens) < 2:
            continue
        targets, spans = [0] * len(tokens), [0] * len(tokens)
        for match in find_terms(text, target_pattern):
            covering = covering_tokens(offsets, match.start, match.end)
            if covering and covering[0] > 0:
                targets[covering[0]] = 1 + form_of(text, match) * len(terms.terms) + match.term
        for match in find_terms(text, attribute_pattern):
            number = max(spans) + 1
            for token in covering_tokens(offsets, match.start, match.end):
                spans[token] = number
        marks = {TARGETS: targets, ATTRIBUTES: spans}
        rows.append({"input_ids": tokens, "attention_mask": [1] * len(tokens), "labels": tokens, **marks})
    counts = {"num_phrases": len(rows), "num_too_short": len(texts) - len(rows), "num_cut": num_cut}
    return Dataset.from_list(rows), counts


def num_occurrences(batch: dict[str, torch.Tensor], marks: str) -> int:
    if marks == ATTRIBUTES:
        return int(batch[ATTRIBUTES].max(1).values.sum())
    return int((batch[marks][:, 1:] > 0).sum())


def target_vectors(weight: torch.Tensor, terms: Terms) -> torch.Tensor:
    """Returns the terms' vectors in the output layer, for terms in lower case after a space: [terms, hidden].

    The vector of a term is the mean of the vectors of its sub-words (footnote 12).
    """
    ids = terms.ids[RUNNING_FORM]
    is_token = ids >= 0
    return (weight.float()[ids.clamp(min=0)] * is_token[..., None]).sum(1) / is_token.sum(1, keepdim=True)


def span_means(vectors: torch.Tensor, spans: torch.Tensor) -> torch.Tensor:
    """Returns the mean vector of each attribute in a batch: [occurrences, hidden] (footnote 12).

    For each token, `spans` contains the number of its attribute within the row, counted from 1, or 0 outside
    attributes.
    """
    inside = spans > 0
    rows = torch.arange(len(spans), device=spans.device)[:, None].expand_as(spans)
    keys = (rows * (spans.max() + 1) + spans)[inside]
    _, occurrence, length = keys.unique(return_inverse=True, return_counts=True)
    sums = vectors.new_zeros(len(length), vectors.shape[2]).index_add(0, occurrence, vectors[inside])
    return sums / length[:, None]


def _tokens_of(word: str, tokenizer: PreTrainedTokenizerBase, *, after_space: bool) -> list[int]:
    before = "a " if after_space else ""
    encoded = tokenizer(before + word, add_special_tokens=False, return_offsets_mapping=True)
    tokens = covering_tokens(encoded["offset_mapping"], len(before), len(before) + len(word))
    return [encoded["input_ids"][token] for token in tokens]
