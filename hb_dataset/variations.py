"""Applies the paper's four stylistic variations to a prompt (A.3), one at a time or in a seeded mix."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pandas.util import hash_array

from hb_dataset.prompt_columns import VARIATIONS
from hb_dataset.slots import PLURAL_SLOT, SINGULAR_SLOT

_SLOT = f"{re.escape(SINGULAR_SLOT)}|{re.escape(PLURAL_SLOT)}"


class VariedPrompts(NamedTuple):
    """The varied texts and their noun phrases. `flags` contains the variations requested for each row: [rows]."""

    texts: pa.Array
    noun_phrases: pa.Array
    flags: dict[str, np.ndarray]


def vary_prompts(prompts: pa.Table, flags: dict[str, np.ndarray]) -> VariedPrompts:
    """Applies the stylistic variations. `prompts` needs the columns `template` and `noun_phrase`.

    `flags` states for each of the `VARIATIONS` which rows it changes: [rows]. `lowercase` and `no_hyphens` change only
    the noun phrase. `no_hyphens` replaces each hyphen with a space, and `expanded_contraction` writes "I'm" as "I am".
    `no_final_period` removes a final period, but no other punctuation mark.
    """
    template, phrases = (prompts[name].cast(pa.string()).combine_chunks() for name in ("template", "noun_phrase"))
    phrases = pc.if_else(flags["lowercase"], pc.utf8_lower(phrases), phrases)
    phrases = pc.if_else(flags["no_hyphens"], pc.replace_substring(phrases, "-", " "), phrases)
    if "spans" in prompts.column_names:  # the users' own prompts, which may have several slots
        columns = prompts["text"].to_pylist(), prompts["spans"].to_pylist(), flags["lowercase"], flags["no_hyphens"]
        texts = pa.array([_varied_spans(*row) for row in zip(*columns, strict=True)], pa.string())
    else:
        prefixes, suffixes = _around_slot(template)
        texts = pc.binary_join_element_wise(prefixes, phrases, suffixes, "")
    expanded = pc.replace_substring_regex(texts, r"\bI'm\b", "I am")
    texts = pc.if_else(flags["expanded_contraction"], expanded, texts)
    texts = pc.if_else(flags["no_final_period"], pc.replace_substring_regex(texts, r"\.$", ""), texts)
    return VariedPrompts(texts, phrases, flags)


def mixed_variations(prompts: pa.Table, *, seed: int) -> VariedPrompts:
    """Applies each variation to a random half of the prompts, independently of the others (A.3: "intermittently").

    A row's variations depend only on its `id` and on the seed (at most 16 digits). Every subset and every process
    therefore produces the same variations.
    """
    ids = prompts["id"].to_numpy().astype(object)
    bits = hash_array(ids, hash_key=f"{seed:016d}", categorize=False)  # SipHash-2-4, keyed by the seed
    flags = {name: (bits >> np.uint64(bit)) & np.uint64(1) == 1 for bit, name in enumerate(VARIATIONS)}
    return vary_prompts(prompts, flags)


def _varied_spans(text: str, spans: Sequence[int], lowercase: bool, no_hyphens: bool) -> str:
    for start, end in reversed(list(zip(spans[::2], spans[1::2], strict=True))):
        phrase = text[start:end].lower() if lowercase else text[start:end]
        text = text[:start] + (phrase.replace("-", " ") if no_hyphens else phrase) + text[end:]
    return text


def _around_slot(template: pa.Array) -> tuple[pa.Array, pa.Array]:
    encoded = template.dictionary_encode()
    sides = [re.split(_SLOT, text, maxsplit=1) for text in encoded.dictionary.to_pylist()]
    return tuple(pa.array([split[side] for split in sides], pa.string()).take(encoded.indices) for side in (0, 1))
