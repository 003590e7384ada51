"""State tracking: a model can be taught it, with the paper's settings, in one process and in two."""

import json

import pytest

from hb_train.dialog_state_tracking import DST_FILE, main
from tests.hb_train.conftest import write_dialogues

pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # not ours: of transformers' own trainer
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
]
QUICK = ["--bf16", "false", "--disable_tqdm", "true"]


def options(model, folder, *more):
    return ["--model_name_or_path", str(model), "--output_dir", str(folder), *QUICK, *more]


def results_in(folder):
    return json.loads((folder / DST_FILE).read_text(encoding="utf-8"))


def test_a_new_model_is_taught_to_track_states(word_model, tmp_path):
    dialogues = {}
    for index in range(400):  # the food that the user names must be compared with the one in the question
        food = ("thai", "greek")[index % 2]
        answer = {"text": "", "metadata": {"restaurant": {"semi": {"food": food}, "book": {}}}}
        dialogues[str(index)] = {"log": [{"text": f"I feel like {food} food."}, answer]}
    write_dialogues(tmp_path, dialogues, range(360, 400))
    taught = [
        *("--learning_rate", "3e-3", "--num_train_epochs", "5", "--dialogues", str(tmp_path), "--num_test", "40"),
        *("--per_device_train_batch_size", "32"),
    ]
    main(options(word_model, tmp_path / "taught", *taught))
    results = results_in(tmp_path / "taught")
    assert results["f1"] > 0.75  # always yes: 0.67
    assert results["accuracy"] > 0.75
    assert results["num_rows"] == 40


def test_the_papers_settings_are_the_defaults(word_model, multi_woz, tmp_path):
    words = ["--dialogues", str(multi_woz), "--num_train", "100", "--num_test"]
    main(options(word_model, tmp_path / "run", *words, "30"))
    results = results_in(tmp_path / "run")
    defaults = {"num_train_epochs": 1, "learning_rate": 5e-5, "adam_epsilon": 1e-8, "weight_decay": 0}
    for name, value in {**defaults, "max_length": 128, "lr_scheduler_type": "constant", "num_processes": 1}.items():
        assert results["settings"].get(name, value) == value  # what the library's default is, is not recorded
    assert results["num_steps"] == 3  # of 48, 48 and 4 rows
    assert results["num_skipped"]["train"]["not_drawn"] > 1000


def test_invalid_options_are_rejected(word_model, tmp_path):
    for more, message in ((("--max_length", "3"), "max_length is 3"), (("--num_train", "-1"), "num_train is -1")):
        with pytest.raises(SystemExit, match=message):
            main(options(word_model, tmp_path / "refused", *more))
    write_dialogues(tmp_path, {"0": {"log": []}}, [])
    with pytest.raises(SystemExit, match=r"split 'train' .* has no slot that has a value; set --dialogues"):
        main(options(word_model, tmp_path / "refused", "--dialogues", str(tmp_path)))
    with pytest.raises(SystemExit, match="--dialogues is missing"):
        main(options(word_model, tmp_path / "refused"))
