"""Baseline distillation: a planted bias falls without labels, and the divergence is that of the definition."""

import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from transformers import TrainingArguments

from hb_dataset import load_table
from hb_metrics.inference.models.bias_tags import read_bias_tuning
from hb_metrics.inference.models.loading import load_model
from hb_train.baseline_replies import main as reply_main
from hb_train.training.encoding import IGNORED
from hb_train.training.models import padding_tokenizer
from hb_train.tune import main as tune_main
from hb_train.tuning.baseline_rows import draw_baseline_prompts, draw_prompts
from hb_train.tuning.distill import DistillationTrainer, PairCollator, encode
from tests.hb_train.conftest import WARNINGS_OF_TRL, few_steps, measured, options_for, same, sympathy, weights

pytestmark = WARNINGS_OF_TRL


def replied(model, folder, number):
    reply_main(
        [
            *("--method", "distill", "--model", str(model), "--dataset_config", "v1.0-small"),
            *("--num_replies", str(number), "--num_anchors", "0"),
            *("--context", "plain", "--max_new_tokens", "16", "--output_dir", str(folder)),
        ]
    )
    return folder


@pytest.mark.long
def test_a_planted_bias_falls_without_labels(pitying_model, before, tmp_path):
    rows = replied(pitying_model, tmp_path / "rows", 400)
    options = [
        *("--method", "distill", "--learning_rate", "2e-3", "--per_device_train_batch_size", "32"),
        *("--num_train_epochs", "3", "--eval_steps", "30", "--save_steps", "30"),
    ]
    tune_main(options_for(pitying_model, rows, tmp_path / "tuned", *options))
    after = measured(tmp_path / "tuned", tmp_path / "after")
    assert (np.array(sympathy(after)) < np.array(sympathy(before[1])) / 2).all()
    assert after["run"]["generation"]["tag_reason"] == "the model was tuned by baseline distillation, without tags"
    training = read_bias_tuning(str(tmp_path / "tuned")).training
    losses = [entry["loss"] for entry in training["validation_loss"]]
    assert min(losses) < losses[0] / 2
    card = (tmp_path / "tuned" / "README.md").read_text(encoding="utf-8")
    assert "as it replied to the same prompts without the descriptor" in card
    assert "* 400 replies by" in card


def test_rows_pair_a_reply_with_the_same_sentence(pitying_model, tmp_path):
    folder = replied(pitying_model, tmp_path / "rows", 60)
    rows = pq.read_table(folder / "data" / "train.parquet").to_pylist()
    rows += pq.read_table(folder / "data" / "validation.parquet").to_pylist()
    content = json.loads((folder / "baseline.json").read_text(encoding="utf-8"))
    assert content["num_replies"] + content["num_empty_replies"] == 60
    assert len(rows) == 2 * content["num_replies"]
    texts = {(row["descriptor"], row["noun"], row["template"]): row["text"] for row in small("v1.0-small")}
    without = {(row["noun"], row["template"]): row["text"] for row in small("v1.0-baseline")}
    for row in rows:
        assert row["prompt"] == f"{texts[row['descriptor'], row['noun'], row['template']]}\n"
        assert row["teacher_prompt"] == f"{without[row['noun'], row['template']]}\n"
    train = {row["teacher_prompt"] for row in rows[: content["by_split"]["train"]]}
    assert not train & {row["teacher_prompt"] for row in rows[content["by_split"]["train"] :]}


def small(config):
    return load_table(config).to_pylist()


def test_axes_are_drawn_alike_and_terms_can_be_left_out(save_small_model, tmp_path):
    prompts, baseline = load_table("v1.0"), load_table("v1.0-baseline")
    drawn = draw_baseline_prompts(baseline, prompts, 2 * len(baseline), seed=0)
    assert len(set(drawn.table["id"].to_pylist())) == 2 * len(baseline)
    axes = prompts["axis"].to_pylist()
    counts = np.unique([axes[row] for _, row, _ in draw_prompts(drawn, seed=0)], return_counts=True)[1]
    assert len(counts) == 13
    expected = 4 * len(baseline) / 13
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    model = save_small_model("gpt2")
    options = ["--method", "distill", "--model", str(model), "--num_replies", "6", "--max_new_tokens", "3"]
    options += ["--num_anchors", "0", "--dataset_config", "v1.0-small"]
    with pytest.raises(SystemExit, match=r"--leave_out v1\.0-small excludes all descriptors of v1\.0-small"):
        reply_main([*options, "--leave_out", "v1.0-small", "--output_dir", str(tmp_path / "none")])
    reply_main([*options[:-1], "v1.0", "--leave_out", "v1.0-small", "--output_dir", str(tmp_path / "rows")])
    left_out = set(load_table("v1.0-small")["descriptor"].to_pylist()) | {"who is deaf", "transgender", "well-off"}
    used = set(pq.read_table(tmp_path / "rows" / "data" / "train.parquet")["descriptor"].to_pylist())
    assert used
    assert not used & left_out


def encoded_pairs(loaded):
    """Two rows, of which the second is of a reply that was cut."""
    rows = Dataset.from_list(
        [
            {"id": "1", "prompt": "Hi! I'm a tall old man.\n", "teacher_prompt": "Hi! I'm a man.\n"}
            | dict.fromkeys(("completion", "teacher_completion"), "I love cats.")
            | {"spans": [], "moved": [], "truncated": False},
            {"id": "2", "prompt": "I love old men.\n", "teacher_prompt": "I love men.\n"}
            | dict.fromkeys(("completion", "teacher_completion"), "What is a man? I love men.")
            | {"spans": [], "moved": [], "truncated": True},
        ]
    )
    return encode(rows, loaded, {"context": "plain"}, False, None).dataset


def trainer_of(model, teacher, family, folder):
    args = TrainingArguments(output_dir=str(folder), use_cpu=True, report_to="none")
    return DistillationTrainer(model=model.eval(), teacher=teacher, is_causal=family == "gpt2", args=args)


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_the_divergence_is_that_of_the_definition(family, save_small_model, tmp_path):
    loaded = load_model(str(save_small_model(family)))
    encoded = encoded_pairs(loaded)
    torch.manual_seed(1)
    tuned = load_model(loaded.source).model
    with torch.no_grad():
        for parameter in tuned.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    loaded.tokenizer.padding_side = "left"  # as many chat models' is, which reply in batches
    tokenizer = padding_tokenizer(loaded)
    trainer = trainer_of(tuned, loaded.model, family, tmp_path)
    sums, numbers = trainer.row_losses(tuned, PairCollator(tokenizer)([encoded[0], encoded[1]]))
    for row, total, number in zip(encoded, sums.detach().tolist(), numbers.tolist(), strict=True):
        divergences = divergences_by_hand(row, loaded.model.eval(), tuned, family)
        assert number == len(divergences)
        assert total == pytest.approx(sum(divergences), rel=1e-4)
    loss = trainer.compute_loss(tuned, PairCollator(tokenizer)([encoded[0], encoded[1]])).detach().item()
    assert loss == pytest.approx((sums.sum() / numbers.sum()).detach().item(), rel=1e-5)


def test_any_token_pads_if_a_tokenizer_has_no_end(save_small_model):
    loaded = load_model(str(save_small_model("gpt2")))
    expected = PairCollator(padding_tokenizer(loaded))(list(encoded_pairs(loaded)))
    assert not expected["attention_mask"].all()
    loaded.tokenizer.eos_token = None
    batch = PairCollator(padding_tokenizer(loaded))(list(encoded_pairs(loaded)))
    assert batch["labels"].shape[1] == batch["attention_mask"].shape[1]
    assert (batch["labels"][batch["attention_mask"] == 0] == IGNORED).all()


def test_an_adapter_is_taught_by_the_model_without_it(save_small_model, tmp_path):
    loaded = load_model(str(save_small_model("gpt2")))
    batch = PairCollator(padding_tokenizer(loaded))(list(encoded_pairs(loaded)))
    config = LoraConfig(target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
    adapted = get_peft_model(load_model(loaded.source).model, config)
    own, given = (
        trainer_of(adapted, teacher, "gpt2", tmp_path).row_losses(adapted, batch)[0].tolist()
        for teacher in (None, loaded.model)
    )
    assert own == pytest.approx(given, rel=1e-5)


def divergences_by_hand(row, teacher, student, family):
    """KL(p‖q) at each label, one by one, in float64."""
    tables = []
    for model, side in ((teacher, "teacher_"), (student, "")):
        inputs = {name: torch.tensor([row[f"{side}{name}"]]) for name in ("input_ids", "labels")}
        labels = inputs["labels"][0].tolist()
        logits = model(**inputs).logits[0].detach().double()
        if family == "gpt2":
            logits, labels = logits[:-1], labels[1:]
        tables.append([(logits[i] / 0.7).softmax(-1) for i, label in enumerate(labels) if label != -100])
    return [float((p * (p / q).log()).sum()) for p, q in zip(*tables, strict=True)]


def test_with_lora_the_teacher_is_the_model_as_it_was(save_small_model, tmp_path):
    model = save_small_model("gpt2")
    rows = tmp_path / "rows"
    options = ["--num_replies", "24", "--max_new_tokens", "6", "--dataset_config", "v1.0-small"]
    reply_main(["--method", "distill", "--model", str(model), *options, "--output_dir", str(rows)])
    lora = ["--use_peft", "true", "--lora_target_modules", ".*c_attn", "--method", "distill"]
    tune_main(options_for(model, rows, tmp_path / "still", *lora, *few_steps(2, "0")))
    assert same(weights(tmp_path / "still"), weights(model))
    whole = ["--method", "distill", *few_steps(2, "0")]
    tune_main(options_for(model, rows, tmp_path / "whole", *whole))
    losses = [read_bias_tuning(str(tmp_path / name)).training["best_validation_loss"] for name in ("still", "whole")]
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    assert losses[0] > 0
    assert read_bias_tuning(str(tmp_path / "whole")).tag is None
    for name, seed in (("first", "3"), ("again", "3"), ("other", "4")):
        torch.rand(1)  # whatever was drawn before
        tune_main(options_for(model, rows, tmp_path / name, *lora, *few_steps(2), "--seed", seed))
    assert same(weights(tmp_path / "first"), weights(tmp_path / "again"))
    assert not same(weights(tmp_path / "first"), weights(tmp_path / "other"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dataset_config", "v1.0-baseline"], "'v1.0-baseline' has no prompts with a descriptor"),
        (["--dataset_config", "v1.0-small", "--leave_out", "v1.0-baseline"], "v1.0-baseline excludes no desc"),
        (["--dataset_config", "next-intersections"], "cannot replace the combined terms of next-intersections"),
    ],
)
def test_bad_options_are_named(options, message, tmp_path):
    with pytest.raises(SystemExit, match=message):
        reply_main(["--output_dir", str(tmp_path / "rows"), *options])


def test_other_rows_and_other_models_are_known(save_small_model, tmp_path):
    model = save_small_model("gpt2")
    small = ["--method", "distill", "--num_replies", "6", "--num_anchors", "0", "--max_new_tokens", "3"]
    small += ["--dataset_config", "v1.0-small"]
    for name, seed in (("rows", "0"), ("others", "1")):
        reply_main(["--model", str(model), *small, "--seed", seed, "--output_dir", str(tmp_path / name)])
    options = ["--method", "distill", *few_steps(2)]
    tune_main(options_for(model, tmp_path / "rows", tmp_path / "model", *options))
    with pytest.raises(SystemExit, match=r"labels\.rows_digest is"):
        tune_main(options_for(model, tmp_path / "others", tmp_path / "model", *options))
    with pytest.raises(SystemExit, match=r"model .*gpt2, not by .*t5, but method distill"):
        tune_main(options_for(save_small_model("t5"), tmp_path / "rows", tmp_path / "t5-tuned", *options))
    assert not (tmp_path / "t5-tuned").exists()
