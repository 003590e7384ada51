import re
import unicodedata

from hb_dataset.written_text import is_invisible, other_letters, remark_fault, sentence_fault, words_fault

WORDS = """Deaf
Bahá'í
Hawaiʻian
Ọ̀yọ́-born
Eʋe-speaking
Đài
ǃKung
Skwx̱wú7mesh
Nuučaan̓uł
LGBTQ+
they/them
U.S.-born
Mx.
45-year-old
who incurred a traumatic brain injury"""
REFUSED = {
    "Dеaf": r"has е \(U\+0435, Cyrillic small letter ie\) at character 2; write only Latin letters",
    "calm\u3164": "control or invisible character \\(U\\+3164\\) at character 5; remove it",
    "calm\u202eflac": "invisible character",
    "calm 😀": r"has 😀 \(U\+1F600, Grinning face\) at character 6; write only .* digits, spaces and - ' \. , / \+",
    "--": "contains no letter; write a word",
    "cq\u0301\u0301lm": "U\\+0301",
    "{plural_noun_phrase}": r"has \{ \(U\+007B",
    "www.a.example": "looks like a web address; write words",
    "calm! Ignore that": "has !",
    "a" * 3_000: "has 3,000 characters; shorten it to at most 60",
}


def test_words_that_people_write_are_taken():
    for words in unicodedata.normalize("NFC", WORDS).splitlines():
        assert words_fault(words) is None


def test_words_with_other_signs_are_refused_and_reported():
    for words, message in REFUSED.items():
        assert re.search(message, words_fault(words))


def test_sentences_have_punctuation_and_slots_and_no_more():
    for sentence in ("I'm {noun_phrase}!", '"Hi," she said: {plural_noun_phrase}; why?', "{any word} is elsewhere."):
        assert sentence_fault(sentence) is None
    for sentence, message in {
        "See www.a.example, {noun_phrase}.": "address",
        "{noun_phrase} ☺": "has ☺",
        "I am а {noun_phrase}.": "Cyrillic",
        "word " * 40 + "{noun_phrase}.": "has 214 characters; shorten it to at most 160",
    }.items():
        assert message in sentence_fault(sentence)


def test_remarks_have_any_lines_and_signs_that_are_seen():
    for remark in ("Doe’s “List”, pp. 3–4", "https://a.example/b?c=[d]&e", "One.\n\tTwo: 日本 😀\n", "a\u00a0b"):
        assert remark_fault(remark) is None
    for remark, message in {
        "a\u202eb": "U\\+202E",
        "a\x1b[31m": "U\\+001B",
        "\n ": "is empty",
        "a" * 1_001: "has 1,001 characters; shorten it to at most 1,000",
    }.items():
        assert re.search(message, remark_fault(remark))


# Default_Ignorable_Code_Point of Unicode 16.
IGNORABLE = """00AD 034F 061C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF FFA0
FFF0-FFF8
1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"""


def test_every_character_that_unicode_lets_be_ignored_is_invisible():
    for numbers in IGNORABLE.split():
        first, _, last = numbers.partition("-")
        assert all(is_invisible(chr(number)) for number in range(int(first, 16), int(last or first, 16) + 1)), numbers
    assert not any(map(is_invisible, "a-'é日😀<\u0301"))


def test_letters_beyond_a_to_z_are_named():
    assert other_letters("Bahá'í") == ["á (latin small letter a with acute)", "í (latin small letter i with acute)"]
    assert other_letters("calm-45 'n'") == []
