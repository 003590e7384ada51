"""Dialogues with belief states, read from MultiWOZ or made up: the user's words, and the state after them.

Four shapes are read: MultiWOZ 2.0 and 2.1 (`data.json` with its lists of validation and test dialogues), MultiWOZ 2.2
as the Hub has it (`multi_woz_v22`: a row per dialogue), its own JSON, and TRADE's JSON (`train_dials.json`,
`dev_dials.json`, `test_dials.json`).
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
# Of MultiWOZ 2.0: the dialogues, and the files that list those of two splits, one id a line; the others are "train".
_DATA_FILE = "data.json"
_LIST_FILES = {"validation": "valListFile", "test": "testListFile"}


class StateTurn(NamedTuple):
    """The user's answer to the system, and the belief state after it.

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
        source: `"made-up"`; a folder of MultiWOZ 2.0 or its `data.json`; a folder of `save_to_disk`, or with a file or
            subfolder of files for each split; a file, of whose dialogues 80 % are the training split and 10 % each of
            the others, by id and seed; or a Hub id.
        split: `"train"`, `"validation"` or `"test"`.
        revision: Branch, tag or commit of a Hub id.
        seed: The seed of made-up dialogues, and of the split of a file.

    Returns:
        The turns in the order of the data.

    Raises:
        ValueError: There is no such split, or the data is of no known shape.
        OSError: The source is not there.
    """
    turns = []
    for index, row in enumerate(_rows(source, split, revision, seed)):
        turns += dialogue_turns(row, index, source)
    return turns


def dialogue_turns(row: Mapping[str, Any], index: int, source: str) -> list[StateTurn]:
    """The user's turns of a dialogue in one of the shapes; `index` and `source` are for messages.

    Raises:
        ValueError: It is of no known shape.
    """
    name = _dialogue_id(row, index)
    readers = {"turns": _multi_woz, "dialogue": _trade, "log": _multi_woz_2_0}
    turns: list[StateTurn] = []
    before: dict[str, tuple[str, ...]] = {}
    try:
        (read,) = (reader for column, reader in readers.items() if column in row)
        for number, (system, user, state) in enumerate(read(row)):
            # A slot has changed when none of its spellings was there before.
            changed = frozenset(slot for slot, values in state.items() if not set(values) & set(before.get(slot, ())))
            turns.append(StateTurn(name, number, system, user, state, changed))
            before = state
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(
            f"dialogue '{name}' of {source} cannot be read ({error!r}); it needs the shape of MultiWOZ 2.0 ('log'), "
            f"2.2 ('turns') or TRADE ('dialogue'), and has the columns {', '.join(row)}"
        ) from error
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
        slots: dict[str, Any] = {}
        for frame in _records(turn["frames"]):
            frame_state = frame["state"]
            if "slot_values" in frame_state:
                slots |= frame_state["slot_values"]
            else:
                for record in _records(frame_state["slots_values"]):
                    slots[record["slots_values_name"]] = record["slots_values_list"]
        # A turn about no service has no frames and leaves the state unchanged.
        state = _with_values(slots) or state
        yield system, turn["utterance"], state


def _trade(row: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, tuple[str, ...]]]]:
    """TRADE's dialogues: a turn is what the system and then the user said."""
    for turn in row["dialogue"]:
        slots = {slot: [value] for entry in turn["belief_state"] for slot, value in entry["slots"]}
        yield turn["system_transcript"], turn["transcript"], _with_values(slots)


def _multi_woz_2_0(row: Mapping[str, Any]) -> Iterator[tuple[str, str, dict[str, tuple[str, ...]]]]:
    """MultiWOZ 2.0's dialogues: user and system take turns; the state is in the metadata of the system's answer.

    A domain's slots are in two parts, what it should be ("semi") and its booking ("book", whose list "booked" holds
    results); 2.1 has lists of spellings in some places.
    """
    system = ""
    for user, answer in zip(row["log"][::2], row["log"][1::2], strict=False):
        slots: dict[str, Any] = {}
        for domain, parts in answer["metadata"].items():
            for part, prefix in (("semi", ""), ("book", "book ")):
                for name, value in parts[part].items():
                    if name != "booked":
                        slots[f"{domain}-{prefix}{name.lower()}"] = [value] if isinstance(value, str) else value
        yield system, " ".join(user["text"].split()), _with_values(slots)
        system = " ".join(answer["text"].split())


def _records(rows: Any) -> list[Mapping[str, Any]]:
    """A list of records, which `datasets` may hold as a record of lists."""
    if isinstance(rows, Mapping):
        return [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]
    return list(rows)


def _with_values(slots: Mapping[str, Iterable[str]]) -> dict[str, tuple[str, ...]]:
    """The slots that have a value, with its distinct spellings in lower case."""
    state = {}
    for slot, values in slots.items():
        lower = [" ".join(value.casefold().split()) for value in values]
        spellings = tuple(dict.fromkeys(value for value in lower if value not in _NO_VALUES))
        if spellings:
            state[slot] = spellings
    return state


def _rows(source: str, split: str, revision: str | None, seed: int) -> Iterable[Mapping[str, Any]]:
    """The dialogues of a split."""
    if source == MADE_UP:
        return _rows_of_split(made_up_dialogues(_NUM_MADE_UP, seed=seed), split, seed)
    path = Path(source)
    if path.name == _DATA_FILE:
        return _listed_rows(path.parent, split)
    if path.is_file():
        return _rows_of_split(_read_file(path), split, seed)
    if not path.is_dir():
        from datasets import load_dataset

        return load_dataset(source, split=split, revision=revision)
    if (path / "dataset_dict.json").is_file():
        from datasets import load_from_disk

        return load_from_disk(str(path))[split]
    if (path / _DATA_FILE).is_file():
        return _listed_rows(path, split)
    names = SPLIT_NAMES[split]
    rows: list[Mapping[str, Any]] = []
    for file in sorted(path.rglob("*")):
        if file.suffix in (".json", ".jsonl", ".parquet") and file.relative_to(path).parts[0].startswith(names):
            rows += _read_file(file)
    if not rows:
        raise ValueError(
            f"'{path}' has no dialogues of split '{split}'; add a file whose name begins with {' or '.join(names)}, "
            f"with the ending .json, .jsonl or .parquet, or MultiWOZ's {_DATA_FILE}"
        )
    return rows


def _rows_of_split(rows: Iterable[Mapping[str, Any]], split: str, seed: int) -> list[Mapping[str, Any]]:
    """The share of dialogues that is a split's, drawn by id and seed."""
    low, high = _SHARES[split]
    kept = []
    for index, row in enumerate(rows):
        if low <= seeded_generator(seed, "split", _dialogue_id(row, index)).random() < high:
            kept.append(row)
    return kept


def _listed_rows(folder: Path, split: str) -> list[Mapping[str, Any]]:
    """The dialogues of a split of MultiWOZ 2.0 and 2.1, whose lists end in .json or .txt."""
    split_of: dict[str, str] = {}
    for name, file in _LIST_FILES.items():
        paths = sorted(folder.glob(f"{file}.*"))
        if not paths:
            raise ValueError(f"'{folder}' has no {file}.json; add it, because it lists the dialogues of split '{name}'")
        split_of |= dict.fromkeys(paths[0].read_text(encoding="utf-8").split(), name)
    return [row for row in _read_file(folder / _DATA_FILE) if split_of.get(row["dialogue_id"], "train") == split]


def _read_file(path: Path) -> list[Mapping[str, Any]]:
    """The dialogues of a file: Parquet, a JSON list, MultiWOZ 2.0's JSON of dialogues by id, or JSON lines."""
    try:
        if path.suffix == ".parquet":
            return pq.read_table(path).to_pylist()
        text = path.read_text(encoding="utf-8")
        if text.lstrip().startswith("["):
            return json.loads(text)
        if path.name == _DATA_FILE:
            return [{"dialogue_id": name, **dialogue} for name, dialogue in json.loads(text).items()]
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except (pa.ArrowException, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"'{path}' cannot be read ({error}); set JSON, JSON lines or Parquet") from error
