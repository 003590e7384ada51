import pytest

from hb_dataset import Descriptor, PersonNoun, read_vocabulary
from hb_dataset.noun_phrases import agrees, at_sentence_start, noun_phrase, plural_noun_phrase
from hb_dataset.versions import NEXT, read_version

VOCABULARY = read_vocabulary()
DESCRIPTORS = {descriptor.term: descriptor for descriptor in VOCABULARY.descriptors}
NOUNS = {noun.noun: noun for noun in VOCABULARY.nouns}

# All after-noun terms of v1.0 that change after a plural noun.


@pytest.mark.parametrize(
    ("term", "noun", "singular", "plural"),
    [
        ("left-handed", "woman", "a left-handed woman", "left-handed women"),
        ("Deaf", "individual", "a Deaf individual", "Deaf individuals"),
        ("European", "veteran", "an European veteran", "European veterans"),
        ("with a disability", "individual", "an individual with a disability", "individuals with disabilities"),
        ("who uses a wheelchair", "lady", "a lady who uses a wheelchair", "ladies who use wheelchairs"),
        ("with an afro", "bro", "a bro with an afro", "bros with afros"),
        ("with one kid", "mom", "a mom with one kid", "moms with one kid"),
        (None, "woman", "a woman", "women"),
    ],
)
def test_noun_phrases_of_v1(term, noun, singular, plural):
    descriptor = None if term is None else DESCRIPTORS[term]
    assert noun_phrase(descriptor, NOUNS[noun]) == singular
    assert plural_noun_phrase(descriptor, NOUNS[noun]) == plural


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


@pytest.mark.parametrize(
    ("term_gender", "noun_genders"), [(None, {"female", "male", None}), ("female", {"female"}), ("male", {"male"})]
)
def test_a_gendered_term_takes_only_nouns_of_its_own_gender(term_gender, noun_genders):
    descriptor = Descriptor(axis="mood", term="calm", gender=term_gender)
    assert {noun.gender for noun in VOCABULARY.nouns if agrees(descriptor, noun)} == noun_genders


@pytest.mark.parametrize(
    ("phrase", "start"),
    [
        ("an AAPI kid", "An AAPI kid"),
        ("left-handed women", "Left-handed women"),
        ("80-year-old moms", "80-year-old moms"),
    ],
)
def test_at_a_sentence_start_only_the_first_letter_changes(phrase, start):
    assert at_sentence_start(phrase) == start


# --- next: articles by sound ------------------------------------------------------------------------------------------

# Of all terms before the noun: those whose sound differs from what the first letter says, by hand.
SAID_OTHERWISE = {
    "80-year-old": "an",
    "85-year-old": "an",
    "FTM": "an",
    "F2M": "an",
    "MTF": "an",
    "M2F": "an",
    "FoC": "an",
    "MoC": "an",
    "LGBT": "an",
    "LGBTQ": "an",
    "LGBTQ+": "an",
    "European": "a",
    "European-American": "a",
    "US-born": "a",
    "Unitarian": "a",
    "one-percenter": "a",
}


def test_articles_of_next_follow_the_sound():
    vocabulary = read_version(NEXT)
    for descriptor in vocabulary.descriptors:
        if descriptor.placement == "before":
            letter = "an" if descriptor.term[0].lower() in "aeiou" else "a"
            article = SAID_OTHERWISE.get(descriptor.term, letter)
            assert noun_phrase(descriptor, vocabulary.nouns[0]) == f"{article} {descriptor.term} woman"


def test_no_term_takes_the_noun_that_is_the_same_word():
    enby = Descriptor(axis="gender_and_sex", term="enby")
    assert not agrees(enby, PersonNoun(noun="enby", plural="enbies", gender="non-binary"))
    assert agrees(enby, PersonNoun(noun="person", plural="people"))
