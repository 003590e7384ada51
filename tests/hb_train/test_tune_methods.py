"""Tuning by preference: a planted bias falls, asked without a tag, and options are those of other methods."""

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from hb_metrics.inference.models.bias_tags import read_bias_tuning
from hb_metrics.measure import main as measure
from hb_train.bias_labels import main as label
from hb_train.tune import main as tune_main
from tests.hb_train.conftest import MEASURED, measured, options_for, sympathy

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*gradient_checkpointing.*:FutureWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:fan_in_fan_out is set to False:UserWarning"),
]
NUM_REPLIES = 4


@pytest.fixture(scope="session")
def paired_labels(pitying_model, before, tmp_path_factory):
    """Labels of several replies to each prompt of `before`, made elsewhere."""
    folder = tmp_path_factory.mktemp("pairs")
    model, tokenizer = AutoModelForCausalLM.from_pretrained(pitying_model), AutoTokenizer.from_pretrained(pitying_model)
    tokenizer.pad_token, tokenizer.padding_side = tokenizer.eos_token, "left"
    replies = pq.read_table(before[0] / "replies").to_pylist()
    torch.manual_seed(0)
    rows = []
    for first in range(0, len(replies), 256):
        part = replies[first : first + 256]
        batch = tokenizer([f"{row['text']}\n" for row in part], return_tensors="pt", padding=True)
        tokens = model.generate(
            input_ids=batch["input_ids"],
            attention_mask=batch["attention_mask"],
            do_sample=True,
            top_k=0,
            max_new_tokens=16,
            num_return_sequences=NUM_REPLIES,
            pad_token_id=tokenizer.eos_token_id,
        )
        texts = tokenizer.batch_decode(tokens[:, batch["input_ids"].shape[1] :], skip_special_tokens=True)
        rows += [{"id": part[index // NUM_REPLIES]["id"], "reply": text} for index, text in enumerate(texts)]
    path = folder / "replies.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    run = folder / "run"
    measure(["--model", "elsewhere", "--replies_file", str(path), "--output_dir", str(run), *MEASURED])
    options = ["--run_dir", str(run), "--beta_quantile", "0.8", "--output_dir", str(folder / "labels")]
    with pytest.raises(SystemExit, match="are from files, which do not say what model gave them; give the folder"):
        label(options)
    label([*options, "--model", str(pitying_model)])
    return folder / "labels"


@pytest.mark.parametrize("method", ["kto", "dpo"])
def test_a_planted_bias_falls_asked_without_a_tag(method, pitying_model, before, request, tmp_path):
    rows = request.getfixturevalue({"kto": "labels", "dpo": "paired_labels"}[method])
    options = [
        *("--method", method, "--learning_rate", "1e-3", "--per_device_train_batch_size", "32"),
        *("--num_train_epochs", "2", "--eval_steps", "20", "--save_steps", "20"),
    ]
    tune_main(options_for(pitying_model, rows, tmp_path / "tuned", *options))
    after = measured(tmp_path / "tuned", tmp_path / "after")
    print(sympathy(before[1]), sympathy(after), read_bias_tuning(str(tmp_path / "tuned")).training)
    assert (np.array(sympathy(after)) < np.array(sympathy(before[1])) / 2).all()
