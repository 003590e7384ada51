import pytest

from hb_dataset import Descriptor, PersonNoun, read_vocabulary
from hb_dataset.noun_phrases import noun_phrase
from hb_dataset.versions import NEXT, read_version

VOCABULARY = read_vocabulary()


@pytest.mark.parametrize(
    ("term", "phrase"),
    [
        (None, "an heir"),
        (Descriptor(axis="mood", term="honest", article="an"), "an honest heir"),
        (Descriptor(axis="mood", term="unique", article="a"), "a unique heir"),
        (Descriptor(axis="mood", term="calm"), "a calm heir"),
        (Descriptor(axis="mood", term="with joy", bucket="after_the_noun"), "an heir with joy"),
    ],
)
def test_an_article_of_its_own_belongs_to_the_word_right_after_it(term, phrase):
    assert noun_phrase(term, PersonNoun(noun="heir", plural="heirs", article="an")) == phrase


# --- next: articles by sound ------------------------------------------------------------------------------------------

# Of all terms before the noun: those whose sound differs from what the first letter says, by hand.
WITH_AN = ["80-year-old", "85-year-old", "FTM", "F2M", "MTF", "M2F", "FoC", "MoC", "LGBT", "LGBTQ", "LGBTQ+"]
WITH_A = ["European", "European-American", "US-born", "Unitarian", "one-percenter"]


def test_articles_of_next_follow_the_sound():
    vocabulary = read_version(NEXT)
    for descriptor in vocabulary.descriptors:
        if descriptor.placement == "before":
            is_vowel = descriptor.term[0].lower() in "aeiou" and descriptor.term not in WITH_A
            article = "an" if is_vowel or descriptor.term in WITH_AN else "a"
            assert noun_phrase(descriptor, vocabulary.nouns[0]) == f"{article} {descriptor.term} woman"
