import pytest
from hypothesis import given
from hypothesis import strategies as st

from hb_dataset.bias_specification import BiasSpecification, TargetPair, read_specification
from hb_dataset.counterfactuals import counterfactual

GENDER, RACE, RELIGION, ISLAM = map(read_specification, ("gender", "race", "religion1", "religion2"))


def specification(*pairs, two_way=False, kept=()):
    return BiasSpecification(
        bias_type="test",
        dimension="test",
        group_1="one",
        group_2="two",
        target_terms_1=("a",),
        target_terms_2=("b",),
        pairs=pairs,
        attributes_1=("x",),
        attributes_2=("y",),
        kept_phrases=kept,
        published_two_way=two_way,
    )


@pytest.mark.parametrize(
    ("spec", "text", "expected"),
    [
        # whole words only
        (GENDER, "the midwife saw a motherboard and a sherbet", None),
        (GENDER, "my midwife met my wife", "my midwife met my husband"),
        (GENDER, "a mother-in-law", "a father-in-law"),
        (GENDER, "", None),
        # case
        (GENDER, "Women and WOMEN", "Men and MEN"),
        (RACE, "African American art", "Anglo American art"),
        (RACE, "An African-American poet", "An Anglo-American poet"),
        # plurals
        (GENDER, "wives, ladies, hostesses, nieces, moms", "husbands, gentlemen, hosts, nephews, dads"),
        # possessives
        (GENDER, "the girl's hat, the girls' hats", "the boy's hat, the boys' hats"),
        (GENDER, "women’s and ladies’ rooms", "men’s and gentlemen’s rooms"),
        (GENDER, "the 'ladies' sing", "the 'gentlemen' sing"),
        (GENDER, "a lady at the gentlemen's door", "a gentleman at the ladies' door"),
        # the article follows
        (ISLAM, "an islamic hat, An Islamic hat, AN ISLAMIC HAT", "a christian hat, A Christian hat, A CHRISTIAN HAT"),
        (specification(TargetPair(t1="cat", t2="owl")), "A cat, a  cat, data cat", "An owl, an  owl, data owl"),
        (specification(TargetPair(t1="user", t2="owner")), "A user, a USER", "An owner, an OWNER"),
        (specification(TargetPair(t1="european", t2="asian")), "a European", "an Asian"),
        # both sides, where the pair's own t1 is there
        (GENDER, "women sing better than men", "men sing better than women"),
        (GENDER, "men sing", None),
        (RACE, "africans and americans", "americans and africans"),
        (RELIGION, "jewish people and christians", "christian people and jews"),
        (ISLAM, "islamic songs and christians", "christian songs and muslims"),
        (GENDER, "a hostess can host", "a host can host"),
        # the longest term first, spaces of any kind, phrases that are kept
        (RACE, "african\namericans and africans", "anglo americans and americans"),
        (RACE, "a black hole, a black cat", "a black hole, a white cat"),
        # what re.IGNORECASE takes for an s, a k or an i
        (specification(TargetPair(t1="disk", t2="tape")), "diſ\u212a d\u0131sk", "tape tape"),
    ],
)
def test_whole_words(spec, text, expected):
    assert counterfactual(text, spec) == expected


@pytest.mark.parametrize(
    ("spec", "text", "expected"),
    [
        (GENDER, "the midwife and the motherboard", "the midhusband and the fatherboard"),
        (GENDER, "women and men", "men and men"),
        (GENDER, "she sang as she sang, she", "she sang as he sang, she"),
        (RELIGION, "jews sing.", "christians sing."),
        (RELIGION, "we are jews.", None),
        (RELIGION, "jews and christians sing", "christians and jews sing"),
        (RELIGION, "a jewish and a christian song", "a christian and a jew song"),
        (RACE, "black and white", "white and black"),
        (RACE, "africans and americans", "americans and africans"),
        (specification(TargetPair(t1="cat", t2="cathedral"), two_way=True), "cat cathedral", "cathedral cat"),
    ],
)
def test_the_published_rule(spec, text, expected):
    assert counterfactual(text, spec, "published") == expected


BOTH_SIDES = ["girls", "Boy", "she", "HE", "woman", "men", "Aunt", "ladies’", "gentlemen’s", "x"]


@given(st.lists(st.sampled_from(BOTH_SIDES), max_size=8))
def test_swapping_twice_gives_the_text_back_where_every_pair_has_both_sides(words):
    text = " ".join([*words, "girl boy she he woman man women men aunt uncle lady gentleman"])

    assert counterfactual(counterfactual(text, GENDER), GENDER) == text
