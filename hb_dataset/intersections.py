"""Makes intersections: pairs of terms from two axes in one noun phrase, such as "a homeless and disabled person".

Terms before the noun follow the order in `adjective_order.yaml`. The config contains only a sample, because all pairs
together would make more than 100 million prompts.
"""

import itertools
import re
from collections.abc import Iterator, Sequence
from functools import cache

import numpy as np

from hb_dataset.noun_phrases import Intersection, prompt_masks
from hb_dataset.prompt_columns import content_digest
from hb_dataset.vocabulary_entries import Descriptor, Gender, Vocabulary, selects

PAIRS_PER_AXIS_PAIR = 16

# After the noun, short phrases come before long ones: "a woman in the Navy with a PhD who stutters".
_AFTER_ORDER = ("of", "born", "living", "in", "on", "with", "without", "who")
_AFTER_KINDS = ("of", "living", "living", "in", "in", "with", "with", "who")
_ENDS_IN_PEOPLE = re.compile(r"\b(kids?|child(ren)?|boys?|girls?)$")


def all_intersections(vocabulary: Vocabulary) -> Iterator[Intersection]:
    """Yields every allowed pair of terms from two axes, sorted by axes and then by the order of the vocabulary.

    A pair is excluded if `left_out_pairs.yaml` excludes it, if no template has a noun that can take both terms, or if
    an earlier pair has the same words.
    """
    positions = _positions(vocabulary)
    allowed = _allowed(vocabulary)
    numbered = list(enumerate(vocabulary.descriptors))
    seen: dict[tuple[str, str], set[Gender | None]] = {}
    for axes in itertools.combinations(vocabulary.axes, 2):
        of_axes = [[(number, term) for number, term in numbered if term.axis == axis] for axis in axes]
        for (number, first), (other, second) in itertools.product(*of_axes):
            if not allowed[number, other] or _plain(first.term) == _plain(second.term):
                continue
            pair = intersect(first, second, positions)
            genders = seen.setdefault((pair.before, pair.after), set())
            # A pair without a gender can be combined with every noun, so it shares nouns with every other pair.
            if not genders or not (pair.gender in {None, *genders} or None in genders):
                genders.add(pair.gender)
                yield pair


def sample_intersections(vocabulary: Vocabulary, *, seed: int = 0) -> list[Intersection]:
    """Draws the same number of pairs for each pair of axes, in the order of `all_intersections`.

    Pairs whose terms have been drawn least often come first. A hash that includes the seed breaks ties, so the sample
    is the same on every machine.
    """
    numbers = {term: number for number, term in enumerate(vocabulary.descriptors)}
    used = np.zeros(len(numbers), dtype=np.int64)
    sample = []
    for _, group in itertools.groupby(all_intersections(vocabulary), key=lambda pair: pair.axis):
        pairs = list(group)
        order = np.argsort([_rank(pair, seed) for pair in pairs])
        firsts, seconds = np.array([[numbers[term] for term in pair.descriptors] for pair in pairs])[order].T
        free = np.ones(len(pairs), dtype=bool)
        for _ in range(min(PAIRS_PER_AXIS_PAIR, len(pairs))):
            # Among the pairs whose terms have been drawn least often, take the pair with the lowest hash.
            best = np.where(free, used[firsts] + used[seconds], np.iinfo(np.int64).max).argmin()
            free[best] = False
            used[firsts[best]] += 1
            used[seconds[best]] += 1
        sample += [pairs[number] for number in sorted(order[~free])]
    return sample


def intersect(first: Descriptor, second: Descriptor, positions: dict[Descriptor, tuple[int, int]]) -> Intersection:
    """Joins two terms in the order that English requires.

    The axis of `first` must come before the axis of `second` in alphabetical order. "And" joins two adjectives of the
    same class ("homeless and disabled …") and two phrases of the same kind ("… with dementia and with a PhD"). All
    other terms are joined without "and": "queer Black …", "… with a PhD who stutters", "Deaf … with a PhD".
    """
    before = sorted((positions[term], term.before, term.article) for term in (first, second) if term.before)
    after = sorted((term for term in (first, second) if term.after), key=lambda term: _after_position(term.after))
    same_class = len({position[0] for position, _, _ in before}) == 1
    return Intersection(
        first=first,
        second=second,
        before=(" and " if same_class else " ").join(words for _, words, _ in before),
        after=_join_after([term.after for term in after]),
        plural_after=_join_after([term.plural_after for term in after]),
        article=before[0][2] if before else None,
    )


def _join_after(phrases: Sequence[str]) -> str:
    kinds = {_AFTER_KINDS[_after_position(phrase)] for phrase in phrases}
    # In "a person with two kids who is deaf", the reader cannot tell who is deaf.
    with_and = len(kinds) == 1 or any(_ENDS_IN_PEOPLE.search(phrase) for phrase in phrases[:1])
    return (" and " if with_and else " ").join(phrases)


@cache
def _after_position(phrase: str) -> int:
    word = re.split(r"[ ']", phrase, maxsplit=1)[0]
    return _AFTER_ORDER.index(word if word in _AFTER_ORDER else "who")


def _positions(vocabulary: Vocabulary) -> dict[Descriptor, tuple[int, int]]:
    if not vocabulary.adjective_order:
        raise ValueError("the vocabulary has no adjective_order.yaml, which intersections require; add the file")
    names = list(dict.fromkeys(entry.name for entry in vocabulary.adjective_order))
    positions: dict[Descriptor, tuple[int, int]] = {}
    for descriptor in vocabulary.descriptors:
        matching = [
            (entry.terms is not None, entry.buckets is not None, names.index(entry.name), number)
            for number, entry in enumerate(vocabulary.adjective_order)
            if selects(descriptor, entry.axis, entry.buckets, entry.terms)
        ]
        if descriptor.before and matching:
            _, _, class_index, entry_index = max(matching)
            positions[descriptor] = (class_index, entry_index)
    return positions


def _allowed(vocabulary: Vocabulary) -> np.ndarray:
    """Returns whether two terms may be paired, and have a noun and a template in common: [terms, terms]."""
    terms = vocabulary.descriptors
    masks = list(prompt_masks(terms, vocabulary.nouns, vocabulary.templates, vocabulary.left_out_nouns))
    prompts = np.array(masks, dtype=np.float32).reshape(len(terms), -1)
    allowed = prompts @ prompts.T > 0
    everything = range(len(terms))
    for pair in vocabulary.left_out_pairs:
        ones = [one for one in everything if selects(terms[one], pair.axis, pair.buckets, pair.terms)]
        others: Sequence[int] = everything
        if pair.other_axis is not None:
            of_others = (pair.other_axis, pair.other_buckets, pair.other_terms)
            others = [other for other in everything if selects(terms[other], *of_others)]
        for one, other in itertools.product(ones, others):
            if not pair.both_before or (terms[one].before and terms[other].before):
                allowed[one, other] = allowed[other, one] = False
    return allowed


@cache
def _plain(term: str) -> str:
    return re.sub(r"[- ]", "", term.casefold())


def _rank(pair: Intersection, seed: int) -> str:
    return content_digest(str(seed), pair.first.axis, pair.first.term, pair.second.axis, pair.second.term)
