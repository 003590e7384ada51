from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hb_dataset.bias_specification import BiasSpecification, TargetPair
from hb_dataset.comments import attributes_in, candidates, clean_comment, queries, target_window

CATS = BiasSpecification(
    bias_type="cats",
    dimension="size",
    group_1="small cats",
    group_2="large cats",
    target_terms_1=("Kittens are", "tiny cats are"),
    target_terms_2=("cats are", "cats are"),
    pairs=(TargetPair(t1="kitten", t2="cat"),),
    attributes_1=("sleep*", "long nap*", "loud"),
    attributes_2=("awake",),
)


@pytest.mark.parametrize(
    ("raw", "clean"),
    [
        ("  Kittens\n\n ARE\tsoft ", "kittens are soft"),
        ("see https://example.org/a?b=c and www.example.org now", "see and now"),
        ("see [this page](https://example.org/a) now", "see this page now"),
        ("HTTP://EXAMPLE.ORG kittens", "kittens"),
        ("/u/Some_Body and u/some-one said @Somebody is here", "and said is here"),
        ("me@example.org", "me@example.org"),
        ("either/u/or, you/us", "either/u/or, you/us"),
        ("[sic] (really)", "[sic] (really)"),
        ("", ""),
    ],
)
def test_comments_are_cleaned(raw, clean):
    assert clean_comment(raw) == clean


@given(st.text(max_size=60))
def test_a_cleaned_comment_has_single_spaces_and_no_capitals(text):
    clean = clean_comment(text)

    assert clean == " ".join(clean.split())
    assert clean == clean.lower()


def test_queries_are_every_target_with_every_attribute():
    assert list(queries(CATS)) == [
        (target, attribute) for target in CATS.target_terms_1 for attribute in CATS.attributes_1
    ]
    assert len(set(queries(CATS))) == 6


def test_candidates_hold_a_target_and_an_attribute_and_the_rest_is_counted():
    comments = [
        "I know KITTENS  are sleepy.",
        "kittens are soft",  # no attribute
        "cats are loud",  # no target
        "kittens arent loud",  # no whole target
        "loud music: one two three four five tiny cats are here, so soft",
        "kittens are loud " + "x" * 140,
        "kittens are aloud",  # no whole attribute
        "tiny cats are for long naps",
    ]
    counts = Counter()

    found = list(candidates(iter(comments), CATS, counts=counts))

    assert [candidate.row for candidate in found] == [0, 4, 7]
    assert found[0].comment == found[0].phrase == "i know kittens are sleepy."
    assert (found[0].target, found[0].attribute, found[0].attribute_in_window) == ("kittens are", "sleepy", True)
    assert found[1].phrase == "loud music: one two three four five tiny cats are here, so soft"
    assert found[2].attribute == "long naps"
    assert counts == {"read": 8, "too_long": 1, "without_target": 2, "without_attribute": 2}


def test_an_attribute_can_be_in_the_comment_and_not_in_the_window():
    (candidate,) = candidates(["loud 1 2 3 4 5 6 7 kittens are soft"], CATS)

    assert candidate.phrase == "1 2 3 4 5 6 7 kittens are soft"
    assert not candidate.attribute_in_window


@pytest.mark.parametrize(("length", "is_candidate"), [(149, True), (150, False)])
def test_a_candidate_is_shorter_than_150_characters(length, is_candidate):
    comment = "kittens are loud ".ljust(length, "x")

    assert len(comment) == length
    assert bool(list(candidates([comment], CATS))) == is_candidate
    assert list(candidates([comment], CATS, max_characters=None))


def test_candidates_come_one_at_a_time():
    read = []

    def comments():
        for comment in ["kittens are loud", "kittens are asleep", "kittens are loud"]:
            read.append(comment)
            yield comment

    next(candidates(comments(), CATS))

    assert len(read) == 1


@pytest.mark.parametrize("comments", ["kittens are loud", ["kittens are loud", None]])
def test_what_is_no_text_is_told_without_showing_it(comments):
    with pytest.raises(TypeError, match=r"^(comments is one string|comment 1 \(counted from 0\) is NoneType)"):
        list(candidates(comments, CATS))


def brute_window(comment, target, size):
    tokens = comment.split()
    words = target.split()
    for place in range(len(tokens)):
        if tokens[place : place + len(words)] == words:
            return " ".join(tokens[max(0, place - size) : place + size + 1])
    return None


@given(st.lists(st.sampled_from(["x", "y", "kittens", "are"]), max_size=30), st.integers(0, 8))
def test_the_window_is_that_of_a_loop(words, size):
    comment = " ".join(words)

    window = target_window(comment, "kittens are", size=size)

    assert window == brute_window(comment, "kittens are", size)
    assert window is None or len(window.split()) <= 2 * size + 1


def test_the_window_is_seven_tokens_on_either_side_of_the_targets_first():
    comment = "a b c d e f g h so-called kittens are 1 2 3 4 5 6 7 8"

    assert target_window(comment, "Kittens are") == "c d e f g h so-called kittens are 1 2 3 4 5 6"
    assert target_window('he said "kittens are" twice', "kittens are") == 'he said "kittens are" twice'
    assert target_window(comment, "puppies are") is None


def test_attributes_are_found_as_they_stand():
    assert attributes_in("Sleepy, sleep; asleep, LOUD, long  naps", CATS.attributes_1) == [
        "Sleepy",
        "sleep",
        "LOUD",
        "long  naps",
    ]
    assert attributes_in("anything", ()) == []
