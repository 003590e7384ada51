"""Makes English noun phrases with articles, plurals and gender agreement (paper, 2.2.2 and A.3)."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from hb_dataset.vocabulary_entries import (
    Article,
    Descriptor,
    Gender,
    LeftOutNoun,
    PersonNoun,
    Template,
    selects,
    selects_noun,
)
from hb_dataset.written_text import unaccented


@dataclass(frozen=True, kw_only=True)
class Intersection:
    """Two terms from different axes that together modify a noun. The axes are in alphabetical order."""

    first: Descriptor
    second: Descriptor
    before: str
    after: str
    plural_after: str
    article: Article | None
    bucket: None = None
    preference: None = None

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


Modifier = Descriptor | Intersection
# A vowel, except where the word begins with the sound of "you" or "one"; or a silent h.
_VOWEL_SOUND = re.compile(
    r"(?!eu|ewe|once|one(?![a-z])|ubiq|ufo|ugan|uk|uni(?:[cfoqtv]|l[ai]|s[eo])|ur[aiou](?!l)|us[aeu]|ut[aeio](?!r)|uvu"
    r"|uyg)[aeiou]|h(?:eir|onest|ono|our)",
    re.IGNORECASE,
)


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


def first_letter_article(words: str) -> Article:
    """Returns the article that the first letter suggests: "an elderly", but also "an European"."""
    return "an" if words[0].lower() in "aeiou" else "a"


def article_by_sound(words: str) -> Article:
    """Returns the article that the first sound suggests: "a European", "an 80-year-old", "an hour", "an FTM".

    Capitals are read as letters if there are at most three of them, or if they begin with two consonants.
    """
    first = re.split(r"[\s/-]", words.lstrip("\"'“‘("), maxsplit=1)[0].replace(".", "")
    if number := re.match(r"[\d,]+", first):
        digits = number[0].replace(",", "")
        return "an" if digits.startswith("8") or (digits.startswith(("11", "18")) and len(digits) % 3 == 2) else "a"
    letters = re.match(r"[A-Z]+(?=s?$|[^A-Za-z])", first)
    if letters and (len(letters[0]) <= 3 or not re.search("[AEIOUY]", letters[0][:2])):
        return "an" if letters[0][0] in "AEFHILMNORSX" else "a"
    return "an" if _VOWEL_SOUND.match(unaccented(first)) else "a"


def noun_phrase(
    modifier: Modifier | None, noun: PersonNoun, article_of: Callable[[str], Article] = first_letter_article
) -> str:
    """Makes the singular noun phrase with its article: "a Deaf woman", "an individual with a disability", "a woman".

    Without a `modifier`, the phrase is the noun alone. By default, the article depends on the first *letter* of the
    next word, as in the published v1.0 ("an European"), unless that word's entry sets an `article`.
    """
    words = noun.noun if modifier is None else " ".join(filter(None, [modifier.before, noun.noun, modifier.after]))
    article = modifier.article if modifier is not None and modifier.before else noun.article
    return f"{article or article_of(words)} {words}"


def plural_noun_phrase(modifier: Modifier | None, noun: PersonNoun) -> str:
    if modifier is None:
        return noun.plural
    return " ".join(filter(None, [modifier.before, noun.plural, modifier.plural_after]))


def at_sentence_start(phrase: str) -> str:
    return phrase[0].upper() + phrase[1:]


def prompt_masks(
    modifiers: Iterable[Modifier | None],
    nouns: Sequence[PersonNoun],
    templates: Sequence[Template],
    rules: Sequence[LeftOutNoun],
) -> Iterator[np.ndarray]:
    """Yields a mask [nouns, templates] for each term or pair of terms. The mask is true where a prompt exists.

    For a pair, a prompt exists only if it exists for both terms.
    """
    rule_masks = [_rule_mask(rule, nouns, templates) for rule in rules]
    for modifier in modifiers:
        mask = np.zeros((len(nouns), len(templates)), dtype=bool)
        mask[agreeing(modifier, nouns)] = True
        for rule, rule_mask in zip(rules, rule_masks, strict=True):
            if _holds(rule, modifier):
                mask &= ~rule_mask
        yield mask


def _rule_mask(rule: LeftOutNoun, nouns: Sequence[PersonNoun], templates: Sequence[Template]) -> np.ndarray:
    of_nouns = [selects_noun(rule, noun) for noun in nouns]
    of_templates = [rule.template_buckets is None or template.bucket in rule.template_buckets for template in templates]
    return np.outer(of_nouns, of_templates).astype(bool)


def _holds(rule: LeftOutNoun, modifier: Modifier | None) -> bool:
    if rule.axis is None:
        return True
    axis = rule.axis
    return modifier is not None and any(
        selects(descriptor, axis, rule.buckets, rule.terms) for descriptor in modifier.descriptors
    )
