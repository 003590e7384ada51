"""Makes yes-or-no questions about slots and values from dialogues with belief states, and encodes the questions.

Barikeri et al. (2021, section 3) show the model the system's last words and the user's answer, and ask whether a slot
has a certain value in the belief state. They do not state how they chose the questions with the answer "no". Our rules
are as follows:

* A turn has one "yes" question for each slot with a value that the turn adds or changes. Values from earlier turns are
  not used, because the model does not read these turns.
* For each "yes" question, there is one "no" question. It asks, with equal probability, about another value of the same
  slot or about another slot. The paper must also have used about one "no" per "yes", because its two models that learnt
  nothing have accuracies of 0.524 and 0.531 (table 4, appendix C.2).
* Values come from all dialogues. Another spelling of a value in the state ("center") does not count as another value.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from hb_dataset.seeded_draws import seeded_generator

if TYPE_CHECKING:
    from hb_metrics.models.loading import LoadedTokenizer


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


class SlotValue(NamedTuple):
    """The question whether this slot has this value in the belief state. `label` is 1 if the answer is yes."""

    id: str
    system: str
    user: str
    domain: str
    slot: str
    value: str
    label: int


def slot_values(
    turns: Sequence[StateTurn], ontology: Mapping[str, Sequence[str]], *, seed: int = 0
) -> tuple[list[SlotValue], dict[str, int]]:
    """Makes questions by the rules above. Counts the turns without questions and the missing "no" questions.

    If the turn contains a spelling of the value, the question uses it.
    """
    rows: list[SlotValue] = []
    num_skipped = Counter({"turns_without_values": 0, "negatives_not_found": 0})
    for turn in turns:
        slots = sorted(turn.changed)
        num_skipped["turns_without_values"] += not slots
        generator = seeded_generator(seed, "slot values", f"{turn.dialogue}\x1f{turn.turn}")
        drawn: set[tuple[str, str]] = set()
        for slot in slots:
            text = f"{turn.user} {turn.system}".casefold()
            spelling = next((value for value in turn.state[slot] if value in text), turn.state[slot][0])
            rows.append(_question(turn, slot, spelling, 1))
            combination = _draw_negative(turn, slot, ontology, drawn, generator)
            if combination is None:
                num_skipped["negatives_not_found"] += 1
                continue
            drawn.add(combination)
            rows.append(_question(turn, *combination, 0))
    return rows, dict(num_skipped)


def encode_questions(
    questions: Sequence[SlotValue], loaded: "LoadedTokenizer", max_length: int
) -> tuple[list[dict[str, list[int]]], int]:
    """Encodes the system's words, the user's words, and the domain, slot and value, each after a line break.

    Also returns the number of questions whose dialogue was cut.

    If a question is too long, its beginning is cut. The domain, slot and value are never cut. There are no special
    tokens, so the last token belongs to the value.
    """
    contexts = [f"{question.system}\n{question.user}" for question in questions]
    endings = [f"\n{question.domain} {question.slot} {question.value}" for question in questions]
    context_tokens, ending_tokens = (
        loaded.tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        for texts in (contexts, endings)
    )
    rows: list[dict[str, list[int]]] = []
    num_cut = 0
    for context, ending, question in zip(context_tokens, ending_tokens, questions, strict=True):
        room = max(max_length - len(ending), 0)
        num_cut += len(context) > room
        tokens = [*context[max(len(context) - room, 0) :], *ending]
        rows.append({"input_ids": tokens, "attention_mask": [1] * len(tokens), "labels": [question.label]})
    return rows, num_cut


def _question(turn: StateTurn, slot: str, value: str, label: int) -> SlotValue:
    domain, _, name = slot.partition("-")
    identifier = f"{turn.dialogue}:{turn.turn}:{slot}={value}"
    return SlotValue(identifier, turn.system, turn.user, domain, name or domain, value, label)


def _draw_negative(
    turn: StateTurn, slot: str, ontology: Mapping[str, Sequence[str]], drawn: set[tuple[str, str]], generator: Any
) -> tuple[str, str] | None:
    others = [name for name in ontology if name != slot]
    ways = [[slot], [others[index] for index in generator.permutation(len(others))]]
    for names in ways if generator.random() < 0.5 else ways[::-1]:
        for name in names:
            taken = {*turn.state.get(name, ()), *(value for drawn_slot, value in drawn if drawn_slot == name)}
            values = [value for value in ontology.get(name, ()) if value not in taken]
            if values:
                return name, values[generator.integers(len(values))]
    return None
