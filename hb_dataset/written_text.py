"""Which characters and how many a text in a vocabulary may have; each error names what to write instead.

The words become sentences that models read and people see, and anyone may propose them. So a term, a noun or a sentence
is made of Latin letters and little else: no letters of another script that look the same, no invisible characters, no
pictures, markup, addresses or slots, and no more words than such an entry needs. The meaning of a word is not checked.
"""

import re
import unicodedata

WORDS_SIGNS = "-'.,/+"
SENTENCE_SIGNS = WORDS_SIGNS + '?!:;"{}'  # braces outside a slot are reported with the template's other faults
MAX_WORDS_CHARACTERS = 60  # the longest of ours has 37
MAX_WORD_CHARACTERS = 30  # between spaces and hyphens; "underprivileged" has 15
MAX_SENTENCE_CHARACTERS = 160  # the longest of ours has 50
MAX_REMARK_CHARACTERS = 1_000
_TYPOGRAPHIC = {"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "‐": "-", "‑": "-"}
# Invisible, though their categories are those of letters, marks or unassigned characters: Unicode's property
# Default_Ignorable_Code_Point, without the characters of the categories C and Z.
_IGNORABLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
_PLAIN = re.compile(r"[A-Za-z0-9 '-]*")
# ʻ and ʼ, clicks and the glottal stop: Hawaiʻi, ǃKung.
_LATIN = re.compile(
    r"LATIN (SMALL|CAPITAL) (LETTER|LIGATURE) |LATIN LETTER (\w+ CLICK|GLOTTAL STOP)$"
    r"|MODIFIER LETTER (TURNED COMMA|APOSTROPHE)$"
)
_MARKS = re.compile("[\u0300-\u0315\u031b\u0323-\u0331]")  # on a letter, where Unicode has no one sign for both
_SLOT = re.compile(r"\{[^{}]*\}?")
_ADDRESS = re.compile(r"www\.|://|[a-z0-9-]\.[a-z]{2,}", re.IGNORECASE)


def is_invisible(character: str) -> bool:
    """Whether a character is shown as nothing or as a space."""
    return unicodedata.category(character)[0] in "CZ" or _IGNORABLE.match(character) is not None


def check_text(value: str) -> str:
    """Raises if a text of one line is empty or has typographic signs, invisible characters or stray white space.

    Returns:
        The text.

    Raises:
        ValueError: The message names the fault, its position, and what to write.
    """
    if not value.strip():
        raise ValueError("is empty; write the words, or leave the key out")
    if _PLAIN.fullmatch(value) is None:
        for position, character in enumerate(value, start=1):
            code = f"(U+{ord(character):04X}) at character {position}"
            if character in _TYPOGRAPHIC:
                raise ValueError(f"has {character} {code}; write {_TYPOGRAPHIC[character]}")
            if character != " " and is_invisible(character):
                raise ValueError(f"has a control or invisible character {code}; remove it")
    if value != value.strip() or "  " in value:
        raise ValueError(f"has stray white space; write {' '.join(value.split())!r}")
    if value != unicodedata.normalize("NFC", value):
        raise ValueError(f"is not in Unicode normal form C; write {unicodedata.normalize('NFC', value)!r} composed")
    return value


def check_words(value: str) -> str:
    """Raises ValueError, as `check_text` does, if a text cannot be a term or noun: a word or a short phrase."""
    _check_length(value, MAX_WORDS_CHARACTERS)
    check_text(value)
    _check_signs(value, WORDS_SIGNS)
    longest = max(re.split("[ -]", value), key=len)
    if len(longest) > MAX_WORD_CHARACTERS:
        raise ValueError(f"has a word of {len(longest)} characters; at most {MAX_WORD_CHARACTERS}")
    return value


def check_sentence(value: str) -> str:
    """Raises ValueError, as `check_text` does, if a text cannot be the sentence of a template, whatever its slots."""
    _check_length(value, MAX_SENTENCE_CHARACTERS)
    check_text(value)
    _check_signs(_SLOT.sub(lambda slot: "x" * len(slot[0]), value), SENTENCE_SIGNS)
    return value


def check_remark(value: str) -> str:
    """Raises ValueError if a note or source is empty, too long or has invisible characters; all else is allowed."""
    if not value.strip():
        raise ValueError("is empty; write something, or leave the key out")
    _check_length(value, MAX_REMARK_CHARACTERS)
    if value.isascii() and value.replace("\n", " ").replace("\t", " ").isprintable():  # most are, and soon seen to be
        return value
    for position, character in enumerate(value, start=1):
        space = character in "\n\t" or unicodedata.category(character) == "Zs"
        if not space and is_invisible(character):
            code = f"(U+{ord(character):04X}) at character {position}"
            raise ValueError(f"has a control or invisible character {code}; remove it")
    return value


def other_letters(value: str) -> list[str]:
    """The letters of a text other than a to z, with their names: they may be meant, or only look like others."""
    letters = dict.fromkeys(character for character in value if not character.isascii())
    return [f"{letter} ({unicodedata.name(letter, 'without a name').lower()})" for letter in letters]


def _check_length(value: str, most: int) -> None:
    if len(value) > most:
        raise ValueError(f"has {len(value):,} characters; at most {most:,}")


def _check_signs(value: str, signs: str) -> None:
    before = " "
    unusual = [] if _PLAIN.fullmatch(value) else enumerate(value, start=1)
    for position, character in unusual:
        plain = character.isascii() and (character.isalnum() or character in signs or character == " ")
        if not plain and not _is_latin(character) and not (_MARKS.match(character) and _is_latin(before)):
            number = f"U+{ord(character):04X}"
            if character.isalpha():
                named = f"{number}, {unicodedata.name(character, 'without a name').capitalize()}"
                raise ValueError(f"has the letter {character} ({named}) at character {position}; write Latin letters")
            allowed = f"letters, digits, spaces and {' '.join(signs)}"
            raise ValueError(f"has {character} ({number}) at character {position}; write with {allowed} alone")
        before = character
    if not any(map(str.isalnum, value)):
        raise ValueError("has no letter; write a word")
    if _ADDRESS.search(value):
        raise ValueError("looks like the address of a page; write words, and addresses in `source`")


def _is_latin(character: str) -> bool:
    """Whether a character is a Latin letter, and not a compatibility form of one (ﬁ, ſ, 𝐃, Ｄ, ᴅ)."""
    if not character.isalpha() or unicodedata.normalize("NFKC", character) != character:
        return False
    return _LATIN.match(unicodedata.name(character, "")) is not None
