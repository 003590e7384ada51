"""Gen Bias while training: weights, figures and the best model with the callback."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
import transformers
from accelerate.utils import DistributedType
from datasets import Dataset

from hb_dataset.prompts import config_vocabulary, load_table
from hb_metrics.measure import main as measure
from hb_metrics.run.plurals import with_plurals
from hb_train import while_training
from hb_train.training.runs import check_whole_weights
from hb_train.while_training import GenBiasCallback, draw_prompts
from tests.hb_train.conftest import TRAINERS, WARNINGS_OF_TRL, pitying_tokenizer

pytestmark = WARNINGS_OF_TRL
TEXTS = ["Hi! I'm a person. That is great, tell me more about it."] * 8


def new_model():
    torch.manual_seed(0)
    sizes = {"vocab_size": 1000, "n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 96}
    config = transformers.GPT2Config(**sizes, eos_token_id=0, bos_token_id=0)
    return transformers.GPT2LMHeadModel(config)


def new_trainer(folder, *, callbacks=(), **settings):
    """A trainer of the new model; with `settings` of the callback for each that is added."""
    options = {"eval_strategy": "steps", "save_strategy": "no", "max_steps": 2, "eval_steps": 1, "save_steps": 1}
    options |= settings
    args = transformers.TrainingArguments(
        output_dir=str(folder), logging_steps=1, report_to="none", use_cpu=True, per_device_train_batch_size=2,
        learning_rate=1e-2, disable_tqdm=True, save_only_model=True, **options,
    )  # fmt: skip
    tokens = pitying_tokenizer()(TEXTS)["input_ids"]
    rows = Dataset.from_dict({"input_ids": tokens, "labels": tokens})
    data = rows, {"a": rows, "b": rows}
    trainer = transformers.Trainer(new_model(), args, transformers.default_data_collator, *data, pitying_tokenizer())
    for sample in callbacks:
        trainer.add_callback(GenBiasCallback(trainer, num_templates=1, **sample))
    return trainer


def trained(folder, *callbacks, **settings):
    trainer = new_trainer(folder, callbacks=callbacks, **settings)
    trainer.train()
    return trainer


SAMPLE = {"num_replies": 16, "replies_per_cell": 4}
BEST = {"metric_for_best_model": "full_gen_bias", "load_best_model_at_end": True, "save_strategy": "steps"}


def test_the_figure_picks_the_best_and_moves_no_weight(tmp_path):
    plain = trained(tmp_path / "plain")
    measured = trained(tmp_path / "measured", SAMPLE, greater_is_better=False, **BEST)

    curve = {row["step"]: row for row in measured.state.log_history if "eval_full_gen_bias" in row}
    lowest = min(curve, key=lambda step: curve[step]["eval_full_gen_bias"])
    assert sorted(curve) == [1, 2]
    assert measured.state.best_metric == curve[lowest]["eval_full_gen_bias"]
    assert measured.state.best_model_checkpoint.endswith(f"checkpoint-{lowest}")
    losses = [[row["loss"] for row in each.state.log_history if "loss" in row] for each in (plain, measured)]
    assert losses[0] == losses[1]
    last = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "measured" / "checkpoint-2").state_dict()
    assert all(torch.equal(weights, last[name]) for name, weights in plain.model.state_dict().items())


class Diverges(transformers.TrainerCallback):
    def on_step_end(self, args, state, control, model=None, **_):
        torch.nn.init.constant_(model.lm_head.weight, float("nan"))


def test_what_the_replies_do_not_allow_is_not_logged_and_no_best(tmp_path):
    trainer = new_trainer(tmp_path, callbacks=[{"num_replies": 2, "replies_per_cell": 1}], max_steps=1)
    metrics = trainer.evaluate()
    logged = trainer.state.log_history[-2]
    trainer.args.metric_for_best_model, trainer.args.greater_is_better = "full_gen_bias", False
    trainer.add_callback(Diverges())
    trainer.train()

    assert metrics["eval_num_replies"] == logged["eval_num_replies"] == 2
    assert np.isnan([metrics[f"eval_full_gen_bias{bound}"] for bound in ("", "_low", "_high")]).all()
    assert not any("full_gen_bias" in name for name in logged)
    assert [row["eval_num_replies"] for row in trainer.state.log_history if "eval_num_replies" in row] == [0]
    assert trainer.state.best_metric == float("inf")


def test_what_cannot_be_measured_shows_before_the_first_step(tmp_path):
    trainer = new_trainer(tmp_path, callbacks=[SAMPLE])
    args, callback = trainer.args, trainer.callback_handler.callbacks[-1]
    for target, settings, message in (
        (args, {"eval_strategy": "no"}, "eval_strategy is 'no'"),
        (args, {"metric_for_best_model": "full_gen_bias", "greater_is_better": True}, "greater_is_better is True"),
        (callback, {"decoding": "sampel"}, "decoding 'sampel' is not known"),
    ):
        with pytest.MonkeyPatch.context() as patch:
            for name, value in settings.items():
                patch.setattr(target, name, value)
            with pytest.raises(ValueError, match=message):
                trainer.train()
    assert trainer.state.global_step == 0
    trainer.processing_class = None
    with pytest.raises(ValueError, match="set processing_class"):
        GenBiasCallback(trainer)
    sharded = SimpleNamespace(distributed_type=DistributedType.FSDP, state=None)
    with pytest.raises(ValueError, match=r"weights are sharded .* use DDP"):
        check_whole_weights(sharded)


def test_figures_are_those_of_a_measurement_to_the_last_bit(tmp_path):
    trainer = new_trainer(tmp_path)
    trainer.save_model(str(tmp_path / "model"))
    options = ["--measurements", "generation", "--axes", "nonce", "--replies_per_cell", "2"]
    options += ["--seed", "3"]
    options += ["--decoding", "greedy", "--model", str(tmp_path / "model"), "--output_dir", str(tmp_path / "run")]
    measure(options)
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    sample = {"num_replies": 48, "replies_per_cell": 2, "num_templates": 4, "seed": 3, "decoding": "greedy"}
    prompts = pq.read_table(tmp_path / "run" / "prompts.parquet")
    figures = GenBiasCallback(trainer, prompts=prompts, **sample).measure()

    assert figures["num_replies"] == results["generation"]["num_replies"] == 48
    assert figures["full_gen_bias"] == results["generation"]["debiased"]["full_gen_bias"]
    assert figures["distinct_share"] == results["generation"]["num_distinct_replies"] / 48


def main(folders):
    """Writes the figures that a process of several computes, with those of its replies that it wrote itself."""
    trainer, asked = new_trainer(folders[0]), []
    with pytest.MonkeyPatch.context() as patch:
        write = while_training.reply_to_rows
        patch.setattr(while_training, "reply_to_rows", lambda *given: asked.append(given[2]) or write(*given))
        figures = GenBiasCallback(trainer, num_templates=1, **SAMPLE).measure()
    content = {"figures": figures, "rows": list(asked[0])}
    (Path(folders[0]) / f"{trainer.args.process_index}.json").write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.long
def test_two_processes_share_the_replies_and_know_the_same_figures(forked_programs, tmp_path):
    forked_programs.run_two("tests.hb_train.test_while_training", [tmp_path], TRAINERS)
    first, second = (json.loads((tmp_path / f"{rank}.json").read_text(encoding="utf-8")) for rank in (0, 1))
    assert (first["rows"], second["rows"]) == ([*range(0, 16, 2)], [*range(1, 16, 2)])
    alone = GenBiasCallback(new_trainer(tmp_path / "one"), num_templates=1, **SAMPLE).measure()
    assert first["figures"] == second["figures"] == pytest.approx(alone, nan_ok=True, rel=0, abs=0)


def test_the_sample_is_balanced():
    prompts = with_plurals(load_table("v1.0-small"), config_vocabulary("v1.0-small"))
    drawn = draw_prompts(prompts, 312, 6, 2, seed=0).to_pylist()
    cells = {}
    for row in drawn:
        cells.setdefault((row["axis"], row["descriptor"], row["template"]), []).append(row["noun"])
    axes = [axis for axis, _ in {cell[:2] for cell in cells}]

    assert len(drawn) == 312
    assert {len(set(nouns)) for nouns in cells.values()} == {6}
    assert {axes.count(axis) for axis in axes} == {2}
    assert len(set(axes)) == 13
    for number, each, templates, message in (
        (5000, 6, 2, "num_replies is 5000, .* from 24 to 936"),
        (300, 31, 2, "replies_per_cell to at most 30"),
        (300, 6, 5, "num_templates to at most 4"),
    ):
        with pytest.raises(ValueError, match=message):
            draw_prompts(prompts, number, each, templates, seed=0)
