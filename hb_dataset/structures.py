"""Writes structured prompts with a grammar of sentence structures and verb phrases.

A prompt begins a sentence about a group, such as "The woman worked as", and the model completes the sentence (Sheng et
al., 2019). Aggarwal et al. (2022) used a model to paraphrase each prompt. Here, a grammar makes the paraphrases, so
they always keep the group, number and verb phrase.
"""

import hashlib
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Literal

import pyarrow as pa
import yaml
from pydantic import TypeAdapter
from pydantic.dataclasses import dataclass

from hb_dataset.noun_phrases import at_sentence_start
from hb_dataset.prompt_groups import PromptGroup, find_groups
from hb_dataset.written_text import STRICT_KEYS, Remarked

STRUCTURES_DIR = Path(__file__).parent / "structures"
FIXED_STRUCTURE = "original"
NOUN_PHRASE_SLOTS = ("the", "a", "this", "that", "bare", "plural")
VERB_SLOTS = ("past", "present", "base", "participle", "rest", "did", "didnt", "does")

_SLOT = re.compile(r"\{([^{}]*)\}")


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class VerbPhrase(Remarked):
    """A verb phrase of the fixed prompts. Each pair is a singular and a plural form (see `verb_phrases.yaml`)."""

    verb_phrase: str
    prompt_type: Literal["occupation", "respect"]
    past: tuple[str, str]
    present: tuple[str, str]
    base: tuple[str, str]
    participle: tuple[str, str]
    did: tuple[str, str]
    didnt: tuple[str, str]
    does: tuple[str, str]
    rest: tuple[str, str]
    predicate: Literal["VP", "ADJP"]
    content: str
    gap: str | None = None
    what: tuple[str, str] | None = None
    taken: tuple[str, str] | None = None


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class Structure(Remarked):
    """A syntactic structure of prompts. `structures.yaml` explains the slots in its `pattern`."""

    id: str
    kind: Literal["original", "declarative", "interrogative"]
    parse: str
    pattern: str
    generalizes: bool = False


def realise(structure: Structure, verb_phrase: VerbPhrase, group: PromptGroup) -> tuple[str, str]:
    """Returns the text of a prompt, and its noun phrase."""
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
        "has": ("has", "have")[plural],
        "what": verb_phrase.what[plural] if verb_phrase.what else "what",
        "gap": f" {verb_phrase.gap}" if verb_phrase.gap else "",
    }
    slot = next(name for name in _SLOT.findall(structure.pattern) if name in NOUN_PHRASE_SLOTS)
    phrase = at_sentence_start(words[slot]) if structure.pattern.startswith(f"{{{slot}}}") else words[slot]
    return at_sentence_start(_SLOT.sub(lambda match: words[match[1]], structure.pattern)), phrase


def parse_of(structure: Structure, verb_phrase: VerbPhrase) -> str:
    return structure.parse.replace("{predicate}", verb_phrase.predicate)


@cache
def read_structures() -> tuple[Structure, ...]:
    """Reads the structures: the fixed prompts' structure, then declarative and then interrogative structures."""
    return TypeAdapter(tuple[Structure, ...]).validate_python(_read("structures.yaml")["structures"])


@cache
def read_verb_phrases() -> tuple[VerbPhrase, ...]:
    return TypeAdapter(tuple[VerbPhrase, ...]).validate_python(_read("verb_phrases.yaml")["verb_phrases"])


def _read(name: str) -> dict[str, list[dict]]:
    return yaml.safe_load((STRUCTURES_DIR / name).read_text(encoding="utf-8"))


def structures_digest() -> str:
    files = sorted(STRUCTURES_DIR.glob("*.yaml"))
    return hashlib.sha256(b"".join(file.name.encode() + file.read_bytes() for file in files)).hexdigest()


_TEXT_COLUMNS = "id text group noun_phrase number axis descriptor verb_phrase prompt_type structure kind parse"
STRUCTURED_SCHEMA = pa.schema([(name, pa.string()) for name in _TEXT_COLUMNS.split()] + [("generalizes", pa.bool_())])


def structured_prompt_table(
    groups: str | Path | PromptGroup | Sequence[str | PromptGroup] | None = None, *, fixed_only: bool = False
) -> pa.Table:
    """Builds the prompts about groups.

    Args:
        groups: The groups, terms of the vocabulary, or a file (see `find_groups`). `None` means the paper's six groups.
        fixed_only: If true, only the fixed structure is used, without the 100 other structures.

    Returns:
        A table with the columns of `STRUCTURED_SCHEMA`. The rows are sorted by group, then by verb phrase, and then by
        structure, each in the order of its file. An id contains all three: `"woman|worked as|cleft-it"`.

    Raises:
        ValueError: A group is unknown, or two groups are the same.
    """
    prompt_groups, _ = find_groups(groups)
    chosen = [structure for structure in read_structures() if not fixed_only or structure.id == FIXED_STRUCTURE]
    rows = []
    for group in prompt_groups:
        for verb_phrase in read_verb_phrases():
            for structure in chosen:
                text, noun_phrase = realise(structure, verb_phrase, group)
                rows.append(
                    {
                        "id": f"{group.name}|{verb_phrase.verb_phrase}|{structure.id}",
                        "text": text,
                        "group": group.name,
                        "noun_phrase": noun_phrase,
                        "number": "plural" if structure.generalizes else "singular",
                        "axis": group.axis,
                        "descriptor": group.descriptor,
                        "verb_phrase": verb_phrase.verb_phrase,
                        "prompt_type": verb_phrase.prompt_type,
                        "structure": structure.id,
                        "kind": structure.kind,
                        "parse": parse_of(structure, verb_phrase),
                        "generalizes": structure.generalizes,
                    }
                )
    return pa.Table.from_pylist(rows, STRUCTURED_SCHEMA)
