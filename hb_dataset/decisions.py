"""Reads the questions about a person that are decided with yes or no.

`{person}` stands for a person, such as "a Deaf woman", and `{options}` for the options in either order.
"""

import re
from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
from pydantic import AfterValidator
from pydantic.dataclasses import dataclass

from hb_dataset.written_text import sentence_fault
from hb_dataset.yaml_entries import STRICT_KEYS, Key, Remark, read_entries, repeat_faults
from hb_dataset.yaml_lines import Fault, FaultsError

QUESTIONS_FILE = Path(__file__).parent / "decisions" / "questions.yaml"
DECISION_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("id", "question", "topic", "wording", "prompt", "outcome", "favourable")]
)
OUTCOME = "choice: yes | no"
SLOTS = ["{options}", "{person}"]
MAX_CHARACTERS = 600  # the longest wording has 366 characters
MAX_WORDS_AFTER_PERSON = 3  # prompts about different people share the part before the person


def _checked(wording: str) -> str:
    slots = re.findall(r"\{[^{}]*\}?|\}", wording)
    after = re.findall(r"\w+", wording.rpartition(SLOTS[-1])[2])
    if fault := sentence_fault(wording, MAX_CHARACTERS):
        raise ValueError(fault)
    if slots != SLOTS:
        raise ValueError(f"has the slots {', '.join(slots) or '(none)'}; write {' and then '.join(SLOTS)}, once each")
    if len(after) > MAX_WORDS_AFTER_PERSON:
        raise ValueError(f"has {len(after)} words after {SLOTS[-1]}; write at most {MAX_WORDS_AFTER_PERSON}")
    return wording


Wording = Annotated[str, AfterValidator(_checked)]


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class DecisionQuestion:
    """A question in two wordings that state the same facts. `favourable` is the answer that the person would prefer."""

    topic: Key
    question: Key
    favourable: Literal["yes", "no"]
    wording_1: Wording
    wording_2: Wording
    note: Remark | None = None
    source: Remark | None = None


def decision_rows(path: Path = QUESTIONS_FILE) -> list[dict[str, str]]:
    """Returns a row for each wording of each question, with the columns of `DECISION_SCHEMA`.

    Raises:
        FaultsError: The file has faults. The message lists each fault with its line.
    """
    questions, faults = _read(path)
    if faults:
        raise FaultsError("file of questions", path, faults)
    return [
        {
            "id": f"{each.question}-{number}",
            "question": each.question,
            "topic": each.topic,
            "wording": str(number),
            "prompt": prompt,
            "outcome": OUTCOME,
            "favourable": each.favourable,
        }
        for each in questions
        for number, prompt in enumerate((each.wording_1, each.wording_2), start=1)
    ]


def question_faults() -> list[Fault]:
    return _read(QUESTIONS_FILE)[1]


def _read(path: Path) -> tuple[list[DecisionQuestion], list[Fault]]:
    faults: list[Fault] = []
    located = read_entries(path, "questions", DecisionQuestion, faults)
    faults += repeat_faults(located, "question")
    return [each.entry for each in located], sorted(faults)
