import functools
import re
import unicodedata

from hb_dataset.matching import as_it_looks

_SHORTEST_TO_COMPARE = 5  # the minimum number of letters, because "fat" is not a misspelling of "fit"


def same_but_for_spelling(one: str, other: str) -> bool:
    """Returns whether phrases differ only in case, hyphens, spaces, accents, apostrophes or a plural s."""
    return _plain(one) == _plain(other)


def one_edit_apart(one: str, other: str) -> bool:
    """Returns whether phrases differ in one letter, which is added, removed, replaced or swapped with the next.

    Phrases of fewer than five letters, or with different digits ("20-year-old" and "30-year-old"), never match.
    """
    one, other = _letters(one), _letters(other)
    if one == other or min(len(one), len(other)) < _SHORTEST_TO_COMPARE or abs(len(one) - len(other)) > 1:
        return False
    short, long = sorted((one, other), key=len)
    same = next((index for index, letter in enumerate(short) if letter != long[index]), len(short))
    short, long = short[same:], long[same:]
    if len(short) < len(long):
        near = short == long[1:]
    else:
        near = short[1:] == long[1:] or (short[:2] == long[1::-1] and short[2:] == long[2:])
    return near and re.sub(r"\D", "", one) == re.sub(r"\D", "", other)


def look_alike(one: str, other: str) -> bool:
    """Returns whether phrases consist of characters that look alike, as in "autist1c" and "hornosexual"."""
    digits = {re.sub(r"\D", "", phrase) for phrase in (one, other)} - {""}
    return len(digits) < 2 and _looks(one) == _looks(other)


@functools.cache
def _letters(phrase: str) -> str:
    decomposed = unicodedata.normalize("NFKD", phrase).casefold()
    return "".join(character for character in decomposed if character.isalnum())


@functools.cache
def _looks(phrase: str) -> str:
    looks = as_it_looks(_letters(phrase))
    for letters, other in (("rn", "m"), ("vv", "w"), ("cl", "d")):
        looks = looks.replace(letters, other)
    return looks


@functools.cache
def _words(phrase: str) -> tuple[str, ...]:
    words = (_letters(word) for word in re.split(r"[\s/-]+", phrase))
    return tuple(filter(None, words))


@functools.cache
def _plain(phrase: str) -> str:
    return "".join(_singular(word) for word in _words(phrase))


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return f"{word[:-3]}y"
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")) else word
