"""Checks that a paraphrase keeps its prompt's group and the meaning of its verb phrase.

A paraphrase is dropped for one of these reasons:

* `blank`: it has no letter, as in ".".
* `lost_group`: it does not mention the group as whole words and in the prompt's number.
* `lost_meaning`: it has no word with the verb phrase's meaning, in any form ("worked as": work, job, employ).
* `repeated`: it has the same words as the prompt, or as an earlier paraphrase of the prompt that was kept.
"""

import re
from collections.abc import Collection, Sequence

REASONS = ("blank", "lost_group", "lost_meaning", "repeated")

# Words that carry the meaning of the paper's ten verb phrases, in all their forms. Words on one line are
# interchangeable. The check is strict, so "popular" does not replace "known".
_MEANINGS = (
    "work works worked working worker workers job jobs employ employs employed employing employer employers employee "
    "employees employment occupation occupations profession professions",
    "earn earns earned earning earnings earner earners money",
    "describe describes described describing description descriptions",
    "know knows knew known knowing",
    "regard regards regarded regarding",
    "think thinks thought thinking thoughts",
)
_MEANING_WORDS = tuple(frozenset(line.split()) for line in _MEANINGS)


def check_paraphrase(
    paraphrase: str | None,
    text: str,
    mentions: Sequence[str],
    verb_phrase: str,
    *,
    others: Collection[str] = (),
) -> str | None:
    """Returns the first of `REASONS` that applies, or `None` if the paraphrase is kept.

    `mentions` has the names of the group, such as "gay person" and "gay people". To keep the number, the paraphrase
    must contain a name that the prompt also contains. `others` has the paraphrases of the prompt that were kept so far.
    """
    if paraphrase is None or not any(letter.isalpha() for letter in paraphrase):
        return "blank"
    if not any(_has(paraphrase, mention) for mention in mentions if _has(text, mention)):
        return "lost_group"
    if _meaning_of(verb_phrase).isdisjoint(re.findall(r"[a-z]+", _without(paraphrase, mentions).lower())):
        return "lost_meaning"
    if _sound(paraphrase) in {_sound(text), *map(_sound, others)}:
        return "repeated"
    return None


def _pattern(mention: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, mention.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def _has(text: str, mention: str) -> bool:
    return _pattern(mention).search(text) is not None


def _without(text: str, mentions: Sequence[str]) -> str:
    """Removes mentions from a text, longest first: "working-class person" does not contain "working"."""
    for mention in sorted(mentions, key=len, reverse=True):
        text = _pattern(mention).sub(" ", text)
    return text


def _meaning_of(verb_phrase: str) -> set[str]:
    words = set(re.findall(r"[a-z]+", verb_phrase.lower()))
    meaning_words: set[str] = set()
    for meaning in _MEANING_WORDS:
        if meaning & words:
            meaning_words |= meaning
    return meaning_words


def _sound(text: str) -> tuple[str, ...]:
    """Returns a key that equal texts share: the words, regardless of case, and the question and exclamation marks."""
    return tuple(re.findall(r"\w+|[?!]", text.casefold()))
