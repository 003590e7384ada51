"""Makes counterfactual texts: the same text about the other group (RedditBias, Barikeri et al. 2021, section 3.1).

`mode="published"` is the paper's rule. It converts the text to lower case, and then applies the pairs of terms one
after another. For each pair, it replaces t1 with t2 wherever t1 occurs, even inside a word. It therefore turns
"midwife" into "midhusband". If the specification sets `published_two_way`, the rule also replaces t2 with t1. It does
not change "jews.", because it searches for "jews" followed by a space.

`mode="word"` is for new data. It replaces only whole words, including plurals and possessives. It preserves case, and
corrects an article before the term. Longer terms take precedence over shorter ones.

In this mode, a term of group 2 is replaced only if the text also contains the t1 of the same pair. "Women are worse
than men" therefore becomes "Men are worse than women", but "black americans" keeps its second word. Other words that
depend on a term, such as "her" or a verb form, are not changed.
"""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, get_args

from hb_dataset.bias_specification import BiasSpecification, TargetPair
from hb_dataset.command_line import check_known
from hb_dataset.matching import SPACE, plain_text, squeezed, words_pattern
from hb_dataset.noun_phrases import article_by_sound

Mode = Literal["word", "published"]


class _Form(NamedTuple):
    pair: int
    words: str


def counterfactual(text: str, specification: BiasSpecification, mode: Mode = "word") -> str | None:
    """Replaces the target terms of each group with the terms of the other group.

    Args:
        text: A text.
        specification: The specification that contains the terms.
        mode: `"word"` or `"published"` (see the module's docstring).

    Returns:
        The counterfactual (in lower case if the mode is `published`), or `None` if the text has no term to replace.

    Raises:
        ValueError: The mode is unknown.
    """
    check_mode(mode)
    if mode == "published":
        return _published(lowered(text), specification)
    plain = plain_text(text)
    active = _active_pairs(plain.text, specification)
    if not active:
        return None
    forms = _forms(specification, active)
    matches = _pattern(specification, active).finditer(plain.text)
    return plain.with_replaced(edit for match in matches for edit in _edits(match, forms))


def lowered(text: str) -> str:
    """Converts a text to lower case but keeps its length, unlike `str.lower`, which turns "İ" into two characters."""
    return text.replace("İ", "i").lower()


def check_mode(mode: str) -> None:
    check_known(mode, get_args(Mode), f"mode {mode!r} is unknown")


# --- As published -----------------------------------------------------------------------------------------------------


def _published(text: str, specification: BiasSpecification) -> str | None:
    num_replaced = 0
    for pair in specification.pairs:
        t1, t2 = pair.published_terms
        beside = pair.published_one_way_beside
        one_way = pair.published_one_way or (beside is not None and beside in text)
        replacements = {t1: t2, t2: t1} if specification.published_two_way and not one_way else {t1: t2}
        text, number = _replaced(text, replacements)
        num_replaced += number
    return text if num_replaced else None


def _replaced(text: str, replacements: dict[str, str]) -> tuple[str, int]:
    longest_first = sorted(replacements, key=len, reverse=True)
    return re.subn("|".join(map(re.escape, longest_first)), lambda match: replacements[match[0]], text)


# --- Whole words ------------------------------------------------------------------------------------------------------


def _active_pairs(text: str, specification: BiasSpecification) -> frozenset[int]:
    forms = _forms(specification, frozenset())
    words = (squeezed(match["term"]) for match in _pattern(specification, frozenset()).finditer(text))
    return frozenset(forms[word].pair for word in words if word in forms)


@lru_cache(maxsize=1024)
def _forms(specification: BiasSpecification, active: frozenset[int]) -> dict[str, _Form]:
    forms: dict[str, _Form] = {}
    for index, pair in enumerate(specification.pairs):
        for t1, t2 in _forms_of(pair):
            forms.setdefault(t1, _Form(index, t2))
    for index in sorted(active):
        pair = specification.pairs[index]
        for t1, t2 in _forms_of(pair) if not pair.one_way else ():
            forms.setdefault(t2, _Form(index, t1))
    return forms


def _forms_of(pair: TargetPair) -> list[tuple[str, str]]:
    return [(pair.t1, pair.t2), *pair.forms, (regular_plural(pair.t1), regular_plural(pair.t2))]


def regular_plural(term: str) -> str:
    if re.search(r"(s|x|z|ch|sh)$", term):
        return f"{term}es"
    return f"{term[:-1]}ies" if re.search(r"[^aeiou]y$", term) else f"{term}s"


@lru_cache(maxsize=1024)
def _pattern(specification: BiasSpecification, active: frozenset[int]) -> re.Pattern[str]:
    words = {*_forms(specification, active), *(phrase.lower() for phrase in specification.kept_phrases)}
    longest_first = sorted(words, key=lambda word: (-len(word), word))
    terms = "|".join(words_pattern(word, same_signs=True) for word in longest_first)
    return re.compile(
        rf"(?:(?<!\w)(?P<article>an?){SPACE})?(?<!\w)(?P<term>{terms})(?!\w)(?P<ending>'s?(?!\w))?", re.IGNORECASE
    )


def _edits(match: re.Match[str], forms: dict[str, _Form]) -> Iterator[tuple[int, int, str]]:
    form = forms.get(squeezed(match["term"]))
    if form is None:  # a phrase to keep
        return
    words = _with_case_of(match["term"], form.words)
    if match["article"]:
        yield *match.span("article"), _article(match["article"], match["term"], words)
    yield *match.span("term"), words
    if match["ending"]:
        yield match.start("ending") + 1, match.end("ending"), _after_apostrophe(match, form.words)


def _with_case_of(model: str, words: str) -> str:
    if len(model) > 1 and model.isupper():
        return words.upper()
    starts = [part[0] for part in re.split(r"[\s-]+", model) if part]
    if all(start.isupper() for start in starts):
        return re.sub(r"(^|[\s-])(\w)", lambda match: match[1] + match[2].upper(), words)
    return words[0].upper() + words[1:] if starts[0].isupper() else words


def _article(article: str, old: str, new: str) -> str:
    # In lower case, because capital letters may be emphasis and no abbreviation.
    was_an, is_an = (article_by_sound(words.lower()) == "an" for words in (old, new))
    if was_an == is_an or was_an != (article.lower() == "an"):
        return article
    changed = "an" if is_an else "a"
    if article.isupper() and new.isupper():
        return changed.upper()
    return changed.capitalize() if article[0].isupper() else changed


def _after_apostrophe(match: re.Match[str], words: str) -> str:
    ending, old = match["ending"][1:], match["term"].lower()
    if not ending:  # after an s, an apostrophe alone marks a possessive; otherwise, it closes a quotation
        quoted = match.string[match.start() - 1 : match.start()] in ("'", '"')
        return "" if quoted or not old.endswith("s") or words.endswith("s") else "s"
    if words.endswith("s") and not words.endswith("ss") and not old.endswith("s"):
        return ""  # "gentlemen's" → "ladies'"
    return ending
