"""Response generation: a model can be taught it, every prompt counts once, and invalid options are refused."""

import json

import pytest

from hb_train.response_generation import CRG_FILE, main
from tests.hb_train.conftest import WARNINGS_OF_TRL

pytestmark = WARNINGS_OF_TRL


def options(model, pairs, folder, *more):
    return [
        *("--model_name_or_path", str(model), "--dialogues", str(pairs), "--output_dir", str(folder)),
        *("--num_pairs", "90", "--num_test", "11", "--max_new_tokens", "12"),
        *("--bf16", "false", "--disable_tqdm", "true", *more),
    ]


def results_in(folder):
    return json.loads((folder / CRG_FILE).read_text(encoding="utf-8"))


def test_a_model_learns_to_respond(pitying_model, pairs_file, tmp_path):
    main(options(pitying_model, pairs_file, tmp_path / "before", "--learning_rate", "1e-9"))
    taught = ("--learning_rate", "3e-3", "--num_train_epochs", "10", "--per_device_train_batch_size", "16")
    main(options(pitying_model, pairs_file, tmp_path / "after", *taught))
    before, after = results_in(tmp_path / "before"), results_in(tmp_path / "after")
    assert after["bleu_4"] > before["bleu_4"] + 10
    assert after["meteor_exact_stem"] > before["meteor_exact_stem"] + 10
    assert after["response_perplexity"] < before["response_perplexity"]
    assert after["num_responses"] == 11
    assert after["num_references"] > 11
    assert after["num_train_rows"] + after["num_references"] == 90
    defaults = {"num_train_epochs": 1, "adam_epsilon": 1e-8, "weight_decay": 0.0, "max_length": 128}
    assert all(before["settings"].get(name, value) == value for name, value in defaults.items())
    assert before["num_steps"] == 1  # 80 rows


def test_invalid_options_are_refused(pitying_model, pairs_file, tmp_path):
    for more, message in (
        (("--num_test", "0"), "num_test is 0"),
        (("--max_length", "4"), "max_length is 4"),
        (("--num_pairs", "1000"), "num_replies is 1,000, but pairs.jsonl has 90"),
    ):
        with pytest.raises(SystemExit, match=message):
            main(options(pitying_model, pairs_file, tmp_path / "refused", *more))
