"""Belief states of MultiWOZ 2.0 and 2.1."""

import json

import pytest

from hb_train.tasks.state_questions import StateTurn, read_state_turns

EMPTY = {"book": {"booked": []}, "semi": {"leaveAt": "", "destination": "none"}}


def dialogue():
    """Two of the user's turns: the state is in the metadata of the system's answer."""
    semi = {"name": "not mentioned", "type": "", "area": "centre"}
    booked = {"booked": [{"name": "x", "reference": "Y"}], "people": "", "day": "Monday"}
    first = {"hotel": {"book": {"booked": []}, "semi": semi}, "taxi": EMPTY}
    second = {"hotel": {"book": booked, "semi": {**semi, "area": ["center", "Centre"], "stars": "4"}}, "taxi": EMPTY}
    log = [{"text": " A hotel in the center.", "metadata": {}}, {"text": "What about stars?\n", "metadata": first}]
    log += [{"text": "Four of them, on Monday.", "metadata": {}}, {"text": "Bye.", "metadata": second}]
    return {"goal": {}, "log": log}


@pytest.fixture
def folder(tmp_path):
    dialogues = {f"{name}.json": dialogue() for name in ("SNG1", "MUL2", "MUL3", "MUL4")}
    (tmp_path / "data.json").write_text(json.dumps(dialogues), encoding="utf-8")
    (tmp_path / "valListFile.json").write_text("MUL2.json\n", encoding="utf-8")
    (tmp_path / "testListFile.txt").write_text("MUL3.json\nMUL4.json\n", encoding="utf-8")
    return tmp_path


def test_states_are_read_with_all_spellings_and_bookings(folder):
    state = {"hotel-area": ("center", "centre"), "hotel-stars": ("4",), "hotel-book day": ("monday",)}
    assert read_state_turns(folder, "train") == [
        StateTurn("SNG1.json", 0, "", "A hotel in the center.", {"hotel-area": ("centre",)}, frozenset({"hotel-area"})),
        # Another spelling of the area is no change.
        StateTurn(
            *("SNG1.json", 1, "What about stars?", "Four of them, on Monday.", state),
            frozenset({"hotel-stars", "hotel-book day"}),
        ),
    ]


def test_dialogues_are_in_the_split_that_lists_them(folder):
    names = {split: {turn.dialogue for turn in read_state_turns(folder, split)} for split in ("validation", "test")}
    assert names == {"validation": {"MUL2.json"}, "test": {"MUL3.json", "MUL4.json"}}


def test_what_cannot_be_read_is_named(folder):
    (folder / "data.json").write_text('{"a": {"log": [{"text": "Hi."}, {"text": "Hi."}]}}', encoding="utf-8")
    with pytest.raises(ValueError, match=r"data\.json' cannot be read as MultiWOZ's dialogues .KeyError"):
        read_state_turns(folder, "train")
    (folder / "valListFile.json").unlink()
    with pytest.raises(ValueError, match=r"is not a folder of MultiWOZ 2.0 or 2.1; set --dialogues to a folder"):
        read_state_turns(folder, "train")
