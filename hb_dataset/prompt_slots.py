"""Splits the prompts that users wrote themselves at their slots."""

import re
from functools import lru_cache
from typing import NamedTuple

PRONOUN_SLOTS = ("they", "them", "their", "theirs", "themself")
PERSON_SLOTS = ("person", "people", "name")
SLOTS = (*PERSON_SLOTS, *PRONOUN_SLOTS, "options")
_BRACES = re.compile(r"(\{\{|\}\}|\{[^{}]*\})")
_DETERMINER = r"(?<!\w)(an?|the|this|that|each|every|another|some|any|no|my|your|our|his|her|its|their|whose|\{their\})"
DETERMINER = re.compile(rf"{_DETERMINER} ?$", re.IGNORECASE)
# An article or another determiner with up to three words after it, such as "our best".
OPEN_PHRASE = re.compile(rf"{_DETERMINER}( [\w’'-]+){{0,3}} ?$", re.IGNORECASE)
GENDERED = re.compile(r"\b(s?he|him|his|hers?|himself|herself)\b", re.IGNORECASE)
# After an abbreviation, or a line that ends in one of these words or signs, a sentence continues.
_CONTINUES = re.compile(
    r"(\b(e\.g|i\.e|vs|etc|cf|approx|Mr|Mrs|Ms|Mx|Dr|Prof|St)\.|[,;–—-]|"
    r"\b(an?|the|is|are|was|were|from|by|with|and|or|of|for|to|that|than|about|as|like|who|whether|if|because))$"
)
_OPENING = " \t\"'“‘«([*_>#•-"


class _Piece(NamedTuple):
    text: str  # the literal text, or the name of the slot
    is_slot: bool
    starts_sentence: bool


class ParsedPrompt(NamedTuple):
    pieces: tuple[_Piece, ...]
    slots: frozenset[str]


@lru_cache(maxsize=4096)
def parsed_prompt(prompt: str) -> ParsedPrompt:
    """Splits a prompt at its slots. Raises `ValueError` for an unknown slot or an unbalanced brace."""
    pieces: list[_Piece] = []
    before = ""
    for number, part in enumerate(_BRACES.split(prompt)):
        slot = part[1:-1] if number % 2 and part not in ("{{", "}}") else None
        if slot is None:
            if number % 2 == 0 and re.search(r"[{}]", part):
                raise ValueError("has a brace without its partner; write {{ or }} for a single brace")
            part = part[:1] if number % 2 else part
            pieces.append(_Piece(part, False, False))
            before += part
            continue
        if slot not in SLOTS:
            shown = f"'{{{slot}}}'" if re.fullmatch(r"\w{0,20}", slot) else "a pair of braces"
            allowed = ", ".join(f"{{{name}}}" for name in SLOTS)
            raise ValueError(f"has {shown}, which is not a slot; use {allowed}, and {{{{ and }}}} for single braces")
        if slot == "person" and (determiner := DETERMINER.search(before)):
            raise ValueError(f"has '{determiner[1]} {{person}}', but {{person}} has its own article; omit the word")
        pieces.append(_Piece(slot, True, _starts_sentence(before)))
        before += "{their}" if slot == "their" else "x"
    slots = frozenset(piece.text for piece in pieces if piece.is_slot)
    people = slots.intersection(PERSON_SLOTS)
    if "name" in people and len(people) > 1:
        raise ValueError("has {name} and {person} or {people}; use only one kind")
    if not people and slots.intersection(PRONOUN_SLOTS):
        raise ValueError("has a pronoun, but neither {person}, {people} nor {name}; add one of them")
    return ParsedPrompt(tuple(pieces), slots)


def _starts_sentence(before: str) -> bool:
    text = before.rstrip(_OPENING)
    if not text.strip():
        return True
    line_ends = text.rstrip() != text
    text = text.rstrip().rstrip("\"'”’»)]*_")
    if _CONTINUES.search(text):
        return "\n\n" in before[len(text) :]
    return line_ends or (text[-1:] in ".!?…" and before[-1:] in _OPENING)
