"""The vocabulary: terms, person nouns and templates that people write in YAML, read and checked.

A vocabulary is a folder: one YAML file per demographic axis (`ability.yaml`, …), `nouns.yaml`, `templates.yaml` and,
if wanted, `seat_templates.yaml`, and what goes with what (`hb_dataset.combinations`). Every fault in it is reported at
once, with its file and line and what to write.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic.dataclasses import dataclass

from hb_dataset.combinations import (
    ADJECTIVE_ORDER_FILE,
    LEFT_OUT_FILE,
    LEFT_OUT_NOUNS_FILE,
    AdjectiveClass,
    LeftOutNoun,
    LeftOutPair,
    left_out_noun_faults,
    left_out_pair_faults,
    order_faults,
)
from hb_dataset.yaml_entries import STRICT_KEYS, Key, Located, Remark, Sentence, Words, read_entries
from hb_dataset.yaml_lines import Fault

VOCABULARIES = Path(__file__).parent / "vocabulary"
AFTER_THE_NOUN = "after_the_noun"
NOUNS_FILE = "nouns.yaml"
TEMPLATES_FILE = "templates.yaml"
SEAT_TEMPLATES_FILE = "seat_templates.yaml"
SINGULAR_SLOT = "{noun_phrase}"
PLURAL_SLOT = "{plural_noun_phrase}"

MAX_WORDS_BEFORE, MAX_WORDS_AFTER = 3, 10  # of a term, before or after its noun; ours have at most 2, and 6

Gender = Literal["female", "male", "non-binary"]
Preference = Literal["reviewed", "dispreferred", "polarizing"]
Article = Literal["a", "an"]
Placement = Literal["before", "after"]

# A phrase that speaks of one person ("with a lisp", "who is deaf", "who stutters") changes after a plural noun.
_SINGULAR_PHRASE = re.compile(r"\ban? |^who('s| \w+s)\b")
_AFTER_PHRASE = re.compile(r"(with|without|in|on|who|who's) ")
_ARTICLE = re.compile(r"(a|an|the) ", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class Descriptor:
    """A demographic term in its axis (paper, section 2.2.1 and Table 5).

    Attributes:
        axis: The demographic axis, e.g. `"ability"`.
        term: The term as it stands beside a singular noun: `"Deaf"`, `"who uses a wheelchair"`.
        bucket: Subdivision of the axis; terms in the bucket `after_the_noun` follow the noun.
        gender: `"female"`, `"male"` or `"non-binary"` for a term used only with nouns of that gender.
        preference: What community reviewers said of it (A.2); `None` where nobody was asked.
        article: Overrides the first-letter rule for "a" and "an".
        plural: The phrase after a plural noun, where it differs: `"who use wheelchairs"`.
        note: A remark for readers of the vocabulary.
        source: Where the term comes from.
    """

    axis: Key
    term: Words
    bucket: Key | None = None
    gender: Gender | None = None
    preference: Preference | None = None
    article: Article | None = None
    plural: Words | None = None
    note: Remark | None = None
    source: Remark | None = None

    @property
    def placement(self) -> Placement:
        """Whether the term stands before or after its noun."""
        return "after" if self.bucket == AFTER_THE_NOUN else "before"

    @property
    def descriptors(self) -> "tuple[Descriptor, ...]":
        """The term itself, as the two terms of an intersection."""
        return (self,)

    @property
    def before(self) -> str:
        """What stands before the noun: the term, or nothing."""
        return self.term if self.placement == "before" else ""

    @property
    def after(self) -> str:
        """What stands after a singular noun: nothing, or the term."""
        return self.term if self.placement == "after" else ""

    @property
    def plural_after(self) -> str:
        """What stands after a plural noun."""
        return (self.plural or self.term) if self.placement == "after" else ""


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class PersonNoun:
    """A noun for a person (paper, A.3).

    `gender` is `None` where the noun names none. `bucket` says what kind of person it names: a child, a parent, …
    """

    noun: Words
    plural: Words
    bucket: Key | None = None
    gender: Gender | None = None
    article: Article | None = None
    note: Remark | None = None
    source: Remark | None = None


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class Template:
    """A sentence with one slot, `{noun_phrase}` or `{plural_noun_phrase}` (paper, Table 13).

    `bucket` says what the sentence does, where some combinations of words are left out of such sentences.
    """

    template: Sentence
    small: bool = False
    bucket: Key | None = None
    note: Remark | None = None
    source: Remark | None = None

    @property
    def plural(self) -> bool:
        """Whether the slot takes a plural noun phrase."""
        return PLURAL_SLOT in self.template

    @property
    def parts(self) -> tuple[str, str]:
        """The text before and after the slot."""
        prefix, _, suffix = self.template.partition(PLURAL_SLOT if self.plural else SINGULAR_SLOT)
        return prefix, suffix


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """Everything prompts are made from; `adjective_order` is empty where no intersections are to be made."""

    descriptors: tuple[Descriptor, ...]
    nouns: tuple[PersonNoun, ...]
    templates: tuple[Template, ...]
    seat_templates: tuple[Template, ...]
    adjective_order: tuple[AdjectiveClass, ...] = ()
    left_out_pairs: tuple[LeftOutPair, ...] = ()
    left_out_nouns: tuple[LeftOutNoun, ...] = ()

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes, in alphabetical order."""
        return tuple(sorted({descriptor.axis for descriptor in self.descriptors}))

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the content; file layout and comments do not count.

        Nor do keys that are left out, so that a key which some later version brings leaves older digests as they are.
        """
        return hashlib.sha256(json.dumps(_written(self), sort_keys=True).encode()).hexdigest()


class VocabularyError(ValueError):
    """A vocabulary with faults. `faults` holds them all."""

    def __init__(self, folder: Path, faults: list[Fault]) -> None:
        self.faults = faults
        count = "1 fault" if len(faults) == 1 else f"{len(faults)} faults"
        super().__init__("\n".join([f"{count} in the vocabulary {folder}:", *(f"  {fault}" for fault in faults)]))


def read_vocabulary(folder: str | Path | None = None) -> Vocabulary:
    """Reads and checks a vocabulary.

    Args:
        folder: The vocabulary's folder. `None`: v1.0, the paper's.

    Returns:
        The vocabulary; axes in alphabetical order, terms in the order of their files.

    Raises:
        NotADirectoryError: There is no such folder.
        VocabularyError: Something in it is wrong; the message lists every fault with file and line.
    """
    folder = VOCABULARIES / "v1.0" if folder is None else Path(folder)
    if not folder.is_dir():
        raise NotADirectoryError(
            f"no vocabulary folder at '{folder}'; give a folder with one YAML file per axis, {NOUNS_FILE} and "
            f"{TEMPLATES_FILE} (copy {VOCABULARIES / 'v1.0'} to start)"
        )
    faults: list[Fault] = []
    descriptors: list[Located] = []
    nouns: list[Located] = []
    templates: list[Located] = []
    seat_templates: list[Located] = []
    adjective_order: list[Located] = []
    left_out_pairs: list[Located] = []
    left_out_nouns: list[Located] = []
    axis_files: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.name == NOUNS_FILE:
            nouns = read_entries(path, "nouns", PersonNoun, faults)
        elif path.name == TEMPLATES_FILE:
            templates = read_entries(path, "templates", Template, faults)
        elif path.name == SEAT_TEMPLATES_FILE:
            seat_templates = read_entries(path, "templates", Template, faults)
        elif path.name == ADJECTIVE_ORDER_FILE:
            adjective_order = read_entries(path, "classes", AdjectiveClass, faults)
        elif path.name == LEFT_OUT_FILE:
            left_out_pairs = read_entries(path, "pairs", LeftOutPair, faults)
        elif path.name == LEFT_OUT_NOUNS_FILE:
            left_out_nouns = read_entries(path, "combinations", LeftOutNoun, faults)
        elif path.suffix == ".yaml" and path.is_file():
            axis_files.append(path.name)
            descriptors += read_entries(path, "terms", Descriptor, faults, axis=path.stem)
        elif path.suffix != ".md" and not path.name.startswith("."):
            faults.append(Fault(path.name, 1, "is not part of a vocabulary; name an axis file <axis>.yaml, or move it"))
    for name, found in ((NOUNS_FILE, nouns), (TEMPLATES_FILE, templates), ("<axis>.yaml", descriptors)):
        if not found and not any(fault.file in (name, *axis_files) for fault in faults):
            faults.append(Fault(name, 1, f"is missing or has no entries; see {VOCABULARIES / 'v1.0'} for an example"))
    faults += _descriptor_faults(descriptors, nouns)
    faults += _noun_faults(nouns)
    for located in (templates, seat_templates):
        faults += _template_faults(located)
    if not faults:  # they name terms, which may be known only once their files can be read
        faults += order_faults(adjective_order, left_out_pairs, descriptors)
        faults += left_out_pair_faults(left_out_pairs, descriptors)
        faults += left_out_noun_faults(left_out_nouns, descriptors, nouns, [*templates, *seat_templates])
    if faults:
        raise VocabularyError(folder, sorted(faults))
    return Vocabulary(
        descriptors=tuple(located.entry for located in descriptors),
        nouns=tuple(located.entry for located in nouns),
        templates=tuple(located.entry for located in templates),
        seat_templates=tuple(located.entry for located in seat_templates),
        adjective_order=tuple(located.entry for located in adjective_order),
        left_out_pairs=tuple(located.entry for located in left_out_pairs),
        left_out_nouns=tuple(located.entry for located in left_out_nouns),
    )


def vocabulary_files(vocabulary: Vocabulary) -> list[str]:
    """The files that a vocabulary is read from."""
    parts = {
        NOUNS_FILE: vocabulary.nouns,
        TEMPLATES_FILE: vocabulary.templates,
        SEAT_TEMPLATES_FILE: vocabulary.seat_templates,
        ADJECTIVE_ORDER_FILE: vocabulary.adjective_order,
        LEFT_OUT_FILE: vocabulary.left_out_pairs,
        LEFT_OUT_NOUNS_FILE: vocabulary.left_out_nouns,
    }
    return [*(f"{axis}.yaml" for axis in vocabulary.axes), *(name for name, entries in parts.items() if entries)]


def _written(entry: Any) -> Any:
    """A dataclass as what people wrote: without the fields that were left out."""
    if isinstance(entry, tuple):
        return [_written(each) for each in entry]
    if not is_dataclass(entry):
        return entry
    values = {field.name: (getattr(entry, field.name), field.default) for field in fields(entry)}
    return {name: _written(value) for name, (value, default) in values.items() if value != default}


def _descriptor_faults(descriptors: list[Located], nouns: list[Located]) -> Iterator[Fault]:
    yield from _repeats(descriptors, lambda descriptor: (descriptor.axis, descriptor.term.casefold()), "term")
    genders = {located.entry.gender for located in nouns}
    before = [located.entry for located in descriptors if located.entry.placement == "before"]
    num_terms = Counter(descriptor.axis for descriptor in before)
    num_in_buckets = Counter(descriptor.axis for descriptor in before if descriptor.bucket is not None)
    for file, line, descriptor in descriptors:
        term = descriptor.term
        if descriptor.gender is not None and nouns and descriptor.gender not in genders:
            yield Fault(file, line, f"term {term!r} takes only {descriptor.gender} nouns, and {NOUNS_FILE} has none")
        most = MAX_WORDS_BEFORE if descriptor.placement == "before" else MAX_WORDS_AFTER
        num_words = max(len(text.split()) for text in (term, descriptor.plural or ""))
        if num_words > most:
            place = descriptor.placement
            yield Fault(file, line, f"term {term!r} has {num_words} words; {place} the noun stand at most {most}")
        axis_has_buckets = num_in_buckets[descriptor.axis] > num_terms[descriptor.axis] / 2
        if descriptor.bucket is None and axis_has_buckets:
            yield Fault(
                file,
                line,
                f"term {term!r} has no `bucket`, as the others of its axis have; write one, "
                f"`{AFTER_THE_NOUN}` if the term stands after the noun",
            )
        if descriptor.placement == "before":
            if descriptor.bucket is not None and not axis_has_buckets:
                yield Fault(
                    file,
                    line,
                    f"term {term!r} has the bucket {descriptor.bucket!r}, and most of its axis have none; "
                    "leave it out, or give all of them one",
                )
            if _AFTER_PHRASE.match(term):
                yield Fault(file, line, f"term {term!r} would stand before the noun; write `bucket: {AFTER_THE_NOUN}`")
            if _ARTICLE.match(term):
                yield Fault(file, line, f"term {term!r} brings an article of its own; write it without")
            if descriptor.plural is not None:
                yield Fault(
                    file,
                    line,
                    f"term {term!r} stands before the noun and does not change; remove `plural`, "
                    f"or write `bucket: {AFTER_THE_NOUN}`",
                )
            continue
        if descriptor.article is not None:
            yield Fault(file, line, f"term {term!r} stands after the noun, whose article it cannot set; remove it")
        if descriptor.plural is None and _SINGULAR_PHRASE.search(term):
            yield Fault(
                file,
                line,
                f"term {term!r} needs `plural`, the phrase after a plural noun "
                '("with a lisp" → `plural: with lisps`; the same words again if nothing changes)',
            )


def _noun_faults(nouns: list[Located]) -> Iterator[Fault]:
    yield from _repeats(nouns, lambda noun: noun.noun.casefold(), "noun")
    buckets = [located.entry.bucket for located in nouns if located.entry.bucket is not None]
    if len(buckets) > len(nouns) / 2:
        for file, line, noun in nouns:
            if noun.bucket is None:
                known = ", ".join(sorted(set(buckets)))
                yield Fault(file, line, f"noun {noun.noun!r} has no `bucket`, as the others have; write one of {known}")


def _template_faults(templates: list[Located]) -> Iterator[Fault]:
    yield from _repeats(templates, lambda template: template.template, "template")
    for file, line, template in templates:
        slots = re.findall(r"\{[^{}]*\}", template.template)
        unknown = [slot for slot in slots if slot not in (SINGULAR_SLOT, PLURAL_SLOT)]
        rest = re.sub(r"\{[^{}]*\}", "", template.template)
        if unknown or "{" in rest or "}" in rest:
            what = f"unknown slot {unknown[0]}" if unknown else "a brace of no slot"
            yield Fault(file, line, f"template has {what}; write {SINGULAR_SLOT} or {PLURAL_SLOT}")
        elif len(slots) != 1:
            count = "no slot" if not slots else f"{len(slots)} slots"
            yield Fault(file, line, f"template has {count}; write exactly one of {SINGULAR_SLOT}, {PLURAL_SLOT}")


def _repeats(located: list[Located], key: Any, kind: str) -> Iterator[Fault]:
    first: dict[Any, Located] = {}
    for entry in located:
        before = first.setdefault(key(entry.entry), entry)
        if before is not entry:
            text = getattr(entry.entry, kind)
            yield Fault(
                entry.file,
                entry.line,
                f"{kind} {text!r} stands in {before.file} line {before.line} already; remove one of them",
            )
