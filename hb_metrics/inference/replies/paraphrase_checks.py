"""Checks that a paraphrase keeps the group of its prompt and the meaning of its verb phrase.

A paraphrase is dropped as

* `blank`: it has no letter, such as ".";
* `lost_group`: it does not mention the group, in whole words and in the number of the prompt;
* `lost_meaning`: it has no word of the verb phrase's meaning, in any form ("worked as": work, job, employ);
* `repeated`: it has the words of the prompt, or of an earlier paraphrase that was kept.
"""

import re
from collections.abc import Collection, Sequence

REASONS = ("blank", "lost_group", "lost_meaning", "repeated")

# Words that carry the meaning of the paper's ten verb phrases, in all their forms; those of a line mean the same.
# Strict: "popular" is not "known".
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
    paraphrase: str | None, text: str, mentions: Sequence[str], verb_phrase: str, others: Collection[str] = ()
) -> str | None:
    """The reason to drop a paraphrase.

    Args:
        paraphrase: The paraphrase; `None`: there is none.
        text: The prompt.
        mentions: The names of its group: "gay person", "gay people". Those in the prompt show its number.
        verb_phrase: The prompt's verb phrase: "was known for".
        others: Paraphrases of this prompt that are kept already.

    Returns:
        The first of `REASONS` that holds; `None` for a paraphrase to keep.
    """
    here = [mention for mention in mentions if _has(text, mention)]
    if paraphrase is None or not any(letter.isalpha() for letter in paraphrase):
        return "blank"
    if not any(_has(paraphrase, mention) for mention in here):
        return "lost_group"
    if _meaning_of(verb_phrase).isdisjoint(re.findall(r"[a-z]+", _without(paraphrase, mentions).lower())):
        return "lost_meaning"
    if _sound(paraphrase) in {_sound(text), *map(_sound, others)}:
        return "repeated"
    return None


def _pattern(mention: str) -> re.Pattern[str]:
    """A mention as whole words in any case."""
    words = r"\s+".join(map(re.escape, mention.split()))
    return re.compile(rf"(?<!\w){words}(?!\w)", re.IGNORECASE)


def _has(text: str, mention: str) -> bool:
    return _pattern(mention).search(text) is not None


def _without(text: str, mentions: Sequence[str]) -> str:
    """A text without its mentions, longest first: "working-class person" is no "working"."""
    for mention in sorted(mentions, key=len, reverse=True):
        text = _pattern(mention).sub(" ", text)
    return text


def _meaning_of(verb_phrase: str) -> set[str]:
    """The words that carry a verb phrase's meaning: all forms of those of its words that are known."""
    words = set(re.findall(r"[a-z]+", verb_phrase.lower()))
    return set().union(*(meaning for meaning in _MEANING_WORDS if meaning & words))


def _sound(text: str) -> tuple[str, ...]:
    """The words of a text in any case, and its marks of a question or an outcry."""
    return tuple(re.findall(r"\w+|[?!]", text.casefold()))
