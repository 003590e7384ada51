"""Gen Bias while training: weights, figures and the best model with the callback; GRPO's reward."""

import random
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
import transformers
from datasets import Dataset

from hb_dataset import load_table
from hb_metrics.inference.classifiers.censoring import censor
from hb_metrics.inference.classifiers.styles import load_style_classifier
from hb_train.while_training.callback import GenBiasCallback, draw_prompts, random_state_kept
from hb_train.while_training.reward import gen_bias_reward
from tests.hb_train.conftest import WARNINGS_OF_TRL, pitying_tokenizer

pytestmark = WARNINGS_OF_TRL
TEXTS = ["Hi! I'm a person. That is great, tell me more about it."] * 8


def new_model():
    torch.manual_seed(0)
    sizes = {"vocab_size": 1000, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 96}
    config = transformers.GPT2Config(**sizes, eos_token_id=0, bos_token_id=0)
    return transformers.GPT2LMHeadModel(config)


def trained(folder, with_callback, **settings):
    from trl import SFTConfig, SFTTrainer

    options = {"gradient_checkpointing": True, "eval_strategy": "steps", "save_strategy": "no", **settings}
    args = SFTConfig(
        output_dir=str(folder), max_steps=4, eval_steps=2, save_steps=2, report_to="none", bf16=False, use_cpu=True,
        per_device_train_batch_size=2, learning_rate=1e-2, disable_tqdm=True, max_length=32, **options,
    )  # fmt: skip
    rows = Dataset.from_dict({"text": TEXTS})
    trainer = SFTTrainer(new_model(), args, train_dataset=rows, eval_dataset=rows, processing_class=pitying_tokenizer())
    if with_callback:
        trainer.add_callback(GenBiasCallback(trainer, num_replies=48, replies_per_cell=4, num_templates=1))
    trainer.train()
    return trainer


def test_the_figure_decides_on_the_best_model_and_training_is_as_without(tmp_path):
    plain = trained(tmp_path / "plain", False)
    best = {"metric_for_best_model": "full_gen_bias", "load_best_model_at_end": True, "save_strategy": "steps"}
    measured = trained(tmp_path / "measured", True, greater_is_better=False, **best)

    curve = {row["step"]: row for row in measured.state.log_history if "eval_full_gen_bias" in row}
    lowest = min(curve, key=lambda step: curve[step]["eval_full_gen_bias"])
    assert sorted(curve) == [2, 4]
    assert measured.state.best_metric == curve[lowest]["eval_full_gen_bias"]
    assert measured.state.best_model_checkpoint.endswith(f"checkpoint-{lowest}")
    losses = [[row["loss"] for row in each.state.log_history if "loss" in row] for each in (plain, measured)]
    assert losses[0] == losses[1]
    last = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "measured" / "checkpoint-4").state_dict()
    assert all(torch.equal(weights, last[name]) for name, weights in plain.model.state_dict().items())
    with pytest.raises(ValueError, match="greater_is_better is True"):
        trained(tmp_path / "other", True, **best)


def test_random_numbers_are_as_if_nothing_had_been_drawn():
    def draws():
        return random.random(), np.random.random(), torch.rand(1).item()  # noqa: NPY002

    random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002
    expected = draws()
    random.seed(1), np.random.seed(1), torch.manual_seed(1)  # noqa: NPY002
    with random_state_kept():
        draws()

    assert draws() == expected


def test_the_sample_is_balanced():
    drawn = draw_prompts(load_table("v1.0-small"), 312, 6, 2, seed=0).to_pylist()
    cells = {}
    for row in drawn:
        cells.setdefault((row["axis"], row["descriptor"], row["template"]), []).append(row["noun"])
    axes = [axis for axis, _ in {cell[:2] for cell in cells}]

    assert len(drawn) == 312
    assert {len(set(nouns)) for nouns in cells.values()} == {6}
    assert {axes.count(axis) for axis in axes} == {2}
    assert len(set(axes)) == 13
    with pytest.raises(ValueError, match="there are 78 terms"):
        draw_prompts(load_table("v1.0-small"), 5000, 6, 2, seed=0)


@pytest.fixture(scope="module")
def directions(tmp_path_factory):
    """A folder with the mean styles of three terms, and the arrays."""
    labels = load_style_classifier().labels
    means = np.random.default_rng(0).dirichlet(np.ones(len(labels)), 3)
    about = {"axis": ["age", "age", "ability"], "descriptor": ["old", "young", "deaf"]}
    folder = tmp_path_factory.mktemp("directions")
    columns = {f"style: {label}": means[:, index] for index, label in enumerate(labels)}
    pq.write_table(pa.table({**about, **columns}), folder / "style_means.parquet")
    return folder, means


def test_grpo_gets_minus_the_bias_values(directions, tmp_path):
    from trl import GRPOConfig, GRPOTrainer

    folder, means = directions
    reward, seen = gen_bias_reward(folder), []

    def recorded(prompts, completions, **columns):
        rewards = reward(prompts, completions, **columns)
        seen.extend(zip(completions, columns["descriptor"], rewards, strict=True))
        return rewards

    args = GRPOConfig(
        output_dir=str(tmp_path), max_steps=2, per_device_train_batch_size=2, num_generations=2, report_to="none",
        max_completion_length=8, bf16=False, use_cpu=True, disable_tqdm=True, gradient_checkpointing=False,
    )  # fmt: skip
    rows = {"prompt": ["Hi! I'm an old man.\n", "Hi! I'm deaf.\n"], "axis": ["age", "ability"]}
    data = Dataset.from_dict({**rows, "descriptor": ["old", "deaf"]})
    GRPOTrainer(new_model(), recorded, args, train_dataset=data, processing_class=pitying_tokenizer()).train()
    seen += zip(["", "Old men are fine.\nNo."], ["old", "old"], reward([""] * 2, ["", "Old men are fine.\nNo."],
                axis=["age"] * 2, descriptor=["old"] * 2), strict=True)  # fmt: skip

    middle = means.mean(axis=0)
    classifier = load_style_classifier()
    for completion, term, value in seen:
        way = means[["old", "young", "deaf"].index(term)] - middle
        text = completion.strip().split("\n")[0].strip()
        if text:
            expected = -sum((classifier.probabilities([censor(text, term)])[0] - middle) * way)
        else:
            expected = min(-sum((np.eye(len(way))[style] - middle) * way) for style in range(len(way)))
        assert value == pytest.approx(expected, abs=1e-12)
    assert len(seen) == 6
    assert reward(["x"], ["y"], axis=[None], descriptor=[None]) == [None]
    with pytest.raises(ValueError, match="term 'blue'"):
        reward(["x"], ["y"], axis=["age"], descriptor=["blue"])


def test_other_styles_are_refused(directions):
    with pytest.raises(ValueError, match="are others than those of the directions"):
        gen_bias_reward(directions[0], SimpleNamespace(name="x", labels=("a", "b")))
