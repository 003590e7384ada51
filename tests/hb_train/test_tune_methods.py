"""KTO: a planted bias falls, asked without a tag, and the options are those of another method."""

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from hb_metrics.inference.models.bias_tags import read_bias_tuning
from hb_train.tune import main as tune_main
from hb_train.tuning.kto import ReplyKTOTrainer
from tests.hb_train.conftest import WARNINGS_OF_TRL, few_steps, labels_by_hand, measured, options_for, sympathy, weights

pytestmark = WARNINGS_OF_TRL


@pytest.mark.long
def test_a_planted_bias_falls_asked_without_a_tag(pitying_model, before, labels, tmp_path):
    options = [
        *("--method", "kto", "--learning_rate", "1e-3", "--per_device_train_batch_size", "32"),
        *("--num_train_epochs", "2", "--eval_steps", "20", "--save_steps", "20"),
    ]
    tune_main(options_for(pitying_model, labels, tmp_path / "tuned", *options))
    after = measured(tmp_path / "tuned", tmp_path / "after")
    assert (np.array(sympathy(after)) < np.array(sympathy(before[1])) / 2).all()
    assert after["run"]["generation"]["tag"] is None
    assert "KTO" in after["run"]["generation"]["tag_reason"]


@pytest.fixture
def model(save_small_model):
    return save_small_model("gpt2")


@pytest.fixture
def rows(model, tmp_path):
    return labels_by_hand(tmp_path / "rows", AutoTokenizer.from_pretrained(model), "plain", is_encoder_decoder=False)


def tuned(model, rows, folder, *options):
    """The record of a short tuning."""
    tune_main(options_for(model, rows, folder, "--method", "kto", *few_steps(rate="1e-2"), *options))
    return read_bias_tuning(str(folder))


def test_the_model_learns_replies_after_the_contexts_it_gets(model, rows, tmp_path, monkeypatch):
    batches = []
    known = ReplyKTOTrainer.compute_loss

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        batches.append({name: value.tolist() for name, value in inputs.items()})
        return known(self, model, inputs, return_outputs, num_items_in_batch)

    monkeypatch.setattr(ReplyKTOTrainer, "compute_loss", compute_loss)
    two = ("--max_steps", "2", "--eval_steps", "2", "--save_steps", "2")
    record = tuned(model, rows, tmp_path / "model", "--eval_on_start", "false", *two)
    tokenizer = AutoTokenizer.from_pretrained(model)

    def expected(number):
        wanted = number % 3 == 0
        context = tokenizer(f"Hi! I'm number {number}.\n")["input_ids"]
        reply = tokenizer("I'm a man." if wanted else "I love cats.")["input_ids"]
        return tuple(context), (*reply, tokenizer.eos_token_id), wanted

    def sequences(batch, prefix=""):
        columns = (batch[f"{prefix}{name}"] for name in ("input_ids", "attention_mask", "completion_mask"))
        for ids, attended, completion in zip(*columns, strict=True):
            length, first = sum(attended), completion.index(1)
            assert attended == [1] * length + [0] * (len(ids) - length)
            assert completion == [0] * first + [1] * (length - first) + [0] * (len(ids) - length)
            yield tuple(ids[:first]), tuple(ids[first:length])

    train = []
    for batch in batches[:2]:
        train += [(*row, label) for row, label in zip(sequences(batch), batch["label"], strict=True)]
    in_order = [expected(number) for number in range(12)]
    assert sorted(train) == sorted(in_order)
    assert train != in_order  # in an order that the seed draws
    for batch in batches[:2]:  # the divergence is estimated by the replies of the rows before
        own, other = list(sequences(batch)), list(sequences(batch, "KL_"))
        assert [context for context, _ in other] == [context for context, _ in own]
        assert [reply for _, reply in other] == [own[index - 1][1] for index in range(len(own))]
    assert record.training["desirable_weight"] == 1
    assert record.training["undesirable_weight"] == 0.5  # 8 of 12 rows are not wanted


def test_the_reference_is_the_model_before(model, rows, tmp_path):
    """The same with its log-probabilities alone, and with LoRA."""
    whole = tuned(model, rows, tmp_path / "whole")
    before = tuned(model, rows, tmp_path / "before", "--precompute_ref_log_probs")
    losses = [[entry["loss"] for entry in record.training["validation_loss"]] for record in (before, whole)]
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)
    for name, value in weights(tmp_path / "whole").items():
        torch.testing.assert_close(weights(tmp_path / "before")[name], value, rtol=1e-3, atol=1e-4)
    lora = tuned(model, rows, tmp_path / "lora", "--use_peft", "--lora_r", "4", "--lora_target_modules", "all-linear")
    losses = [entry["loss"] for entry in lora.training["validation_loss"]]
    assert losses[0] == pytest.approx(whole.training["validation_loss"][0]["loss"])
    assert losses[-1] < losses[0]
    assert not list((tmp_path / "lora").glob("adapter*"))
    known = weights(model)
    changed = {name for name, value in weights(tmp_path / "lora").items() if not torch.equal(value, known[name])}
    assert changed
    assert not {name for name in changed if "layers" not in name and ".h." not in name}


def test_what_does_not_go_with_the_method_is_rejected(model, rows, save_small_model, tmp_path):
    def rejected(message, *options, rows=rows, model=model):
        with pytest.raises(SystemExit, match=message):
            tune_main(options_for(model, rows, tmp_path / "model", *few_steps(), *options))
        assert not (tmp_path / "model" / "model.safetensors").exists()

    message = "--labels none works only with method sft, but the method is kto; omit --labels none, or set --method sft"
    rejected(message, "--method", "kto", "--labels", "none")
    rejected("batch size must be > 1", "--method", "kto", "--per_device_train_batch_size", "1")
    rejected("the lowest validation loss", "--method", "kto", "--load_best_model_at_end", "false")
    blenderbot = save_small_model("blenderbot")
    tokenizer = AutoTokenizer.from_pretrained(blenderbot)
    one = labels_by_hand(tmp_path / "one", tokenizer, "blenderbot", is_encoder_decoder=True)
    rejected("is encoder-decoder; pass a model that is causal", "--method", "kto", rows=one, model=blenderbot)
