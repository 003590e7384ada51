"""Intersections: pairs of terms from two axes in one noun phrase, "a homeless and disabled person".

The paper's limitations section asks for them. Terms before the noun are in the order of `adjective_order.yaml`; two of
one class are joined with "and". Pairs that mean one thing twice, cannot both be true or would harm are left out by the
rules of `left_out_pairs.yaml`. All pairs make more than a hundred million prompts, so the config is a sample of them.
"""

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from hb_dataset.prompt_masks import prompt_masks
from hb_dataset.vocabulary import Vocabulary
from hb_dataset.vocabulary_entries import Article, Descriptor, Gender, LeftOutPair, selects

PAIRS_PER_AXIS_PAIR = 16
AROUND = "around"

# After the noun, short phrases come before long ones: "a woman in the Navy with a PhD who stutters".
_AFTER_ORDER = ("of", "born", "living", "in", "on", "with", "without", "who")
_Reasons = dict[Descriptor, list[tuple[int, LeftOutPair, frozenset[Descriptor] | None]]]
_ENDS_IN_PEOPLE = re.compile(r"\b(kids?|child(ren)?|boys?|girls?)$")


@dataclass(frozen=True, kw_only=True)
class Intersection:
    """Two terms of two axes as one modifier of a noun; the axis of `first` comes first in alphabetical order."""

    first: Descriptor
    second: Descriptor
    before: str
    after: str
    plural_after: str
    article: Article | None

    @property
    def descriptors(self) -> tuple[Descriptor, ...]:
        """Both terms."""
        return self.first, self.second

    @property
    def axis(self) -> str:
        """Both axes: `"ability+race_ethnicity"`."""
        return f"{self.first.axis}+{self.second.axis}"

    @property
    def term(self) -> str:
        """Both terms as written beside a noun, with "…" for a noun between them: `"Deaf … with a PhD"`."""
        return " … ".join(filter(None, [self.before, self.after]))

    @property
    def placement(self) -> str:
        """Whether the terms are `"before"` the noun, `"after"` it or `"around"` it."""
        return AROUND if self.before and self.after else "before" if self.before else "after"

    @property
    def gender(self) -> Gender | None:
        """The gender of the nouns it is combined with, if one of the terms has one."""
        return self.first.gender or self.second.gender

    @property
    def bucket(self) -> None:
        """None: buckets divide one axis."""
        return None

    @property
    def preference(self) -> None:
        """None: reviewers were asked about terms, not about pairs."""
        return None


def all_intersections(vocabulary: Vocabulary, left_out: Counter[str] | None = None) -> Iterator[Intersection]:
    """Every pair of terms of two axes that is not left out.

    Args:
        vocabulary: A vocabulary with an `adjective_order`.
        left_out: If given, counts the pairs left out, by reason: those of `left_out_pairs.yaml`, `no_noun` (no noun
            takes both terms in one template) and `repeated` (another pair gives the same words).

    Yields:
        The pairs, by axes and then in the order of the vocabulary.

    Raises:
        ValueError: The vocabulary has no order of adjectives.
    """
    left_out = Counter() if left_out is None else left_out
    positions = _positions(vocabulary)
    reasons = _reasons(vocabulary)
    prompts = _prompts(vocabulary)
    seen: dict[tuple[str, str], set[Gender | None]] = {}
    for axis, other_axis in itertools.combinations(vocabulary.axes, 2):
        of_axis, of_other = (
            [(descriptor, bits) for descriptor, bits in prompts.items() if descriptor.axis == name]
            for name in (axis, other_axis)
        )
        for (first, of_first), (second, of_second) in itertools.product(of_axis, of_other):
            because = _because(first, second, reasons)
            if because is None and not of_first & of_second:
                because = "no_noun"
            if because is None:
                intersection = intersect(first, second, positions)
                genders = seen.setdefault((intersection.before, intersection.after), set())
                # A pair without a gender takes every noun, so it shares nouns with a pair of any gender.
                repeated = bool(genders) and (intersection.gender in {None, *genders} or None in genders)
                because = "repeated" if repeated else None
            if because is not None:
                left_out[because] += 1
                continue
            genders.add(intersection.gender)
            yield intersection


def sample_intersections(
    vocabulary: Vocabulary, *, pairs_per_axis_pair: int = PAIRS_PER_AXIS_PAIR, seed: int = 0
) -> list[Intersection]:
    """A sample stratified by axes: equally many pairs of each two axes, those of the terms used least so far first.

    With 16 pairs of each two axes, every term of v1.0 that is not left out altogether is in at least one.

    Args:
        vocabulary: A vocabulary with an `adjective_order`.
        pairs_per_axis_pair: How many pairs of each two axes; fewer where there are not so many.
        seed: Chooses among terms used equally often; by a hash, so the same on every machine.

    Returns:
        The pairs, by axes and then in the order of the vocabulary.

    Raises:
        ValueError: The vocabulary has no order of adjectives, or the number is not positive.
    """
    if pairs_per_axis_pair < 1:
        raise ValueError(f"pairs_per_axis_pair is {pairs_per_axis_pair}; give 1 or more")
    index = {descriptor: number for number, descriptor in enumerate(vocabulary.descriptors)}
    used = np.zeros(len(index), dtype=np.int64)
    sample = []
    for _, group in itertools.groupby(all_intersections(vocabulary), key=lambda pair: pair.axis):
        pairs = list(group)
        order = sorted(range(len(pairs)), key=lambda number: _rank(pairs[number], seed))
        firsts = np.array([index[pairs[number].first] for number in order])
        seconds = np.array([index[pairs[number].second] for number in order])
        free = np.ones(len(pairs), dtype=bool)
        for _ in range(min(pairs_per_axis_pair, len(pairs))):
            # Of the pairs whose terms were used least, the first in the order of the hash.
            best = np.where(free, used[firsts] + used[seconds], np.iinfo(np.int64).max).argmin()
            free[best] = False
            used[firsts[best]] += 1
            used[seconds[best]] += 1
        sample += [pairs[number] for number in sorted(np.array(order)[~free])]
    return sample


def intersect(first: Descriptor, second: Descriptor, positions: dict[Descriptor, tuple[int, int]]) -> Intersection:
    """Puts two terms together in the order of English.

    Args:
        first: A term.
        second: A term of an axis later in the alphabet.
        positions: Of each term before its noun, the index of its class, from the farthest from the noun to the nearest,
            and of its entry in `adjective_order.yaml`.

    Returns:
        "queer Black …", "homeless and disabled …" (two of one class), "… with a PhD who stutters", "… with dementia and
        with a PhD" (two phrases of one kind), "Deaf … with a PhD".
    """
    before = sorted((term for term in (first, second) if term.before), key=lambda term: positions[term])
    after = sorted((term for term in (first, second) if term.after), key=lambda term: _after_rank(term.after))
    same_class = len({positions[term][0] for term in before}) == 1
    return Intersection(
        first=first,
        second=second,
        before=(" and " if same_class else " ").join(term.before for term in before),
        after=_join_after([term.after for term in after]),
        plural_after=_join_after([term.plural_after for term in after]),
        article=before[0].article if before else None,
    )


def _join_after(phrases: Sequence[str]) -> str:
    if len(phrases) < 2:
        return "".join(phrases)
    one, other = phrases
    # In "a person with two kids who is deaf" it would be open who is deaf.
    with_and = _after_kind(one) == _after_kind(other) or _ENDS_IN_PEOPLE.search(one)
    return f"{one} and {other}" if with_and else f"{one} {other}"


def _after_rank(phrase: str) -> int:
    return _AFTER_ORDER.index(_first_word(phrase))


def _after_kind(phrase: str) -> str:
    return {"on": "in", "without": "with", "born": "living"}.get(_first_word(phrase), _first_word(phrase))


def _first_word(phrase: str) -> str:
    word = re.split(r"[ ']", phrase, maxsplit=1)[0]
    return word if word in _AFTER_ORDER else "who"


def _positions(vocabulary: Vocabulary) -> dict[Descriptor, tuple[int, int]]:
    """Of each term before the noun, the index of its class and of its entry."""
    if not vocabulary.adjective_order:
        raise ValueError("the vocabulary has no adjective_order.yaml, which intersections are made with")
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


def _prompts(vocabulary: Vocabulary) -> dict[Descriptor, int]:
    """The prompts of each term: a bit for each noun in each template. A pair has the bits that both its terms have."""
    masks = prompt_masks(vocabulary.descriptors, vocabulary.nouns, vocabulary.templates, vocabulary.left_out_nouns)
    return {
        descriptor: int.from_bytes(np.packbits(mask).tobytes())
        for descriptor, mask in zip(vocabulary.descriptors, masks, strict=True)
    }


def _reasons(vocabulary: Vocabulary) -> _Reasons:
    """The entries that leave out pairs of each term: the entry's index, the entry, and the other terms it names.

    Other terms that are `None` stand for all.
    """
    reasons: _Reasons = {}
    for number, pair in enumerate(vocabulary.left_out_pairs):
        ones = [term for term in vocabulary.descriptors if selects(term, pair.axis, pair.buckets, pair.terms)]
        others = None
        if pair.other_axis is not None:
            others = frozenset(
                term
                for term in vocabulary.descriptors
                if selects(term, pair.other_axis, pair.other_buckets, pair.other_terms)
            )
        for one in ones:
            reasons.setdefault(one, []).append((number, pair, others))
        for other in others or ():
            reasons.setdefault(other, []).append((number, pair, frozenset(ones)))
    return reasons


def _because(first: Descriptor, second: Descriptor, reasons: _Reasons) -> str | None:
    """Why a pair is left out, if it is; of several entries the one that comes first in the file."""
    matching = [
        (number, pair.because)
        for one, other in ((first, second), (second, first))
        for number, pair, others in reasons.get(one, ())
        if (others is None or other in others) and (not pair.both_before or (one.before and other.before))
    ]
    if matching:
        return min(matching)[1]
    if _plain(first.term) == _plain(second.term):
        return "same"
    return None


@cache
def _plain(term: str) -> str:
    return re.sub(r"[- ]", "", term.casefold())


def _rank(pair: Intersection, seed: int) -> bytes:
    words = (str(seed), pair.first.axis, pair.first.term, pair.second.axis, pair.second.term)
    return hashlib.sha256("\x1f".join(words).encode()).digest()
