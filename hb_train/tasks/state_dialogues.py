"""Dialogues with belief states, read from MultiWOZ or made up: what the user said, and the state after it.

Read are MultiWOZ as the Hub has it (`multi_woz_v22`: a row a dialogue), MultiWOZ 2.2's own JSON, and the JSON of TRADE
(`train_dials.json`, `dev_dials.json`, `test_dials.json`).
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from hb_dataset.seeded_draws import seeded_generator
from hb_train.tasks.made_up_dialogues import made_up_dialogues

MADE_UP = "made-up"
# The names of a split in file names; the first is the Hub's.
SPLIT_NAMES = {"train": ("train",), "validation": ("validation", "dev", "val"), "test": ("test",)}
# The shares of the splits in a file without splits, and in the made-up dialogues.
_SHARES = {"train": (0.0, 0.8), "validation": (0.8, 0.9), "test": (0.9, 1.0)}
_NUM_MADE_UP = 1000
_NO_VALUES = ("", "none", "not mentioned")

SPLIT_ERROR = "split '{split}' is not known; allowed: {known}"
NO_FILE_ERROR = "'{path}' has no file of split '{split}'; name one {names} with the ending .json, .jsonl or .parquet"
UNREADABLE_ERROR = "'{path}' cannot be read ({error}); give JSON, JSON lines or Parquet"
SHAPE_ERROR = (
    "dialogue {index} of {source} has neither 'turns' (multi_woz_v22) nor 'dialogue' (TRADE); there is: {columns}"
)
BROKEN_ERROR = (
    "dialogue '{dialogue}' of {source} is not of the shape it seems to be of ({error}); see state_dialogues.py"
)


class StateTurn(NamedTuple):
    """What the user said in answer to the system, and the belief state then.

    Attributes:
        dialogue: The dialogue's id.
        turn: The index of the turn among the user's turns, from 0.
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


def read_state_turns(source: str, split: str, *, revision: str | None = None, seed: int = 0) -> list[StateTurn]:
    """Reads the user's turns of a split.

    Args:
        source: `"made-up"`; a folder of `save_to_disk`, or with a file or subfolder of files for each split; a file,
            of whose dialogues 80 % are the training split and 10 % each of the others, by id and seed; or a Hub id.
        split: `"train"`, `"validation"` or `"test"`.
        revision: Branch, tag or commit of a Hub id.
        seed: The seed of what is made up, and of how a file is split.

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
        for index, row in enumerate(_rows(source, split, revision, seed))
        for turn in dialogue_turns(row, index, source)
    ]


def dialogue_turns(row: Mapping[str, Any], index: int, source: str) -> list[StateTurn]:
    """The user's turns of a dialogue in one of the shapes; `index` and `source` are for messages.

    Raises:
        ValueError: It is of neither shape.
    """
    name = _dialogue_id(row, index)
    if "turns" in row:
        read = _multi_woz
    elif "dialogue" in row:
        read = _trade
    else:
        raise ValueError(SHAPE_ERROR.format(index=index, source=source, columns=", ".join(row) or "nothing"))
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
    values_of_slots: dict[str, set[str]] = {}
    for turn in turns:
        for slot, spellings in turn.state.items():
            values_of_slots.setdefault(slot, set()).add(spellings[0])
    return {slot: tuple(sorted(values_of_slots[slot])) for slot in sorted(values_of_slots)}


def _dialogue_id(row: Mapping[str, Any], index: int) -> str:
    return str(row.get("dialogue_id") or row.get("dialogue_idx") or index)


def _multi_woz(row: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, tuple[str, ...]]]]:
    """The Hub's rows and MultiWOZ 2.2's own: both speakers' turns, the state in the frames of the user's."""
    system = ""
    state: dict[str, tuple[str, ...]] = {}
    for turn in _records(row["turns"]):
        if turn["speaker"] in (1, "SYSTEM"):
            system = turn["utterance"]
            continue
        state_of_frames: dict[str, tuple[str, ...]] = {}
        for frame in _records(turn["frames"]):
            frame_state = frame["state"]
            if "slots_values" in frame_state:
                pairs = [
                    (record["slots_values_name"], record["slots_values_list"])
                    for record in _records(frame_state["slots_values"])
                ]
            else:
                pairs = list(frame_state["slot_values"].items())
            state_of_frames |= {slot: _spellings(values) for slot, values in pairs}
        # A turn that is about no service has no frames; the state is then what it was.
        state = {slot: spellings for slot, spellings in state_of_frames.items() if spellings} or state
        yield system, turn["utterance"], state


def _trade(row: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, tuple[str, ...]]]]:
    """TRADE's dialogues: a turn is what the system and then the user said."""
    for turn in row["dialogue"]:
        slots = {slot: _spellings([value]) for entry in turn["belief_state"] for slot, value in entry["slots"]}
        state = {slot: spellings for slot, spellings in slots.items() if spellings}
        yield turn["system_transcript"], turn["transcript"], state


def _records(rows: Any) -> list[Mapping[str, Any]]:
    """A list of records, which `datasets` may hold as a record of lists."""
    if isinstance(rows, Mapping):
        return [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    return list(rows)


def _spellings(values: Iterable[str]) -> tuple[str, ...]:
    """The distinct spellings of a value in lower case, without those that stand for no value."""
    lower = (" ".join(value.casefold().split()) for value in values)
    return tuple(dict.fromkeys(value for value in lower if value not in _NO_VALUES))


def _rows(source: str, split: str, revision: str | None, seed: int) -> Iterable[Mapping[str, Any]]:
    """The dialogues of a split."""
    if source == MADE_UP:
        return _rows_of_split(made_up_dialogues(_NUM_MADE_UP, seed=seed), split, seed)
    path = Path(source)
    if path.is_file():
        return _rows_of_split(_read_file(path), split, seed)
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
        names_in_words = " or ".join(f"'{name}'" for name in names)
        raise ValueError(NO_FILE_ERROR.format(path=path, split=split, names=names_in_words))
    return [row for file in files for row in _read_file(file)]


def _rows_of_split(rows: Iterable[Mapping[str, Any]], split: str, seed: int) -> list[Mapping[str, Any]]:
    """The share of dialogues that is a split's, drawn by id and seed."""
    low, high = _SHARES[split]
    draws = (
        (seeded_generator(seed, "split", _dialogue_id(row, index)).random(), row) for index, row in enumerate(rows)
    )
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
