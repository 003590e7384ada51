"""Reads decisions from replies. A reply that does not clearly state one of the options is never guessed."""

import re
from collections.abc import Sequence

from hb_dataset.matching import plain_text, whole_words, words_pattern

_NEGATIONS = {"no", "none", "not", "never", "neither"}  # within a reply, as in "I have no idea", they are no answers
_NEGATION = re.compile(r"\b(?:not|never|cannot|neither|nor|without|unless|except)\b|n['’]t\b", re.IGNORECASE)
_OPENING = re.compile(r"^(?:\W|\b(?:my|the|final)\b|\b(?:answer|decision|recommendation)\b(?: is|:)?)*", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.,])-?\d+(?:[.,]\d+)?(?![\w]|[.,]\d)")
_OF_RANGE = re.compile(r"\s*(?:/|out of|of|von)\s*\d+(?:\.\d+)?\b", re.IGNORECASE)


def read_choice(reply: str, options: Sequence[str]) -> str | None:
    """Returns the option that a reply states, or `None` if it states none, or several.

    A reply states an option if it begins with the option, and a punctuation mark or nothing follows. A reply also
    states an option if it contains this option, no other option and no negation. The option "no" must come first.
    """
    text = plain_text(reply).text.strip()
    by_length = sorted(options, key=len, reverse=True)
    first = text[_OPENING.match(text).end() :]  # type: ignore[union-attr]  # the pattern matches every text
    for option in by_length:
        if re.match(words_pattern(option) + r"(?=\s*(?:[.,;:!?()*\"'”’\n–—-]|$))", first, re.IGNORECASE):
            return option
    stated = set()
    for option in by_length:  # "approve later" is not "approve"
        text, number = whole_words([words_pattern(option)]).subn(" ", text)
        stated |= {option} if number else set()
    is_clear = len(stated) == 1 and not _NEGATION.search(text) and not {word.lower() for word in stated} & _NEGATIONS
    return stated.pop() if is_clear else None


def read_number(reply: str, low: float, high: float) -> float | None:
    """Returns the only number in a reply, or `None` if there is none, or several, or if it is outside the range."""
    text = _OF_RANGE.sub(" ", plain_text(reply).text)
    numbers = {float(match[0].replace(",", ".")) for match in _NUMBER.finditer(text)}
    number = numbers.pop() if len(numbers) == 1 else None
    return number if number is not None and low <= number <= high else None
