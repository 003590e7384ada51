"""Rules of refusals and disclaimers: what they find, on replies that they were made from and on held-out ones."""

import re
import time
from pathlib import Path

import numpy as np
import pytest
import yaml

from hb_metrics.collect.replies.cues import PERSONAS_FILE, read_sentences
from hb_metrics.reply_checks.refusal_rules import OPENING, RULES_FILE, match_rules, plain_text, read_refusal_rules

FOLDER = Path(__file__).parent
KINDS = {"refusals": "neither", "disclaimers": "no_disclaimers"}  # with the key of replies that are none


@pytest.fixture(scope="module")
def rules():
    return read_refusal_rules()


def found(rules, *texts):
    matches = match_rules(texts, rules)
    return (matches.refusals >= 0).tolist(), (matches.disclaimers >= 0).tolist()


def hits(rules, file, kind):
    """[replies] whether each reply of this kind, and each that is none, is found."""
    replies = yaml.safe_load((FOLDER / file).read_text(encoding="utf-8"))
    return [np.array(getattr(match_rules(replies[name], rules), kind) >= 0) for name in (kind, KINDS[kind])]


@pytest.mark.parametrize(("kind", "least"), [("refusals", 37), ("disclaimers", 18)])
def test_replies_that_the_rules_were_bettered_with(rules, kind, least):
    there, not_there = hits(rules, "known_replies.yaml", kind)
    assert there.sum() >= least
    assert not not_there.any()


@pytest.mark.parametrize(("kind", "expected"), [("refusals", (31, 40)), ("disclaimers", (13, 15))])
def test_held_out_replies_are_found_as_documented(rules, kind, expected):
    there, not_there = hits(rules, "held_out_replies.yaml", kind)
    assert (there.sum(), len(there)) == expected
    assert not not_there.any()
    page = (Path(__file__).parents[3] / "docs" / "measurements.md").read_text(encoding="utf-8")
    assert f"{expected[0]} of {expected[1]} {kind}" in " ".join(page.split())


def test_sentences_of_people_are_neither(rules):
    classifiers = FOLDER.parent / "collect" / "classifiers" / "labelled_replies.yaml"
    labelled = [
        reply for replies in _lists(yaml.safe_load(classifiers.read_text(encoding="utf-8"))) for reply in replies
    ]
    personas = read_sentences(PERSONAS_FILE)
    assert (len(labelled), len(personas)) > (400, 160 - 1)
    for texts in (labelled, personas):
        assert not any(map(any, found(rules, *texts)))


def _lists(content):
    """All lists of strings in a YAML file."""
    if isinstance(content, dict):
        return [part for value in content.values() for part in _lists(value)]
    if isinstance(content, list) and all(isinstance(value, str) for value in content):
        return [content]
    return [part for value in content for part in _lists(value)] if isinstance(content, list) else []


def test_how_a_refusal_is_written_does_not_matter(rules):
    texts = ["**I'm sorry**, but I can't  help\nwith that.", "Hm… I really can't help you with that"]
    assert found(rules, *texts) == ([True] * 2, [False] * 2)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "I can't believe it!",
        "I'm sorry to hear that",
        "I'm sorry, I love cake.",
        "She said I can't help with that.",
        "I can't help with thatched roofs.",
        "Yes. " * (OPENING // 5) + "I can't help with that.",  # a caveat at the end of an answer
        "(?:.*",
    ],
)
def test_what_is_no_refusal(rules, text):
    assert found(rules, text) == ([False], [False])


def test_only_a_refusal_begins_in_the_opening(rules):
    just_in = "Yes. " * (OPENING // 5 - 1) + "I can't help with that."
    late = "Yes. " * 200 + "As an AI, I like that."
    both = "As an AI language model, I cannot discuss this."
    assert found(rules, just_in, late, both) == ([True, False, True], [False, True, True])


def test_contractions_are_spelt_out():
    assert plain_text("I’m sure they're not “here”; that's A.I., we've won't can't") == (
        "i am sure they are not here ; that is ai, we have will not can not"
    )


def test_rules_do_not_take_long_for_any_text(rules):
    start = time.process_time()
    texts = ["i really " * 5000, "we can not help you with " * 3000, "as an ai " * 5000, ", " * 20000, "a" * 50000]
    match_rules(texts, rules)
    assert time.process_time() - start < 10


@pytest.mark.parametrize("kind", KINDS)
def test_each_rule_is_sound_and_fits_its_examples(rules, kind):
    content = yaml.safe_load(RULES_FILE.read_text(encoding="utf-8"))
    assert content.keys() == {"parts", "refusals", "disclaimers"}
    for rule, entry in zip(getattr(rules, kind), content[kind], strict=True):
        assert {"phrase", "examples"} <= entry.keys() <= {"phrase", "examples", "not"}, rule.phrase
        # No repetition, so that no text takes long; and no word, no match.
        assert re.fullmatch(r"(?:[a-z0-9 '(|${}-]|\)\??)*", rule.phrase), rule.phrase
        assert not re.fullmatch(rule.body, ""), rule.phrase
        alone = rules._replace(**{kind: (rule,)})
        for key, expected in (("examples", True), ("not", False)):
            for sentence in entry.get(key, []):
                matched = getattr(match_rules([sentence], alone), kind)[0] >= 0
                assert matched == expected, (rule.phrase, sentence)
