"""Questions about belief states: which are asked, and their tokens."""

import json
from collections import Counter

import pytest

from hb_metrics.models.loading import load_model
from hb_train.tasks.state_questions import (
    SlotValue,
    StateTurn,
    encode_questions,
    read_state_turns,
    slot_ontology,
    slot_values,
)


def turn(user, state, *, number=0, changed=None):
    return StateTurn("SNG1", number, "", user, state, frozenset(state if changed is None else changed))


def question(system="", user="", value="thai", label=1):
    return SlotValue("a:0:restaurant-food", system, user, "restaurant", "food", value, label)


def test_questions_are_half_yes_and_yes_is_what_the_turn_changed(multi_woz):
    turns = read_state_turns(multi_woz, "test")
    ontology = slot_ontology(turns)
    rows, left_out = slot_values(turns, ontology)
    num_slots = sum(len(turn.changed) for turn in turns)
    assert sum(row.label for row in rows) == num_slots
    assert len(rows) == 2 * num_slots - left_out["negatives_not_found"]
    by_turn = {f"{turn.dialogue}:{turn.turn}": turn for turn in turns}
    for row in rows:
        turn = by_turn[":".join(row.id.split(":")[:2])]
        assert (row.value in turn.state.get(f"{row.domain}-{row.slot}", ())) == bool(row.label)
    assert len({row.id for row in rows}) == len(rows)


def test_half_of_the_no_questions_are_about_the_same_slot(multi_woz):
    turns = read_state_turns(multi_woz, "train")
    rows, _ = slot_values(turns, slot_ontology(turns))
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    assert all(yes.label and not no.label for yes, no in pairs)
    same = sum((yes.domain, yes.slot) == (no.domain, no.slot) for yes, no in pairs) / len(pairs)
    assert same == pytest.approx(0.5, abs=0.025)  # 3.5 standard deviations


def test_another_spelling_is_not_another_value():
    turns = [turn("A hotel in the center.", {"hotel-area": ("centre", "center")})]
    rows, _ = slot_values(turns, {"hotel-area": ("center", "centre", "north")})
    assert [(row.value, row.label) for row in rows] == [("center", 1), ("north", 0)]


def test_negatives_that_do_not_exist_are_counted():
    states = [{"hotel-area": ("centre", "center")}, {"hotel-area": ("center",), "hotel-stars": ("4",)}]
    turns = [turn("A hotel.", states[0]), turn("Four stars.", states[1], number=1, changed={"hotel-stars"})]
    rows, left_out = slot_values(turns, {"hotel-area": ("centre", "center")})
    assert left_out == {"turns_without_values": 0, "negatives_not_found": 1}
    assert Counter(row.label for row in rows) == {1: 2, 0: 1}  # "centre" is no spelling of the second turn's


def test_the_context_is_cut_at_its_beginning_and_the_value_never(word_model):
    loaded = load_model(str(word_model))
    whole = question("What kind of food do you like ?", "I feel like thai food .")
    ((row,), _) = encode_questions([whole], loaded, 128)
    assert loaded.tokenizer.decode(row["input_ids"]).endswith("I feel like thai food . restaurant food thai")
    short, num_cut = encode_questions([whole, question(user="thai")], loaded, 8)
    assert num_cut == 1
    assert short[0]["input_ids"] == row["input_ids"][-8:]
    assert len(short[1]["input_ids"]) == 4
    assert encode_questions([whole], loaded, 2)[0][0]["input_ids"] == row["input_ids"][-3:]


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
