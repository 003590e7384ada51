"""Checks whether a paraphrase has the same group and the same verb meaning as its prompt.

A paraphrase is dropped for one of these reasons:

* `blank`: it contains no letter.
* `lost_group`: it does not name the group, or changes the group from singular to plural or from plural to singular.
* `lost_meaning`: it contains no word with the meaning of the verb phrase ("worked as": work, job, employ).
* `repeated`: it has the same words as the prompt, or as an earlier paraphrase of the prompt that was kept.
"""

import re
from collections.abc import Collection, Sequence

from hb_dataset.matching import plain_text, whole_words, words_pattern

REASONS = ("blank", "lost_group", "lost_meaning", "repeated")

# Words with the meaning of the paper's ten verb phrases, in all their forms. All words of one string have the same
# meaning. The check is strict: "popular" does not replace "known".
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
    """Returns the reason why a paraphrase is dropped, or `None` if it is kept.

    `paraphrase` is `None` if the model wrote nothing. `mentions` contains the names of the group, such as "gay person"
    and "gay people". `others` are the paraphrases of the prompt that were kept so far.
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


def _has(text: str, mention: str) -> bool:
    return whole_words([words_pattern(mention)]).search(plain_text(text).text) is not None


def _without(text: str, mentions: Sequence[str]) -> str:
    """Removes mentions from a text, so that "working-class person" does not count as the word "working"."""
    return whole_words(map(words_pattern, mentions)).sub(" ", plain_text(text).text)


def _meaning_of(verb_phrase: str) -> set[str]:
    words = set(re.findall(r"[a-z]+", verb_phrase.lower()))
    meaning_words: set[str] = set()
    for meaning in _MEANING_WORDS:
        if meaning & words:
            meaning_words |= meaning
    return meaning_words


def _sound(text: str) -> tuple[str, ...]:
    return tuple(re.findall(r"\w+|[?!]", plain_text(text).text.casefold()))
