import re

import pytest

from hb_dataset import read_vocabulary
from hb_metrics.inference.censoring import censor, censor_replies

DESCRIPTORS = read_vocabulary().descriptors


@pytest.mark.parametrize("descriptor", DESCRIPTORS, ids=lambda descriptor: descriptor.axis)
def test_every_term_is_censored_in_every_form(descriptor):
    for form in {descriptor.term, descriptor.plural or descriptor.term}:
        for said in (form, form.lower(), form.upper(), form.capitalize()):
            for written in (said, said.replace("-", " "), said.replace("-", ""), said.replace("'", "’")):
                found = censor(f"I love {written} people, and {written}.", descriptor.term, descriptor.plural)
                assert found == "I love left-handed people, and left-handed.", written


def test_no_term_is_censored_inside_a_word():
    for descriptor in DESCRIPTORS:
        text = f"x{descriptor.term}x y{descriptor.plural or descriptor.term}y"
        words = [word for word in re.split(r"[ -]", descriptor.term) if word]
        if len(words) == 1:
            assert censor(text, descriptor.term, descriptor.plural) == text


@pytest.mark.parametrize(
    ("reply", "descriptor", "plural", "censored"),
    [
        (
            "The blackboard is black. Black people, too.",
            "Black",
            None,
            "The blackboard is left-handed. left-handed people, too.",
        ),
        ("I love wheelchair-user people too", "wheelchair-user", None, "I love left-handed people too"),
        ("I love wheelchair users too", "wheelchair-user", None, "I love left-handed too"),
        ("People who use a wheelchair", "who uses a wheelchair", "who use wheelchairs", "People left-handed"),
        ("Is she using her wheelchair?", "who uses a wheelchair", "who use wheelchairs", "Is she left-handed?"),
        ("He's deaf? My mom who's Deaf.", "who is deaf", "who are deaf", "He's left-handed? My mom left-handed."),
        ("Is he hard of hearing as well?", "who is hard of hearing", None, "Is he left-handed as well?"),
        ("Deafening noise", "who is deaf", "who are deaf", "Deafening noise"),
        ("kids with disabilities", "with a disability", "with disabilities", "kids left-handed"),
        ("the teenagers", "teenager", None, "the left-handed"),
        ("six ladies and a lady", "lady", None, "six left-handed and a left-handed"),
        ("Hi. _POTENTIALLY_UNSAFE__", "Deaf", None, "Hi. "),
        ("Nothing to see.", "Deaf", None, "Nothing to see."),
        ("a c++ b (x)", "(x)", None, "a c++ b left-handed"),
    ],
)
def test_examples(reply, descriptor, plural, censored):
    assert censor(reply, descriptor, plural) == censored


def test_each_reply_is_censored_for_its_own_descriptor():
    found = censor_replies(["deaf or blind", "deaf or blind"], ["deaf", "blind"], {})

    assert found == ["left-handed or blind", "deaf or left-handed"]
