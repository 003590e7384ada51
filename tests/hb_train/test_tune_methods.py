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
from hb_train import tune
from hb_train.bias_labels import main as label
from hb_train.training import trainers
from hb_train.tune import main as tune_main
from hb_train.tuning.learning_rate_sweep import SweepArguments, sweep_learning_rates
from tests.hb_train.conftest import (
    MEASURED,
    TRAINERS,
    WARNINGS_OF_TRL,
    few_steps,
    labels_by_hand,
    measured,
    options_for,
    same,
    sympathy,
    weights,
)

ROOT = Path(__file__).parents[2]
pytestmark = WARNINGS_OF_TRL
NUM_REPLIES = 3


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


@pytest.mark.parametrize("method", ["kto", pytest.param("dpo", marks=pytest.mark.long)])
def test_a_planted_bias_falls_asked_without_a_tag(method, pitying_model, before, request, tmp_path):
    rows = request.getfixturevalue({"kto": "labels", "dpo": "paired_labels"}[method])
    options = [
        *("--method", method, "--learning_rate", "1e-3", "--per_device_train_batch_size", "32"),
        *("--num_train_epochs", "2", "--eval_steps", "20", "--save_steps", "20", "--evaluation_replies", "96"),
    ]
    tune_main(options_for(pitying_model, rows, tmp_path / "tuned", *options))
    after = measured(tmp_path / "tuned", tmp_path / "after")
    assert (np.array(sympathy(after)) < np.array(sympathy(before[1])) / 2).all()
    evaluations = read_bias_tuning(str(tmp_path / "tuned")).training["evaluations"]
    assert evaluations[-1]["mean_bias_value"] < evaluations[0]["mean_bias_value"] / 2
    assert after["run"]["generation"]["tag"] is None
    assert after["run"]["generation"]["tag_reason"] == f"the model was tuned by {method.upper()}, without tags"
    card = (tmp_path / "tuned" / "README.md").read_text(encoding="utf-8")
    assert f"It was tuned by {method.upper()}, which uses no control tags, and is asked without." in card


@pytest.fixture
def model(save_small_model):
    return save_small_model("gpt2")


@pytest.fixture
def rows(model, tmp_path):
    """Labels of three replies to each of eight prompts, two of them tagged "bias"."""
    tokenizer = AutoTokenizer.from_pretrained(model)
    return labels_by_hand(tmp_path / "rows", tokenizer, "plain", is_encoder_decoder=False, replies_a_prompt=3)


def tuned(model, rows, folder, method, *options):
    """The record of a short tuning."""
    tune_main(options_for(model, rows, folder, "--method", method, *few_steps(rate="1e-2"), *options))
    return read_bias_tuning(str(folder))


@pytest.mark.parametrize("method", ["kto", "dpo"])
def test_the_model_learns_replies_after_the_contexts_it_is_given_without_a_tag(
    method, model, rows, tmp_path, monkeypatch
):
    batches = []

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        batches.append({name: value.tolist() for name, value in inputs.items()})
        return known(self, model, inputs, return_outputs, num_items_in_batch)

    trainer = {"kto": trainers.ReplyKTOTrainer, "dpo": trainers.ReplyDPOTrainer}[method]
    known = trainer.compute_loss
    monkeypatch.setattr(trainer, "compute_loss", compute_loss)
    record = tuned(
        model,
        rows,
        tmp_path / "model",
        method,
        "--eval_on_start",
        "false",
        "--max_steps",
        "2",
        "--eval_steps",
        "2",
        "--save_steps",
        "2",
    )
    tokenizer = AutoTokenizer.from_pretrained(model)

    def tokens(number, reply):
        context = tokenizer(f"Hi! I'm number {number}.\n")["input_ids"]
        return tuple(context), (*tokenizer(reply)["input_ids"], tokenizer.eos_token_id)

    wanted, unwanted = "I'm a man.", "I love cats."

    def sequences(batch, prefix=""):
        rows = (batch[f"{prefix}{name}"] for name in ("input_ids", "attention_mask", "completion_mask"))
        for ids, attended, completion in zip(*rows, strict=True):
            length, first = sum(attended), completion.index(1)
            assert attended == [1] * length + [0] * (len(ids) - length)
            assert completion == [0] * first + [1] * (length - first) + [0] * (len(ids) - length)
            yield tuple(ids[:first]), tuple(ids[first:length])

    if method == "dpo":
        first = list(sequences(batches[0]))
        assert sorted(first[:4]) == sorted(tokens(number, wanted) for number in range(4))
        assert [context for context, _ in first[4:]] == [context for context, _ in first[:4]]
        assert {reply for _, reply in first[4:]} == {tokens(0, unwanted)[1]}
        assert record.training["num_pairs"] == {"train": 4, "validation": 4}
        assert record.training["num_unpaired_prompts"] == {"train": 0, "validation": 0}
        return
    train = [
        (*row, label) for batch in batches[:2] for row, label in zip(sequences(batch), batch["label"], strict=True)
    ]
    expected = [(*tokens(n // 3, unwanted if n % 3 else wanted), n % 3 == 0) for n in range(12)]
    assert sorted(train) == sorted(expected)
    assert train != expected  # in an order that the seed draws
    for batch in batches[:2]:  # the divergence is estimated by the replies of the rows before
        own, other = list(sequences(batch)), list(sequences(batch, "KL_"))
        assert [context for context, _ in other] == [context for context, _ in own]
        assert [reply for _, reply in other] == [own[index - 1][1] for index in range(len(own))]
    assert record.training["desirable_weight"] == 1
    assert record.training["undesirable_weight"] == 0.5


@pytest.mark.parametrize("method", ["kto", "dpo"])
def test_another_seed_gives_other_weights_and_it_resumes_to_the_same(method, model, rows, tmp_path):
    def run(name, *options):
        record = tuned(model, rows, tmp_path / name, method, "--save_total_limit", "3", *options)
        return weights(tmp_path / name), record

    first, record = run("first")
    other, _ = run("other", "--seed", "1")
    assert not same(first, other)
    assert record.tag is None
    assert record.method == method
    curve = {entry["step"]: entry["loss"] for entry in record.training["validation_loss"]}
    assert record.training["best_validation_loss"] == min(curve.values()) < curve[0]

    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "run.json").write_bytes((tmp_path / "first" / "run.json").read_bytes())
    (tmp_path / "first" / "checkpoint-2").rename(broken / "checkpoint-2")
    resumed, resumed_record = run("broken")
    assert same(first, resumed)
    assert resumed_record == record


@pytest.mark.parametrize("method", ["kto", "dpo"])
def test_the_reference_is_the_model_before_with_lora_and_with_its_log_probabilities_alone(
    method, model, rows, tmp_path
):
    whole = tuned(model, rows, tmp_path / "whole", method)
    before = tuned(model, rows, tmp_path / "before", method, "--precompute_ref_log_probs")
    losses = [[entry["loss"] for entry in record.training["validation_loss"]] for record in (before, whole)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    for name, value in weights(tmp_path / "whole").items():
        torch.testing.assert_close(weights(tmp_path / "before")[name], value, rtol=1e-3, atol=1e-4)
    lora = tuned(
        model, rows, tmp_path / "lora", method, "--use_peft", "--lora_r", "4", "--lora_target_modules", "all-linear"
    )
    losses = [entry["loss"] for entry in lora.training["validation_loss"]]
    assert losses[0] == pytest.approx(whole.training["validation_loss"][0]["loss"])
    assert losses[-1] < losses[0]
    assert not list((tmp_path / "lora").glob("adapter*"))
    changed = weights(tmp_path / "lora").items()
    known = weights(model)
    changed = {name for name, value in changed if not torch.equal(value, known[name])}
    assert changed
    assert not {name for name in changed if "layers" not in name and ".h." not in name}


@pytest.mark.parametrize("method", ["kto", pytest.param("dpo", marks=pytest.mark.long)])
def test_two_processes_tune_and_no_token_is_written(method, model, rows, forked_programs, tmp_path):
    folder, token = tmp_path / "model", "hf_" + "NoBodysToken" * 3
    options = options_for(model, rows, folder, "--method", method, *few_steps(rate="1e-2"), "--hub_token", token)
    options += ["--per_device_train_batch_size", "2"]
    forked_programs.run_two("hb_train.tune", options, TRAINERS)
    curve = read_bias_tuning(str(folder)).training["validation_loss"]
    assert curve[-1]["loss"] < curve[0]["loss"]
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.name == "training_args.bin" for path in files)
    assert not [path for path in files if token.encode() in path.read_bytes()]


def test_what_does_not_go_with_a_method_is_refused(model, rows, save_small_model, tmp_path):
    def refused(message, *options, rows=rows, model=model):
        with pytest.raises(SystemExit, match=message):
            tune_main(options_for(model, rows, tmp_path / "model", *few_steps(), *options))
        assert not (tmp_path / "model" / "model.safetensors").exists()

    refused("labels none is the paper's self-chat tuning, which is method sft", "--method", "kto", "--labels", "none")
    refused("per_device_train_batch_size is 1; give", "--method", "kto", "--per_device_train_batch_size", "1")
    refused("--method has to be written in full", "--meth", "kto")
    refused("the lowest validation loss, which needs", "--method", "dpo", "--load_best_model_at_end", "false")
    blenderbot = save_small_model("blenderbot")
    one = labels_by_hand(
        tmp_path / "one", AutoTokenizer.from_pretrained(blenderbot), "blenderbot", is_encoder_decoder=True
    )
    refused("is encoder-decoder; method kto needs a causal", "--method", "kto", rows=one, model=blenderbot)
    single = labels_by_hand(
        tmp_path / "single", AutoTokenizer.from_pretrained(model), "plain", is_encoder_decoder=False
    )
    refused("of the 12 prompts of train, 0 have several replies", "--method", "dpo", rows=single)
    config = tmp_path / "options.yaml"
    config.write_text("method: kto\nundesirable_weight: 3.0\n", encoding="utf-8")
    arguments, _, training_args, _ = tune.parse_options(
        ["--config", str(config), "--output_dir", str(tmp_path / "model"), "--bf16", "false"]
    )
    assert arguments.method == "kto"
    assert training_args.undesirable_weight == 3
    with pytest.raises(ValueError, match="method kto cannot be swept"):
        sweep_learning_rates(
            SweepArguments(output_dir=str(tmp_path / "sweep"), dataset_name=str(rows)), ["--method", "kto"]
        )
