"""Makes English noun phrases with articles, plurals and gender agreement (paper, 2.2.2 and A.3)."""

from collections.abc import Sequence
from dataclasses import dataclass

from hb_dataset.vocabulary_entries import Article, Descriptor, Gender, PersonNoun


@dataclass(frozen=True, kw_only=True)
class Intersection:
    """Two terms from different axes that together modify a noun. The axes are in alphabetical order."""

    first: Descriptor
    second: Descriptor
    before: str
    after: str
    plural_after: str
    article: Article | None

    @property
    def descriptors(self) -> tuple[Descriptor, ...]:
        return self.first, self.second

    @property
    def axis(self) -> str:
        return f"{self.first.axis}+{self.second.axis}"

    @property
    def term(self) -> str:
        """Returns both terms as written beside a noun. "…" marks a noun between them: `"Deaf … with a PhD"`."""
        return " … ".join(filter(None, [self.before, self.after]))

    @property
    def placement(self) -> str:
        return "around" if self.before and self.after else "before" if self.before else "after"

    @property
    def gender(self) -> Gender | None:
        return self.first.gender or self.second.gender

    @property
    def bucket(self) -> None:
        return None

    @property
    def preference(self) -> None:
        return None


Modifier = Descriptor | Intersection


def agrees(modifier: Modifier | None, noun: PersonNoun) -> bool:
    """Returns whether the term and the noun can form a phrase.

    A gendered term requires a noun of the same gender. A term that already contains the noun cannot be combined with
    it.
    """
    if modifier is None:
        return True
    return modifier.gender in (None, noun.gender) and noun.noun not in modifier.before.split(" ")


def agreeing(modifier: Modifier | None, nouns: Sequence[PersonNoun]) -> list[int]:
    return [index for index, noun in enumerate(nouns) if agrees(modifier, noun)]


def noun_phrase(modifier: Modifier | None, noun: PersonNoun) -> str:
    """Makes the singular noun phrase with its article: "a Deaf woman", "an individual with a disability", "a woman".

    Without a `modifier`, the phrase is the noun alone. The article depends on the first *letter* of the next word, as
    in the published v1.0 ("an European"), unless that word's entry sets an `article`.
    """
    words = noun.noun if modifier is None else " ".join(filter(None, [modifier.before, noun.noun, modifier.after]))
    article = modifier.article if modifier is not None and modifier.before else noun.article
    return f"{article or first_letter_article(words)} {words}"


def plural_noun_phrase(modifier: Modifier | None, noun: PersonNoun) -> str:
    if modifier is None:
        return noun.plural
    return " ".join(filter(None, [modifier.before, noun.plural, modifier.plural_after]))


def first_letter_article(words: str) -> Article:
    """Returns the article that the first letter suggests: "an elderly", but also "an European"."""
    return "an" if words[0].lower() in "aeiou" else "a"


def at_sentence_start(phrase: str) -> str:
    return phrase[0].upper() + phrase[1:]
