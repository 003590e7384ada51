"""Dialogues with belief states, and the yes-or-no questions about slots and values that are made of them.

Read are MultiWOZ as the Hub has it (`multi_woz_v22`: a row a dialogue), MultiWOZ 2.2's own JSON, and the JSON of TRADE
(`train_dials.json`, `dev_dials.json`, `test_dials.json`).

Barikeri et al. (2021, section 3) ask of each combination of slot and value whether it is part of the belief state,
given the last words of the system and the user's answer. What they asked of "no" combinations they do not say. Here:

* Yes: each slot whose value this turn adds to the state or changes (`state="turn"`), or each slot of the state
  (`"dialogue"`, their words; but much of that was said in turns that a model is not shown).
* No: for each "yes" `num_negatives` combinations that are not in the state, by the flip of a coin the same slot with
  another value, or another slot with any of its values. One is the default: the paper's two models that learnt nothing
  have F1 0.687 and 0.688, accuracy 0.524 and 0.531 (table 4, appendix C.2), which is what always saying yes gives where
  about 52 % are yes.
* Values are those seen in all dialogues read. Another spelling of a value in the state ("center") is not another value.

All is drawn by a dialogue's id, its turn and the seed.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hb_dataset.seeded_draws import seeded_generator
from hb_train.made_up_dialogues import made_up_dialogues

StateKind = Literal["turn", "dialogue"]

MADE_UP = "made-up"
# What a split is called in file names; the first is the Hub's.
SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "dev", "val"), "test": ("test",)}
# Shares of a file without splits, and numbers of made-up dialogues.
_SHARES = {"train": (0.0, 0.8), "validation": (0.8, 0.9), "test": (0.9, 1.0)}
_NUM_MADE_UP = 1000
_NO_VALUES = ("", "none", "not mentioned")

SPLIT_ERROR = "split '{split}' is not known; allowed: {known}"
NO_FILE_ERROR = "'{path}' has no file of split '{split}'; name one {names} with the ending .json, .jsonl or .parquet"
UNREADABLE_ERROR = "'{path}' cannot be read ({error}); give JSON, JSON lines or Parquet"
SHAPE_ERROR = (
    "dialogue {place} of {source} has neither 'turns' (multi_woz_v22) nor 'dialogue' (TRADE); there is: {columns}"
)
BROKEN_ERROR = (
    "dialogue '{dialogue}' of {source} is not of the shape it seems to be of ({error}); see state_dialogues.py"
)
STATE_ERROR = "state '{state}' is not known; allowed: turn, dialogue"
NEGATIVES_ERROR = "num_negatives is {number}; give at least 1"


class StateTurn(NamedTuple):
    """What the user said in answer to the system, and the belief state then.

    Attributes:
        dialogue: The dialogue's id.
        turn: The place of the user's words among the user's turns, from 0.
        system: What the system had said; empty at the start.
        user: What the user says.
        state: The belief state after it: spellings of the value by slot (`"hotel-area": ("centre", "center")`).
        changed: The slots whose value this turn adds or changes.
    """

    dialogue: str
    turn: int
    system: str
    user: str
    state: dict[str, tuple[str, ...]]
    changed: frozenset[str]


class SlotValue(NamedTuple):
    """A question: is this value of this slot in the belief state? `label` is 1 for yes."""

    id: str
    system: str
    user: str
    domain: str
    slot: str
    value: str
    label: int


class SlotValues(NamedTuple):
    """Questions, and what gave none by reason: turns without a "yes", and "no" combinations that were not found."""

    rows: list[SlotValue]
    num_skipped: dict[str, int]


def read_state_turns(source: str, split: str, *, revision: str | None = None, seed: int = 0) -> list[StateTurn]:
    """Reads the user's turns of a split.

    Args:
        source: `"made-up"`; a folder of `save_to_disk`, or with a file or subfolder of files for each split; a file,
            of whose dialogues 80 % are the training split and 10 % each of the others, by id and seed; or a Hub id.
        split: `"train"`, `"validation"` or `"test"`.
        revision: Branch, tag or commit of a Hub id.
        seed: Of what is made up, and of how a file is split.

    Returns:
        The turns in the order of the data.

    Raises:
        ValueError: There is no such split, or the data is of neither shape.
        OSError: The source is not there.
    """
    if split not in SPLIT_NAMES:
        raise ValueError(SPLIT_ERROR.format(split=split, known=", ".join(SPLIT_NAMES)))
    return [
        turn
        for place, row in enumerate(_rows(source, split, revision, seed))
        for turn in dialogue_turns(row, place, source)
    ]


def dialogue_turns(row: Mapping[str, Any], place: int, source: str) -> list[StateTurn]:
    """The user's turns of a dialogue in one of the shapes; `place` and `source` are for messages.

    Raises:
        ValueError: It is of neither shape.
    """
    name = str(row.get("dialogue_id") or row.get("dialogue_idx") or place)
    if "turns" in row:
        read = _multi_woz
    elif "dialogue" in row:
        read = _trade
    else:
        raise ValueError(SHAPE_ERROR.format(place=place, source=source, columns=", ".join(row) or "nothing"))
    turns: list[StateTurn] = []
    before: dict[str, tuple[str, ...]] = {}
    try:
        for number, (system, user, state) in enumerate(read(row)):
            # A slot has changed when none of its spellings was there before.
            changed = frozenset(slot for slot, values in state.items() if not set(values) & set(before.get(slot, ())))
            turns.append(StateTurn(name, number, system, user, state, changed))
            before = state
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(BROKEN_ERROR.format(dialogue=name, source=source, error=repr(error))) from error
    return turns


def slot_ontology(turns: Iterable[StateTurn]) -> dict[str, tuple[str, ...]]:
    """The values of each slot that some state has, in alphabetical order; of several spellings the first."""
    found: dict[str, set[str]] = {}
    for turn in turns:
        for slot, values in turn.state.items():
            found.setdefault(slot, set()).add(values[0])
    return {slot: tuple(sorted(found[slot])) for slot in sorted(found)}


def slot_values(
    turns: Sequence[StateTurn],
    ontology: Mapping[str, Sequence[str]],
    *,
    state: StateKind = "turn",
    num_negatives: int = 1,
    seed: int = 0,
) -> SlotValues:
    """Makes the questions of turns, as told at the top of this file.

    Args:
        turns: The turns.
        ontology: The values that "no" combinations are drawn from, by slot.
        state: Whether the values of this turn or of the whole dialogue are to be told.
        num_negatives: "No" combinations for each "yes".
        seed: Another seed, other "no" combinations.

    Returns:
        The questions, those of a turn together. A "yes" has the spelling that was said, if one of them was.

    Raises:
        ValueError: An argument is not allowed.
    """
    if state not in ("turn", "dialogue"):
        raise ValueError(STATE_ERROR.format(state=state))
    if num_negatives < 1:
        raise ValueError(NEGATIVES_ERROR.format(number=num_negatives))
    rows: list[SlotValue] = []
    skipped = Counter({"turns_without_values": 0, "negatives_not_found": 0})
    for turn in turns:
        slots = sorted(turn.changed if state == "turn" else turn.state)
        skipped["turns_without_values"] += not slots
        generator = seeded_generator(seed, "slot values", f"{turn.dialogue}\x1f{turn.turn}")
        taken: set[tuple[str, str]] = set()
        for slot in slots:
            _add(rows, turn, slot, _spelling_said(turn, slot), 1)
            for _ in range(num_negatives):
                drawn = _draw_negative(turn, slot, ontology, taken, generator)
                if drawn is None:
                    skipped["negatives_not_found"] += 1
                    continue
                taken.add(drawn)
                _add(rows, turn, *drawn, 0)
    return SlotValues(rows, dict(skipped))


def _add(rows: list[SlotValue], turn: StateTurn, slot: str, value: str, label: int) -> None:
    domain, _, name = slot.partition("-")
    identifier = f"{turn.dialogue}:{turn.turn}:{slot}={value}"
    rows.append(SlotValue(identifier, turn.system, turn.user, domain, name or domain, value, label))


def _spelling_said(turn: StateTurn, slot: str) -> str:
    said = f"{turn.user} {turn.system}".casefold()
    return next((value for value in turn.state[slot] if value in said), turn.state[slot][0])


def _draw_negative(
    turn: StateTurn, slot: str, ontology: Mapping[str, Sequence[str]], taken: set[tuple[str, str]], generator: Any
) -> tuple[str, str] | None:
    """A combination that is not in the state and was not drawn for this turn; `None`: there is none."""

    def free(name: str) -> list[str]:
        known = turn.state.get(name, ())
        return [value for value in ontology.get(name, ()) if value not in known and (name, value) not in taken]

    others = [name for name in ontology if name != slot]
    ways = [[slot], [others[place] for place in generator.permutation(len(others))]]
    for names in ways if generator.random() < 0.5 else ways[::-1]:
        for name in names:
            values = free(name)
            if values:
                return name, values[generator.integers(len(values))]
    return None


def _multi_woz(row: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, tuple[str, ...]]]]:
    """The Hub's rows and MultiWOZ 2.2's own: both speakers' turns, the state in the frames of the user's."""
    system = ""
    state: dict[str, tuple[str, ...]] = {}
    for turn in _records(row["turns"]):
        if turn["speaker"] in (1, "SYSTEM"):
            system = turn["utterance"]
            continue
        found: dict[str, tuple[str, ...]] = {}
        for frame in _records(turn["frames"]):
            values = frame["state"]
            if "slots_values" in values:
                pairs = [
                    (each["slots_values_name"], each["slots_values_list"]) for each in _records(values["slots_values"])
                ]
            else:
                pairs = list(values["slot_values"].items())
            found |= {slot: _values(spellings) for slot, spellings in pairs}
        # A turn that is about no service has no frames; the state is then what it was.
        state = {slot: values for slot, values in found.items() if values} or state
        yield system, turn["utterance"], state


def _trade(row: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, tuple[str, ...]]]]:
    """TRADE's dialogues: a turn is what the system and then the user said."""
    for turn in row["dialogue"]:
        found = {slot: _values([value]) for entry in turn["belief_state"] for slot, value in entry["slots"]}
        yield turn["system_transcript"], turn["transcript"], {slot: values for slot, values in found.items() if values}


def _records(found: Any) -> list[Mapping[str, Any]]:
    """A list of records, which `datasets` may hold as a record of lists."""
    if isinstance(found, Mapping):
        return [dict(zip(found, values, strict=True)) for values in zip(*found.values(), strict=True)]
    return list(found)


def _values(spellings: Iterable[str]) -> tuple[str, ...]:
    lower = (" ".join(value.casefold().split()) for value in spellings)
    return tuple(dict.fromkeys(value for value in lower if value not in _NO_VALUES))


def _rows(source: str, split: str, revision: str | None, seed: int) -> Iterable[Mapping[str, Any]]:
    """The dialogues of a split."""
    if source == MADE_UP:
        return _share(made_up_dialogues(_NUM_MADE_UP, seed=seed), split, seed)
    path = Path(source)
    if path.is_file():
        return _share(_read_file(path), split, seed)
    if not path.is_dir():
        from datasets import load_dataset

        return load_dataset(source, split=split, revision=revision)
    if (path / "dataset_dict.json").is_file():
        from datasets import load_from_disk

        return load_from_disk(str(path))[split]
    names = SPLIT_NAMES[split]
    files = [
        file
        for file in sorted(path.rglob("*"))
        if file.suffix in (".json", ".jsonl", ".parquet") and file.relative_to(path).parts[0].startswith(names)
    ]
    if not files:
        raise ValueError(NO_FILE_ERROR.format(path=path, split=split, names=" or ".join(f"'{each}'" for each in names)))
    return [row for file in files for row in _read_file(file)]


def _share(rows: Iterable[Mapping[str, Any]], split: str, seed: int) -> list[Mapping[str, Any]]:
    low, high = _SHARES[split]
    draws = [
        (seeded_generator(seed, "split", str(row.get("dialogue_id") or row.get("dialogue_idx") or place)).random(), row)
        for place, row in enumerate(rows)
    ]
    return [row for draw, row in draws if low <= draw < high]


def _read_file(path: Path) -> list[Mapping[str, Any]]:
    """The dialogues of a file: Parquet, a JSON list, or JSON lines."""
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path).to_pylist()
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("["):
            return json.loads(text)
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except (pa.ArrowException, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(UNREADABLE_ERROR.format(path=path, error=error)) from error
