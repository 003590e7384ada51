"""English noun phrases about a person: articles, plurals and gender agreement (paper, 2.2.2 and A.3)."""

from hb_dataset.vocabulary import Descriptor, PersonNoun


def agrees(descriptor: Descriptor | None, noun: PersonNoun) -> bool:
    """Whether the term can be said of the noun: a gendered term takes only nouns of its own gender."""
    return descriptor is None or descriptor.gender is None or descriptor.gender == noun.gender


def noun_phrase(descriptor: Descriptor | None, noun: PersonNoun) -> str:
    """The singular noun phrase with its article: "a Deaf woman", "an individual with a disability", "a woman".

    The article follows the first *letter* of the word after it, as v1.0 was published ("an European"), unless that
    word has an `article` of its own.

    Args:
        descriptor: The term, or `None` for the noun alone.
        noun: The person noun.

    Returns:
        The phrase as it stands in the middle of a sentence.
    """
    if descriptor is None:
        phrase, article = noun.noun, noun.article
    elif descriptor.placement == "after":
        phrase, article = f"{noun.noun} {descriptor.term}", noun.article
    else:
        phrase, article = f"{descriptor.term} {noun.noun}", descriptor.article
    if article is None:
        article = "an" if phrase[0].lower() in "aeiou" else "a"
    return f"{article} {phrase}"


def plural_noun_phrase(descriptor: Descriptor | None, noun: PersonNoun) -> str:
    """The plural noun phrase: "Deaf women", "individuals with disabilities", "women".

    Args:
        descriptor: The term, or `None` for the noun alone.
        noun: The person noun.

    Returns:
        The phrase as it stands in the middle of a sentence, without an article.
    """
    if descriptor is None:
        return noun.plural
    if descriptor.placement == "after":
        return f"{noun.plural} {descriptor.plural or descriptor.term}"
    return f"{descriptor.term} {noun.plural}"


def at_sentence_start(phrase: str) -> str:
    """The phrase with its first letter in upper case and nothing else changed."""
    return phrase[0].upper() + phrase[1:]
