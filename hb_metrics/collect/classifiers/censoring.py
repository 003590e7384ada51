"""Masks the words for a group before a text is classified.

A word such as "disabled" or "ugly" could change a classifier's result by itself. The prompt's descriptor is therefore
replaced with "left-handed" for style classifiers (Smith et al., 2022, A.6). For regard classifiers, the group is
replaced with "XYZ", as in "the XYZ was known for".
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import filterfalse

import numpy as np

from hb_dataset.matching import SPACE, plain_text, whole_words, words_pattern
from hb_dataset.prompt_columns import NAMES_AXIS
from hb_dataset.written_text import unaccented
from hb_metrics.run.replies import UNSAFE_MARK, Replies

REPLACEMENT = "left-handed"
MASK = "XYZ"
NAME = "Alex"  # replaces a user's name
_UNACCENTED_LENGTH = 4  # without their accents, shorter names are other words ("Ái", "Thế")

# Matches the beginning of terms such as "who uses a wheelchair" and "who is deaf".
_WHO = re.compile(r"who(?:'| )(\w+)\b ?", re.IGNORECASE)
_BE = ("s", "re", "is", "are", "am", "was", "were", "be", "being", "been")  # who's, who're, who is, …
_IRREGULAR = (
    ("has", "have", "having", "had"),
    ("incurred", "incur", "incurs", "incurring"),
    ("dropped", "drop", "drops", "dropping"),
)
Terms = Mapping[str, Sequence[tuple[str, str | None]]]  # the terms of each descriptor, and their plurals
_DETERMINER = rf"(?:(?:an?|the|my|your|his|her|their|our){SPACE})?"


def masked_texts(replies: Replies, terms: Terms) -> list[str]:
    """Replaces every mention of the prompt's descriptor, or of the user's name, in each reply (see `censor`).

    `terms` comes from `terms_of_prompts`. If a descriptor combines two terms, such as "deaf Black", mentions of either
    term are also replaced. Descriptors that are not in `terms` have no plural.
    """
    mask = NAME if set(replies.axes) == {NAMES_AXIS} else REPLACEMENT
    texts = (plain_text(text.replace(UNSAFE_MARK, "")) for text in replies.texts)
    patterns = _patterns(replies, terms)
    return [text.masked(pattern, mask) for text, pattern in zip(texts, patterns, strict=True)]


def term_mentioned(replies: Replies, terms: Terms) -> np.ndarray:
    """Returns whether each reply mentions its prompt's descriptor, or the user's name: [replies] bool."""
    patterns = _patterns(replies, terms)
    matches = (pattern.search(plain_text(text).text) for text, pattern in zip(replies.texts, patterns, strict=True))
    return np.array([match is not None for match in matches], dtype=bool)


def censor(reply: str, *terms: tuple[str, str | None]) -> str:
    """Replaces every mention of a term in a reply with "left-handed". `terms` are terms and their plurals.

    A mention is the term or its plural, matched as whole words in upper or lower case and in any typography. In a
    mention, hyphens may be missing or replaced with spaces. The verb may have another form: "using a wheelchair" is a
    mention of "who uses a wheelchair". The word "_POTENTIALLY_UNSAFE__", which some models add to replies, is removed.
    """
    return plain_text(reply.replace(UNSAFE_MARK, "")).masked(mention_pattern(*terms), REPLACEMENT)


def mask_groups(texts: Sequence[str], mentions: Sequence[Sequence[str]]) -> list[str]:
    """Replaces every mention of each text's group with "XYZ".

    For each text, `mentions` contains the words for its group, such as "gay person" and "gay people". These words are
    matched as in `censor`, and the longest match is replaced. Articles and the words "he" and "she" are kept.
    """
    return [
        plain_text(text).masked(mention_pattern(*((name.strip(), None) for name in names)), MASK) if names else text
        for text, names in zip(texts, mentions, strict=True)
    ]


@cache
def mention_pattern(*terms: tuple[str, str | None]) -> re.Pattern[str]:
    """Compiles a pattern that matches mentions of terms in a plain text. `terms` are terms and their plurals."""
    return whole_words(form for term, plural in terms for form in _forms(term, plural or term))


@cache
def name_pattern(name: str) -> re.Pattern[str]:
    """Compiles a pattern that matches a name and its parts in a plain text, but no word in lower case ("grace")."""
    parts = {name, *filterfalse(str.islower, re.findall(r"\w[^ -]+", name))}
    parts |= {plain for part in parts if len(plain := unaccented(part)) >= _UNACCENTED_LENGTH}
    written = (spelling for part in parts for spelling in (part, part.upper(), part.title()))
    return whole_words(map(_word_forms, written), flags=0)


def _patterns(replies: Replies, terms: Terms) -> Iterator[re.Pattern[str]]:
    of_names = set(replies.axes) == {NAMES_AXIS}
    for descriptor in replies.descriptors:
        alone = [(descriptor, None)]
        yield name_pattern(descriptor) if of_names else mention_pattern(*terms.get(descriptor, alone))


def _forms(term: str, plural: str) -> list[str]:
    forms = sorted({term, plural})
    matches = [match for match in map(_WHO.match, forms) if match]
    if len(matches) < len(forms):
        return [_word_forms(form) for form in forms]
    verbs = {form for match in matches for form in _verb_forms(match[1].lower())}
    rests = [re.sub(r"^an? ", "", form[match.end() :]) for form, match in zip(forms, matches, strict=True)]
    return _clauses(verbs, [_word_forms(rest) for rest in rests if rest])


def _clauses(verbs: set[str], rests: Sequence[str]) -> list[str]:
    who = rf"(?:who|that)(?:{SPACE}|\s*')"
    verb = f"(?:{'|'.join(sorted(sorted(verbs), key=len, reverse=True))})"
    rest = rf"{_DETERMINER}(?:{'|'.join(sorted(rests, key=len, reverse=True))})" if rests else ""
    if verbs.issuperset(_BE):  # "deaf" is a mention of "who is deaf"
        return [f"{who}{verb}{SPACE}{rest}", rest]
    return [f"(?:{who})?{verb}" + (f"{SPACE}{rest}" if rest else "")]


def _verb_forms(verb: str) -> set[str]:
    if verb in _BE:
        return set(_BE)
    for forms in _IRREGULAR:
        if verb in forms:
            return set(forms)
    base = verb[:-1] if verb.endswith("s") and not verb.endswith("ss") else verb
    stem = base.removesuffix("e")
    return {base, f"{base}s", f"{stem}ing", f"{stem}ed"}


def _word_forms(form: str) -> str:
    """Returns a pattern that matches words in the singular or plural, whose ending may be in capital letters."""
    pattern = words_pattern(form)
    if re.search(r"[a-z]y$", form, re.IGNORECASE) and not re.search(r"[aeiou]y$", form, re.IGNORECASE):
        return rf"{pattern[:-1]}(?i:ys?|ies)"
    if form.lower().endswith("man"):
        return rf"{pattern[:-2]}(?i:ans?|en)"
    return rf"{pattern}(?i:e?s)?" if re.search(r"\w$", form) else pattern
