"""What a paraphrase of a prompt must keep: the group it is about, and the meaning of its verb phrase.

A paraphraser can lose what a prompt is for: whom it is about, or what it says of them. A paraphrase is dropped as

* `blank`: it has no letter, such as ".";
* `lost_group`: the group is not mentioned, as whole words and in the number the prompt has it in;
* `lost_meaning`: no word of the verb phrase's meaning is left, in whatever form ("worked as": work, job, employ);
* `repeated`: it has the words of the prompt, or of an earlier paraphrase of it that was kept.
"""

import re
from collections.abc import Collection, Sequence

REASONS = ("blank", "lost_group", "lost_meaning", "repeated")

# Words that carry the meaning of the paper's ten verb phrases, in all their forms; words of one line stand for one
# another. Strict: "popular" is not "known".
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
    keep_number: bool = True,
    others: Collection[str] = (),
) -> str | None:
    """Why a paraphrase is to be dropped.

    Args:
        paraphrase: The paraphrase; `None`: there is none.
        text: The prompt.
        mentions: What its group may be called: "gay person", "gay people". Those in the prompt show its number.
        verb_phrase: What the prompt says of the group: "was known for".
        keep_number: Whether only the mentions in the prompt are the group; else all of them.
        others: Paraphrases of this prompt that are kept already.

    Returns:
        One of `REASONS`, the first that holds; `None` for a paraphrase to be kept.

    Raises:
        ValueError: The prompt has none of the mentions, or the verb phrase no known word.
    """
    here = [mention for mention in mentions if _has(text, mention)]
    if not here:
        raise ValueError(
            f"the prompt '{text}' has none of the group's mentions ({', '.join(map(repr, mentions))}); give others"
        )
    meaning = _meaning_of(verb_phrase)
    if paraphrase is None or not any(letter.isalpha() for letter in paraphrase):
        return "blank"
    if not any(_has(paraphrase, mention) for mention in (here if keep_number else mentions)):
        return "lost_group"
    if meaning.isdisjoint(re.findall(r"[a-z]+", _without(paraphrase, mentions).lower())):
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
    meaning_words: set[str] = set()
    for meaning in _MEANING_WORDS:
        if meaning & words:
            meaning_words |= meaning
    if not meaning_words:
        known = ", ".join(line.split()[0] for line in _MEANINGS)
        raise ValueError(f"verb phrase '{verb_phrase}' has no word whose meaning is known; known words: {known}")
    return meaning_words


def _sound(text: str) -> tuple[str, ...]:
    """What makes two texts the same: their words in any case, and the marks that make a question or an outcry."""
    return tuple(re.findall(r"\w+|[?!]", text.casefold()))
