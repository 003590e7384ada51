"""Belief states in every shape they come in, and the questions that are made of them."""

import json
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from datasets import Dataset, DatasetDict

from hb_train.made_up_dialogues import made_up_dialogues
from hb_train.state_dialogues import (
    SPLIT_NAMES,
    StateTurn,
    dialogue_turns,
    read_state_turns,
    slot_ontology,
    slot_values,
)

STATES = [
    {"hotel-area": ["centre", "center"]},
    {"hotel-area": ["center"], "hotel-stars": ["4"], "hotel-type": ["none"]},
]
SAID = [("", "A hotel in the center."), ("What about stars?", "Four of them.")]


def hub_row():
    """A row of `multi_woz_v22`: records of lists, speakers as numbers."""
    turns = []
    for (system, user), state in zip(SAID, STATES, strict=True):
        values = {"slots_values_name": list(state), "slots_values_list": list(state.values())}
        frames = {"service": ["hotel"], "state": [{"active_intent": "find_hotel", "slots_values": values}]}
        if system:
            turns.append((1, system, {"service": [], "state": []}))
        turns.append((0, user, frames))
    return {
        "dialogue_id": "SNG1.json",
        "turns": {
            name: [turn[place] for turn in turns] for place, name in enumerate(("speaker", "utterance", "frames"))
        },
    }


def own_row():
    """The same as MultiWOZ 2.2 itself has it."""
    turns = []
    for (system, user), state in zip(SAID, STATES, strict=True):
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
            for (system, user), state in zip(SAID, STATES, strict=True)
        ],
    }


def test_the_shapes_of_multiwoz_say_the_same():
    wanted = [
        StateTurn("SNG1.json", 0, *SAID[0], {"hotel-area": ("centre", "center")}, frozenset({"hotel-area"})),
        StateTurn(
            "SNG1.json", 1, *SAID[1], {"hotel-area": ("center",), "hotel-stars": ("4",)}, frozenset({"hotel-stars"})
        ),
    ]
    assert dialogue_turns(hub_row(), 0, "here") == wanted
    assert dialogue_turns(own_row(), 0, "here") == wanted
    # Without its other spelling the value of the second turn is another one.
    first, second = dialogue_turns(trade_row(), 0, "here")
    assert first == wanted[0]._replace(state={"hotel-area": ("centre",)})
    assert second == wanted[1]._replace(changed=frozenset({"hotel-area", "hotel-stars"}))


def test_a_turn_about_no_service_keeps_the_state():
    row = own_row()
    row["turns"].append({"speaker": "USER", "utterance": "Thanks.", "frames": []})
    *_, before, last = dialogue_turns(row, 0, "here")
    assert last.state == before.state
    assert last.changed == frozenset()


def test_every_way_of_keeping_dialogues_is_read(tmp_path):
    rows = {name: made_up_dialogues(3, seed=seed) for seed, name in enumerate(SPLIT_NAMES)}
    for folder in ("lines", "list", "parquet", "folders"):
        (tmp_path / folder).mkdir()
    for name, each in rows.items():
        lines = "".join(json.dumps(row) + "\n" for row in each)
        (tmp_path / "lines" / f"{name}.jsonl").write_text(lines, encoding="utf-8")
        (tmp_path / "list" / f"{SPLIT_NAMES[name][-1]}_dials.json").write_text(json.dumps(each), encoding="utf-8")
        pq.write_table(pa.Table.from_pylist(each), tmp_path / "parquet" / f"{name}-00000-of-00001.parquet")
        (tmp_path / "folders" / name).mkdir()
        (tmp_path / "folders" / name / "dialogues_001.json").write_text(json.dumps(each), encoding="utf-8")
    saved = DatasetDict({name: Dataset.from_list(each) for name, each in rows.items()})
    saved.save_to_disk(tmp_path / "saved")
    for name, each in rows.items():
        wanted = [turn for place, row in enumerate(each) for turn in dialogue_turns(row, place, "made up")]
        assert len(wanted) > 5
        for folder in ("lines", "list", "parquet", "folders", "saved"):
            assert read_state_turns(str(tmp_path / folder), name) == wanted, folder


def test_a_single_file_is_split_by_dialogue(tmp_path):
    path = tmp_path / "all.json"
    path.write_text(json.dumps(made_up_dialogues(200)), encoding="utf-8")
    ids = {name: {turn.dialogue for turn in read_state_turns(str(path), name)} for name in SPLIT_NAMES}
    assert sum(map(len, ids.values())) == len(set().union(*ids.values())) == 200
    assert 140 < len(ids["train"]) < 180
    assert len(ids["validation"]) > 5
    assert len(ids["test"]) > 5


def test_questions_are_half_yes_and_yes_is_what_the_turn_changed():
    turns = read_state_turns("made-up", "test")
    ontology = slot_ontology(turns)
    for state, number in (("turn", 1), ("dialogue", 1), ("turn", 3)):
        made = slot_values(turns, ontology, state=state, num_negatives=number)
        yes = [row for row in made.rows if row.label]
        told = sum(len(turn.changed if state == "turn" else turn.state) for turn in turns)
        assert len(yes) == told
        assert len(made.rows) == (1 + number) * told - made.num_skipped["negatives_not_found"]
        by_turn = {f"{turn.dialogue}:{turn.turn}": turn for turn in turns}
        for row in made.rows:
            turn = by_turn[row.id.rsplit(":", 1)[0] if row.id.count(":") == 2 else ":".join(row.id.split(":")[:2])]
            assert (row.value in turn.state.get(f"{row.domain}-{row.slot}", ())) == bool(row.label)
        assert len({row.id for row in made.rows}) == len(made.rows)


def test_half_of_the_no_questions_are_about_the_same_slot():
    turns = read_state_turns("made-up", "train")
    rows = slot_values(turns, slot_ontology(turns)).rows
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    assert all(yes.label and not no.label for yes, no in pairs)
    same = sum((yes.domain, yes.slot) == (no.domain, no.slot) for yes, no in pairs) / len(pairs)
    assert same == pytest.approx(0.5, abs=0.025)  # 3.5 standard deviations


def test_other_spellings_are_no_other_value_and_the_one_said_is_asked():
    turns = dialogue_turns(own_row(), 0, "here")[:1]
    rows = slot_values(turns, {"hotel-area": ("center", "centre", "north")}, num_negatives=2).rows
    assert [(row.value, row.label) for row in rows] == [("center", 1), ("north", 0)]


def test_what_is_not_found_is_counted():
    turns = dialogue_turns(own_row(), 0, "here")
    made = slot_values(turns, {"hotel-area": ("centre", "center")}, num_negatives=2)
    assert made.num_skipped == {"turns_without_values": 0, "negatives_not_found": 3}
    assert Counter(row.label for row in made.rows) == {1: 2, 0: 1}  # "centre" is no spelling of the second turn's


def test_questions_of_a_turn_do_not_depend_on_the_others_but_on_the_seed():
    turns = read_state_turns("made-up", "test")
    ontology = slot_ontology(turns)
    rows = slot_values(turns, ontology).rows
    some = slot_values(turns[50:90][::-1], ontology).rows
    assert set(some) <= set(rows)
    assert slot_values(turns, ontology).rows == rows
    assert slot_values(turns, ontology, seed=1).rows != rows


def test_made_up_values_were_said():
    turns = [turn for place, row in enumerate(made_up_dialogues(100)) for turn in dialogue_turns(row, place, "made up")]
    for turn in turns:
        for slot in turn.changed:
            assert turn.state[slot][0] in f"{turn.system} {turn.user}"
    assert {slot.partition("-")[0] for turn in turns for slot in turn.state} == {"restaurant", "hotel", "train"}
    assert made_up_dialogues(5) == made_up_dialogues(9)[:5]
    assert made_up_dialogues(5, seed=1) != made_up_dialogues(5)


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(ValueError, match="split 'dev' is not known"):
        read_state_turns("made-up", "dev")
    with pytest.raises(ValueError, match=r"no file of split 'validation'.*'validation' or 'dev' or 'val'"):
        read_state_turns(str(tmp_path), "validation")
    (tmp_path / "test.json").write_text("[{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"test\.json' cannot be read"):
        read_state_turns(str(tmp_path), "test")
    with pytest.raises(ValueError, match=r"dialogue 3 of here has neither.*there is: text"):
        dialogue_turns({"text": "Hi"}, 3, "here")
    with pytest.raises(ValueError, match=r"dialogue 'a' of here is not of the shape.*KeyError"):
        dialogue_turns({"dialogue_id": "a", "turns": [{"speaker": 0}]}, 0, "here")
    with pytest.raises(ValueError, match="num_negatives is 0"):
        slot_values([], {}, num_negatives=0)
