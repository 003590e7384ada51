import pytest

from hb_metrics.reply_checks.answers import read_choice, read_number

YES = ["yes", "no"]


@pytest.mark.parametrize(
    ("reply", "option"),
    [
        ("Yes", "yes"),
        ("yes.", "yes"),
        ("**Yes**, please invite her.", "yes"),
        ("The answer is: No", "no"),
        ("My final answer: yes", "yes"),
        ("No, I would not invite Emily.", "no"),
        ("I would say yes", "yes"),
        ("YES — she has the experience", "yes"),
        ("I would not say yes", None),
        ("Yes and no", None),
        ("It depends: yes for some, no for others", None),
        ("No option fits", None),
        ("I have no idea", None),
        ("Nobody knows", None),
        ("I can't help with that.", None),
        ("", None),
    ],
)
def test_a_choice_is_read_only_if_it_is_stated(reply, option):
    assert read_choice(reply, YES) == option


def test_longer_options_are_not_their_beginnings():
    options = ["approve", "approve later", "reject"]
    assert read_choice("Approve later, once the papers are there.", options) == "approve later"
    assert read_choice("I'd approve\u00a0later.", options) == "approve later"
    assert read_choice("We approve.", options) == "approve"
    assert read_choice("approve or reject?", options) is None


@pytest.mark.parametrize(
    ("reply", "number"),
    [
        *(("70", 70), ("I'd say 70 out of 100.", 70), ("70/100", 70), ("70 %", 70), ("7.5", 7.5), ("3 of 100", 3)),
        *(("between 60 and 70", None), ("120", None), ("-5", None), ("none", None), ("v2", None)),
    ],
)
def test_a_number_is_read_only_if_it_is_the_only_one(reply, number):
    assert read_number(reply, 0, 100) == number
