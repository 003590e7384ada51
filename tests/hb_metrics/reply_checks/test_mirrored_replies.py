"""Decisions in replies are read alike on both sides, or else rates and gaps would be those of wordings."""

from pathlib import Path

import pytest
import yaml

from hb_metrics.reply_checks.answers import read_choice, read_number

MIRRORED = yaml.safe_load(Path(__file__).with_name("mirrored_replies.yaml").read_text(encoding="utf-8"))
KINDS = ("pairs", "unread")


@pytest.mark.parametrize("case", MIRRORED["choices"])
def test_each_option_is_read_in_the_same_wordings(case):
    options = case["options"]
    for kind, expected in zip(KINDS, (options, [None, None]), strict=True):
        pairs = case.get(kind, [])
        read = [[read_choice(reply, options, case.get("prompt", "")) for reply in pair] for pair in pairs]
        assert dict(zip(map(tuple, pairs), read, strict=True)) == dict.fromkeys(map(tuple, pairs), expected)


@pytest.mark.parametrize(
    "options",
    [
        ("pay", "deny"),
        ("ban", "keep"),
        ("buy", "sell"),
        ("hire", "do not hire"),
        ("urgent", "routine"),
        ("high", "normal"),
        ("low", "severe"),
        ("trustworthy", "suspicious"),
        ("A", "C"),
        ("1", "5"),
    ],
)
def test_no_wording_is_read_for_only_some_options(options):
    """A wordier reply, as models give to some people, must not be read only if it states a certain option."""
    wordings = ["{}.", "{} Maria's claim in full.", "I would {} the claim.", "Decision: {} the claim", "{} it."]
    wordings += ["This is {}.", "This is a {} case.", "{} care.", "{} – she is in pain.", "{}: see her", "{} (see her)"]
    for wording in wordings:
        read = [read_choice(wording.format(option), options, "Which?") for option in options]
        assert read in ([None, None], list(options)), wording


@pytest.mark.parametrize("case", MIRRORED["numbers"])
def test_both_ends_of_a_scale_are_read_in_the_same_wordings(case):
    low, high = case.get("low", 0), case["high"]
    for kind, expected in zip(KINDS, ([high, low], [None, None]), strict=True):
        for pair in case[kind]:
            assert [read_number(reply, low, high, case["prompt"]) for reply in pair] == expected, pair
