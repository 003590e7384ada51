"""The grammar of structured prompts: syntactic structures and verb phrases, read, checked and put into words.

A prompt begins a sentence about a group and leaves its end to the model ("The woman worked as"; Sheng et al., 2019).
Aggarwal et al. (2022) had a model paraphrase each into a hundred structures; here a grammar writes them
(`structures/structures.yaml`), so that group, number and verb phrase are kept by construction.
"""

import hashlib
import re
from collections.abc import Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import AfterValidator
from pydantic.dataclasses import dataclass

from hb_dataset.hints import did_you_mean
from hb_dataset.noun_phrases import at_sentence_start
from hb_dataset.prompt_groups import PromptGroup
from hb_dataset.yaml_entries import STRICT_KEYS, Located, Remark, Text, read_entries, repeat_faults
from hb_dataset.yaml_lines import Fault, FaultsError

STRUCTURES_DIR = Path(__file__).parent / "structures"
STRUCTURES_FILE = "structures.yaml"
VERB_PHRASES_FILE = "verb_phrases.yaml"
FIXED_STRUCTURE = "original"
SINGULAR_SLOTS = ("the", "a", "this", "that", "bare")
PLURAL_SLOT = "plural"
VERB_SLOTS = ("past", "present", "base", "participle", "rest")
OTHER_SLOTS = ("did", "didnt", "does", "has", "what", "gap")
PREDICATE_SLOT = "predicate"
# Labels of the Penn Treebank's bracketing guidelines: of clauses, of phrases, and of words that are children of a
# clause.
CLAUSES = ("S", "SBAR", "SBARQ", "SINV", "SQ", "FRAG", "NP", "PP", "ADVP", "INTJ", "UCP")
LABELS = (
    *CLAUSES,
    *("ADJP", "CONJP", "PRN", "PRT", "QP", "VP", "WHADJP", "WHADVP", "WHNP", "WHPP"),
    *("CC", "IN", "MD", "RB", "VBD", "VBP", "VBZ", ".", ",", ":"),
)

ONE_FIXED_FAULT = (
    f"there must be one fixed prompt, with the id and the kind `{FIXED_STRUCTURE}`; {{number}} have the kind"
)

Kind = Literal["original", "declarative", "interrogative"]
PromptType = Literal["occupation", "respect"]
Number = Literal["singular", "plural"]

_SLOT = re.compile(r"\{([^{}]*)\}")
_PARSE = re.compile(r"\(ROOT \((\S+)((?: \(\S+ \))+)\)\)")


class StructureError(FaultsError):
    """A grammar with faults. `faults` holds them all."""

    kind = "structures"


def _check_id(value: str) -> str:
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", value):
        remedy = re.sub(r"[^a-z0-9]+", "-", value.lower()).strip("-") or "a-name-like-this"
        raise ValueError(f"{value!r} is not a lower-case name with hyphens; write {remedy!r}")
    return value


Slug = Annotated[str, AfterValidator(_check_id)]


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class VerbPhrase:
    """A verb phrase of the fixed prompts in all its forms (paper, section 2); of pairs, the singular comes first.

    Attributes:
        verb_phrase: The form in the fixed prompt: `"worked as"`, `"was known for"`.
        prompt_type: `"occupation"` or `"respect"`.
        past: `"was known for"`, `"were known for"`.
        present: `"is known for"`, `"are known for"`.
        base: The infinitive: `"have a job as"`, `"have jobs as"`.
        participle: After "have": `"had a job as"`, `"had jobs as"`.
        did: The verb before the subject of a question in the past: `"did"`, or a form of "be".
        didnt: The same with "not".
        does: The same in the present.
        rest: The words after the subject of such a question: `"have a job as"`, `"have jobs as"`.
        predicate: The Penn label of `rest`.
        content: The words that all forms have in common, and that no paraphrase may lose: `"known"`.
        gap: The words after the verb phrase where it is asked about: "What did the woman earn money by doing?".
        what: The question words where "what" would be stilted: `"what kind of job"`, `"what kinds of jobs"`.
        taken: The end of each form, which `what` replaces: "What kind of job did the woman have?".
        note: A remark for readers.
        source: Where it comes from.
    """

    verb_phrase: Text
    prompt_type: PromptType
    past: tuple[Text, Text]
    present: tuple[Text, Text]
    base: tuple[Text, Text]
    participle: tuple[Text, Text]
    did: tuple[Text, Text]
    didnt: tuple[Text, Text]
    does: tuple[Text, Text]
    rest: tuple[Text, Text]
    predicate: Literal["VP", "ADJP"]
    content: Text
    gap: Text | None = None
    what: tuple[Text, Text] | None = None
    taken: tuple[Text, Text] | None = None
    note: Remark | None = None
    source: Remark | None = None


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class Structure:
    """A syntactic structure of prompts.

    Attributes:
        id: Its name.
        kind: `"original"` (the fixed prompt), `"declarative"` or `"interrogative"`.
        parse: The constituency parse at height 2 in Penn notation; `{predicate}` is a slot for the verb phrase's label.
        pattern: The words, with slots for the noun phrase and the forms of the verb phrase.
        generalizes: Whether it is about the whole group, in the plural ("women").
        note: A remark for readers.
        source: Where it comes from.
    """

    id: Slug
    kind: Kind
    parse: Text
    pattern: Text
    generalizes: bool = False
    note: Remark | None = None
    source: Remark | None = None

    @property
    def number(self) -> Number:
        """The number of the noun phrase, and so of the verb."""
        return "plural" if self.generalizes else "singular"


class RealisedPrompt(NamedTuple):
    """A structure in words: the text, and the noun phrase as written in it."""

    text: str
    noun_phrase: str


def realise(structure: Structure, verb_phrase: VerbPhrase, group: PromptGroup) -> RealisedPrompt:
    """Puts a structure into words for a verb phrase and a group.

    Args:
        structure: The structure.
        verb_phrase: The verb phrase.
        group: The group that the prompt is about.

    Returns:
        The text, without white space at its ends, and the noun phrase in it with its determiner. Both start in upper
        case where they start the sentence.
    """
    plural = int(structure.generalizes)
    has_what = "what" in _SLOT.findall(structure.pattern)
    taken = f" {verb_phrase.taken[plural]}" if has_what and verb_phrase.taken else ""
    words = {
        "the": f"the {group.singular}",
        "a": group.indefinite,
        "this": f"this {group.singular}",
        "that": f"that {group.singular}",
        "bare": group.singular,
        "plural": group.plural,
        **{name: getattr(verb_phrase, name)[plural].removesuffix(taken) for name in VERB_SLOTS},
        "did": verb_phrase.did[plural],
        "didnt": verb_phrase.didnt[plural],
        "does": verb_phrase.does[plural],
        "has": ("has", "have")[plural],
        "what": verb_phrase.what[plural] if verb_phrase.what else "what",
        "gap": f" {verb_phrase.gap}" if verb_phrase.gap else "",
    }
    slot = noun_phrase_slot(structure)
    phrase = at_sentence_start(words[slot]) if structure.pattern.startswith(f"{{{slot}}}") else words[slot]
    return RealisedPrompt(at_sentence_start(_SLOT.sub(lambda match: words[match[1]], structure.pattern)), phrase)


def parse_of(structure: Structure, verb_phrase: VerbPhrase) -> str:
    """The parse of a structure with this verb phrase, e.g. `(ROOT (S (NP ) (VP )))`."""
    return structure.parse.replace(f"{{{PREDICATE_SLOT}}}", verb_phrase.predicate)


def noun_phrase_slot(structure: Structure) -> str:
    """The slot that takes the noun phrase, such as `"the"`."""
    return next(name for name in _SLOT.findall(structure.pattern) if name in (*SINGULAR_SLOTS, PLURAL_SLOT))


@cache
def read_structures(folder: Path = STRUCTURES_DIR) -> tuple[Structure, ...]:
    """The structures, in the order of the file: the fixed prompt's, then declarative ones, then interrogative ones.

    Args:
        folder: The folder with `structures.yaml`.

    Raises:
        StructureError: Something in it is wrong; the message lists every fault with file and line.
    """
    faults: list[Fault] = []
    located = read_entries(folder / STRUCTURES_FILE, "structures", Structure, faults)
    faults += _structure_faults(located)
    if faults:
        raise StructureError(folder, sorted(faults))
    return tuple(structure.entry for structure in located)


@cache
def read_verb_phrases(folder: Path = STRUCTURES_DIR) -> tuple[VerbPhrase, ...]:
    """The verb phrases, in the order of the file.

    Args:
        folder: The folder with `verb_phrases.yaml`.

    Raises:
        StructureError: Something in it is wrong; the message lists every fault with file and line.
    """
    faults: list[Fault] = []
    located = read_entries(folder / VERB_PHRASES_FILE, "verb_phrases", VerbPhrase, faults)
    faults += repeat_faults(located, "verb_phrase")
    faults += _verb_phrase_faults(located)
    if faults:
        raise StructureError(folder, sorted(faults))
    return tuple(verb_phrase.entry for verb_phrase in located)


def structures_digest(folder: Path = STRUCTURES_DIR) -> str:
    """SHA-256 (hex) of the files that structured prompts are made from."""
    files = sorted(folder.glob("*.yaml"))
    return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()


def _structure_faults(located: list[Located]) -> Iterator[Fault]:
    """Faults inside a pattern or parse, structures that are repeated, and other than one fixed prompt."""
    yield from repeat_faults(located, "id")
    yield from repeat_faults(located, "pattern")
    fixed = [structure for structure in located if structure.entry.kind == "original"]
    if located and (len(fixed) != 1 or fixed[0].entry.id != FIXED_STRUCTURE):
        file, line, _ = fixed[-1] if fixed else located[0]
        yield Fault(file, line, ONE_FIXED_FAULT.format(number=len(fixed)))
    for file, line, structure in located:
        for message in (*_pattern_faults(structure), *_parse_faults(structure.parse)):
            yield Fault(file, line, f"structure {structure.id!r}: {message}")


def _verb_phrase_faults(located: list[Located]) -> Iterator[Fault]:
    for file, line, entry in located:
        if entry.past[0] != entry.verb_phrase:
            message = f"the first `past` is {entry.past[0]!r}; write {entry.verb_phrase!r}, the verb phrase"
            yield Fault(file, line, message)
        if (entry.what is None) != (entry.taken is None):
            yield Fault(file, line, f"{entry.verb_phrase!r} has one of `what` and `taken`; write both, or none")
        for name in VERB_SLOTS:
            for number, form in enumerate(getattr(entry, name)):
                if entry.taken is not None and not form.endswith(f" {entry.taken[number]}"):
                    yield Fault(file, line, f"{name} {form!r} does not end in {entry.taken[number]!r}; correct one")
                if not all(word in form for word in entry.content.split(" ")):
                    yield Fault(file, line, f"{name} {form!r} does not have the content {entry.content!r}; correct one")


def _pattern_faults(structure: Structure) -> Iterator[str]:
    allowed = (*SINGULAR_SLOTS, PLURAL_SLOT, *VERB_SLOTS, *OTHER_SLOTS)
    slots = _SLOT.findall(structure.pattern)
    for slot in slots:
        if slot not in allowed:
            yield f"the pattern has the unknown slot {{{slot}}}; {did_you_mean(slot, allowed)}allowed: {_list(allowed)}"
    if re.search(r"[{}]", _SLOT.sub("", structure.pattern)):
        yield "the pattern has a brace that is not part of a slot; write {the}, {past}, …"
    phrases = [slot for slot in slots if slot in (*SINGULAR_SLOTS, PLURAL_SLOT)]
    if len(phrases) != 1:
        yield f"the pattern has {len(phrases)} noun phrases; write one of {_list((*SINGULAR_SLOTS, PLURAL_SLOT))}"
    elif (phrases[0] == PLURAL_SLOT) != structure.generalizes:
        slot = phrases[0]
        instead = "remove it" if structure.generalizes else "add `generalizes: true`"
        yield f"{{{slot}}} and `generalizes: {str(structure.generalizes).lower()}` do not agree; {instead}"
    if sum(slot in VERB_SLOTS for slot in slots) != 1:
        yield f"the pattern must have one verb phrase; write one of {_list(VERB_SLOTS)}"
    if ("rest" in slots) != bool({"did", "didnt", "does"} & set(slots)):
        yield "{rest} needs {did}, {didnt} or {does} before it, and these need {rest}; write both"


def _parse_faults(parse: str) -> Iterator[str]:
    match = _PARSE.fullmatch(parse)
    if match is None:
        yield f"the parse {parse!r} is not of height 2; write (ROOT (S (NP ) (VP ))), all with one space"
        return
    if match[1] not in CLAUSES:
        yield f"the parse has the clause label {match[1]!r}; allowed: {' '.join(CLAUSES)}"
    for label in re.findall(r"\((\S+) \)", match[2]):
        if label not in LABELS and label != f"{{{PREDICATE_SLOT}}}":
            yield f"the parse has the label {label!r}; allowed: {' '.join(LABELS)}"


def _list(slots: Collection[str]) -> str:
    return ", ".join(f"{{{slot}}}" for slot in slots)
