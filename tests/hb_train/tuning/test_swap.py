"""Swapping the descriptor that a reply names: case, number, article, place; and replies that say more about it."""

import itertools
from collections import Counter

import pytest
import yaml

from hb_dataset import load_table
from hb_dataset.awareness import read_awareness
from hb_dataset.versions import read_version
from hb_metrics.collect.classifiers.censoring import mention_pattern
from hb_train.tuning.own_rows import ANCHORS_FILE, draw_anchors
from hb_train.tuning.swap import name_starts, shared_spans, stems, swap_term

VOCABULARY = read_version("v1.0")
TERMS = {term.term: term for term in VOCABULARY.descriptors}


def swap(reply, source, target):
    return swap_term(reply, TERMS[source], TERMS[target], VOCABULARY)


@pytest.mark.parametrize(
    ("source", "target", "reply", "expected"),
    [
        ("Deaf", "tall", "As a Deaf woman, you are Deaf.", "As a tall woman, you are tall."),
        ("tall", "Deaf", "Tall people and tall men.", "Deaf people and Deaf men."),
        ("autistic", "short", "An autistic man met an autistic one.", "A short man met a short one."),
        ("short", "autistic", "A short man met a short one.", "An autistic man met an autistic one."),
        ("tall", "short", "TALL men!", "SHORT men!"),
        ("tall", "short", "Nothing of it.", "Nothing of it."),
        ("Muslim", "Deaf", "Muslims pray. As a Muslim, I pray.", "Deaf people pray. As a Deaf person, I pray."),
        ("Muslim", "Deaf", "I'm a Muslim too. A Muslim who prays!", "I'm a Deaf person too. A Deaf person who prays!"),
        ("short", "80-year-old", "A short man met a short one.", "An 80-year-old man met an 80-year-old one."),
        ("Deaf", "with asthma", "As a deaf woman I met Deaf men.", "As a woman with asthma I met men with asthma."),
        ("tall", "Deaf", "As a tall man, a tall, dark man, too.", None),  # not "a Deaf person, dark man"
        ("Deaf", "with a lisp", "A Deaf actor.", None),  # there is no place for "with a lisp"
        ("with asthma", "autistic", "You are a woman with asthma!", None),  # after "woman" it is too late
        ("with asthma", "autistic", "Nothing of it.", "Nothing of it."),
        ("with asthma", "who stutters", "You live with asthma.", None),  # no person before "who stutters"
        (
            "with asthma",
            "who stutters",
            "Someone with asthma met men with asthma.",
            "Someone who stutters met men who stutter.",
        ),
        (
            "with a lisp",
            "with a disability",
            "Men with lisps, a man with a lisp",
            "Men with disabilities, a man with a disability",
        ),
        ("with a stutter", "with a disability", "men with stutters", "men with disabilities"),
        ("who uses a wheelchair", "with asthma", "a man who uses a wheelchair", "a man with asthma"),
        ("who uses a wheelchair", "with asthma", "a man using a wheelchair", None),
        ("with a cochlear implant", "tall", "Cochlear implants are great.", None),  # a part of the term
        ("nonbinary", "moderate", "A non-binary veteran!", None),  # another term of the axis
        ("nonbinary", "moderate", "A nonbinary veteran, so genderqueer!", None),
        ("blind", "moderate", "Blindness is nothing to be sorry for.", None),
    ],
)
def test_replies_get_the_other_descriptor(source, target, reply, expected):
    swapped = swap(reply, source, target)
    assert (None if swapped is None else swapped.text) == expected


def test_all_pairs_keep_what_is_not_swapped():
    """Each term in both of its places, and every tenth pair of all terms."""
    pairs = list(itertools.product(VOCABULARY.descriptors, repeat=2))[::317]
    assert len(pairs) > 1000
    swapped_at_all = 0
    for source, target in pairs:
        phrase = f"{source.term} woman" if source.placement == "before" else f"woman {source.term}"
        reply = f"So you are the {phrase}. How is it?"
        swapped = swap_term(reply, source, target, VOCABULARY)
        if swapped is None:
            continue
        assert (source.placement, target.placement) != ("after", "before")
        swapped_at_all += 1
        wanted = f"{target.term} woman" if target.placement == "before" else f"woman {target.term}"
        assert swapped.text == f"So you are the {wanted}. How is it?", (source.term, target.term)
        (start, end, new_start, new_end) = swapped.spans[0]
        assert reply[:start] + reply[end:] == swapped.text[:new_start] + swapped.text[new_end:]
        if not stems(source.term) & stems(target.term):
            assert not mention_pattern((source.term, source.plural)).search(swapped.text)
    assert swapped_at_all > 0.8 * len(pairs)


def test_stems_join_forms_of_a_word():
    assert stems("Deaf") & stems("who is deaf")
    assert stems("trans") & stems("transgender woman")
    assert stems("who is a little person") == {"littl"}
    assert not stems("with one boy") & stems("with one girl")


def test_what_begins_to_name_a_term():
    spellings = {" tall": " Deaf", "tall": "Deaf", " Tall": " Deaf", "Tall": "Deaf"}
    assert dict(name_starts("tall", "Deaf")) == spellings
    assert dict(name_starts("Deaf", "tall"))[" deaf"] == " tall"


def test_spans_are_widened_to_the_widest():
    reply = "An old man met old men."
    swaps = [swap(reply, "old", term) for term in ("tall", "autistic", "with asthma")]
    spans = shared_spans(swaps)
    texts = [reply, *(each.text for each in swaps)]
    named = [[text[start:stop] for start, stop in of_text] for text, of_text in zip(texts, spans, strict=True)]
    assert named[0] == ["An old man", " old men"]
    assert named[1:3] == [["A tall man", " tall men"], ["An autistic man", " autistic men"]]
    assert named[3:] == [["A man with asthma", " men with asthma"]]
    assert shared_spans([swaps[0]._replace(spans=[[0, 4, 0, 4], [3, 6, 3, 6]])]) is None


def test_anchors_share_nothing_with_what_is_measured():
    content = yaml.safe_load(ANCHORS_FILE.read_text(encoding="utf-8"))
    measured = read_awareness()
    terms = {term for item in measured for term in item.descriptors}
    terms |= set(load_table("v1.0-small")["descriptor"].to_pylist())
    known_stems = set().union(*map(stems, terms))
    questions = {*content["neutral"]}
    for group in content["needs"]:
        questions |= {*group["questions"]}
        assert not known_stems & set().union(*map(stems, group["people"]))
    assert not questions & ({item.question for item in measured} | {item.neutral for item in measured})


def test_anchors_are_drawn_alike():
    texts = [anchor.text for anchor in draw_anchors(800, seed=1)]
    needs = [text for text in texts if text.startswith("I'm ")]
    assert len(needs) == 600
    assert len({*needs}) == 600
    assert set(Counter(text for text in texts if text not in needs).values()) <= {3, 4}
    assert [anchor.text for anchor in draw_anchors(800, seed=2)] != texts
    assert len(draw_anchors(0, seed=0)) == 0
