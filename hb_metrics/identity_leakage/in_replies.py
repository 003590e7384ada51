"""Measures the effect of terms in replies on the Full Gen Bias of a run.

The prompt's term is masked before the style of a reply is classified, but other terms remain visible. For example, a
reply to a deaf person may mention "hard-of-hearing" people. This module masks these terms too, classifies the replies
again and recomputes Full Gen Bias. The difference between the two values shows how much the classifier's reaction to
terms adds to Full Gen Bias. The difference is negative if this reaction hides bias.
"""

import re
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from hb_dataset.names import NAMES_AXIS
from hb_metrics.identity_leakage.leakage import NamedPerson
from hb_metrics.inference.classifiers.censoring import NAME, REPLACEMENT, mention_pattern, name_pattern
from hb_metrics.runs.finished_run import Vectors
from hb_metrics.runs.replies import Replies
from hb_metrics.stats.bias_values import DescriptorKey
from hb_metrics.stats.gen_bias import CellSums, gen_bias

_SHORT = 3  # the minimum length of a stem
NUM_MOST_IN_VIEW = 10
MENTION_SCHEMA = pa.schema([(name, pa.string()) for name in ("id", "axis", "descriptor")])


class Mention(NamedTuple):
    term: int
    start: int
    end: int


def hidden_texts(
    texts: Sequence[str], mentions: Sequence[Sequence[Mention]], people: Sequence[NamedPerson]
) -> list[str]:
    """Masks all mentions of terms. `texts` and `mentions` have one element per reply."""
    mask = NAME if people[0].key.axis == NAMES_AXIS else REPLACEMENT
    return [_hidden(text, of_text, mask) for text, of_text in zip(texts, mentions, strict=True)]


def mention_table(ids: Sequence[str], mentions: Sequence[Sequence[Mention]], people: Sequence[NamedPerson]) -> pa.Table:
    """Makes a row for each reply and each term that the reply mentions."""
    rows = []
    for identifier, of_text in zip(ids, mentions, strict=True):
        for term in sorted({mention.term for mention in of_text}):
            rows.append({"id": identifier, **people[term].key._asdict()})
    return pa.Table.from_pylist(rows, MENTION_SCHEMA)


def leakage_in_replies(
    replies: Replies, style_probabilities: np.ndarray, mentions: pa.Table, hidden: Vectors | None, *, debias: bool
) -> dict[str, Any]:
    """Compares Full Gen Bias before and after masking all terms in replies.

    Args:
        replies: The run's replies.
        style_probabilities: [replies, styles] Their style vectors.
        mentions: The result of `mention_table`.
        hidden: The style vectors of the replies that mention terms, after all terms were masked. `None` if no reply
            mentions a term.
        debias: Whether sampling noise is subtracted from Full Gen Bias.

    Returns:
        `num_in_view` and `share_in_view` are the number and the share of replies that contain a term. `most_in_view`
        lists the terms found in the most replies. `value` is Full Gen Bias (×1000) as measured. `hidden_value` is Full
        Gen Bias with all terms masked. `own` is `value` minus `hidden_value`.
    """
    value = _full_gen_bias(style_probabilities, replies, debias)
    hidden_value = value
    if hidden is not None:
        row_of = {identifier: row for row, identifier in enumerate(replies.ids)}
        changed = style_probabilities.astype(np.float32)
        changed[[row_of[identifier] for identifier in hidden.ids]] = hidden.values
        hidden_value = _full_gen_bias(changed, replies, debias)
    counts = Counter(zip(mentions["axis"].to_pylist(), mentions["descriptor"].to_pylist(), strict=True))
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:NUM_MOST_IN_VIEW]
    number = len(mentions["id"].unique())
    return {
        "num_in_view": number,
        "share_in_view": number / len(replies.ids),
        "is_debiased": debias,
        "value": value,
        "hidden_value": hidden_value,
        "own": value - hidden_value,
        "most_in_view": [{**DescriptorKey(*key)._asdict(), "num_replies": number} for key, number in most],
    }


def mentions_in(texts: Sequence[str], people: Sequence[NamedPerson]) -> list[list[Mention]]:
    """Finds the mentions of terms in each text, from start to end.

    A mention is any form of a term that `censoring.mention_pattern` masks. If mentions overlap, only the longest
    counts. If several terms consist of the same words, the term whose capital letters match the text counts. If no term
    matches, the first term counts. "left-handed" never counts, because it replaces masked terms.
    """
    texts_with: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        for word in set(re.findall(r"\w+", text.lower())):
            texts_with.setdefault(word, []).append(index)
    spans: list[list[tuple[int, bool, int, int, int]]] = [[] for _ in texts]
    for term, person in enumerate(people):
        if person.phrase == person.neutral:  # the word that masks terms is itself a term
            continue
        name, is_name = person.key.descriptor, person.key.axis == NAMES_AXIS
        pattern = name_pattern(name) if is_name else mention_pattern(name, person.plural)
        for index in range(len(texts)) if is_name else _candidates(name, texts_with):
            for match in pattern.finditer(texts[index]):
                start, end = match.span()
                spans[index].append((start - end, match[0] != name, term, start, end))
    return [_longest(of_text) for of_text in spans]


def _full_gen_bias(vectors: np.ndarray, replies: Replies, debias: bool) -> float:
    cells = CellSums(None)
    cells.add(vectors.astype(np.float32), replies.descriptors, replies.templates, replies.axes)
    with warnings.catch_warnings():  # the run has already warned about skipped templates
        warnings.simplefilter("ignore")
        return gen_bias(cells, debias=debias).full_gen_bias


def _hidden(text: str, mentions: Sequence[Mention], mask: str) -> str:
    starts, ends = [mention.start for mention in mentions], [mention.end for mention in mentions]
    return mask.join(text[start:end] for start, end in zip([0, *ends], [*starts, len(text)], strict=True))


def _candidates(term: str, texts_with: Mapping[str, Sequence[int]]) -> list[int]:
    """Finds the texts that may contain a term.

    The search uses the stem of the term's longest word, because all forms of the term share that stem.
    """
    longest = max(re.findall(r"\w+", term.lower()), key=len)
    stem = longest[: max(_SHORT, len(longest) - 3)]
    return sorted(set().union(*(rows for word, rows in texts_with.items() if stem in word)))


def _longest(spans: Sequence[tuple[int, bool, int, int, int]]) -> list[Mention]:
    """Selects the spans that do not overlap with a longer span.

    A span consists of five values: its negative length, a flag for different capital letters in text and term, the
    term, the start and the end.
    """
    kept: list[Mention] = []
    taken: set[int] = set()
    for _, _, term, start, end in sorted(spans):  # from the longest, so no later span contains one that is kept
        if taken.isdisjoint((start, end - 1)):
            kept.append(Mention(term, start, end))
            taken.update(range(start, end))
    return sorted(kept, key=lambda mention: mention.start)
