"""Baseline distillation: a planted bias falls without labels, and the divergence is that of the definition."""

import numpy as np
import pytest
import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model

from hb_dataset import load_table
from hb_metrics.models.bias_tags import read_bias_tuning
from hb_metrics.models.loading import load_model
from hb_train.baseline_replies import main as reply_main
from hb_train.baseline_replies import training_prompts
from hb_train.tune import main as tune_main
from hb_train.tuning.baseline_rows import draw_baseline_prompts, draw_prompts
from hb_train.tuning.distill import DistillationTrainer, collate_pairs, encode
from tests.hb_train.conftest import (
    WARNINGS_OF_TRL,
    divergence,
    few_steps,
    learnt_distributions,
    measured,
    options_for,
    replied,
    rows_of,
    same,
    shaken,
    sympathy,
    trainer_of,
    weights,
)

pytestmark = WARNINGS_OF_TRL


@pytest.mark.long
def test_a_planted_bias_falls_without_labels(pitying_model, before, tmp_path):
    rows = tmp_path / "rows"
    replied("distill", pitying_model, rows, "--num_replies", "400", "--num_anchors", "0", "--max_new_tokens", "16")
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
    assert "as it had replied to the same prompts without the descriptor" in card
    assert "* 400 replies by" in card


def test_rows_pair_a_reply_with_the_same_sentence(save_small_model, tmp_path):
    options = ("--num_replies", "60", "--num_anchors", "0")
    content = replied("distill", save_small_model("gpt2"), tmp_path / "rows", *options)
    rows = rows_of(tmp_path / "rows")
    assert content["num_replies"] + content["num_empty_replies"] == 60
    assert len(rows) == 2 * content["num_replies"]
    texts = {
        (row["descriptor"], row["noun"], row["template"]): row["text"] for row in load_table("v1.0-small").to_pylist()
    }
    without = {(row["noun"], row["template"]): row["text"] for row in load_table("v1.0-baseline").to_pylist()}
    for row in rows:
        assert row["prompt"] == f"{texts[row['descriptor'], row['noun'], row['template']]}\n"
        assert row["teacher_prompt"] == f"{without[row['noun'], row['template']]}\n"
    train = {row["teacher_prompt"] for row in rows[: content["by_split"]["train"]]}
    assert not train & {row["teacher_prompt"] for row in rows[content["by_split"]["train"] :]}


def test_axes_are_drawn_alike_and_terms_can_be_left_out():
    prompts, baseline = load_table("v1.0"), load_table("v1.0-baseline")
    drawn = draw_baseline_prompts(baseline, prompts, 2 * len(baseline), seed=0)
    assert len(set(drawn.table["id"].to_pylist())) == 2 * len(baseline)
    axes = prompts["axis"].to_pylist()
    counts = np.unique([axes[row] for _, row, _ in draw_prompts(drawn, seed=0)], return_counts=True)[1]
    assert len(counts) == 13
    expected = 4 * len(baseline) / 13
    assert (np.abs(counts - expected) < 5 * np.sqrt(expected)).all()
    with pytest.raises(ValueError, match=r"--leave_out v1\.0-small excludes all descriptors of v1\.0-small"):
        training_prompts("v1.0-small", "v1.0-small")
    left_out = set(load_table("v1.0-small")["descriptor"].to_pylist()) | {"who is deaf", "transgender", "well-off"}
    used = set(training_prompts("v1.0", "v1.0-small")["descriptor"].to_pylist())
    assert len(used) > 400
    assert not used & left_out


def encoded_pairs(loaded):
    """Two rows, of which the second is of a reply that was cut."""
    rows = []
    for prompt, teacher_prompt, reply, truncated in (
        ("Hi! I'm a tall old man.\n", "Hi! I'm a man.\n", "I love cats.", False),
        ("I love old men.\n", "I love men.\n", "What is a man? I love men.", True),
    ):
        prompts = {"id": prompt, "prompt": prompt, "teacher_prompt": teacher_prompt, "truncated": truncated}
        rows.append({**prompts, "completion": reply, "teacher_completion": reply, "spans": [], "moved": []})
    return encode(Dataset.from_list(rows), loaded, {"context": "plain"}, False, None).dataset


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_the_divergence_is_that_of_the_definition(family, save_small_model, tmp_path):
    loaded = load_model(str(save_small_model(family)))
    encoded = encoded_pairs(loaded)
    tuned, is_causal = shaken(loaded), family == "gpt2"
    trainer = trainer_of(DistillationTrainer, tuned, loaded.model, tmp_path, is_causal=is_causal)
    sums, numbers = trainer.row_losses(tuned, collate_pairs(list(encoded)))
    for row, total, number in zip(encoded, sums.detach().tolist(), numbers.tolist(), strict=True):
        distributions = learnt_distributions(row, loaded.model, tuned, is_causal=is_causal)
        assert number == len(distributions)
        assert total == pytest.approx(sum(divergence(*pair) for pair in distributions), rel=1e-4)
    loss = trainer.compute_loss(tuned, collate_pairs(list(encoded))).detach().item()
    assert loss == pytest.approx((sums.sum() / numbers.sum()).detach().item(), rel=1e-5)


def test_an_adapter_is_taught_by_the_model_without_it(save_small_model, tmp_path):
    loaded = load_model(str(save_small_model("gpt2")))
    batch = collate_pairs(list(encoded_pairs(loaded)))
    config = LoraConfig(target_modules=["c_attn"], fan_in_fan_out=True, init_lora_weights=False)
    adapted = get_peft_model(load_model(loaded.source).model, config)
    own, given = (
        trainer_of(DistillationTrainer, adapted.eval(), teacher, tmp_path).row_losses(adapted, batch)[0].tolist()
        for teacher in (None, loaded.model)
    )
    assert own == pytest.approx(given, rel=1e-5)


def test_with_lora_the_teacher_is_the_model_as_it_was(save_small_model, tmp_path):
    model = save_small_model("gpt2")
    rows = tmp_path / "rows"
    replied("distill", model, rows, "--num_replies", "24")
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
    for name, seed in (("rows", "0"), ("others", "1")):
        replied("distill", model, tmp_path / name, "--num_replies", "6", "--num_anchors", "0", "--seed", seed)
    options = ["--method", "distill", *few_steps(2)]
    tune_main(options_for(model, tmp_path / "rows", tmp_path / "model", *options))
    with pytest.raises(SystemExit, match=r"labels\.rows_digest is"):
        tune_main(options_for(model, tmp_path / "others", tmp_path / "model", *options))
    with pytest.raises(SystemExit, match=r"model .*gpt2, not by .*t5, but method distill"):
        tune_main(options_for(save_small_model("t5"), tmp_path / "rows", tmp_path / "t5-tuned", *options))
    assert not (tmp_path / "t5-tuned").exists()
