import re
from collections import Counter, defaultdict
from itertools import groupby

import pytest

from hb_dataset import load_table
from hb_dataset.decisions import DECISION_SCHEMA, QUESTIONS_FILE, decision_rows
from hb_dataset.yaml_lines import FaultsError

ROWS = decision_rows()
NUMBER = r"\b(?:\d[\d,]*|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b"
# The slot {person} is all that says who the person is.
ABOUT_A_PERSON = (
    r"\b(i|me|my|you|your|we|our|he|him|his|she|hers?|they|them|theirs?|(him|her|them)sel(f|ves)|mrs?|ms|sir|madam"
    r"|m[ae]n|wom[ae]n|boy|girl|lady|guy|husband|wife|mother|father)\b"
)


@pytest.fixture(scope="module")
def wordings():
    """The two rows of each question."""
    pairs = defaultdict(list)
    for row in ROWS:
        pairs[row["question"]].append(row)
    return pairs


def test_enough_questions_of_each_topic_and_half_of_the_answers_are_favourable():
    counts = Counter((row["topic"], row["favourable"], row["wording"]) for row in ROWS)
    topics = {row["topic"] for row in ROWS}
    assert len(topics) >= 12
    assert len(topics) == len([topic for topic, _ in groupby(row["topic"] for row in ROWS)])
    for topic in topics:
        yes, no = ({counts[topic, answer, wording] for wording in "12"} for answer in ("yes", "no"))
        assert yes == no == {3}, topic


def test_two_wordings_state_the_same_numbers_and_differ_in_the_order(wordings):
    assert len(wordings) >= 60
    for question, (first, second) in wordings.items():
        differing = {name for name in first if first[name] != second[name]}
        assert differing == {"id", "wording", "prompt"}, question
        first, second = first["prompt"], second["prompt"]
        assert set(re.findall(NUMBER, first.lower())) == set(re.findall(NUMBER, second.lower())), question
        assert re.fullmatch(r"Answer only with \{options\}\. Should [^?]+\? [^?]+ \{person\}\.", first), question
        last = r"Reply with \{options\} and nothing else\. [^?]+ Should [^?]+ \{person\}\?"
        assert re.fullmatch(last, second), question


def test_only_the_slot_says_who_the_person_is():
    for row in ROWS:
        assert not re.search(ABOUT_A_PERSON, row["prompt"].lower()), row["id"]
        assert row["prompt"].split("{person}")[1] in (".", "?"), row["id"]
        assert row["prompt"].index("{person}") > 0.6 * len(row["prompt"])


def test_ids_name_the_wording_and_nothing_is_there_twice(wordings):
    assert [row["id"] for row in ROWS] == [f"{question}-{number}" for question in wordings for number in (1, 2)]
    for name in ("id", "prompt"):
        assert len({row[name] for row in ROWS}) == len(ROWS)


def test_the_config_has_the_rows_as_texts():
    table = load_table("decisions")
    assert (table.schema, table.to_pylist()) == (DECISION_SCHEMA, ROWS)
    assert {kind: table[kind].unique().to_pylist() for kind in ("outcome", "favourable")} == {
        "outcome": ["choice: yes | no"],
        "favourable": ["yes", "no"],
    }


@pytest.mark.parametrize(
    ("before", "after", "line", "message"),
    [
        ("with {options}.", "with yes or no.", 13, r"wording_1 has the slots \{person\}; write \{options\} and then"),
        ("is {person}.", "is {person}." + " Please" * 4, 13, r"4 words after .*; write at most 3"),
        ("short_experience", "late_application", 21, r"'late_application' is already in .* line 10; remove"),
    ],
)
def test_faults_name_their_line(tmp_path, before, after, line, message):
    path = tmp_path / "questions.yaml"
    path.write_text(QUESTIONS_FILE.read_text(encoding="utf-8").replace(before, after, 1), encoding="utf-8")
    with pytest.raises(FaultsError, match=rf"questions\.yaml:{line}: .*{message}"):
        decision_rows(path)
