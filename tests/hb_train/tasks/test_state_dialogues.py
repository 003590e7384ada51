"""Belief states in every shape they come in, and dialogues that are made up."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict

from hb_train.tasks.made_up_dialogues import made_up_dialogues
from hb_train.tasks.state_dialogues import SPLIT_NAMES, StateTurn, dialogue_turns, read_state_turns

STATES = [
    {"hotel-area": ["centre", "center"]},
    {"hotel-area": ["center"], "hotel-stars": ["4"], "hotel-type": ["none"]},
]
UTTERANCES = [("", "A hotel in the center."), ("What about stars?", "Four of them.")]


def hub_row():
    """A row of `multi_woz_v22`: records of lists, speakers as numbers."""
    turns = []
    for (system, user), state in zip(UTTERANCES, STATES, strict=True):
        values = {"slots_values_name": list(state), "slots_values_list": list(state.values())}
        frames = {"service": ["hotel"], "state": [{"active_intent": "find_hotel", "slots_values": values}]}
        if system:
            turns.append((1, system, {"service": [], "state": []}))
        turns.append((0, user, frames))
    return {
        "dialogue_id": "SNG1.json",
        "turns": {
            name: [turn[index] for turn in turns] for index, name in enumerate(("speaker", "utterance", "frames"))
        },
    }


def own_row():
    """The same as MultiWOZ 2.2 itself has it."""
    turns = []
    for (system, user), state in zip(UTTERANCES, STATES, strict=True):
        if system:
            turns.append({"speaker": "SYSTEM", "utterance": system, "frames": []})
        turns.append({"speaker": "USER", "utterance": user, "frames": [{"state": {"slot_values": state}}]})
    return {"dialogue_id": "SNG1.json", "turns": turns}


def trade_row():
    """The same as TRADE has it, which knows one spelling."""
    return {
        "dialogue_idx": "SNG1.json",
        "dialogue": [
            {
                "system_transcript": system,
                "transcript": user,
                "belief_state": [{"slots": [[slot, values[0]]], "act": "inform"} for slot, values in state.items()],
            }
            for (system, user), state in zip(UTTERANCES, STATES, strict=True)
        ],
    }


def test_the_shapes_of_multiwoz_have_the_same_turns():
    second_state = {"hotel-area": ("center",), "hotel-stars": ("4",)}
    expected = [
        StateTurn("SNG1.json", 0, *UTTERANCES[0], {"hotel-area": ("centre", "center")}, frozenset({"hotel-area"})),
        StateTurn("SNG1.json", 1, *UTTERANCES[1], second_state, frozenset({"hotel-stars"})),
    ]
    assert dialogue_turns(hub_row(), 0, "here") == expected
    assert dialogue_turns(own_row(), 0, "here") == expected
    # Without its other spelling the value of the second turn is another one.
    first, second = dialogue_turns(trade_row(), 0, "here")
    assert first == expected[0]._replace(state={"hotel-area": ("centre",)})
    assert second == expected[1]._replace(changed=frozenset({"hotel-area", "hotel-stars"}))


def first_row():
    """The same as MultiWOZ 2.0 has it: the state in the metadata of the system's answer."""
    log = []
    for (system, user), state in zip(UTTERANCES, STATES, strict=True):
        if system:
            log[-1]["text"] = f"{system}\n"
        semi = {
            "name": "not mentioned",
            "type": "",
            **{slot.partition("-")[2]: each[0] for slot, each in state.items()},
        }
        hotel = {"book": {"booked": [{"name": "x", "reference": "Y"}], "people": ""}, "semi": semi}
        log += [{"text": f" {user}", "metadata": {}}, {"text": "Bye.", "metadata": {"hotel": hotel, "taxi": EMPTY}}]
    return {"goal": {}, "log": log}


EMPTY = {"book": {"booked": []}, "semi": {"leaveAt": "", "destination": "none"}}


def test_multiwoz_2_0_has_the_turns_of_trade(tmp_path):
    dialogues = {f"{name}.json": first_row() for name in ("SNG1", "MUL2", "MUL3", "MUL4")}
    (tmp_path / "data.json").write_text(json.dumps(dialogues), encoding="utf-8")
    with pytest.raises(ValueError, match=r"has no valListFile\.json; add it"):
        read_state_turns(str(tmp_path), "train")
    (tmp_path / "valListFile.json").write_text("MUL2.json\n", encoding="utf-8")
    (tmp_path / "testListFile.json").write_text("MUL3.json\nMUL4.json\n", encoding="utf-8")
    assert read_state_turns(str(tmp_path), "train") == dialogue_turns(trade_row(), 0, "here")
    assert {turn.dialogue for turn in read_state_turns(str(tmp_path), "validation")} == {"MUL2.json"}
    assert {turn.dialogue for turn in read_state_turns(str(tmp_path / "data.json"), "test")} == {
        "MUL3.json",
        "MUL4.json",
    }


def test_multiwoz_2_0_has_slots_of_bookings():
    row = first_row()
    row["log"][1]["metadata"] = {"taxi": {"book": {"booked": [], "day": "Monday"}, "semi": {"leaveAt": "9:00"}}}
    assert dialogue_turns(row, 0, "here")[0].state == {"taxi-leaveat": ("9:00",), "taxi-book day": ("monday",)}


def test_a_turn_about_no_service_keeps_the_state():
    row = own_row()
    row["turns"].append({"speaker": "USER", "utterance": "Thanks.", "frames": []})
    *_, before, last = dialogue_turns(row, 0, "here")
    assert last.state == before.state
    assert last.changed == frozenset()


def test_every_layout_of_dialogues_is_read(tmp_path):
    rows = {name: made_up_dialogues(3, seed=seed) for seed, name in enumerate(SPLIT_NAMES)}
    for folder in ("lines", "list", "parquet", "folders"):
        (tmp_path / folder).mkdir()
    for name, dialogues in rows.items():
        lines = "".join(json.dumps(row) + "\n" for row in dialogues)
        (tmp_path / "lines" / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        (tmp_path / "list" / f"{SPLIT_NAMES[name][-1]}_dials.json").write_text(json.dumps(dialogues), encoding="utf-8")
        pq.write_table(pa.Table.from_pylist(dialogues), tmp_path / "parquet" / f"{name}-00000-of-00001.parquet")
        (tmp_path / "folders" / name).mkdir()
        (tmp_path / "folders" / name / "dialogues_001.json").write_text(json.dumps(dialogues), encoding="utf-8")
    saved = DatasetDict({name: Dataset.from_list(dialogues) for name, dialogues in rows.items()})
    saved.save_to_disk(tmp_path / "saved")
    for name, dialogues in rows.items():
        expected = [turn for index, row in enumerate(dialogues) for turn in dialogue_turns(row, index, "made up")]
        assert len(expected) > 5
        for folder in ("lines", "list", "parquet", "folders", "saved"):
            assert read_state_turns(str(tmp_path / folder), name) == expected, folder


def test_a_single_file_is_split_by_dialogue(tmp_path):
    path = tmp_path / "all.json"
    path.write_text(json.dumps(made_up_dialogues(200)), encoding="utf-8")
    ids = {name: {turn.dialogue for turn in read_state_turns(str(path), name)} for name in SPLIT_NAMES}
    assert sum(map(len, ids.values())) == len(set().union(*ids.values())) == 200
    assert 140 < len(ids["train"]) < 180
    assert len(ids["validation"]) > 5
    assert len(ids["test"]) > 5


def test_made_up_values_were_said():
    turns = [turn for index, row in enumerate(made_up_dialogues(100)) for turn in dialogue_turns(row, index, "made up")]
    for turn in turns:
        for slot in turn.changed:
            assert turn.state[slot][0] in f"{turn.system} {turn.user}"
    assert {slot.partition("-")[0] for turn in turns for slot in turn.state} == {"restaurant", "hotel", "train"}
    assert made_up_dialogues(5) == made_up_dialogues(9)[:5]
    assert made_up_dialogues(5, seed=1) != made_up_dialogues(5)


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"no dialogues of split 'validation'; add a file .* validation or dev or val"):
        read_state_turns(str(tmp_path), "validation")
    (tmp_path / "test.json").write_text("[{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"test\.json' cannot be read"):
        read_state_turns(str(tmp_path), "test")
    with pytest.raises(ValueError, match=r"dialogue '3' of here cannot be read .* has the columns text"):
        dialogue_turns({"text": "Hi"}, 3, "here")
    with pytest.raises(ValueError, match=r"dialogue 'a' of here cannot be read .KeyError"):
        dialogue_turns({"dialogue_id": "a", "turns": [{"speaker": 0}]}, 0, "here")
