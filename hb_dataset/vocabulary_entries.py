"""Defines a vocabulary and its entries."""

import hashlib
import json
import re
from collections.abc import Collection
from dataclasses import field, fields, is_dataclass
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic.dataclasses import dataclass

from hb_dataset.prompt_columns import NAMES_AXIS
from hb_dataset.slots import PLURAL_SLOT, SINGULAR_SLOT
from hb_dataset.written_text import DETERMINER, STRICT_KEYS, Key, Remarked, Sentence, Text, Words, without

AFTER_THE_NOUN = "after_the_noun"
DEFAULT_NOUN = "person"

# Marks that do not change any prompt are not part of a vocabulary's digest, so frozen versions can have them.
NOT_IN_DIGEST = {"in_digest": False}
PAIR_MARKS = ("unfavourable", "control")

_PREPOSITIONS = "at|between|by|for|from|in|into|of|on|over|under|with|without"
_WITH_OBJECT = "using|experiencing|facing|having|receiving|seeking|speaking|taking|wearing"
# "from Peru", "who is blind", "diagnosed with asthma", "using crutches", but "working class" and "near-sighted"
_FOLLOWS_NOUN = re.compile(
    rf"({_PREPOSITIONS}|who|who's|{_WITH_OBJECT}|(born|\w+ed|\w+ing) ({_PREPOSITIONS}|an?|as|the|to)) ", re.I
)

Gender = Literal["female", "male", "non-binary"]
Preference = Literal["reviewed", "dispreferred", "polarizing"]
Article = Literal["a", "an"]
Placement = Literal["before", "after"]


def _slot_fault(template: str) -> str | None:
    slots = re.findall(r"\{[^{}]*\}|[{}]", template)
    if slots not in ([SINGULAR_SLOT], [PLURAL_SLOT]):
        return f"has {' and '.join(slots) or 'no slot'}; write exactly one of {SINGULAR_SLOT}, {PLURAL_SLOT}"
    determiner = DETERMINER.search(template.partition("{")[0])
    # "These Deaf women …" is a sentence.
    wrong = {"a", "an", "another", "each", "every", "this"} if slots == [PLURAL_SLOT] else None
    if determiner is None or (wrong and determiner[1].lower() not in wrong):
        return None
    return f"has '{determiner[1]} {slots[0]}', but {SINGULAR_SLOT} has its own article; omit the word"


def follows_noun(term: str) -> bool:
    """Returns whether the first words show that a term follows its noun ("living with HIV")."""
    return _FOLLOWS_NOUN.match(term) is not None


def _axis_fault(axis: str) -> str | None:
    return f"{axis!r} is the axis of groups of names; rename the axis" if axis == NAMES_AXIS else None


Slotted = Annotated[Sentence, without(_slot_fault)]
Axis = Annotated[Key, without(_axis_fault)]


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class Descriptor(Remarked):
    """A term on a demographic axis (paper, section 2.2.1 and Table 5).

    Attributes:
        axis: The demographic axis, e.g. `"ability"`.
        term: The term as written beside a singular noun: `"Deaf"`, `"who uses a wheelchair"`.
        bucket: A subdivision of the axis. Terms in the bucket `after_the_noun` follow the noun.
        gender: The gender of nouns with which the term can be combined, or `None` if it can be combined with every
            noun.
        preference: The community reviewers' label (A.2), or `None` if nobody was asked.
        article: "a" or "an", if the first letter is misleading.
        plural: The phrase after a plural noun, if it differs from the term: `"who use wheelchairs"`.
    """

    axis: Axis
    term: Words
    bucket: Key | None = None
    gender: Gender | None = None
    preference: Preference | None = None
    article: Article | None = None
    plural: Words | None = None

    def __hash__(self) -> int:
        """Hashes only two of the fields.

        Hashing every field would account for most of the time needed to make intersections.
        """
        return hash((self.axis, self.term))

    @property
    def placement(self) -> Placement:
        return "after" if self.bucket == AFTER_THE_NOUN else "before"

    @property
    def descriptors(self) -> "tuple[Descriptor, ...]":
        """Returns only this term, so that the same code can handle a term and an intersection of two terms."""
        return (self,)

    @property
    def plural_term(self) -> str:
        return self.plural or self.term

    @property
    def before(self) -> str:
        return self.term if self.placement == "before" else ""

    @property
    def after(self) -> str:
        return self.term if self.placement == "after" else ""

    def ends_in(self, nouns: "Collection[PersonNoun]") -> bool:
        """Returns whether the term has a noun as its last word: "unemployed person" ("unemployed person woman")."""
        _, _, last = self.before.rpartition(" ")
        return last != self.before and any(last.lower() in (noun.noun.lower(), noun.plural.lower()) for noun in nouns)

    @property
    def plural_after(self) -> str:
        return self.plural_term if self.placement == "after" else ""


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class PersonNoun(Remarked):
    """A noun for a person (paper, A.3).

    `gender` is `None` if the noun does not state one. `bucket` is the kind of person, such as `child` or `parent`.
    """

    noun: Words
    plural: Words
    bucket: Key | None = None
    gender: Gender | None = None
    article: Article | None = None


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class StandaloneNounPhrase(Remarked):
    """A phrase about a person that already includes a noun: "a wheelchair user", "a person of color".

    `noun_phrase` has an article, and `plural` has none. `preference` is the community reviewers' label (A.2).
    """

    axis: Key
    noun_phrase: Words
    plural: Words
    preference: Preference | None = None

    @property
    def term(self) -> str:
        return self.noun_phrase.partition(" ")[2]


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class Template(Remarked):
    """A sentence with one slot, `{noun_phrase}` or `{plural_noun_phrase}` (paper, Table 13).

    Attributes:
        bucket: The kind of sentence, such as `like`. A `LeftOutNoun` can exclude terms from this kind only.
        unfavourable: The template that says the opposite, if this template is favourable ("I love …", "I hate …").
        control: The template that differs from this one in meaning, but not in attitude ("I'm …", "I'm not …").
    """

    template: Slotted
    small: bool = False
    bucket: Key | None = None
    unfavourable: Sentence | None = field(default=None, metadata=NOT_IN_DIGEST)
    control: Sentence | None = field(default=None, metadata=NOT_IN_DIGEST)

    @property
    def plural(self) -> bool:
        return PLURAL_SLOT in self.template

    @property
    def parts(self) -> tuple[str, str]:
        prefix, _, suffix = self.template.partition(PLURAL_SLOT if self.plural else SINGULAR_SLOT)
        return prefix, suffix


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class AdjectiveClass(Remarked):
    """Terms that have the same position among the adjectives before a noun.

    The first class is the farthest from the noun. An entry that lists a term takes precedence over an entry that lists
    the term's bucket.
    """

    name: Key
    axis: Key
    buckets: tuple[Key, ...] | None = None
    terms: tuple[Text, ...] | None = None


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class LeftOutPair(Remarked):
    """Terms that are not combined with terms of another axis.

    Without `other_axis`, the terms are not combined with any other term. With `both_before`, a pair is excluded only if
    both terms come before the noun ("a pretty Deaf woman" may be read as "fairly Deaf"). CONTRIBUTING.md defines the
    reasons.
    """

    axis: Key
    because: Literal["same", "contradictory", "misread", "harmful", "meaningless"]
    buckets: tuple[Key, ...] | None = None
    terms: tuple[Text, ...] | None = None
    other_axis: Key | None = None
    other_buckets: tuple[Key, ...] | None = None
    other_terms: tuple[Text, ...] | None = None
    both_before: bool = False


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class LeftOutNoun(Remarked):
    """Terms that must not be combined with certain nouns.

    Without `axis`, the nouns are excluded from all prompts, including prompts without a term. Without `nouns`,
    `noun_buckets` and `noun_genders`, the entry applies to all nouns. With `template_buckets`, the entry applies only
    to templates of these kinds. CONTRIBUTING.md defines the reasons.
    """

    axis: Key | None = None
    because: Literal["same", "contradictory", "misgendering", "misread", "harmful"]
    buckets: tuple[Key, ...] | None = None
    terms: tuple[Text, ...] | None = None
    nouns: tuple[Text, ...] | None = None
    noun_buckets: tuple[Key, ...] | None = None
    noun_genders: tuple[Text, ...] | None = None
    template_buckets: tuple[Key, ...] | None = None


def selects(descriptor: Descriptor, axis: str, buckets: Collection[str] | None, terms: Collection[str] | None) -> bool:
    return (
        descriptor.axis == axis
        and (buckets is None or descriptor.bucket in buckets)
        and (terms is None or descriptor.term in terms)
    )


def selects_noun(entry: LeftOutNoun, noun: PersonNoun) -> bool:
    return (
        (entry.nouns is None or noun.noun in entry.nouns)
        and (entry.noun_buckets is None or noun.bucket in entry.noun_buckets)
        and (entry.noun_genders is None or noun.gender in entry.noun_genders)
    )


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """The parts from which prompts are made. A vocabulary with an empty `adjective_order` has no intersections."""

    descriptors: tuple[Descriptor, ...]
    nouns: tuple[PersonNoun, ...]
    templates: tuple[Template, ...]
    seat_templates: tuple[Template, ...]
    adjective_order: tuple[AdjectiveClass, ...] = ()
    left_out_pairs: tuple[LeftOutPair, ...] = ()
    left_out_nouns: tuple[LeftOutNoun, ...] = ()
    standalone_noun_phrases: tuple[StandaloneNounPhrase, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        return tuple(sorted({descriptor.axis for descriptor in self.descriptors}))

    def marked_pairs(self, mark: str) -> list[tuple[str, str]]:
        return [(entry.template, other) for entry in self.templates if (other := getattr(entry, mark)) is not None]

    @cached_property
    def digest(self) -> str:
        """Returns the SHA-256 digest (hex) of the content. File layout, comments and absent keys have no effect.

        Marks of pairs of templates have no effect either, because they do not change the prompts. Digests therefore
        remain valid when a later version of the format adds a key.
        """
        return hashlib.sha256(json.dumps(_written(self), sort_keys=True).encode()).hexdigest()


def _written(entry: Any) -> Any:
    """Converts an entry to lists and dictionaries, without fields at their default values or outside the digest."""
    if isinstance(entry, tuple):
        return [_written(item) for item in entry]
    if not is_dataclass(entry):
        return entry
    digested = [field for field in fields(entry) if field.metadata.get("in_digest", True)]
    values = {field.name: (getattr(entry, field.name), field.default) for field in digested}
    return {name: _written(value) for name, (value, default) in values.items() if value != default}
