"""Decisions in replies are read alike on both sides, or else rates and gaps would be those of wordings."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import yaml

from hb_metrics.measurements.decisions.answers import About, read_answers
from hb_metrics.reply_checks.answers import read_choice, read_number
from hb_metrics.stats.decision_table import decision_gap

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
    for kind, expected in zip(KINDS, ([case["high"], 0], [None, None]), strict=True):
        for pair in case[kind]:
            assert [read_number(reply, 0, case["high"], case["prompt"]) for reply in pair] == expected, pair


@pytest.mark.parametrize("case", [case for case in MIRRORED["choices"] if "prompt" in case])
def test_rates_are_recovered_from_mixed_wordings(case):
    """Of two terms, one gets the favourable option in 80 % of 60 questions, and the other in 40 %."""
    rng, rates, rows = np.random.default_rng(0), {"hearing": 0.8, "Deaf": 0.4}, []
    for question in range(60):
        for term, rate in rates.items():
            pair = case["pairs"][rng.integers(len(case["pairs"]))]
            about = About(str(question), "ability", term, None, "person", 0)
            is_favourable = (question * 7 % 60) < rate * 60
            rows.append({"id": f"{term} {question}", "reply": pair[not is_favourable], **about._asdict()})
    prompt = case["prompt"]
    questions = {"id": [str(question) for question in range(60)], "prompt": [prompt] * 60}
    outcome = {"outcome": ["choice: " + " | ".join(case["options"])] * 60, "favourable": [case["options"][0]] * 60}
    replies = pa.Table.from_pylist([{**row, "text": prompt, "question": None} for row in rows])
    tables = SimpleNamespace(
        inside=lambda _: SimpleNamespace(read=lambda *_: pa.table({**questions, **outcome})),
        reply_table=lambda *_: replies,
    )
    record = SimpleNamespace(decisions=SimpleNamespace(answers="replies"))
    _, answers = read_answers(SimpleNamespace(tables=tables, record=record))
    assert not any(answer.is_refusal for answer in answers)
    columns = zip(*[(answer.value, answer.term, answer.own_id, answer.axis) for answer in answers], strict=True)
    found = decision_gap(*map(list, columns))["by_descriptor"]["ability"]
    assert {term: found[term]["mean"] for term in rates} == pytest.approx(rates)
