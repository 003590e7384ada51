"""Measures the effect of terms in replies on the Full Gen Bias of a run.

The prompt's term is masked before the style of a reply is classified, but other terms remain visible. For example, a
reply to a deaf person may mention "hard-of-hearing" people. This module masks these terms too, classifies the replies
again and recomputes Full Gen Bias. The difference between the two values shows how much the classifier's reaction to
terms adds to Full Gen Bias. The difference is negative if this reaction hides bias.
"""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hb_dataset.names import NAMES_AXIS
from hb_metrics.identity_leakage.leakage import NamedPerson
from hb_metrics.inference.classifiers.censoring import NAME, REPLACEMENT, mention_pattern, name_pattern
from hb_metrics.stats.gen_bias import CellSums, gen_bias

_SHORT = 3  # the minimum length of a stem
NUM_MOST_IN_VIEW = 10


class Mention(NamedTuple):
    term: int
    start: int
    end: int


def run_leakage(
    texts: Sequence[str],
    style_probabilities: np.ndarray,
    descriptors: Sequence[str],
    templates: Sequence[str],
    axes: Sequence[str],
    people: Sequence[NamedPerson],
    probabilities: Callable[[Sequence[str]], np.ndarray],
    *,
    debias: bool,
) -> dict[str, Any]:
    """Compares Full Gen Bias before and after masking all terms in replies.

    All sequences have one element per reply. In `texts`, the prompt's term is already masked. `probabilities` is a
    function that classifies texts.

    Returns:
        `num_in_view` and `share_in_view` are the number and the share of replies that contain a term. `most_in_view`
        lists the terms found in the most replies. `value` is Full Gen Bias (×1000) as measured. `hidden_value` is Full
        Gen Bias with all terms masked. `own` is `value` minus `hidden_value`.
    """
    mentions = mentions_in(texts, people)
    rows = [row for row, of_text in enumerate(mentions) if of_text]
    value = _full_gen_bias(style_probabilities, descriptors, templates, axes, {}, debias)
    hidden_value = value
    if rows:
        mask = NAME if axes[0] == NAMES_AXIS else REPLACEMENT
        again = probabilities([_hidden(texts[row], mentions[row], mask) for row in rows])
        changed = dict(zip(rows, again.astype(np.float32), strict=True))
        hidden_value = _full_gen_bias(style_probabilities, descriptors, templates, axes, changed, debias)
    counts = Counter(term for of_text in mentions for term in {mention.term for mention in of_text})
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:NUM_MOST_IN_VIEW]
    return {
        "num_in_view": len(rows),
        "share_in_view": len(rows) / len(texts),
        "is_debiased": debias,
        "value": value,
        "hidden_value": hidden_value,
        "own": value - hidden_value,
        "most_in_view": [{**people[term].key._asdict(), "num_replies": number} for term, number in most],
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


def _full_gen_bias(
    style_probabilities: np.ndarray,
    descriptors: Sequence[str],
    templates: Sequence[str],
    axes: Sequence[str],
    changed: Mapping[int, np.ndarray],
    debias: bool,
) -> float:
    """Computes Full Gen Bias (×1000) after some rows' style vectors are replaced with the vectors in `changed`."""
    cells = CellSums(None)
    vectors = style_probabilities.astype(np.float32)
    for row, vector in changed.items():
        vectors[row] = vector
    cells.add(vectors, descriptors, templates, axes)
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
