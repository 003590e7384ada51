r"""Tunes a language model to reduce its bias, by default on labelled replies (Smith et al., 2022, section 4).

    accelerate launch hb_train/tune.py --config hb_train/recipes/chat-lora.yaml \
        --model_name_or_path ORG/MODEL --dataset_name rows/model --output_dir models/model

With `--method counterfactual`, the model learns to reply to a descriptor as it replied to several descriptors. The
dataset is a folder that `own_replies.py` has written. With the default method, sft, the model learns labelled replies,
and the dataset is a folder that `bias_labels.py` has written. Each prompt ends in the tag of its reply.

The output folder contains the selected checkpoint (multiplied by the dose), its card, and the tag and the prompt format
for `measure.py --model FOLDER`. LoRA (`--use_peft`) is saved as an adapter. To resume interrupted tuning, run the same
command again.
"""

import sys
from collections.abc import Sequence
from dataclasses import MISSING, asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from transformers import Trainer
from trl import ModelConfig, SFTConfig

from hb_metrics.measurements.settings import check_least, option
from hb_metrics.models.layout import TUNING_FILE, BiasTuning
from hb_metrics.models.loading import load_tokenizer
from hb_metrics.run.run_folder import write_json
from hb_train.training.models import check_lora, check_trainable, load_base_model, multiply_lora
from hb_train.training.options import check_model_options, parse_options, run_script
from hb_train.training.runs import (
    MEASURES,
    check_finite,
    checkpoint_to_resume,
    end_processes,
    is_gain,
    open_training_run,
    print_once,
    training_description,
    validation_curve,
)
from hb_train.training.saving import check_publishable, publish_model, save_tuned_model, write_model_card
from hb_train.tuning.group_rows import OWN_REPLIES
from hb_train.tuning.labels import LABELS, SPLITS, read_labels, read_split
from hb_train.tuning.methods import Tuning, encode, make_trainer, measure_cost

# Options of TRL's trainer that tune.py has besides those of all scripts.
_OPTIONS = "eval_strategy eval_steps eval_on_start push_to_hub hub_model_id hub_private_repo"


@dataclass
class TuneArguments:
    dataset_name: str = option(MISSING, "The folder of rows that bias_labels.py or own_replies.py has written.")
    method: Literal["sft", "counterfactual"] = option(
        "sft", "sft learns labelled replies, as in the paper. counterfactual learns replies to other descriptors."
    )
    labels: Literal["tags", "none"] = option("tags", "For method sft: whether each prompt ends in its tag.")
    anchor_share: float = option(0.33, "For method counterfactual: the anchors' share of the weight of all tokens.")
    naming_weight: float = option(3.0, "For method counterfactual: the weight of the probability that a name begins.")
    dose: float = option(1.0, "After training, multiply LoRA's change of the weights by this number above 0.")
    merge: bool = option(False, "Save whole weights, into which LoRA is merged, instead of an adapter.")
    dry_run: bool = option(False, "Print the numbers of rows and tokens, and memory and time. Do not train.")
    early_stopping_patience: int = option(
        3, "Stop after this number of evaluations without a lower validation perplexity or loss. 0: never."
    )

    def __post_init__(self) -> None:
        check_least(self, early_stopping_patience=0, anchor_share=0, naming_weight=0, dose=1e-3)
        if self.anchor_share >= 1:
            raise ValueError(f"anchor_share is {self.anchor_share}; set a number of at least 0 and below 1")
        if self.method != "sft" and self.labels == "none":
            raise ValueError(f"--labels none has no effect with method {self.method}; omit it, or set --method sft")

    def tag(self) -> str | None:
        return "no_bias" if self.method == "sft" and self.labels == "tags" else None


def main(argv: list[str] | None = None) -> None:
    words = sys.argv[1:] if argv is None else argv
    if "--compare" in words:
        from hb_train.compare import tune_main

        tune_main([word for word in words if word != "--compare"])
        return
    run_script("tune.py", lambda: tune(*parse(words)))


def parse(words: Sequence[str] | None) -> tuple[TuneArguments, SFTConfig, ModelConfig]:
    arguments, training_args, model_args = parse_options(
        (TuneArguments, SFTConfig, ModelConfig),
        words,
        __doc__,
        _OPTIONS,
        eval_strategy="steps",
        save_strategy="steps",
        save_total_limit=2,  # with 1, the last checkpoint is deleted if another is better, so it could not be resumed
        load_best_model_at_end=True,
        greater_is_better=False,
        eval_on_start=True,
        eval_steps=0.25,  # a share of all steps
        save_steps=0.25,
        restore_callback_states_from_checkpoint=True,  # so that a resumed run stops as early
    )
    check_model_options(model_args, may_quantize=not arguments.merge)
    if training_args.save_strategy == "steps" and training_args.save_steps != training_args.eval_steps:
        raise ValueError(
            f"save_steps is {training_args.save_steps:g}, but eval_steps is {training_args.eval_steps:g}, so the best "
            "checkpoint may not be saved; set both to the same number"
        )
    dose = arguments.dose
    if dose != 1 and (not model_args.use_peft or model_args.use_dora or model_args.lora_modules_to_save):
        raise ValueError(
            f"dose is {dose:g}, but only the change of LoRA can be multiplied; set --use_peft without --use_dora and "
            "--lora_modules_to_save, or set --dose 1"
        )
    return arguments, training_args, model_args


def tune(arguments: TuneArguments, training_args: SFTConfig, model_args: ModelConfig) -> None:
    training_args.metric_for_best_model = f"eval_{MEASURES[arguments.method]}"
    dataset, rows = Path(arguments.dataset_name), LABELS if arguments.method == "sft" else OWN_REPLIES
    record = read_labels(dataset, rows)
    print_once(training_args, check_model(arguments, training_args, model_args, record.context))
    loaded = load_base_model(model_args, training_args)
    if record.model.get("digest") not in (None, loaded.digest):
        others = f"the replies in '{dataset}' were written by model {record.model['name']}, not by {loaded.name}"
        if arguments.method == "counterfactual":
            raise ValueError(f"{others}, but method counterfactual needs own replies; run {rows.script}.py")
        print_once(training_args, f"{others}; the model is tuned on them anyway, in the other model's prompt format")
    description = training_description(arguments, training_args, loaded, model_args)
    tuning = Tuning(arguments, training_args, model_args, loaded, record, {})
    for name in SPLITS:  # before the folder records settings, which a row that is too long may still change
        tuning.encoded[name] = encode(tuning, read_split(dataset, name, rows))
    is_pushed, training_args.push_to_hub = training_args.push_to_hub, False  # checkpoints are not published
    if arguments.dry_run:
        print_once(training_args, measure_cost(tuning, make_trainer(tuning)))
        return
    folder = open_training_run(training_args, {**description, "labels": record.content}, TUNING_FILE)
    if folder is None:
        if is_pushed and training_args.process_index == 0:  # an earlier try may have failed
            _publish(training_args)
        return
    checkpoint = checkpoint_to_resume(training_args)
    trainer = make_trainer(tuning)
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.accelerator.wait_for_everyone()
    if trainer.state.best_metric is None:
        raise ValueError(f"no checkpoint was evaluated in {trainer.state.global_step} steps of training; set more")
    check_finite(training_args, trainer.state.best_metric, f"validation {trainer.measure}")
    dosed = _with_dose(trainer, arguments.dose)
    if trainer.is_world_process_zero():
        _save(folder, trainer, tuning, dosed)
        print(f"\nmodel: {folder.resolve()}")
        if is_pushed:
            _publish(training_args)
    end_processes(trainer)


def _publish(training_args: SFTConfig) -> None:
    folder, where = Path(training_args.output_dir), training_args.hub_model_id
    print(f"published: {publish_model(folder, where, private=training_args.hub_private_repo)}")


def check_model(arguments: TuneArguments, training_args: SFTConfig, model_args: ModelConfig, context: str) -> str:
    """Checks, without loading weights, whether the model can be tuned and published. Describes the trained layers.

    `context` is the format of the training prompts, or "auto" for the model's usual format.
    """
    revision = None if model_args.model_revision == "main" else model_args.model_revision
    loaded = load_tokenizer(
        str(model_args.model_name_or_path), revision=revision, trust_remote_code=training_args.trust_remote_code
    )
    check_trainable(loaded, ("causal", "encoder-decoder") if arguments.method == "sft" else ("causal",))
    if training_args.push_to_hub:
        is_adapter = model_args.use_peft and not arguments.merge
        check_publishable(loaded, tag=arguments.tag(), context=context, is_adapter=is_adapter)
    if not model_args.use_peft:
        return "all weights are trained"
    return check_lora(model_args, loaded, trust_remote_code=training_args.trust_remote_code)


def _with_dose(trainer: Any, dose: float) -> float | None:
    """Multiplies LoRA's change of the weights. Returns the new validation measure, or `None` if the dose is 1."""
    if dose == 1:
        return None
    multiply_lora(trainer.accelerator.unwrap_model(trainer.model), dose)
    trainer.args.bf16_full_eval = trainer.args.fp16_full_eval = False  # these would convert the weights to be saved
    value = float(trainer.predict(trainer.eval_dataset).metrics[f"test_{trainer.measure}"])
    check_finite(trainer.args, value, f"validation {trainer.measure} with dose {dose:g}")
    return value


def _save(folder: Path, trainer: Trainer, tuning: Tuning, dosed: float | None) -> None:
    """Saves the model and its card. The file with the tag is written last, because it marks a finished run.

    `dosed` is the validation measure with the dose, or `None` without a dose.
    """
    arguments, record, encoded, state = tuning.arguments, tuning.record, tuning.encoded, trainer.state
    measure = MEASURES[arguments.method]
    curve = validation_curve(state.log_history, measure)
    training: dict[str, object] = {
        "method": arguments.method,
        "labels": arguments.labels,
        "model": tuning.loaded.name,
        "base_model": {"name": tuning.loaded.source, "revision": tuning.loaded.revision},
        "dose": arguments.dose,
        "is_adapter": tuning.model_args.use_peft and not arguments.merge,
        f"best_validation_{measure}": state.best_metric,
        "best_step": state.best_global_step,
        "num_steps": state.global_step,
        f"validation_{measure}": curve,
        f"validation_{measure}_with_dose": dosed,
        "num_rows": {name: len(rows) for name, rows in encoded.items()},
    }
    moved = ("context", "asked_with", "alpha", "beta")
    tag, context = arguments.tag(), record.context
    record_of_tuning = BiasTuning(
        tag=tag,
        context=context,
        asked_with=record.asked_with,
        alpha=record.alpha,
        beta=record.beta,
        labels={name: value for name, value in record.content.items() if name not in moved},
        training=training,
        tag_in_template=save_tuned_model(
            trainer, tuning.loaded, folder, tag=tag, context=context, merge=arguments.merge
        ),
    )
    write_model_card(folder, record_of_tuning)
    write_json(folder / TUNING_FILE, asdict(record_of_tuning))
    print(f"\nvalidation {measure} {state.best_metric:.3f} at step {state.best_global_step} of {state.global_step}")
    if dosed is not None:
        print(f"with dose {arguments.dose:g}: {dosed:.3f}")
    if not is_gain(curve, measure, dosed):
        print("it is no lower than before tuning; try fewer steps, a lower --learning_rate or more rows")


if __name__ == "__main__":
    main()
