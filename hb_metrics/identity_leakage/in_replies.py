"""Measures the effect of terms in replies on the Full Gen Bias of a run.

The prompt's term is masked before the style of a reply is classified, but other terms remain visible. For example, a
reply to a deaf person may mention "hard-of-hearing" people. This module masks these terms too, classifies the replies
again and recomputes Full Gen Bias. The difference between the two values shows how much the classifier's reaction to
terms adds to Full Gen Bias. The difference is negative if this reaction hides bias.

The prompt's own term also counts if masking missed it because letters of the term are written as other characters, or
with signs between them: "d-e-a-f", "déaf", "de4f".
"""

import re
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from hb_dataset.matching import PlainText, as_it_looks, plain_text
from hb_dataset.names import NAMES_AXIS
from hb_metrics.collect.classifiers.censoring import NAME, REPLACEMENT, mention_pattern, name_pattern
from hb_metrics.identity_leakage.leakage import InReplies, MostInView, NamedPerson
from hb_metrics.run.replies import Replies
from hb_metrics.run.schema import rows_of
from hb_metrics.run.tables import Vectors
from hb_metrics.stats.bias_values import DescriptorKey
from hb_metrics.stats.gen_bias import CellSums, gen_bias

_STEM = 3  # all forms of a word begin with these letters
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
    mask, hidden = NAME if people[0].key.axis == NAMES_AXIS else REPLACEMENT, []
    for text, of_text in zip(texts, mentions, strict=True):
        starts, ends = [mention.start for mention in of_text], [mention.end for mention in of_text]
        kept = (text[start:end] for start, end in zip([0, *ends], [*starts, len(text)], strict=True))
        hidden.append(mask.join(kept))
    return hidden


def mention_table(ids: Sequence[str], mentions: Sequence[Sequence[Mention]], people: Sequence[NamedPerson]) -> pa.Table:
    """Makes a row for each reply and each term that the reply mentions."""
    rows = []
    for identifier, of_text in zip(ids, mentions, strict=True):
        for term in sorted({mention.term for mention in of_text}):
            rows.append({"id": identifier, **people[term].key._asdict()})
    return pa.Table.from_pylist(rows, MENTION_SCHEMA)


def leakage_in_replies(
    replies: Replies, style_probabilities: np.ndarray, mentions: pa.Table, hidden: Vectors | None, *, debias: bool
) -> InReplies:
    """Compares Full Gen Bias before and after masking all terms in replies.

    Args:
        replies: The run's replies.
        style_probabilities: [replies, styles] Their style vectors.
        mentions: The result of `mention_table`.
        hidden: The style vectors of the replies that mention terms, after all terms were masked. `None` if no reply
            mentions a term.
        debias: Whether sampling noise is subtracted from Full Gen Bias.
    """
    value = _full_gen_bias(style_probabilities, replies, debias)
    hidden_value = value
    if hidden is not None:
        row_of = {identifier: row for row, identifier in enumerate(replies.ids)}
        changed = style_probabilities.astype(np.float32)
        changed[[row_of[identifier] for identifier in hidden.ids]] = hidden.values
        hidden_value = _full_gen_bias(changed, replies, debias)
    counts = Counter(rows_of(mentions, DescriptorKey))
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:NUM_MOST_IN_VIEW]
    number = len(mentions["id"].unique())
    return InReplies(
        num_in_view=number,
        share_in_view=number / len(replies.ids),
        is_debiased=debias,
        value=value,
        hidden_value=hidden_value,
        own=value - hidden_value,
        most_in_view=[MostInView(str(key.axis), key.descriptor, number) for key, number in most],
    )


def mentions_in(
    texts: Sequence[str], people: Sequence[NamedPerson], own: Sequence[tuple[str, str]] = ()
) -> list[list[Mention]]:
    """Finds the mentions of terms in each text, from start to end.

    A mention is any form of a term that `censoring.mention_pattern` masks, or any spelling of the text's `own` axis and
    term that masking missed. If mentions overlap, only the longest counts. If several terms consist of the same words,
    the term whose capital letters match the text counts. If no term matches, the first term counts. "left-handed" never
    counts, because it replaces masked terms.
    """
    plain = [plain_text(text) for text in texts]
    texts_with: dict[str, set[int]] = defaultdict(set)  # by the first letters of their words
    for index, text in enumerate(plain):
        for word in set(re.findall(r"\w+", text.text.lower())):
            for end in range(1, _STEM + 1):
                texts_with[word[:end]].add(index)
    spans: list[list[tuple[int, bool, int, int, int]]] = [[] for _ in texts]
    term_of: dict[tuple[str | None, str], int] = {}
    for term, person in enumerate(people):
        if person.phrase == person.neutral:  # the word that masks terms is itself a term
            continue
        name, is_name = person.key.descriptor, person.key.axis == NAMES_AXIS
        term_of[person.key] = term
        forms = re.findall(r"\w[^ -]+", name) if is_name else filter(None, [person.plural])
        candidates = set[int]().union(*(texts_with.get(_stem(form), ()) for form in (name, *forms)))
        pattern = name_pattern(name) if is_name else mention_pattern((name, person.plural))
        for index in candidates:
            for match in pattern.finditer(plain[index].text):
                start, end = match.span()
                spans[index].append((start - end, match[0] != name, term, start, end))
    for index, key in enumerate(own):
        if key in term_of:
            pattern = _misspelt_pattern(key[1])
            for match in pattern.finditer(as_it_looks(plain[index].text)):
                start, end = match.span()
                if key[0] != NAMES_AXIS or plain[index].text[start].isupper():
                    spans[index].append((start - end, True, term_of[key], start, end))
    return [_longest(of_text, text) for of_text, text in zip(spans, plain, strict=True)]


def _full_gen_bias(vectors: np.ndarray, replies: Replies, debias: bool) -> float:
    cells = CellSums(None)
    cells.add(vectors.astype(np.float32), replies.descriptors, replies.templates, replies.axes)
    with warnings.catch_warnings():  # the run has already warned about skipped templates
        warnings.simplefilter("ignore")
        return gen_bias(cells, debias=debias).full_gen_bias


def _stem(term: str) -> str:
    """Returns letters with which a word of each form of the term begins: those of its longest word or first part."""
    firsts = re.findall(r"(?<!\S)\W*(\w+)", plain_text(term).text.lower())
    return max(reversed(firsts), key=len)[:_STEM]


@cache
def _misspelt_pattern(term: str) -> re.Pattern[str]:
    letters = r"(?:[^\w\s']|_)*".join(filter(str.isalnum, as_it_looks(term)))
    return re.compile(rf"(?<![^\W_]){letters}(?![^\W_])")


def _longest(spans: Sequence[tuple[int, bool, int, int, int]], text: PlainText) -> list[Mention]:
    """Selects the spans that do not overlap with a longer span, as positions in the original text.

    A span consists of five values: its negative length, a flag for different capital letters in text and term, the
    term, the start and the end.
    """
    kept: list[Mention] = []
    taken: set[int] = set()
    for _, _, term, start, end in sorted(spans):  # from the longest, so no later span contains one that is kept
        if taken.isdisjoint((start, end - 1)):
            kept.append(Mention(term, start, end))
            taken.update(range(start, end))
    kept = [Mention(term, *text.original_span(start, end)) for term, start, end in kept]
    return sorted(kept, key=lambda mention: mention.start)
