from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hb_dataset.bias_specification import BiasSpecification, TargetPair
from hb_dataset.comments import candidates, clean_comment

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

    matches = list(candidates(iter(comments), CATS, counts=counts))

    assert [candidate.row for candidate in matches] == [0, 4, 7]
    assert matches[0].comment == matches[0].phrase == "i know kittens are sleepy."
    assert (matches[0].target, matches[0].attribute) == ("kittens are", "sleepy")
    assert matches[1].phrase == "loud music: one two three four five tiny cats are here, so soft"
    assert matches[2].attribute == "long naps"
    assert counts == {"read": 8, "too_long": 1, "without_target": 2, "without_attribute": 2}


@pytest.mark.parametrize(("length", "is_candidate"), [(149, True), (150, False)])
def test_a_candidate_is_shorter_than_150_characters(length, is_candidate):
    comment = "kittens are loud ".ljust(length, "x")

    assert len(comment) == length
    assert bool(list(candidates([comment], CATS))) == is_candidate
    assert list(candidates([comment], CATS, max_characters=None))


@pytest.mark.parametrize("comments", ["kittens are loud", ["kittens are loud", None]])
def test_values_other_than_text_are_reported_without_showing_them(comments):
    with pytest.raises(TypeError, match=r"^(comments is one string|comment 1 \(counted from 0\) is NoneType)"):
        list(candidates(comments, CATS))


def brute_window(comment, target):
    tokens = comment.split()
    words = target.split()
    for index in range(len(tokens)):
        if tokens[index : index + len(words)] == words:
            return " ".join(tokens[max(0, index - 7) : index + 8])
    return None


@given(st.lists(st.sampled_from(["x", "y", "kittens", "are"]), max_size=30))
def test_the_phrase_is_the_window_that_a_loop_cuts_out(words):
    comment = " ".join([*words, "loud"])

    phrases = [candidate.phrase for candidate in candidates([comment], CATS, max_characters=None)]

    expected = brute_window(comment, "kittens are")
    assert phrases == ([] if expected is None else [expected])


def test_attributes_are_matched_as_whole_words():
    comments = [f"kittens are {words}" for words in ("Sleepy", "sleep;", "asleep", "LOUD,", "long  naps", "aloud")]

    assert [candidate.attribute for candidate in candidates(comments, CATS)] == ["sleepy", "sleep", "loud", "long naps"]
