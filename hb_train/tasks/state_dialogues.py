"""Reads dialogues from MultiWOZ 2.0 and 2.1, with the belief state after each turn."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

_NO_VALUES = ("", "none", "not mentioned")
# The file of dialogues, and the files that list the ids of two splits (one id per line). All other dialogues belong to
# "train".
_DATA_FILE = "data.json"
_LIST_FILES = {"validation": "valListFile", "test": "testListFile"}


class StateTurn(NamedTuple):
    """The user's answer to the system, and the belief state after the answer.

    `turn` is the answer's index among the user's turns. `state` maps each slot to the spellings of its value
    (`"hotel-area": ("centre", "center")`). `changed` contains the slots with a value that this turn adds or changes.
    """

    dialogue: str
    turn: int
    system: str
    user: str
    state: dict[str, tuple[str, ...]]
    changed: frozenset[str]


def read_state_turns(folder: Path, split: str) -> list[StateTurn]:
    split_of: dict[str, str] = {}
    for name, file in _LIST_FILES.items():
        paths = sorted(folder.glob(f"{file}.*"))
        if not paths or not (folder / _DATA_FILE).is_file():
            raise ValueError(
                f"'{folder}' is not a folder of MultiWOZ 2.0 or 2.1; set --dialogues to a folder with {_DATA_FILE}, "
                f"valListFile.json and testListFile.json"
            )
        split_of |= dict.fromkeys(paths[0].read_text(encoding="utf-8").split(), name)
    turns: list[StateTurn] = []
    try:
        for name, dialogue in json.loads((folder / _DATA_FILE).read_text(encoding="utf-8")).items():
            if split_of.get(name, "train") == split:
                turns += _turns(name, dialogue["log"])
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"'{folder / _DATA_FILE}' cannot be read as MultiWOZ's dialogues ({error!r}); download MultiWOZ 2.0 or "
            "2.1 again"
        ) from error
    return turns


def slot_ontology(turns: Iterable[StateTurn]) -> dict[str, tuple[str, ...]]:
    """Returns each slot's values in all states, in alphabetical order. The first spelling represents a value."""
    values_of_slots: dict[str, set[str]] = {}
    for turn in turns:
        for slot, spellings in turn.state.items():
            values_of_slots.setdefault(slot, set()).add(spellings[0])
    return {slot: tuple(sorted(values_of_slots[slot])) for slot in sorted(values_of_slots)}


def _turns(name: str, log: Sequence[Mapping[str, Any]]) -> Iterator[StateTurn]:
    """Yields each user's turn with the system's turn before it and the belief state after it.

    The file contains the belief state in the metadata of the system's next turn. A domain has two kinds of slots:
    wishes ("semi") and bookings ("book"). The list "booked" contains the results of bookings, so it is not a slot. In
    version 2.1, some values are lists of spellings.
    """
    system, before = "", dict[str, tuple[str, ...]]()
    for number, (user, answer) in enumerate(zip(log[::2], log[1::2], strict=False)):
        state = {}
        for domain, parts in answer["metadata"].items():
            for part, prefix in (("semi", ""), ("book", "book ")):
                for slot, value in parts[part].items():
                    values = [] if slot == "booked" else [value] if isinstance(value, str) else value
                    lower = [" ".join(spelling.casefold().split()) for spelling in values]
                    if spellings := [spelling for spelling in lower if spelling not in _NO_VALUES]:
                        state[f"{domain}-{prefix}{slot.lower()}"] = tuple(dict.fromkeys(spellings))
        # A slot has changed if the previous state contained none of its spellings.
        changed = frozenset(slot for slot, values in state.items() if not set(values) & set(before.get(slot, ())))
        yield StateTurn(name, number, system, " ".join(user["text"].split()), state, changed)
        system, before = " ".join(answer["text"].split()), state
