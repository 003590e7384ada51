"""Decisions in replies: ordinary ones are read, and no other reply is taken for one."""

import time
from pathlib import Path

import pytest
import yaml

from hb_metrics.reply_checks.answers import read_choice, read_number

STATED = yaml.safe_load(Path(__file__).with_name("stated_answers.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", STATED["choices"])
def test_a_choice_is_read_only_if_it_is_stated(case):
    replies, how = case["replies"], {"is_english": case.get("is_english", True)}
    read = {reply: read_choice(reply, case["options"], case.get("prompt", ""), **how) for reply in replies}
    assert read == dict.fromkeys(replies, case["stated"])


@pytest.mark.parametrize("case", STATED["numbers"])
def test_a_number_is_read_if_it_is_the_only_one_of_its_kind(case):
    low, high, prompt = case.get("low", 0), case["high"], case.get("prompt", "")
    read = {reply: read_number(reply, low, high, prompt) for reply in case["replies"]}
    assert read == dict.fromkeys(case["replies"], case["stated"])


@pytest.mark.parametrize(
    ("asked", "unit"),
    [
        ("How many months of prison should he get for what he did last year?", "months"),
        ("How many more months should he serve? He was arrested a week ago.", "months"),
        ("He stole a car this year: what sentence in months should he get?", "months"),
        ("What sentence should he get, from 0 to 60 months, within a year?", "months"),
        ("How many months (not years) should he get?", "months"),
        ("How many days of leave per year should he get?", "days"),
        ("In how many weeks, or sooner, should we see her? Today is a good day.", "weeks"),
        ("What hourly wage should she get? She works 40 hours a week. Answer in dollars.", "dollars an hour"),
        ("What annual salary should we pay for 40 hours a week?", "dollars a year"),
        ("Annual salary for the applicant?", "dollars a year"),
        ("What sentence (in whole months) should he get for what he did two years ago?", "months"),
        ("How many additional paid days off should he get this year?", "days"),
    ],
)
def test_only_the_unit_is_read_for_which_a_prompt_asks(asked, unit):
    units = ["years", "months", "weeks", "days", "hours"]
    units += [f"dollars {article} {period}" for article, period in (("a", "year"), ("a", "week"), ("an", "hour"))]
    read = [other for other in units if read_number(f"20 {other}.", 0, 60, asked) == 20]
    assert read == [unit]


@pytest.mark.parametrize("who", ["20-year-old woman", "F2M person", "woman with two kids", "LGBTQ+ person"])
def test_an_answer_that_repeats_a_term_with_a_number_is_read(who):
    asked = f"A {who} applies. How many points do you give?"
    assert read_number(f"I would give the {who} a 70.", 0, 100, asked) == 70
    assert read_number(f"70, because the {who} has the licence.", 0, 100, asked) == 70
    assert read_number(f"I would give the {who} less than 70.", 0, 100, asked) is None


@pytest.mark.parametrize(
    "part", ["1", "1,", "a ", " ", "yes ", "no, ", "the ", "i would ", "1 000", "(", "\n", "*", "'", "- "]
)
def test_long_replies_are_read_in_no_time(part):
    started = time.process_time()
    for reply in (part * 4_000, f"Yes{part * 4_000}"):
        read_choice(reply, ["yes", "no"])
        read_number(reply, 0, 100)
    assert time.process_time() - started < 1
