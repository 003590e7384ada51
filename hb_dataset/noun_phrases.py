"""English noun phrases about a person: articles, plurals and gender agreement (paper, 2.2.2 and A.3)."""

from collections.abc import Sequence
from typing import Protocol

from hb_dataset.vocabulary_entries import Article, Descriptor, Gender, PersonNoun


class Modifier(Protocol):
    """Words that modify a noun: a `Descriptor`, or two of them as an `Intersection`."""

    @property
    def descriptors(self) -> tuple[Descriptor, ...]:
        """The terms it is made of."""

    @property
    def before(self) -> str:
        """The words before the noun."""

    @property
    def after(self) -> str:
        """The words after a singular noun."""

    @property
    def plural_after(self) -> str:
        """The words after a plural noun."""

    @property
    def article(self) -> Article | None:
        """The article of `before`, where it does not follow the first letter."""

    @property
    def gender(self) -> Gender | None:
        """The gender of its nouns, if it is used only with nouns of one gender."""


def agrees(modifier: Modifier | None, noun: PersonNoun) -> bool:
    """Whether grammar allows the term with the noun.

    A gendered term takes only nouns of its own gender, and no term takes the noun that is the same word. What the
    vocabulary leaves out besides is in `hb_dataset.prompt_masks`.
    """
    return agreeing(modifier, [noun]) == [0]


def agreeing(modifier: Modifier | None, nouns: Sequence[PersonNoun]) -> list[int]:
    """The indices of the nouns that the term agrees with; see `agrees`."""
    if modifier is None:
        return list(range(len(nouns)))
    gender, words = modifier.gender, modifier.before.split(" ")
    return [index for index, noun in enumerate(nouns) if gender in (None, noun.gender) and noun.noun not in words]


def noun_phrase(modifier: Modifier | None, noun: PersonNoun) -> str:
    """The singular noun phrase with its article: "a Deaf woman", "an individual with a disability", "a woman".

    The article follows the first *letter* of the word after it, as v1.0 was published ("an European"), unless that
    word has an `article` of its own. Later versions write one for every word whose sound differs.

    Args:
        modifier: The term or terms, or `None` for the noun alone.
        noun: The person noun.

    Returns:
        The phrase as written in the middle of a sentence.
    """
    return noun_phrases(modifier, [noun])[0]


def noun_phrases(modifier: Modifier | None, nouns: Sequence[PersonNoun]) -> list[str]:
    """The singular noun phrase of each noun; see `noun_phrase`."""
    before, ending = ("", "") if modifier is None else _around(modifier.before, modifier.after)
    if modifier is not None and before:
        first = f"{_article(modifier.article, before)} {before}"
        return [f"{first}{noun.noun}{ending}" for noun in nouns]
    return [f"{_article(noun.article, noun.noun)} {noun.noun}{ending}" for noun in nouns]


def plural_noun_phrase(modifier: Modifier | None, noun: PersonNoun) -> str:
    """The plural noun phrase: "Deaf women", "individuals with disabilities", "women".

    Args:
        modifier: The term or terms, or `None` for the noun alone.
        noun: The person noun.

    Returns:
        The phrase as written in the middle of a sentence, without an article.
    """
    return plural_noun_phrases(modifier, [noun])[0]


def plural_noun_phrases(modifier: Modifier | None, nouns: Sequence[PersonNoun]) -> list[str]:
    """The plural noun phrase of each noun; see `plural_noun_phrase`."""
    before, ending = ("", "") if modifier is None else _around(modifier.before, modifier.plural_after)
    return [f"{before}{noun.plural}{ending}" for noun in nouns]


def _around(before: str, after: str) -> tuple[str, str]:
    """The words before and after a noun, with the space between them and it."""
    return f"{before} " if before else "", f" {after}" if after else ""


def _article(own: Article | None, words: str) -> str:
    return own or ("an" if words[0].lower() in "aeiou" else "a")


def at_sentence_start(phrase: str) -> str:
    """The phrase with its first letter in upper case and nothing else changed."""
    return phrase[0].upper() + phrase[1:]
