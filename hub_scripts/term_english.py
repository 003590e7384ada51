"""Spoken English: the article that a word takes by its sound, and the plurals of verbs.

It builds on `inflect`, and corrects its mistakes in words about people: numbers ("an 80-year-old"), letters that are
read one by one ("an F2M", "an HIV-positive"), and a few words.
"""

import functools
import re
import unicodedata
from typing import TYPE_CHECKING

from hb_dataset.vocabulary_entries import Article

if TYPE_CHECKING:
    import inflect

# The letters whose names start with a vowel: "eff", "aitch", "em", …
_VOWEL_NAMES = frozenset("AEFHILMNORSX")
_BOTH: frozenset[Article] = frozenset(("a", "an"))
# First words whose pronunciation differs from inflect's ("wee-gur", "wa-ha-kan") or varies.
_PRONOUNCED: dict[str, frozenset[Article]] = {
    "uyghur": frozenset(("a",)),
    "uighur": frozenset(("a",)),
    "uygur": frozenset(("a",)),
    "oaxacan": frozenset(("a",)),
    "ewe": _BOTH,
    "herbal": _BOTH,
    "historic": _BOTH,
    "historical": _BOTH,
    "mx": _BOTH,
}
# Read letter by letter, although they could be words.
_SPELLED = frozenset(("HIV", "US", "USA", "UK", "EU", "UN", "UAE", "OCD", "ADHD", "IDD", "ASL", "ESL"))


def sound_articles(phrase: str) -> frozenset[Article]:
    """The articles for a phrase by the sound of its first word; both if the word has two pronunciations.

    Args:
        phrase: A term before its noun, or a noun.
    """
    word = re.split(r"[\s/-]", phrase.lstrip("\"'(“‘"), maxsplit=1)[0]
    word = "".join(letter for letter in unicodedata.normalize("NFKD", word) if not unicodedata.combining(letter))
    if match := re.match(r"\d[\d,]*", word):
        return frozenset((_by_number(match[0].replace(",", "")),))
    if not re.match("[A-Za-z]", word):
        return _BOTH
    letters = re.match(r"[A-Za-z]*", word)
    assert letters is not None
    if word.rstrip(".").casefold() in _PRONOUNCED:
        return _PRONOUNCED[word.rstrip(".").casefold()]
    spelled: Article = "an" if word[0].upper() in _VOWEL_NAMES else "a"
    # F2M, U.S., F-1, FtM and nb are read by letters; NASA, NIMBY and LGBT by letters or, if possible, as a word.
    if (
        re.match(r"[A-Za-z]\d|([A-Za-z]\.)+$|[A-Za-z]$|[A-Z][a-z][A-Z]s?$", word)
        or letters[0].upper() in _SPELLED
        or not re.search("[aeiouy]", letters[0], re.IGNORECASE)
    ):
        return frozenset((spelled,))
    as_word = _by_word(word.lower())
    return frozenset((spelled, as_word)) if re.match(r"[A-Z]{2,}(?![a-z]{2})", word) else frozenset((_by_word(word),))


def verb_after_plural(verb: str) -> str:
    """The form of a verb after a plural: "uses" → "use", "is" → "are", "incurred" → "incurred"."""
    return _engine().plural_verb(verb)


def _by_word(word: str) -> Article:
    return "an" if _engine().a(word).startswith("an ") else "a"


def _by_number(digits: str) -> Article:
    """The article of a number by its sound: "eleven", "eighty", "eighteen hundred" begin with a vowel."""
    if len(digits) == 4 and digits[0] == "1" and digits[1] != "0":
        digits = digits[:2]  # years: "nineteen …", "eighteen …"
    return _by_word(str(_engine().number_to_words(digits)))


@functools.cache
def _engine() -> "inflect.engine":
    import inflect  # takes more than a second, and is needed only for new entries

    return inflect.engine()
