"""The vocabulary: terms, person nouns and templates that people write in YAML, read and checked.

A vocabulary is a folder: one YAML file per demographic axis (`ability.yaml`, …), `nouns.yaml`, `templates.yaml` and,
if wanted, `seat_templates.yaml`. Every fault in it is reported at once, with its file and line and what to write.
"""

import hashlib
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args

import yaml
from pydantic import AfterValidator, ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass

from hb_dataset.hints import did_you_mean
from hb_dataset.yaml_lines import Fault, load_with_lines, unreadable

VOCABULARIES = Path(__file__).parent / "vocabulary"
AFTER_THE_NOUN = "after_the_noun"
NOUNS_FILE = "nouns.yaml"
TEMPLATES_FILE = "templates.yaml"
SEAT_TEMPLATES_FILE = "seat_templates.yaml"
SINGULAR_SLOT = "{noun_phrase}"
PLURAL_SLOT = "{plural_noun_phrase}"

Gender = Literal["female", "male"]
Preference = Literal["reviewed", "dispreferred", "polarizing"]
Article = Literal["a", "an"]
Placement = Literal["before", "after"]

# A phrase that speaks of one person ("with a lisp", "who is deaf", "who stutters") changes after a plural noun.
_SINGULAR_PHRASE = re.compile(r"\ban? |^who('s| \w+s)\b")
_TYPOGRAPHIC = {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "‐": "-", "‑": "-"}


_AFTER_PHRASE = re.compile(r"(with|without|in|on|who|who's) ")
_ARTICLE = re.compile(r"(a|an|the) ", re.IGNORECASE)


def _check_text(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty; write the words, or leave the key out")
    for position, character in enumerate(value, start=1):
        name = f"U+{ord(character):04X}"
        if character in _TYPOGRAPHIC:
            raise ValueError(f"has {character} ({name}) at character {position}; write {_TYPOGRAPHIC[character]}")
        if character != " " and (character.isspace() or unicodedata.category(character)[0] in "CZ"):
            raise ValueError(f"has a control or invisible character ({name}) at character {position}; remove it")
    if value != " ".join(value.split(" ")).strip() or "  " in value:
        raise ValueError(f"has stray white space; write {' '.join(value.split())!r}")
    if value != unicodedata.normalize("NFC", value):
        raise ValueError(f"is not in Unicode normal form C; write {unicodedata.normalize('NFC', value)!r} composed")
    return value


def _check_key(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", value):
        remedy = re.sub(r"[^a-z0-9]+", "_", value.lower()).strip("_") or "a_name_like_this"
        raise ValueError(f"{value!r} is not a lower-case name with underscores; write {remedy!r}")
    return value


def _check_remark(value: str) -> str:
    if not value.strip():
        raise ValueError("is empty; write something, or leave the key out")
    return value


Text = Annotated[str, AfterValidator(_check_text)]
Remark = Annotated[str, AfterValidator(_check_remark)]  # for readers only, so any lines and signs
Key = Annotated[str, AfterValidator(_check_key)]
_STRICT_KEYS = ConfigDict(extra="forbid")


@dataclass(frozen=True, kw_only=True, config=_STRICT_KEYS)
class Descriptor:
    """A demographic term in its axis (paper, section 2.2.1 and Table 5).

    Attributes:
        axis: The demographic axis, e.g. `"ability"`.
        term: The term as it stands beside a singular noun: `"Deaf"`, `"who uses a wheelchair"`.
        bucket: Subdivision of the axis; terms in the bucket `after_the_noun` follow the noun.
        gender: `"female"` or `"male"` for a term used only with nouns of that gender.
        preference: What community reviewers said of it (A.2); `None` where nobody was asked.
        article: Overrides the first-letter rule for "a" and "an".
        plural: The phrase after a plural noun, where it differs: `"who use wheelchairs"`.
        note: A remark for readers of the vocabulary.
        source: Where the term comes from.
    """

    axis: Key
    term: Text
    bucket: Key | None = None
    gender: Gender | None = None
    preference: Preference | None = None
    article: Article | None = None
    plural: Text | None = None
    note: Remark | None = None
    source: Remark | None = None

    @property
    def placement(self) -> Placement:
        """Whether the term stands before or after its noun."""
        return "after" if self.bucket == AFTER_THE_NOUN else "before"


@dataclass(frozen=True, kw_only=True, config=_STRICT_KEYS)
class PersonNoun:
    """A noun for a person (paper, A.3). `gender` is `None` where the noun names none."""

    noun: Text
    plural: Text
    gender: Gender | None = None
    article: Article | None = None
    note: Remark | None = None
    source: Remark | None = None


@dataclass(frozen=True, kw_only=True, config=_STRICT_KEYS)
class Template:
    """A sentence with one slot, `{noun_phrase}` or `{plural_noun_phrase}` (paper, Table 13)."""

    template: Text
    small: bool = False
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
    """Everything prompts are made from."""

    descriptors: tuple[Descriptor, ...]
    nouns: tuple[PersonNoun, ...]
    templates: tuple[Template, ...]
    seat_templates: tuple[Template, ...]

    @property
    def axes(self) -> tuple[str, ...]:
        """The axes, in alphabetical order."""
        return tuple(sorted({descriptor.axis for descriptor in self.descriptors}))

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of the content; file layout and comments do not count."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()


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
    descriptors: list[_Located] = []
    nouns: list[_Located] = []
    templates: list[_Located] = []
    seat_templates: list[_Located] = []
    axis_files: list[str] = []
    for path in sorted(folder.iterdir()):
        if path.name == NOUNS_FILE:
            nouns = _read_entries(path, "nouns", PersonNoun, faults)
        elif path.name == TEMPLATES_FILE:
            templates = _read_entries(path, "templates", Template, faults)
        elif path.name == SEAT_TEMPLATES_FILE:
            seat_templates = _read_entries(path, "templates", Template, faults)
        elif path.suffix == ".yaml" and path.is_file():
            axis_files.append(path.name)
            descriptors += _read_entries(path, "terms", Descriptor, faults, axis=path.stem)
        elif path.suffix != ".md" and not path.name.startswith("."):
            faults.append(Fault(path.name, 1, "is not part of a vocabulary; name an axis file <axis>.yaml, or move it"))
    for name, found in ((NOUNS_FILE, nouns), (TEMPLATES_FILE, templates), ("<axis>.yaml", descriptors)):
        if not found and not any(fault.file in (name, *axis_files) for fault in faults):
            faults.append(Fault(name, 1, f"is missing or has no entries; see {VOCABULARIES / 'v1.0'} for an example"))
    faults += _descriptor_faults(descriptors, nouns)
    faults += _repeats(nouns, lambda noun: noun.noun.casefold(), "noun")
    for located in (templates, seat_templates):
        faults += _template_faults(located)
    if faults:
        raise VocabularyError(folder, sorted(faults))
    return Vocabulary(
        descriptors=tuple(located.entry for located in descriptors),
        nouns=tuple(located.entry for located in nouns),
        templates=tuple(located.entry for located in templates),
        seat_templates=tuple(located.entry for located in seat_templates),
    )


class _Located(NamedTuple):
    """An entry and where it stands, for faults that only show beside other entries."""

    file: str
    line: int
    entry: Any


def _descriptor_faults(descriptors: list[_Located], nouns: list[_Located]) -> Iterator[Fault]:
    yield from _repeats(descriptors, lambda descriptor: (descriptor.axis, descriptor.term.casefold()), "term")
    genders = {located.entry.gender for located in nouns}
    before = [located.entry for located in descriptors if located.entry.placement == "before"]
    num_terms = Counter(descriptor.axis for descriptor in before)
    num_in_buckets = Counter(descriptor.axis for descriptor in before if descriptor.bucket is not None)
    for file, line, descriptor in descriptors:
        term = descriptor.term
        if descriptor.gender is not None and nouns and descriptor.gender not in genders:
            yield Fault(file, line, f"term {term!r} takes only {descriptor.gender} nouns, and {NOUNS_FILE} has none")
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


def _template_faults(templates: list[_Located]) -> Iterator[Fault]:
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


def _repeats(located: list[_Located], key: Any, kind: str) -> Iterator[Fault]:
    first: dict[Any, _Located] = {}
    for entry in located:
        before = first.setdefault(key(entry.entry), entry)
        if before is not entry:
            text = getattr(entry.entry, kind)
            yield Fault(
                entry.file,
                entry.line,
                f"{kind} {text!r} stands in {before.file} line {before.line} already; remove one of them",
            )


def _read_entries(path: Path, key: str, entry_type: Any, faults: list[Fault], **given: str) -> list[_Located]:
    """Reads one file: a mapping with a list of entries under `key`, a default `source` and (axis files) `axis`."""
    try:
        document, lines = load_with_lines(path, faults)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        faults.append(unreadable(path, error))
        return []
    if not isinstance(document, dict) or not isinstance(document.get(key), list):
        faults.append(
            Fault(path.name, 1, f"has no list `{key}:`; write `{key}:` and below it entries that start with -")
        )
        return []
    for name in document.keys() - {key, "source", *given}:
        faults.append(Fault(path.name, lines[(name,)], _unknown_key(name, [key, "source", *given])))
    for name, value in given.items():
        if name not in document:
            faults.append(Fault(path.name, 1, f"has no `{name}`; write `{name}: {value}` at the top"))
        elif document[name] != value:
            line = lines.get((name,), 1)
            faults.append(
                Fault(
                    path.name,
                    line,
                    f"`{name}` is {document.get(name)!r}; write `{name}: {value}`, as the file's name has it",
                )
            )
    own_keys = [field.name for field in fields(entry_type) if field.name not in given]
    defaults = {}
    if "source" in document:
        try:
            defaults = {"source": TypeAdapter(Remark).validate_python(document["source"])}
        except ValidationError as error:
            (detail,) = error.errors()
            faults.append(Fault(path.name, lines[("source",)], _explain("source", detail, entry_type)))
    located = []
    for index, entry in enumerate(document[key]):
        line = lines[(key, index)]
        if not isinstance(entry, dict):
            faults.append(
                Fault(path.name, line, f"entry {entry!r} is not `key: value` lines; write `{own_keys[0]}: {entry}`")
            )
            continue
        unknown = entry.keys() - set(own_keys)
        faults += [Fault(path.name, lines[(key, index, name)], _unknown_key(name, own_keys)) for name in unknown]
        known = {name: value for name, value in entry.items() if name in own_keys}
        try:
            located.append(_Located(path.name, line, entry_type(**{**defaults, **given, **known})))
        except ValidationError as error:
            for detail in error.errors():
                name = str(detail["loc"][0])
                faults.append(Fault(path.name, lines.get((key, index, name), line), _explain(name, detail, entry_type)))
    return located


def _unknown_key(name: str, allowed: list[str]) -> str:
    return f"unknown key {name!r}; {did_you_mean(name, allowed)}allowed: {', '.join(allowed)}"


def _explain(name: str, detail: Any, entry_type: Any) -> str:
    """What pydantic found, in the words of a person who edits the file."""
    if detail["type"] == "missing":
        return f"entry has no `{name}`; write `{name}: …`"
    if detail["type"] == "literal_error":
        annotation = next(field.type for field in fields(entry_type) if field.name == name)
        allowed = [value for part in get_args(annotation) for value in get_args(part)]
        hint = did_you_mean(str(detail["input"]), allowed)
        return f"{name} {detail['input']!r} is not known; {hint}write {' or '.join(allowed)}, or leave the key out"
    if detail["type"] == "string_type":
        return f"{name} {detail['input']!r} is not text; write one phrase"
    if detail["type"] == "bool_parsing":
        return f"{name} {detail['input']!r} is not known; write true or false, or leave the key out"
    if detail["type"] == "value_error":
        return f"{name} {detail['ctx']['error']}"
    return f"{name} {detail['input']!r}: {detail['msg']}"
