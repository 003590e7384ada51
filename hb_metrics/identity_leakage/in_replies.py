"""What identity leakage can have done to the Full Gen Bias of a run.

The term of its prompt is hidden in a reply before its style is classified, so that the run's value is none of a
classifier's reaction to it. Other terms of the vocabulary stay: a reply to a deaf person may speak of hearing aids and
of "hard-of-hearing" people. Were they hidden too, the mean style vectors m_td of cells would move by some ℓ_td. As

    ‖m‖² = mean over t of Σ_s Var_d(m_tds)

is Full Gen Bias and ‖·‖ a seminorm, Full Gen Bias would then be no lower than (‖m‖ − ‖ℓ‖)², whichever way the moves go.
So at most ‖m‖² − max(0, ‖m‖ − ‖ℓ‖)² of it is the classifier's own. ℓ is taken from sentences in which only the term
changes: a reply with a term in view moves as far as a sentence with it does, one with several terms by their sum. ‖ℓ‖ is
that of the sentence for which it is largest, which no mixture of the sentences exceeds.

That counts terms, not what people speak about when they speak of them: a church or a wheelchair that is in a reply is a
part of it.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from hb_metrics.full_gen_bias.inputs import check_lengths, text_codes
from hb_metrics.identity_leakage.leakage import SCALE, Leakage
from hb_metrics.inference.classifiers.censoring import mention_pattern

_SHORT = 3  # letters of a word that all of its forms share, at least


class RunLeakage(NamedTuple):
    """What leakage can have done to the Full Gen Bias of a run; plain values.

    Attributes:
        num_naming: Replies with a term in view.
        share_naming: Their share.
        mean_part: The Full Gen Bias (×1000) of the moves alone, averaged over sentences first: what leakage adds if it
            is unrelated to how the replies differ otherwise.
        largest_part: The same for the sentence for which it is largest.
        value: The Full Gen Bias of the run (×1000) that the bound is about.
        at_most: How much of it can be the classifier's own; 0 where the value is not above 0.
        most_named: The terms that most replies have in view: `axis`, `descriptor`, `num_replies`.
    """

    num_naming: int
    share_naming: float
    mean_part: float
    largest_part: float
    value: float
    at_most: float
    most_named: list[dict[str, Any]]


def run_leakage(
    texts: Sequence[str],
    descriptors: Sequence[str],
    templates: Sequence[str],
    axes: Sequence[str],
    leakage: Leakage,
    value: float,
    num_most: int = 10,
) -> RunLeakage:
    """Bounds what leakage can have done to the Full Gen Bias of replies.

    Args:
        texts: [replies] as they were classified, with the term of their prompt hidden.
        descriptors: [replies] the descriptor of each prompt.
        templates: [replies] its template.
        axes: [replies] its axis.
        leakage: How far terms move the probabilities of the classifier.
        value: The Full Gen Bias of the replies (×1000), debiased if it can be: as moves are not, the bound then holds
            for the value with endless replies.
        num_most: How many of the terms in view are listed.

    Raises:
        ValueError: Lengths differ.
    """
    check_lengths(texts=texts, descriptors=descriptors, templates=templates, axes=axes)
    in_view = terms_in_view(texts, leakage)
    moves = part_of_moves(in_view, descriptors, templates, axes, leakage.moves)
    num_naming = int((in_view.sum(axis=1) > 0).sum())
    counts = np.asarray(in_view.sum(axis=0)).ravel()
    most = [row for row in sorted(range(len(counts)), key=lambda row: (-counts[row], row)) if counts[row]][:num_most]
    largest = max(moves.by_sentence)
    return RunLeakage(
        num_naming,
        num_naming / len(texts),
        moves.of_mean,
        largest,
        value,
        at_most(value, largest),
        [{**leakage.people[row].key._asdict(), "num_replies": int(counts[row])} for row in most],
    )


def at_most(value: float, part: float) -> float:
    """How much of a Full Gen Bias can come from moves whose own Full Gen Bias is `part`: V − max(0, √V − √part)²."""
    if value <= 0:
        return 0.0
    return value - max(0.0, math.sqrt(value) - math.sqrt(part)) ** 2


class PartOfMoves(NamedTuple):
    """Full Gen Bias (×1000) of the moves of cell means: of their mean over sentences, and of each sentence's."""

    of_mean: float
    by_sentence: list[float]


def part_of_moves(
    in_view: sparse.csr_array,
    descriptors: Sequence[str],
    templates: Sequence[str],
    axes: Sequence[str],
    moves: np.ndarray,
) -> PartOfMoves:
    """Full Gen Bias of the moves that terms in view give to cell means.

    Args:
        in_view: [replies, terms] 1 where a reply has the term in view.
        descriptors: [replies] the descriptor of each prompt.
        templates: [replies] its template.
        axes: [replies] its axis.
        moves: [sentences, terms, styles].
    """
    template, _ = text_codes("template", templates)
    axis, _ = text_codes("axis", axes)
    descriptor, _ = text_codes("descriptor", descriptors)
    cells, cell = np.unique(np.stack([template, axis, descriptor]), axis=1, return_inverse=True)
    sizes = np.bincount(cell.ravel())
    averaging = sparse.csr_array((1 / sizes[cell.ravel()], (cell.ravel(), np.arange(len(template)))))
    shares = averaging @ in_view  # [cells, terms] the mean number of times that a reply of the cell has a term
    starts = np.flatnonzero(np.diff(cells[0], prepend=-1))
    compared = [part for part in np.split(np.arange(len(sizes)), starts[1:]) if len(part) > 1]

    def full_gen_bias(of_sentence: np.ndarray) -> float:
        means = shares @ of_sentence.astype(np.float64)
        parts = [means[rows].var(axis=0).sum() for rows in compared]
        return SCALE * float(np.mean(parts)) if parts else 0.0

    return PartOfMoves(full_gen_bias(moves.mean(axis=0)), [full_gen_bias(of_sentence) for of_sentence in moves])


def terms_in_view(texts: Sequence[str], leakage: Leakage) -> sparse.csr_array:
    """[texts, terms] 1 where a text mentions a term.

    A mention is what is hidden of a prompt's own term (`censoring.mention_pattern`). Where mentions overlap the longest
    counts, of two terms with the same words the one with the same capitals or else the first. "left-handed" counts
    nowhere, which is in a text wherever a term was hidden.
    """
    distinct: dict[str, int] = {}
    which = [distinct.setdefault(text, len(distinct)) for text in texts]
    mentions = _mentions(list(distinct), leakage)
    rows, columns = [], []
    for row, index in enumerate(which):
        rows += [row] * len(mentions[index])
        columns += mentions[index]
    shape = (len(texts), len(leakage.people))
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def _mentions(texts: Sequence[str], leakage: Leakage) -> list[list[int]]:
    """[texts] the terms that each mentions, in their order."""
    texts_with: dict[str, list[int]] = {}
    for index, text in enumerate(texts):
        for word in set(re.findall(r"\w+", text.lower())):
            texts_with.setdefault(word, []).append(index)
    words = "\n".join(texts_with)
    spans: list[list[tuple[int, bool, int, int, int]]] = [[] for _ in texts]
    for term, person in enumerate(leakage.people):
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


def _longest(spans: Sequence[tuple[int, bool, int, int, int]]) -> list[int]:
    """The terms of spans (less their length, whether capitals differ, term, start, end) that overlap no longer one."""
    kept: list[tuple[int, int]] = []
    terms = set()
    for _, _, term, start, end in sorted(spans):
        if all(end <= first or last <= start for first, last in kept):
            kept.append((start, end))
            terms.add(term)
    return sorted(terms)
