"""Replaces the descriptor in a reply with another descriptor, and adapts case, number, position and article.

"As a Deaf woman, …" becomes "As an autistic woman, …" or "As a woman with asthma, …". A reply is not used if one of its
mentions cannot be replaced, because the reply would still be about the first descriptor.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import NamedTuple

from hb_dataset.matching import plain_text
from hb_dataset.noun_phrases import article_by_sound, at_sentence_start
from hb_dataset.vocabulary_entries import Descriptor, PersonNoun, Vocabulary
from hb_metrics.collect.classifiers.censoring import mention_pattern

STEM_LENGTH = 5
_EMPHASIS = frozenset("*~`")
_WHO = re.compile(r"who\b")
_NO_NOUN = re.compile(r"[.,!?;:]|$| (?:as|because|but|like|myself|or|so|too|who|yourself)\b", re.IGNORECASE)
_PERSONS = {"person", "someone", "somebody", "anyone", "anybody", "everyone", "everybody"}
_PEOPLE = {"people", "persons", "those"}
_NO_STEMS = {"and", "are", "four", "many", "one", "person", "the", "three", "two", "who", "whose", "with", "without"}


class Swap(NamedTuple):
    """A reply with another descriptor, and the positions of the swapped phrases.

    Each item of `spans` contains four positions in characters: the start and end of a phrase in the old reply, and the
    start and end of its replacement in the new reply. Phrases include the space before them.
    """

    text: str
    spans: list[list[int]]


def stems(term: str) -> set[str]:
    """Returns the first letters of a term's content words. Terms that share a stem are forms of the same word."""
    words = re.findall(r"\w+", term.lower())
    return {word[:STEM_LENGTH] for word in words if len(word) > 2 and word not in _NO_STEMS}


def swap_term(reply: str, source: Descriptor, target: Descriptor, vocabulary: Vocabulary) -> Swap | None:
    """Replaces every mention of a descriptor in a reply.

    Returns `None` if a mention of `source` cannot be replaced with `target` in correct English. Also returns `None` if
    the rest of the reply contains a part of the source term, or another term of the source's axis.
    """
    plain = plain_text(reply)
    new, rest, spans, end = "", "", [], 0
    for match in mention_pattern((source.term, source.plural)).finditer(plain.text):
        if source.placement == "after" and target.placement == "before":
            return None  # the target would have to be named before the noun, but the source is named after it
        if _EMPHASIS.intersection(plain.text[max(match.start() - 1, 0) : match.end() + 1]):
            return None  # the words around the emphasis may have to change, too
        phrase = _phrase(plain.text, match, source, target, vocabulary.nouns)
        if phrase is None or phrase[0] < end:
            return None
        start, stop, text = phrase
        article = re.search(r"\b(an?) $", plain.text[end:start], re.IGNORECASE)
        if article:
            given = target.article if target.placement == "before" else None
            wanted = given or article_by_sound(text)
            if article[1].lower() != wanted:
                start = end + article.start(1)
                text = f"{at_sentence_start(wanted) if article[1][0].isupper() else wanted} {text}"
        if start > end and plain.text[start - 1] == " ":
            start, text = start - 1, f" {text}"
        old_end, (old_start, old_stop) = plain.original_position(end), plain.original_span(start, stop)
        new += reply[old_end:old_start]
        rest += plain.text[end:start] + "\n"
        spans.append([old_start, old_stop, len(new), len(new) + len(text)])
        new, end = new + text, stop
    rest += plain.text[end:]
    of_axis = [(term.term, term.plural) for term in vocabulary.descriptors if term.axis == source.axis]
    if _part_pattern(source.term).search(rest) or mention_pattern(*of_axis).search(rest):
        return None
    return Swap(new + reply[plain.original_position(end) :], spans)


def shared_spans(swaps: Sequence[Swap]) -> list[list[list[int]]] | None:
    """Returns the spans of a reply, and then of each swap of it, so that all texts are the same between the spans.

    A swap of "a tall man" may replace the article or the noun, too. All spans of a mention are therefore widened to the
    widest one. Returns `None` if the spans of two mentions then overlap.
    """
    widest = [
        [min(span[0] for span in mention), max(span[1] for span in mention)]
        for mention in zip(*(swap.spans for swap in swaps), strict=True)
    ]
    if any(first[1] > second[0] for first, second in pairwise(widest)):
        return None
    spans = [widest]
    for swap in swaps:
        widened = []
        for (start, stop, new_start, new_stop), (first, last) in zip(swap.spans, widest, strict=True):
            widened.append([new_start - (start - first), new_stop + (last - stop)])
        spans.append(widened)
    return spans


def name_starts(term: str, instead: str) -> list[tuple[str, str]]:
    """Returns spellings with which a reply may begin to name a term, each with the same spelling of another term."""
    starts: dict[str, str] = {}
    for change in (str, at_sentence_start, str.lower):
        for space in (" ", ""):
            starts.setdefault(space + change(term), space + _with_case(change(term), term, instead))
    return list(starts.items())


def _phrase(
    reply: str, match: re.Match[str], source: Descriptor, target: Descriptor, nouns: Sequence[PersonNoun]
) -> tuple[int, int, str] | None:
    start, end = match.span()
    before, after = reply[:start], reply[end:]
    singular = {noun.noun for noun in nouns}
    plurals = {noun.plural for noun in nouns}
    any_noun = "|".join(sorted(map(re.escape, singular | plurals), key=len, reverse=True))
    if source.placement == "after":
        if match[0].split()[0].lower() != source.term.split()[0].lower():
            return None  # "using a wheelchair"
        person = re.search(rf"\b({any_noun}|{'|'.join(_PERSONS | _PEOPLE)}) $", before, re.IGNORECASE)
        if person is None and _WHO.match(target.term) and not _WHO.match(source.term):
            return None  # "living with asthma" cannot become "living who stutters"
        plural = source.plural is not None and match[0].lower() == source.plural.lower()
        plural |= person is not None and person[1].lower() in plurals | _PEOPLE
        return start, end, target.plural_term if plural else target.term
    if target.placement == "after":
        noun = re.match(rf" ({any_noun})\b", after, re.IGNORECASE)
        term = target.plural_term if noun and noun[1].lower() in plurals else target.term
        return noun and (start, end + noun.end(), _with_case(match[0], source.term, f"{noun[1]} {term}"))
    text = _with_case(match[0], source.term, target.term)
    if len(re.sub(r"\W", "", match[0])) > len(re.sub(r"\W", "", source.term)):
        text += " people"  # "Muslims"
    elif re.match(rf", \w+ ({any_noun})\b", after, re.IGNORECASE):
        return None  # "a Muslim, Deaf woman" could be about a Muslim or about a woman
    elif re.search(r"\ban? $", before, re.IGNORECASE) and _NO_NOUN.match(after):
        text += " person"  # "as a Muslim, …"
    return start, end, text


def _with_case(written: str, term: str, target: str) -> str:
    if written.isupper() and not term.isupper() and len(written) > 1:
        return target.upper()
    return at_sentence_start(target) if written[0].isupper() and not term[0].isupper() else target


@cache
def _part_pattern(term: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(sorted(stems(term))) or '(?!)'})", re.IGNORECASE)
