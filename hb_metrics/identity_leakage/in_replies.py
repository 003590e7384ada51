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
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from hb_dataset.matching import PlainText, as_it_looks, plain_text
from hb_dataset.names import NAMES_AXIS
from hb_metrics.identity_leakage.leakage import NamedPerson
from hb_metrics.inference.classifiers.censoring import NAME, REPLACEMENT, mention_pattern, name_pattern
from hb_metrics.stats.gen_bias import CellSums, gen_bias

_SHORT = 3  # the minimum length of the beginning of a word
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
    mentions = mentions_in(texts, people, list(zip(axes, descriptors, strict=True)))
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
    texts_with: dict[str, list[int]] = {}
    for index, text in enumerate(plain):
        for word in set(re.findall(r"\w+", text.text.lower())):
            texts_with.setdefault(word, []).append(index)
    words = sorted(texts_with)
    spans: list[list[tuple[int, bool, int, int, int]]] = [[] for _ in texts]
    term_of: dict[tuple[str | None, str], int] = {}
    for term, person in enumerate(people):
        if person.phrase == person.neutral:  # the word that masks terms is itself a term
            continue
        name, is_name = person.key.descriptor, person.key.axis == NAMES_AXIS
        term_of[person.key] = term
        forms = re.findall(r"\w[^ -]+", name) if is_name else filter(None, [person.plural])
        candidates = _candidates([name, *forms], words, texts_with)
        if candidates:
            pattern = name_pattern(name) if is_name else mention_pattern(name, person.plural)
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
    for mention in reversed(mentions):
        text = text[: mention.start] + mask + text[mention.end :]
    return text


def _candidates(terms: Sequence[str], words: Sequence[str], texts_with: Mapping[str, Sequence[int]]) -> list[int]:
    """Finds the texts that may contain one of the terms.

    All forms of a term contain a word that begins like the term's longest word or longest part before a hyphen. `words`
    is sorted.
    """
    found: set[int] = set()
    for term in terms:
        firsts = re.findall(r"(?<!\S)\W*(\w+)", plain_text(term).text.lower())
        longest = max(reversed(firsts), key=len)
        ending = 3 if "who" in firsts else 2 if longest.endswith("man") else int(longest.endswith("y"))
        stem = longest[: max(_SHORT, len(longest) - ending)]
        for word in words[bisect_left(words, stem) : bisect_left(words, f"{stem}\U0010ffff")]:
            found.update(texts_with[word])
    return sorted(found)


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
    for _, _, term, start, end in sorted(spans):
        if all(end <= other.start or other.end <= start for other in kept):
            kept.append(Mention(term, start, end))
    kept = [Mention(term, *map(text.original_position, (start, end))) for term, start, end in kept]
    return sorted(kept, key=lambda mention: mention.start)
