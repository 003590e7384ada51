"""What the terms that replies hold do to the Full Gen Bias of a run.

Before a reply's style is classified, the term of its prompt is hidden. Other terms of the vocabulary stay in view: a
reply to a deaf person may speak of "hard-of-hearing" people. This module hides these too, classifies the replies again
and computes Full Gen Bias anew. The difference is the classifier's reaction to the terms in these very replies. It is
below 0 where the reaction hides a difference.

Only terms count, not the things that people speak about with them: a church or a wheelchair in a reply stays.
"""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from hb_metrics.identity_leakage.leakage import NamedPerson
from hb_metrics.inference.classifiers.censoring import REPLACEMENT, mention_pattern
from hb_metrics.stats.bias_values import StyleRows
from hb_metrics.stats.gen_bias import CellSums, gen_bias

_SHORT = 3  # letters of a word that all of its forms share, at least
_BATCH = 8192


class Mention(NamedTuple):
    """Where a text mentions a term: its index among the terms, the first character and the one after the last."""

    term: int
    start: int
    end: int


class RunLeakage(NamedTuple):
    """What the terms that replies hold do to Full Gen Bias; plain values.

    Attributes:
        num_in_view: Replies that hold a term.
        share_in_view: Their share.
        is_debiased: Whether the values are less their sampling noise.
        value: Full Gen Bias of the replies as they were classified, ×1000.
        hidden_value: The same with all terms hidden.
        own: The first less the second: the classifier's reaction to terms that it read.
        most_in_view: The terms that most replies hold: `axis`, `descriptor`, `num_replies`.
    """

    num_in_view: int
    share_in_view: float
    is_debiased: bool
    value: float
    hidden_value: float
    own: float
    most_in_view: list[dict[str, Any]]


def run_leakage(
    texts: Sequence[str],
    style_probabilities: np.ndarray | StyleRows,
    descriptors: Sequence[str],
    templates: Sequence[str],
    axes: Sequence[str],
    people: Sequence[NamedPerson],
    probabilities: Callable[[Sequence[str]], np.ndarray],
    *,
    debias: bool,
    num_most: int = 10,
) -> RunLeakage:
    """Hides the terms that replies hold, classifies these replies again, and compares Full Gen Bias.

    Args:
        texts: [replies] as they were classified, with the term of their prompt hidden.
        style_probabilities: [replies, styles] their style vectors, in memory or in files.
        descriptors: [replies] the descriptor of each prompt.
        templates: [replies] its template.
        axes: [replies] its axis.
        people: The terms.
        probabilities: The classifier: [texts, styles] of texts.
        debias: Whether values are less their sampling noise.
        num_most: How many of the terms in view are listed.
    """
    mentions = mentions_in(texts, people)
    rows = [row for row, of_text in enumerate(mentions) if of_text]
    value = _full_gen_bias(style_probabilities, descriptors, templates, axes, {}, debias)
    hidden_value = value
    if rows:
        again = probabilities([_hidden(texts[row], mentions[row]) for row in rows])
        changed = dict(zip(rows, again.astype(np.float32), strict=True))
        hidden_value = _full_gen_bias(style_probabilities, descriptors, templates, axes, changed, debias)
    counts = Counter(term for of_text in mentions for term in {mention.term for mention in of_text})
    most = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:num_most]
    return RunLeakage(
        num_in_view=len(rows),
        share_in_view=len(rows) / len(texts),
        is_debiased=debias,
        value=value,
        hidden_value=hidden_value,
        own=value - hidden_value,
        most_in_view=[{**people[term].key._asdict(), "num_replies": number} for term, number in most],
    )


def mentions_in(texts: Sequence[str], people: Sequence[NamedPerson]) -> list[list[Mention]]:
    """[texts] where each mentions terms, in the order of the text.

    A mention is what is hidden of a prompt's own term (`censoring.mention_pattern`). Where mentions overlap the longest
    counts, of two terms with the same words the one with the same capitals or else the first. "left-handed" counts
    nowhere, which is in a text wherever a term was hidden.
    """
    distinct: dict[str, int] = {}
    which = [distinct.setdefault(text, len(distinct)) for text in texts]
    found = _mentions(list(distinct), people)
    return [found[index] for index in which]


def _full_gen_bias(
    style_probabilities: np.ndarray | StyleRows,
    descriptors: Sequence[str],
    templates: Sequence[str],
    axes: Sequence[str],
    changed: Mapping[int, np.ndarray],
    debias: bool,
) -> float:
    """Full Gen Bias (×1000), with some rows of the style vectors changed."""
    cells = CellSums(None)
    for first in range(0, len(descriptors), _BATCH):
        part = slice(first, min(first + _BATCH, len(descriptors)))
        block = style_probabilities[part].astype(np.float32)
        for row in range(part.start, part.stop):
            if row in changed:
                block[row - first] = changed[row]
        cells.add(block, descriptors[part], templates[part], axes[part])
    with warnings.catch_warnings():  # that templates are skipped was said of the run's own value
        warnings.simplefilter("ignore")
        return gen_bias(cells, debias=debias).full_gen_bias


def _hidden(text: str, mentions: Sequence[Mention]) -> str:
    """The text with the word that terms are hidden by in place of each mention."""
    for mention in reversed(mentions):
        text = text[: mention.start] + REPLACEMENT + text[mention.end :]
    return text


def _mentions(texts: Sequence[str], people: Sequence[NamedPerson]) -> list[list[Mention]]:
    """As `mentions_in`, of texts that differ."""
    texts_with: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        for word in set(re.findall(r"\w+", text.lower())):
            texts_with.setdefault(word, []).append(index)
    words = "\n".join(texts_with)
    spans: list[list[tuple[int, bool, int, int, int]]] = [[] for _ in texts]
    for term, person in enumerate(people):
        if person.phrase == person.neutral:  # the word that terms are hidden by is a term too
            continue
        name = person.key.descriptor
        pattern = mention_pattern(name, person.plural)
        for index in _candidates(name, words, texts_with):
            spans[index] += [
                (match.start() - match.end(), match[0] != name, term, match.start(), match.end())
                for match in pattern.finditer(texts[index])
            ]
    return [_longest(of_text) for of_text in spans]


def _candidates(term: str, words: str, texts_with: Mapping[str, Sequence[int]]) -> list[int]:
    """The texts that may mention a term: those with a word that holds what all forms of its longest word share."""
    longest = max(re.findall(r"\w+", term.lower()), key=len)
    stem = longest[: max(_SHORT, len(longest) - 3)]
    found = {match[0] for match in re.finditer(rf"[^\n]*{re.escape(stem)}[^\n]*", words)}
    return sorted({index for word in found for index in texts_with[word]})


def _longest(spans: Sequence[tuple[int, bool, int, int, int]]) -> list[Mention]:
    """Of spans (less their length, whether capitals differ, term, start, end) those that overlap no longer one."""
    kept: list[Mention] = []
    for _, _, term, start, end in sorted(spans):
        if all(end <= other.start or other.end <= start for other in kept):
            kept.append(Mention(term, start, end))
    return sorted(kept, key=lambda mention: mention.start)
