"""Checks the characters and lengths of texts in a vocabulary, and defines their types. Each fault states a correction.

Anyone may propose words, and both models and people read these words in sentences. The checks therefore reject
look-alike letters from other scripts, invisible characters, pictures, markup, addresses and slots.
"""

import re
import unicodedata
from collections.abc import Callable
from typing import Annotated

from pydantic import AfterValidator, ConfigDict
from pydantic.dataclasses import dataclass

WORDS_SIGNS = "-'.,/+"
SENTENCE_SIGNS = WORDS_SIGNS + '?!:;"{}'  # the checks of templates report braces outside a slot
MAX_WORDS_CHARACTERS = 60  # the longest entry has 37 characters
MAX_SENTENCE_CHARACTERS = 160  # the longest template has 50 characters
MAX_REMARK_CHARACTERS = 1_000
_TYPOGRAPHIC = {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "‐": "-", "‑": "-"}
# Invisible characters that are not in the categories C and Z, because Unicode classifies them as letters or marks. They
# have the property Default_Ignorable_Code_Point.
IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
_PLAIN = re.compile(r"[A-Za-z0-9 '-]*")
# ʻ and ʼ, clicks and the glottal stop, as in Hawaiʻi and ǃKung.
_LATIN = re.compile(
    r"LATIN (SMALL|CAPITAL) (LETTER|LIGATURE) |LATIN LETTER (\w+ CLICK|GLOTTAL STOP)$"
    r"|MODIFIER LETTER (TURNED COMMA|APOSTROPHE)$"
)
_MARKS = re.compile(
    "[\u0300-\u0315\u031b\u0323-\u0331]"
)  # marks on letters for which Unicode has no precomposed character
_ACCENTS = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")
# Letters that Unicode does not decompose into a letter and a mark.
_WITHOUT_MARKS = str.maketrans(
    {"ł": "l", "Ł": "L", "ø": "o", "Ø": "O", "đ": "d", "Đ": "D", "æ": "ae", "Æ": "Ae", "œ": "oe", "Œ": "Oe", "ı": "i"}
)
_SLOT = re.compile(r"\{[^{}]*\}?")
_DETERMINER = r"an?|the|this|each|every|another|some|any|no|my|your|our|his|her|its|their|whose|\{their\}"
# "That" is none of these, because it may begin a clause: "I think that a Deaf woman …".
DETERMINER = re.compile(rf"(?<!\w)({_DETERMINER}) ?$", re.IGNORECASE)
# A determiner, which may be "that", with up to three words after it, such as "our best".
OPEN_PHRASE = re.compile(rf"(?<!\w)({_DETERMINER}|that)( [\w’'-]+){{0,3}} ?$", re.IGNORECASE)
# After an abbreviation, or a line that ends in one of these words or signs, a sentence continues.
_CONTINUES = re.compile(
    r"(\b(e\.g|i\.e|vs|etc|cf|approx|Mr|Mrs|Ms|Mx|Dr|Prof|St)\.|[,;–—-]|"
    r"\b(an?|the|is|are|was|were|from|by|with|and|or|of|for|to|that|than|about|as|like|who|whether|if|because))$"
)
_OPENING = " \t\"'“‘«([*_>#•-"
_ADDRESS = re.compile(r"www\.|://|[a-z0-9-]\.[a-z]{2,}", re.IGNORECASE)


def unaccented(text: str) -> str:
    """Returns Latin letters without marks: "José" becomes "Jose", and "Łukasz" becomes "Lukasz"."""
    letters = unicodedata.normalize("NFD", text.translate(_WITHOUT_MARKS))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", letters))


def starts_sentence(before: str) -> bool:
    """Returns whether a sentence or a line begins after a text."""
    text = before.rstrip(_OPENING)
    if not text.strip():
        return True
    line_ends = text.rstrip() != text
    text = text.rstrip().rstrip("\"'”’»)]*_")
    if _CONTINUES.search(text):
        return "\n\n" in before[len(text) :]
    return line_ends or (text[-1:] in ".!?…" and before[-1:] in _OPENING)


def is_invisible(character: str) -> bool:
    return unicodedata.category(character)[0] in "CZ" or IGNORABLE.match(character) is not None


def text_fault(value: str) -> str | None:
    if not value.strip():
        return "is empty; write the words, or remove the key"
    for position, character in enumerate("" if _PLAIN.fullmatch(value) else value, start=1):
        code = f"(U+{ord(character):04X}) at character {position}"
        if character in _TYPOGRAPHIC:
            return f"has {character} {code}; write {_TYPOGRAPHIC[character]}"
        if character != " " and is_invisible(character):
            return f"has a control or invisible character {code}; remove it"
    if value != value.strip() or "  " in value:
        return f"has unnecessary white space; write {' '.join(value.split())!r}"
    if value != unicodedata.normalize("NFC", value):
        return f"is not in Unicode normal form C; write {unicodedata.normalize('NFC', value)!r}"
    return None


def words_fault(value: str) -> str | None:
    return _length_fault(value, MAX_WORDS_CHARACTERS) or text_fault(value) or _sign_fault(value, WORDS_SIGNS)


def sentence_fault(value: str, most: int = MAX_SENTENCE_CHARACTERS) -> str | None:
    without_slots = _SLOT.sub(lambda slot: "x" * len(slot[0]), value)
    return _length_fault(value, most) or text_fault(value) or _sign_fault(without_slots, SENTENCE_SIGNS)


def remark_fault(value: str) -> str | None:
    if not value.strip():
        return "is empty; write a text, or remove the key"
    for position, character in enumerate(value, start=1):
        space = character in "\n\t" or unicodedata.category(character) == "Zs"
        if not space and is_invisible(character):
            return f"has a control or invisible character (U+{ord(character):04X}) at character {position}; remove it"
    return _length_fault(value, MAX_REMARK_CHARACTERS)


def other_letters(value: str) -> list[str]:
    letters = dict.fromkeys(character for character in value if not character.isascii())
    return [f"{letter} ({unicodedata.name(letter, 'without a name').lower()})" for letter in letters]


def _length_fault(value: str, most: int) -> str | None:
    return f"has {len(value):,} characters; shorten it to at most {most:,}" if len(value) > most else None


def _sign_fault(value: str, signs: str) -> str | None:
    before = " "
    for position, character in enumerate("" if _PLAIN.fullmatch(value) else value, start=1):
        plain = character.isascii() and (character.isalnum() or character in signs or character == " ")
        if not plain and not _is_latin(character) and not (_MARKS.match(character) and _is_latin(before)):
            name = unicodedata.name(character, "without a name").capitalize()
            return (
                f"has {character} (U+{ord(character):04X}, {name}) at character {position}; write only Latin letters, "
                f"digits, spaces and {' '.join(signs)}"
            )
        before = character
    if not any(map(str.isalnum, value)):
        return "contains no letter; write a word"
    if _ADDRESS.search(value):
        return "looks like a web address; write words, and put addresses in `source`"
    return None


def _is_latin(character: str) -> bool:
    """Returns whether a character is a Latin letter. Compatibility forms (ﬁ, ſ, 𝐃, Ｄ, ᴅ) do not count."""
    if not character.isalpha() or unicodedata.normalize("NFKC", character) != character:
        return False
    return _LATIN.match(unicodedata.name(character, "")) is not None


def without(fault_of: Callable[[str], str | None]) -> AfterValidator:
    def check(value: str) -> str:
        if fault := fault_of(value):
            raise ValueError(fault)
        return value

    return AfterValidator(check)


def _key_fault(value: str) -> str | None:
    if re.fullmatch(r"[a-z][a-z0-9_]{0,39}", value):
        return None
    return (
        f"{value[:40]!r} is not a name of at most 40 lower-case letters, digits and underscores; write one, such as "
        "'after_the_noun'"
    )


Text = Annotated[str, without(text_fault)]
Words = Annotated[str, without(words_fault)]
Sentence = Annotated[str, without(sentence_fault)]
Remark = Annotated[str, without(remark_fault)]
Key = Annotated[str, without(_key_fault)]
STRICT_KEYS = ConfigDict(extra="forbid")


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class Remarked:
    """The keys that every entry may have."""

    note: Remark | None = None
    source: Remark | None = None
