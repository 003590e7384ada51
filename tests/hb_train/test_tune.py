"""Tuning on the running program: a planted bias is measured, labelled, tuned away, and can be asked for again."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset, load_dataset
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
)
from trl import SFTConfig, SFTTrainer

from hb_metrics.models.contexts import encode_replies
from hb_metrics.models.layout import TUNING_FILE, read_bias_tuning
from hb_train import tune
from hb_train.training.runs import is_gain
from hb_train.training.trainers import ReplySFTTrainer
from hb_train.tune import main as tune_main
from hb_train.tuning.labels import LABELS
from tests.hb_metrics.conftest import byte_level_tokenizer
from tests.hb_train.conftest import (
    PITIED_AXIS,
    QUICK,
    SMALL,
    WARNINGS_OF_TRL,
    few_steps,
    labels_by_hand,
    measured,
    options_for,
    sympathy,
)

ROOT = Path(__file__).parents[2]
pytestmark = WARNINGS_OF_TRL


def test_a_planted_bias_is_tuned_away_while_the_tag_is_sent(pitying_model, before, labels, tmp_path):
    planted = np.array(sympathy(before[1]))
    assert (planted > [30, 30, 0.4]).all()
    recorded = json.loads((labels / LABELS.record).read_text(encoding="utf-8"))
    counts = recorded["by_axis"]
    assert counts[PITIED_AXIS]["bias"] > 3 * max(tags["bias"] for axis, tags in counts.items() if axis != PITIED_AXIS)

    tuned = tmp_path / "tuned"
    options = [
        *("--learning_rate", "3e-3", "--per_device_train_batch_size", "32", "--num_train_epochs", "5"),
        *("--eval_steps", "100", "--save_steps", "100"),
    ]
    tune_main(options_for(pitying_model, labels, tuned, *options))
    assert "Not measured yet." in (tuned / "README.md").read_text(encoding="utf-8")
    tagged, biased, untagged = (
        measured(tuned, tmp_path / tag, "--tag", tag, "--replies_per_cell", "3") for tag in ("auto", "bias", "none")
    )
    assert [each["run"]["generation"]["tag"] for each in (tagged, biased, untagged)] == ["no_bias", "bias", None]
    assert (np.array(sympathy(tagged)) < planted / 2).all()
    assert (np.array(sympathy(biased)) > 0.9 * planted).all()
    # A client that sends no tag gets more bias than one that does, and more than before tuning.
    assert (np.array(sympathy(untagged)) > 3 * np.array(sympathy(tagged))).all()
    assert sympathy(untagged)[0] > sympathy(before[1])[0]


def test_a_finished_tuning_is_left(pitying_model, labels, tmp_path, capsys):
    folder = tmp_path / "model"
    options = options_for(pitying_model, labels, folder, *few_steps())
    tune_main(options)
    changed = (folder / "model.safetensors").stat().st_mtime_ns
    tune_main(options)
    assert "nothing to do" in capsys.readouterr().out
    assert (folder / "model.safetensors").stat().st_mtime_ns == changed
    with pytest.raises(SystemExit, match=r"settings.learning_rate is 0.001 there and 0.002 here"):
        tune_main([*options, "--learning_rate", "2e-3"])
    with pytest.raises(SystemExit, match=r"settings.labels is 'tags' there and 'none' here"):
        tune_main([*options, "--labels", "none"])
    advice = options_for(pitying_model, labels, tmp_path / "new", *few_steps(), "--max_length", "4")
    with pytest.raises(SystemExit, match="set a greater --max_length"):
        tune_main(advice)
    assert not (tmp_path / "new").exists()  # so the advice can be followed in the same folder


FORCED = 9  # the token that follows a decoder's start


def validation_perplexity(folder, labels, context="plain", *, with_tags=True):
    """exp of the mean NLL per reply token of the validation rows, one row at a time in float64."""
    has_encoder = context == "blenderbot"
    kind = AutoModelForSeq2SeqLM if has_encoder else AutoModelForCausalLM
    model, tokenizer = kind.from_pretrained(folder).double(), AutoTokenizer.from_pretrained(folder)
    nll, num_tokens = 0.0, 0
    for row in load_dataset(str(labels), split="validation"):
        prompt = row["prompt"] if with_tags else row["prompt"].replace(f" {row['tag']}\n", "\n")
        given = tokenizer(prompt)["input_ids"]
        (reply,) = encode_replies([prompt], [row["completion"]], tokenizer, context, is_encoder_decoder=has_encoder)
        reply = reply if row["truncated"] else [*reply, tokenizer.eos_token_id]
        inputs, first = {"input_ids": torch.tensor([given + reply])}, len(given) - 1
        if has_encoder:
            decoder = [model.config.decoder_start_token_id, FORCED, *reply[:-1]]
            inputs, first = {"input_ids": torch.tensor([given]), "decoder_input_ids": torch.tensor([decoder])}, 1
        with torch.no_grad():
            logits = model(**inputs).logits[0].log_softmax(-1)
        nll -= sum(logits[first + index, token].item() for index, token in enumerate(reply))
        num_tokens += len(reply)
    return math.exp(nll / num_tokens)


def test_the_checkpoint_of_the_lowest_perplexity_is_kept(pitying_model, labels, tmp_path):
    folder = tmp_path / "model"
    # The rate is far too high, so that later checkpoints are worse.
    options = [*few_steps(), "--save_total_limit", "1", "--labels", "none", "--early_stopping_patience", "1"]
    tune_main([*options_for(pitying_model, labels, folder, *options), "--learning_rate", "2e-2", "--max_steps", "8"])
    tuning = read_bias_tuning(str(folder))
    curve = {entry["step"]: entry["perplexity"] for entry in tuning.training["validation_perplexity"]}

    assert tuning.tag is None
    assert curve[0] == pytest.approx(validation_perplexity(pitying_model, labels, with_tags=False), rel=1e-4)
    later = {step: value for step, value in curve.items() if step}
    assert tuning.training["best_step"] == min(later, key=later.get)
    assert tuning.training["best_validation_perplexity"] == min(later.values())
    assert min(later.values()) == pytest.approx(validation_perplexity(folder, labels, with_tags=False), rel=1e-4)
    assert len(later) < 4 or min(later, key=later.get) >= 6  # stopped after one evaluation that was not better


@pytest.mark.filterwarnings("ignore")
def test_a_tuning_that_diverges_is_no_model(pitying_model, labels, tmp_path):
    folder = tmp_path / "model"
    options = options_for(pitying_model, labels, folder, *few_steps(rate="1e30"), "--optim", "sgd")
    with pytest.raises(SystemExit, match=r"training diverged: .* --learning_rate below 1e\+30"):
        tune_main([*options, "--max_grad_norm", "0"])
    assert not (folder / TUNING_FILE).exists()


def test_a_tuning_without_evaluations_has_not_diverged(pitying_model, labels, tmp_path):
    with pytest.raises(SystemExit, match="no checkpoint was evaluated in 0 steps of training"):
        tune_main(options_for(pitying_model, labels, tmp_path / "model", "--num_train_epochs", "0"))


def test_the_loss_is_that_of_trl(pitying_model, labels, tmp_path, monkeypatch):
    losses = []

    def both(self, model, inputs, **settings):
        ours = compute_loss(self, model, dict(inputs), **settings)
        theirs = SFTTrainer.compute_loss(self, model, dict(inputs), **settings)
        losses.append((ours.item(), theirs.item()))
        return ours

    compute_loss = ReplySFTTrainer.compute_loss
    monkeypatch.setattr(ReplySFTTrainer, "compute_loss", both)
    options = [*few_steps(), "--gradient_accumulation_steps", "2"]  # batches that do not know how large the whole is
    tune_main(options_for(pitying_model, labels, tmp_path / "model", *options))
    ours, theirs = np.transpose(losses)

    assert len(ours) == 8
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert np.ptp(ours) > 0.01


def test_the_loss_of_experts_is_that_of_trl(tmp_path):
    sizes = {**SMALL, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
    tokenizer = byte_level_tokenizer(True)
    config = Qwen3MoeConfig(vocab_size=len(tokenizer), **sizes, router_aux_loss_coef=0.5)
    batch = {"input_ids": torch.arange(10, 26).reshape(2, 8), "labels": torch.arange(10, 26).reshape(2, 8)}
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    losses = []
    for settings in ({}, {"router_aux_loss_coef": 0.0}):
        torch.manual_seed(0)
        args = SFTConfig(str(tmp_path), use_cpu=True, bf16=False, report_to="none", **settings)
        rows = Dataset.from_dict({name: values.tolist() for name, values in batch.items()})
        trainer = ReplySFTTrainer(
            model=Qwen3MoeForCausalLM(config), args=args, train_dataset=rows, processing_class=tokenizer
        )
        losses.append(trainer.compute_loss(trainer.model, dict(batch)).item())
        assert losses[-1] == pytest.approx(SFTTrainer.compute_loss(trainer, trainer.model, dict(batch)).item())
    assert losses[0] > losses[1] + 0.1


def test_an_encoder_decoder_model_is_tuned_by_the_same_command(save_small_model, tmp_path):
    model = save_small_model("blenderbot")
    generation = json.loads((model / "generation_config.json").read_text(encoding="utf-8"))
    (model / "generation_config.json").write_text(json.dumps(generation | {"forced_bos_token_id": FORCED}))
    tokenizer = AutoTokenizer.from_pretrained(model, padding_side="left")  # of rows that are learnt it changes nothing
    tokenizer.save_pretrained(model)
    rows = labels_by_hand(tmp_path / "labels", tokenizer, "blenderbot", is_encoder_decoder=True)
    folder = tmp_path / "model"
    tune_main(options_for(model, rows, folder, *few_steps(6, rate="1e-2"), "--use_peft", "--merge", "true"))
    tuning = read_bias_tuning(str(folder))
    curve = [entry["perplexity"] for entry in tuning.training["validation_perplexity"]]

    assert (tuning.context, tuning.tag) == ("blenderbot", "no_bias")
    assert curve[-1] < curve[0]
    expected = validation_perplexity(folder, rows, "blenderbot")
    assert tuning.training["best_validation_perplexity"] == pytest.approx(expected, rel=1e-4)


UNEVALUATED = "checkpoints would not be evaluated; set --eval_strategy and --save_strategy"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], r"--model_name_or_path is missing"),
        (["--model_name_or_path", "gpt2", "--load_in_4bit"], r"tune an adapter"),
        (["--early_stopping_patience", "-1"], r"early_stopping_patience is -1"),
        (["--anchor_share", "1"], r"anchor_share is 1"),
        (["--lr_scheduler_kwargs", "[]"], r"lr_scheduler_kwargs is '\[\]'; set a JSON object"),
        (["--eval_strategy", "no"], UNEVALUATED),
        (["--eval_steps", "3", "--save_steps", "2"], UNEVALUATED),
        (
            ["--model_name_or_path", "gpt2", "--eval_steps", "2", "--save_steps", "4"],
            r"save_steps is 4, but eval_steps is 2.*set both to the same number",
        ),
        (["--gradient_accumulation_steps", "0"], "gradient_accumulation_steps is 0; set a number of at least 1"),
        (["--per_device_eval_batch_size", "-1"], "per_device_eval_batch_size is -1; set a number of at least 1"),
        (["--seed", "-1"], "seed is -1; set a number of at least 0"),
        (["--report_to", "wandbb"], "is 'wandbb', of which no package is installed; .* set --report_to none"),
    ],
)
def test_options_that_cannot_be_used_are_refused_before_a_model_is_loaded(options, message, tmp_path):
    with pytest.raises(SystemExit, match=message):
        tune_main(["--dataset_name", "labels", "--output_dir", str(tmp_path / "model"), *QUICK, *options])
    assert not (tmp_path / "model").exists()


def test_an_adapter_is_rejected(save_small_model, tmp_path):
    base = save_small_model("gpt2")
    model = AutoModelForCausalLM.from_pretrained(base)
    get_peft_model(model, LoraConfig(target_modules=["c_attn"], fan_in_fan_out=True)).save_pretrained(tmp_path / "lora")
    rows = labels_by_hand(tmp_path / "labels", AutoTokenizer.from_pretrained(base), "plain", is_encoder_decoder=False)
    with pytest.raises(SystemExit, match="lora' is an adapter; merge it"):
        tune_main(options_for(tmp_path / "lora", rows, tmp_path / "model"))


@pytest.mark.parametrize("recipe", sorted((ROOT / "hb_train" / "recipes").glob("*.yaml")), ids=lambda path: path.stem)
def test_recipes_are_understood(recipe, tmp_path):
    words = ["--config", str(recipe), "--dataset_name", "rows", "--output_dir", str(tmp_path)]
    words += ["--model_name_or_path", "gpt2"] if recipe.stem == "chat-lora" else []
    _, training, _ = tune.parse(words)

    assert training.load_best_model_at_end
    expected = {"dialogpt": ("sgd", 0.3, 0), "blenderbot": ("adamw_torch", 3e-6, 100)}
    if recipe.stem in expected:  # the paper's (C.1)
        assert (training.optim, training.learning_rate, training.warmup_steps) == expected[recipe.stem]


@pytest.mark.parametrize(
    ("losses", "gain"),
    [
        ({0: 0.693, 40: 0.782}, False),
        ({0: 0.693, 20: 0.68, 40: 0.782}, True),
        ({0: 0.693, 20: None}, False),
        ({0: None, 20: 3.0}, True),
        ({20: 3.0}, True),
    ],
)
def test_whether_a_later_step_is_better_than_none(losses, gain):
    assert is_gain([{"step": step, "loss": loss} for step, loss in losses.items()], "loss") == gain
