"""English noun phrases about a person: articles, plurals and gender agreement (paper, 2.2.2 and A.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

from hb_dataset.vocabulary_entries import Article, Descriptor, Gender, PersonNoun


@dataclass(frozen=True, kw_only=True)
class Intersection:
    """Two terms from two axes as one modifier of a noun; the axis of `first` comes first in alphabetical order."""

    first: Descriptor
    second: Descriptor
    before: str
    after: str
    plural_after: str
    article: Article | None

    @property
    def descriptors(self) -> tuple[Descriptor, ...]:
        """Both terms."""
        return self.first, self.second

    @property
    def axis(self) -> str:
        """Both axes: `"ability+race_ethnicity"`."""
        return f"{self.first.axis}+{self.second.axis}"

    @property
    def term(self) -> str:
        """Both terms as written beside a noun, with "…" for a noun between them: `"Deaf … with a PhD"`."""
        return " … ".join(filter(None, [self.before, self.after]))

    @property
    def placement(self) -> str:
        """Whether the terms are `"before"` the noun, `"after"` it or `"around"` it."""
        return "around" if self.before and self.after else "before" if self.before else "after"

    @property
    def gender(self) -> Gender | None:
        """The gender of its nouns, if one of its terms has a gender."""
        return self.first.gender or self.second.gender

    @property
    def bucket(self) -> None:
        """None: buckets divide one axis."""
        return None

    @property
    def preference(self) -> None:
        """None: reviewers were asked about terms, not about pairs."""
        return None


Modifier = Descriptor | Intersection


def agrees(modifier: Modifier | None, noun: PersonNoun) -> bool:
    """Whether grammar allows the term with the noun.

    A gendered term takes only nouns of its gender, and no term takes a noun that is the same word.
    `hb_dataset.prompt_masks` also applies the vocabulary's rules.
    """
    if modifier is None:
        return True
    return modifier.gender in (None, noun.gender) and noun.noun not in modifier.before.split(" ")


def agreeing(modifier: Modifier | None, nouns: Sequence[PersonNoun]) -> list[int]:
    """The indices of the nouns that the term agrees with; see `agrees`."""
    return [index for index, noun in enumerate(nouns) if agrees(modifier, noun)]


def noun_phrase(modifier: Modifier | None, noun: PersonNoun) -> str:
    """The singular noun phrase with its article: "a Deaf woman", "an individual with a disability", "a woman".

    The article follows the first *letter* of the next word, as in the published v1.0 ("an European"), unless that word
    has an `article`. Later versions set an `article` for every word whose sound differs.

    Args:
        modifier: The term or terms, or `None` for the noun alone.
        noun: The person noun.

    Returns:
        The phrase as written in the middle of a sentence.
    """
    words = noun.noun if modifier is None else " ".join(filter(None, [modifier.before, noun.noun, modifier.after]))
    article = modifier.article if modifier is not None and modifier.before else noun.article
    return f"{article or first_letter_article(words)} {words}"


def plural_noun_phrase(modifier: Modifier | None, noun: PersonNoun) -> str:
    """The plural noun phrase: "Deaf women", "individuals with disabilities", "women".

    Args:
        modifier: The term or terms, or `None` for the noun alone.
        noun: The person noun.

    Returns:
        The phrase as written in the middle of a sentence, without an article.
    """
    if modifier is None:
        return noun.plural
    return " ".join(filter(None, [modifier.before, noun.plural, modifier.plural_after]))


def first_letter_article(words: str) -> Article:
    """The article that follows the first letter: "an elderly", and also "an European"."""
    return "an" if words[0].lower() in "aeiou" else "a"


def at_sentence_start(phrase: str) -> str:
    """The phrase with its first letter in upper case and nothing else changed."""
    return phrase[0].upper() + phrase[1:]
