"""Intersections: pairs of terms from two axes in one noun phrase, "a homeless and disabled person".

The paper's limitations section asks for them. Terms before the noun stand in the order of `adjective_order.yaml`; two
of one class are joined with "and". Pairs that say one thing twice, cannot both be true or would harm are left out, as
`left_out_pairs.yaml` says. All pairs make more than a hundred million prompts, so a sample is taken from them.
"""

import hashlib
import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hb_dataset.prompt_masks import prompt_masks
from hb_dataset.vocabulary import Vocabulary
from hb_dataset.vocabulary_entries import Article, Descriptor, Gender, LeftOutPair, selects

PAIRS_PER_AXIS_PAIR = 16
AROUND = "around"

# After the noun, short phrases come before long ones: "a woman in the Navy with a PhD who stutters".
_AFTER_ORDER = ("in", "on", "with", "without", "who")
_Reasons = dict[Descriptor, list[tuple[int, LeftOutPair, frozenset[Descriptor] | None]]]
_ENDS_IN_PEOPLE = re.compile(r"\b(kids?|children|boys?|girls?)$")


@dataclass(frozen=True, kw_only=True)
class Intersection:
    """Two terms of two axes as one modifier of a noun; `first` is of the axis that comes first in the alphabet."""

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
        """Both terms as they stand beside a noun, "…" in its place if it is between them: `"Deaf … with a PhD"`."""
        return " … ".join(filter(None, [self.before, self.after]))

    @property
    def placement(self) -> str:
        """Whether the terms stand `"before"` the noun, `"after"` it or `"around"` it."""
        return AROUND if self.before and self.after else "before" if self.before else "after"

    @property
    def gender(self) -> Gender | None:
        """The gender of the nouns it takes, if one of the terms has one."""
        return self.first.gender or self.second.gender

    @property
    def bucket(self) -> None:
        """Buckets divide one axis."""
        return None

    @property
    def preference(self) -> None:
        """Reviewers were asked about terms, not pairs."""
        return None


def all_intersections(vocabulary: Vocabulary, left_out: Counter[str] | None = None) -> Iterator[Intersection]:
    """Every pair of terms of two axes that is not left out.

    Args:
        vocabulary: A vocabulary with an `adjective_order`.
        left_out: Counts the pairs left out, by reason: those of `left_out_pairs.yaml`, `no_noun` (no noun takes both
            terms in one template) and `repeated` (another pair gives the same words).

    Yields:
        The pairs, by axes and then in the order of the vocabulary.

    Raises:
        ValueError: The vocabulary has no order of adjectives.
    """
    left_out = Counter() if left_out is None else left_out
    places = _places(vocabulary)
    reasons = _reasons(vocabulary)
    prompts = _prompts(vocabulary)
    seen: dict[tuple[str, str], set[Gender | None]] = {}
    for axis, other_axis in itertools.combinations(vocabulary.axes, 2):
        of_axis, of_other = (
            [(descriptor, bits) for descriptor, bits in prompts.items() if descriptor.axis == each]
            for each in (axis, other_axis)
        )
        for (first, of_first), (second, of_second) in itertools.product(of_axis, of_other):
            because = _because(first, second, reasons)
            if because is None and not of_first & of_second:
                because = "no_noun"
            if because is None:
                intersection = intersect(first, second, places)
                genders = seen.setdefault((intersection.before, intersection.after), set())
                # A pair without a gender takes every noun, so it meets the nouns of any.
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
    """A sample stratified by axes: as many pairs of each two axes, and within these the terms used least so far first.

    With 16 pairs of each two axes, every term of v1.0 that is not left out altogether is in at least one.

    Args:
        vocabulary: A vocabulary with an `adjective_order`.
        pairs_per_axis_pair: How many pairs of each two axes; fewer where there are not so many.
        seed: Decides among terms used equally often; by a hash, so the same on every machine.

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
            # The first, in the order of the hash, of the pairs whose terms were used least.
            best = np.where(free, used[firsts] + used[seconds], np.iinfo(np.int64).max).argmin()
            free[best] = False
            used[firsts[best]] += 1
            used[seconds[best]] += 1
        sample += [pairs[number] for number in sorted(np.array(order)[~free])]
    return sample


def intersect(first: Descriptor, second: Descriptor, places: dict[Descriptor, tuple[int, int]]) -> Intersection:
    """Puts two terms together as English does.

    Args:
        first: A term.
        second: A term of an axis later in the alphabet.
        places: The place of each term that stands before its noun: its class, the farthest first, and its entry there.

    Returns:
        "queer Black …", "homeless and disabled …" (two of one class), "… with a PhD who stutters", "… with dementia and
        with a PhD" (two phrases of one kind), "Deaf … with a PhD".
    """
    before = sorted((each for each in (first, second) if each.before), key=lambda each: places[each])
    after = sorted((each for each in (first, second) if each.after), key=lambda each: _after_rank(each.after))
    same_class = len({places[each][0] for each in before}) == 1
    return Intersection(
        first=first,
        second=second,
        before=(" and " if same_class else " ").join(each.before for each in before),
        after=_join_after([each.after for each in after]),
        plural_after=_join_after([each.plural_after for each in after]),
        article=before[0].article if before else None,
    )


def _join_after(phrases: Sequence[str]) -> str:
    if len(phrases) < 2:
        return "".join(phrases)
    one, other = phrases
    # "a person with two kids who is deaf" would leave open who is deaf.
    alike = _after_kind(one) == _after_kind(other) or _ENDS_IN_PEOPLE.search(one)
    return f"{one} and {other}" if alike else f"{one} {other}"


def _after_rank(phrase: str) -> int:
    return _AFTER_ORDER.index(_first_word(phrase))


def _after_kind(phrase: str) -> str:
    return {"on": "in", "without": "with"}.get(_first_word(phrase), _first_word(phrase))


def _first_word(phrase: str) -> str:
    word = re.split(r"[ ']", phrase, maxsplit=1)[0]
    return word if word in _AFTER_ORDER else "who"


def _places(vocabulary: Vocabulary) -> dict[Descriptor, tuple[int, int]]:
    """The place of each term before the noun: the number of its class, and of its entry."""
    if not vocabulary.adjective_order:
        raise ValueError("the vocabulary has no adjective_order.yaml, which intersections are made with")
    names = list(dict.fromkeys(entry.name for entry in vocabulary.adjective_order))
    places: dict[Descriptor, tuple[int, int]] = {}
    for descriptor in vocabulary.descriptors:
        holding = [
            (entry.terms is not None, entry.buckets is not None, names.index(entry.name), number)
            for number, entry in enumerate(vocabulary.adjective_order)
            if selects(descriptor, entry.axis, entry.buckets, entry.terms)
        ]
        if descriptor.before and holding:
            _, _, *place = max(holding)
            places[descriptor] = (place[0], place[1])
    return places


def _prompts(vocabulary: Vocabulary) -> dict[Descriptor, int]:
    """The prompts of each term, a bit for each noun in each template: those of a pair are the bits of both."""
    found = prompt_masks(vocabulary.descriptors, vocabulary.nouns, vocabulary.templates, vocabulary.left_out_nouns)
    return {
        descriptor: int.from_bytes(np.packbits(takes).tobytes())
        for descriptor, takes in zip(vocabulary.descriptors, found, strict=True)
    }


def _reasons(vocabulary: Vocabulary) -> _Reasons:
    """For each term that some entry names on either side: the entry's number, the entry, and the other terms.

    `None` stands for any other term.
    """
    reasons: _Reasons = {}
    for number, pair in enumerate(vocabulary.left_out_pairs):
        ones = [each for each in vocabulary.descriptors if selects(each, pair.axis, pair.buckets, pair.terms)]
        others = None
        if pair.other_axis is not None:
            others = frozenset(
                each
                for each in vocabulary.descriptors
                if selects(each, pair.other_axis, pair.other_buckets, pair.other_terms)
            )
        for one in ones:
            reasons.setdefault(one, []).append((number, pair, others))
        for other in others or ():
            reasons.setdefault(other, []).append((number, pair, frozenset(ones)))
    return reasons


def _because(first: Descriptor, second: Descriptor, reasons: _Reasons) -> str | None:
    """Why a pair is left out, if it is; of several entries the one that comes first in the file."""
    holding = [
        (number, pair.because)
        for one, other in ((first, second), (second, first))
        for number, pair, others in reasons.get(one, ())
        if (others is None or other in others) and (not pair.both_before or (one.before and other.before))
    ]
    if holding:
        return min(holding)[1]
    if _plain(first.term) == _plain(second.term):
        return "same"
    return None


def _plain(term: str) -> str:
    return re.sub(r"[- ]", "", term.casefold())


def _rank(pair: Intersection, seed: int) -> bytes:
    words = (str(seed), pair.first.axis, pair.first.term, pair.second.axis, pair.second.term)
    return hashlib.sha256("\x1f".join(words).encode()).digest()
