import pytest

from hb_dataset import read_vocabulary
from hb_metrics.collect.classifiers.censoring import censor, mask_groups, masked_texts, term_mentioned
from hb_metrics.run.replies import Replies

DESCRIPTORS = read_vocabulary().descriptors


def test_every_term_is_censored_in_every_form():
    missed = []
    for descriptor in DESCRIPTORS:
        for form in {descriptor.term, descriptor.plural or descriptor.term}:
            for cased in (form, form.lower(), form.upper(), form.capitalize()):
                for text in (cased, cased.replace("-", " "), cased.replace("-", ""), cased.replace("'", "’")):
                    censored = censor(f"I love {text} people, and {text}.", (descriptor.term, descriptor.plural))
                    if censored != "I love left-handed people, and left-handed.":
                        missed.append((descriptor.axis, text, censored))
    assert len(DESCRIPTORS) > 500
    assert missed == []


@pytest.mark.parametrize(
    ("reply", "descriptor", "plural", "censored"),
    [
        ("The blackboard is black. Black, too.", "Black", None, "The blackboard is left-handed. left-handed, too."),
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
        (
            "他是Deaf人,คนdeafมา, Deafさん, Deaf는 Deaf한",
            "Deaf",
            None,
            "他是left-handed人,คนleft-handedมา, left-handedさん, left-handed는 left-handed한",
        ),
        ("Deafность", "Deaf", None, "Deafность"),
        ("a c++ b (x)", "(x)", None, "a c++ b left-handed"),
    ],
)
def test_examples(reply, descriptor, plural, censored):
    assert censor(reply, (descriptor, plural)) == censored


def test_both_terms_of_an_intersection_are_taken_out():
    replies = ["A queer Black woman!", "You are Black?", "Deaf people with PhDs.", "queer and Black"]
    descriptors = ["queer Black", "queer Black", "Deaf … with a PhD", "queer Black"]
    terms = {
        name: [(term, {"with a PhD": "with PhDs"}.get(term)) for term in (name, *parts)]
        for name, parts in {"queer Black": ["queer", "Black"], "Deaf … with a PhD": ["Deaf", "with a PhD"]}.items()
    }
    rows = Replies(*[["a"] * 4] * 5, replies)._replace(descriptors=descriptors)
    assert masked_texts(rows, terms) == [
        "A left-handed woman!",
        "You are left-handed?",
        "left-handed people left-handed.",
        "left-handed and left-handed",
    ]


def test_replies_that_name_their_term_are_found():
    replies = ["The Deaf are many.", "Hi.", "left-handed, I see", "two wheelchair-users _POTENTIALLY_UNSAFE__"]
    descriptors = ["Deaf", "Deaf", "left-handed", "young … wheelchair-user"]
    rows = Replies(*[["a"] * 4] * 5, replies)._replace(descriptors=descriptors)
    named = term_mentioned(rows, {descriptors[3]: [(descriptors[3], None), ("young", None), ("wheelchair-user", None)]})
    assert named.tolist() == [True, False, True, True]


@pytest.mark.parametrize(
    ("text", "mentions", "masked"),
    [
        ("The man worked as a salesman for two men.", ["man", "men"], "The XYZ worked as a salesman for two XYZ."),
        ("Women! The woman's hat; a womanly WOMAN.", ["woman", "women"], "XYZ! The XYZ's hat; a womanly XYZ."),
        (
            "Did the gay person work? Gay people, gay  person, gay-person; gay persons and a person.",
            ["gay person", "gay people"],
            "Did the XYZ work? XYZ, XYZ, XYZ; XYZ and a person.",
        ),
        ("a non binary, nonbinary or non-binary kid", ["non-binary kid"], "a non binary, nonbinary or XYZ"),
        ("a non binary kid, nonbinary kids", ["non-binary kid"], "a XYZ, XYZ"),
        ("the black person and the person", ["person", "black person"], "the XYZ and the XYZ"),
        ("the tall (very) one", ["(very) one"], "the tall XYZ"),
        ("nobody", [], "nobody"),
        ("", ["man"], ""),
    ],
)
def test_examples_are_masked(text, mentions, masked):
    assert mask_groups([text], [mentions]) == [masked]
    assert mask_groups([text], [mentions[::-1] * 2]) == [masked]
