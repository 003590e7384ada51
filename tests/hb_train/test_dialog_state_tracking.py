"""State tracking: the classifier sees the last token and no padding, its scores are right, and it can be taught."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import transformers
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score
from tokenizers import Tokenizer, models, pre_tokenizers

from hb_metrics.inference.models.loading import load_model
from hb_train.dialog_state_tracking import (
    DST_FILE,
    Collator,
    binary_scores,
    encode_questions,
    last_places,
    main,
    slot_value_classifier,
)
from hb_train.state_dialogues import SlotValue, read_state_turns, slot_ontology, slot_values

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # not ours: of transformers' own trainer
    pytest.mark.filterwarnings("ignore:.*pin_memory.*:UserWarning"),
]
QUICK = ["--bf16", "false", "--disable_tqdm", "true"]


@pytest.fixture(scope="session")
def word_model(tmp_path_factory):
    """The folder of a new GPT-2 with a token for each word of the made-up dialogues."""
    turns = read_state_turns("made-up", "train")
    rows = slot_values(turns, slot_ontology(turns)).rows
    split = pre_tokenizers.Whitespace().pre_tokenize_str
    words = {word for row in rows for word, _ in split(" ".join(row[1:6]))}
    vocabulary = {word: number for number, word in enumerate(["<unk>", "</s>", *sorted(words)])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    folder = tmp_path_factory.mktemp("words")
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>")
    fast.save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(vocabulary), n_embd=64, n_layer=2, n_head=4, n_positions=64, bos_token_id=1, eos_token_id=1
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def question(system="", user="", value="thai", label=1):
    return SlotValue("a:0:restaurant-food", system, user, "restaurant", "food", value, label)


def test_the_last_place_is_no_padding_on_either_side():
    mask = torch.tensor([[1, 1, 1, 0, 0], [0, 0, 1, 1, 1], [1, 1, 1, 1, 1], [1, 0, 0, 0, 0], [0, 1, 1, 0, 0]])
    assert last_places(mask).tolist() == [2, 4, 4, 0, 2]


@pytest.mark.parametrize("kind", ["gpt2", "llama", "bert", "roberta", "t5"])
def test_padding_on_either_side_changes_no_logit(save_small_model, kind):
    loaded = load_model(str(save_small_model(kind)))
    torch.manual_seed(0)
    classifier = slot_value_classifier(loaded).eval()
    rows = [{"input_ids": list(range(20, 20 + length)), "label": 1.0} for length in (3, 9, 1, 6)]
    sides = ("left", "right") if loaded.kind == "causal" else ("right",)

    def logits(some, side, padding):
        batch = Collator(padding, side)(some)
        del batch["labels"]
        with torch.inference_mode():
            return classifier(**batch)["logits"]

    alone = torch.cat([logits([row], "right", 2) for row in rows])
    assert alone.std() > 1e-4
    # RoBERTa and its kin count positions by where their own padding token is.
    paddings = (2,) if kind == "roberta" else (2, 7)
    for side in sides:
        for padding in paddings:
            torch.testing.assert_close(logits(rows, side, padding), alone, atol=1e-4, rtol=1e-4)


def test_the_loss_is_the_mean_binary_cross_entropy(save_small_model):
    classifier = slot_value_classifier(load_model(str(save_small_model("gpt2")))).eval()
    rows = [{"input_ids": [20, 21, 22], "label": 1.0}, {"input_ids": [30], "label": 0.0}]
    with torch.inference_mode():
        found = classifier(**Collator(2)(rows))
    chances = [1 / (1 + np.exp(-each)) for each in found["logits"].double().tolist()]
    assert found["loss"].item() == pytest.approx(-(np.log(chances[0]) + np.log(1 - chances[1])) / 2, rel=1e-5)


def test_scores_equal_those_of_scikit_learn():
    random = np.random.default_rng(0)
    for number in (1, 2, 7, 50):
        for _ in range(20):
            truth, told = random.integers(2, size=(2, number))
            found = binary_scores(truth.tolist(), told.tolist())
            assert found.accuracy == pytest.approx(accuracy_score(truth, told))
            for name, reference in (("f1", f1_score), ("precision", precision_score), ("recall", recall_score)):
                wanted = reference(truth, told, zero_division=np.nan)
                assert getattr(found, name) == (None if np.isnan(wanted) else pytest.approx(wanted)), name
            assert (found.num_rows, found.num_positive) == (number, truth.sum())


def test_what_was_said_is_cut_at_its_beginning_and_the_value_never(word_model):
    loaded = load_model(str(word_model))
    whole = question("What kind of food do you like ?", "I feel like thai food .")
    (row,) = encode_questions([whole], loaded, 128).rows
    assert loaded.tokenizer.decode(row["input_ids"]).endswith("I feel like thai food . restaurant food thai")
    short = encode_questions([whole, question(user="thai")], loaded, 8)
    assert short.num_cut == 1
    assert short.rows[0]["input_ids"] == row["input_ids"][-8:]
    assert len(short.rows[1]["input_ids"]) == 4
    with pytest.raises(ValueError, match="slot and value of question a:0:restaurant-food are 3 tokens long"):
        encode_questions([whole], loaded, 2)


def options(model, folder, *more):
    return ["--model_name_or_path", str(model), "--output_dir", str(folder), *QUICK, *more]


def test_a_new_model_is_taught_to_track_states(word_model, tmp_path):
    path = tmp_path / "two_values.json"
    rows = []
    for place in range(400):  # which of two the user says must be compared with the one that is asked for
        said = ("thai", "greek")[place % 2]
        turn = {"system_transcript": "", "transcript": f"I feel like {said} food."}
        state = [{"slots": [["restaurant-food", said]]}]
        rows.append({"dialogue_idx": str(place), "dialogue": [{**turn, "belief_state": state}]})
    path.write_text(json.dumps(rows), encoding="utf-8")
    taught = [
        *("--learning_rate", "3e-3", "--num_train_epochs", "5", "--dialogues", str(path), "--num_test", "40"),
        *("--per_device_train_batch_size", "32"),
    ]
    main(options(word_model, tmp_path / "taught", *taught))
    found = json.loads((tmp_path / "taught" / DST_FILE).read_text(encoding="utf-8"))
    assert found["f1"] > 0.75  # always yes: 0.67
    assert found["accuracy"] > 0.75
    assert found["num_rows"] == 40
    assert found["settings"]["num_negatives"] == 1


def test_the_paper_s_settings_are_the_defaults(word_model, tmp_path, capsys):
    main(options(word_model, tmp_path / "run", "--num_train", "100", "--num_test", "30"))
    found = json.loads((tmp_path / "run" / DST_FILE).read_text(encoding="utf-8"))
    wanted = {"num_train_epochs": 1, "learning_rate": 5e-5, "adam_epsilon": 1e-8, "weight_decay": 0, "max_length": 128}
    assert found["settings"].items() >= {**wanted, "lr_scheduler_type": "constant", "num_processes": 1}.items()
    assert found["num_steps"] == 3  # of 48, 48 and 4 rows
    assert found["num_skipped"]["train"]["not_drawn"] > 1000
    capsys.readouterr()
    main(options(word_model, tmp_path / "run", "--num_train", "100", "--num_test", "30"))
    assert "nothing to do" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"settings\.num_negatives is 1 there and 2 here"):
        main(options(word_model, tmp_path / "run", "--num_train", "100", "--num_test", "30", "--num_negatives", "2"))


def test_two_processes_count_every_row_once(word_model, tmp_path):
    found = {}
    for number in (1, 2):
        folder = tmp_path / str(number)
        few = ("--num_train", "96", "--num_test", "41")  # 41: the last batch of one process is filled up
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node", str(number), "--standalone"]
        script = [str(ROOT / "hb_train" / "dialog_state_tracking.py"), *options(word_model, folder, *few)]
        done = subprocess.run([*command, *script], cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        found[number] = json.loads((folder / DST_FILE).read_text(encoding="utf-8"))
    for name in ("num_rows", "num_positive", "num_steps", "questions", "model"):
        assert found[1][name] == found[2][name], name
    assert found[2]["num_rows"] == 41
    assert found[2]["num_steps"] == 2  # 48 rows a step, whatever the number of processes
    assert found[2]["test_loss"] == pytest.approx(found[1]["test_loss"], abs=0.02)


def test_what_cannot_be_is_refused(word_model, tmp_path):
    for more, message in (
        (("--max_length", "3"), "max_length is 3"),
        (("--num_train", "-1"), "num_train is -1"),
        (("--dialogues", str(tmp_path)), "no file of split 'train'"),
    ):
        with pytest.raises(SystemExit, match=message):
            main(options(word_model, tmp_path / "refused", *more))
    with pytest.raises(SystemExit, match="--model_name_or_path is missing"):
        main(["--output_dir", str(tmp_path / "refused"), *QUICK])
