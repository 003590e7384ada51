"""State tracking: which questions are asked, what the classifier reads, and that a model can be taught it."""

import json
import random

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

from hb_metrics.models.loading import load_model
from hb_train.dialog_state_tracking import (
    DST_FILE,
    SlotValue,
    SlotValueClassifier,
    StateTurn,
    binary_scores,
    encode_questions,
    main,
    read_state_turns,
    slot_ontology,
    slot_values,
)
from hb_train.training.encoding import collate
from tests.hb_train.conftest import write_dialogues

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # not ours: of transformers' own trainer
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
]
QUICK = ["--bf16", "false", "--disable_tqdm", "true"]


def options(model, folder, *more):
    return ["--model_name_or_path", str(model), "--output_dir", str(folder), *QUICK, *more]


def test_a_new_model_is_taught_to_track_states(word_model, tmp_path):
    # The food that the user names must be compared with the one in the question.
    taught = ["--learning_rate", "3e-3", "--num_train_epochs", "5", "--num_test", "40"]
    for folder in (tmp_path / "here", tmp_path / "moved"):  # the second run is the first one, which is finished
        folder.mkdir()
        write_dialogues(folder, 400, range(360, 400))
        more = ["--dialogues", str(folder), "--per_device_train_batch_size", "32"]
        main(options(word_model, tmp_path / "taught", *taught, *more))
    results = json.loads((tmp_path / "taught" / DST_FILE).read_text(encoding="utf-8"))
    assert results["f1"] > 0.75  # always yes: 0.67
    assert results["accuracy"] > 0.75
    assert results["num_rows"] == 40


def turn(user, state, *, number=0):
    return StateTurn("SNG1", number, "", user, state, tuple(state))


def question(system="", user="", value="thai", label=1):
    return SlotValue(turn(user, {})._replace(system=system), "restaurant-food", value, label)


def test_half_of_the_questions_are_yes_and_half_of_the_others_about_the_same_slot():
    draw, values = random.Random(0), {"food": ("thai", "greek", "korean"), "area": ("north", "south"), "stars": "345"}
    slots = [(slot, (draw.choice(values[slot]),)) for slot in draw.choices(list(values), k=4000)]
    turns = [turn("", dict([slot]), number=number) for number, slot in enumerate(slots)]
    rows = slot_values(turns, slot_ontology(turns))
    pairs = list(zip(rows[::2], rows[1::2], strict=True))
    assert len(pairs) == sum(len(turn.changed) for turn in turns)
    assert all(yes.label and not no.label for yes, no in pairs)
    assert all((row.value in row.turn.state.get(row.slot, ())) == bool(row.label) for row in rows)
    same = sum(yes.slot == no.slot for yes, no in pairs) / len(pairs)
    assert same == pytest.approx(0.5, abs=0.025)  # 3.5 standard deviations


def test_another_spelling_is_not_another_value_and_negatives_that_do_not_exist_are_left_out():
    area = {"hotel-area": ("centre", "center")}
    turns = [turn("A hotel in the center.", area)]
    for known, expected in (("north", [("center", 1), ("north", 0)]), ("centre", [("center", 1)])):
        rows = slot_values(turns, {"hotel-area": ("center", known)})
        assert [(row.value, row.label) for row in rows] == expected


def test_the_context_is_cut_at_its_beginning_and_the_value_never(word_model, monkeypatch):
    loaded = load_model(str(word_model))
    whole = question("What kind of food do you like ?", "I feel like thai food .")
    (row,) = encode_questions([whole], loaded)
    assert loaded.tokenizer.decode(row["input_ids"]).endswith("I feel like thai food . restaurant food thai")
    for most, left in ((8, 8), (2, 3)):
        monkeypatch.setattr("hb_train.dialog_state_tracking.MAX_LENGTH", most)
        cut, short = encode_questions([whole, question(user="thai")], loaded)
        assert cut["input_ids"] == row["input_ids"][-left:]
    assert short["input_ids"] == row["input_ids"][-3:]


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


def test_states_are_read_with_all_spellings_and_bookings_in_the_listed_split(tmp_path):
    dialogues = {f"{name}.json": dialogue() for name in ("SNG1", "MUL2", "MUL3")}
    (tmp_path / "data.json").write_text(json.dumps(dialogues), encoding="utf-8")
    (tmp_path / "valListFile.json").write_text("MUL2.json\n", encoding="utf-8")
    with pytest.raises(ValueError, match="has no testListFile; set --dialogues to the folder of MultiWOZ"):
        read_state_turns(tmp_path)
    (tmp_path / "testListFile.txt").write_text("MUL3.json\n", encoding="utf-8")
    turns = read_state_turns(tmp_path)
    assert {split: rows[0].dialogue for split, rows in turns.items()} == {
        **{"train": "SNG1.json", "validation": "MUL2.json", "test": "MUL3.json"}
    }
    state = {"hotel-area": ("center", "centre"), "hotel-stars": ("4",), "hotel-book day": ("monday",)}
    assert turns["train"] == [
        StateTurn("SNG1.json", 0, "", "A hotel in the center.", {"hotel-area": ("centre",)}, ("hotel-area",)),
        # Another spelling of the area is no change.
        StateTurn(
            *("SNG1.json", 1, "What about stars?", "Four of them, on Monday.", state),
            ("hotel-book day", "hotel-stars"),
        ),
    ]


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
def test_padding_changes_no_logit_and_the_loss_is_the_mean_binary_cross_entropy(save_small_model, kind):
    torch.manual_seed(0)
    classifier = SlotValueClassifier(load_model(str(save_small_model(kind)))).eval()
    rows = [{"input_ids": list(range(20, 20 + number)), "attention_mask": [1] * number} for number in (3, 9, 1, 6)]
    rows = [{**row, "labels": [label]} for row, label in zip(rows, (1, 0, 0, 1), strict=True)]
    with torch.inference_mode():
        output, *alone = (classifier(**collate(some)) for some in (rows, *([row] for row in rows)))
    logits = torch.cat([row["logits"] for row in alone])
    assert logits.std() > 1e-4
    torch.testing.assert_close(output["logits"], logits, atol=1e-4, rtol=1e-4)
    chances = logits[:, 0].double().sigmoid().numpy()
    expected = -np.log([chances[0], 1 - chances[1], 1 - chances[2], chances[3]]).mean()
    assert output["loss"].item() == pytest.approx(expected, rel=1e-3)


def test_scores_equal_those_of_scikit_learn():
    random = np.random.default_rng(0)
    for number in (1, 2, 50):
        for _ in range(5):
            truth, predictions = random.integers(2, size=(2, number))
            scores = binary_scores(truth > 0, predictions > 0)
            assert scores["accuracy"] == pytest.approx(accuracy_score(truth, predictions))
            expected = f1_score(truth, predictions, zero_division=np.nan)
            assert scores["f1"] == (None if np.isnan(expected) else pytest.approx(expected))
            assert (scores["num_rows"], scores["num_positive"]) == (number, truth.sum())
