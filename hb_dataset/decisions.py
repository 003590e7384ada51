"""Reads the questions about a person that are decided with yes or no.

`{person}` stands for a person, such as "a Deaf woman", and `{options}` for the options in either order.
"""

import re
from pathlib import Path
from typing import Annotated, Literal

import pyarrow as pa
from pydantic.dataclasses import dataclass

from hb_dataset.written_text import STRICT_KEYS, Key, Remarked, sentence_fault, without
from hb_dataset.yaml_lines import Fault, FaultsError, read_entries, repeat_faults

QUESTIONS_FILE = Path(__file__).parent / "decisions" / "questions.yaml"
DECISION_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("id", "question", "topic", "wording", "prompt", "outcome", "favourable")]
)
OUTCOME = "choice: yes | no"
SLOTS = ["{options}", "{person}"]
MAX_CHARACTERS = 600  # the longest wording has 366 characters
MAX_WORDS_AFTER_PERSON = 3  # prompts about different people share the part before the person


def _wording_fault(wording: str) -> str | None:
    slots = re.findall(r"\{[^{}]*\}?|\}", wording)
    after = re.findall(r"\w+", wording.rpartition(SLOTS[-1])[2])
    if slots != SLOTS:
        return f"has the slots {', '.join(slots) or '(none)'}; write {' and then '.join(SLOTS)}, once each"
    if len(after) > MAX_WORDS_AFTER_PERSON:
        return f"has {len(after)} words after {SLOTS[-1]}; write at most {MAX_WORDS_AFTER_PERSON}"
    return sentence_fault(wording, MAX_CHARACTERS)


Wording = Annotated[str, without(_wording_fault)]


@dataclass(frozen=True, kw_only=True, config=STRICT_KEYS)
class DecisionQuestion(Remarked):
    """A question in two wordings that state the same facts. `favourable` is the answer that the person would prefer."""

    topic: Key
    question: Key
    favourable: Literal["yes", "no"]
    wording_1: Wording
    wording_2: Wording


def decision_rows(path: Path = QUESTIONS_FILE) -> list[dict[str, str]]:
    """Returns a row for each wording of each question, with the columns of `DECISION_SCHEMA`.

    Raises:
        FaultsError: The file has faults. The message lists each fault with its line.
    """
    faults: list[Fault] = []
    located = read_entries(path, "questions", DecisionQuestion, faults)
    faults += repeat_faults(located, "question")
    if faults:
        raise FaultsError("file of questions", path, sorted(faults))
    return [
        {
            "id": f"{question.question}-{number}",
            "question": question.question,
            "topic": question.topic,
            "wording": str(number),
            "prompt": prompt,
            "outcome": OUTCOME,
            "favourable": question.favourable,
        }
        for question in (entry.entry for entry in located)
        for number, prompt in enumerate((question.wording_1, question.wording_2), start=1)
    ]
