r"""Fine-tunes a language model on labelled replies, so that it can be asked for less biased ones (paper, section 4).

    accelerate launch hb_train/tune.py --config hb_train/recipes/dialogpt.yaml \
        --model_name_or_path microsoft/DialoGPT-medium --dataset_name labels/dialogpt --output_dir models/dialogpt

With LoRA: add `--use_peft --learning_rate 3e-4`. Without tags, the paper's self-chat tuning: add `--labels none`. The
dataset is a folder of `bias_labels.py`. Causal models are tuned by TRL's SFTTrainer, encoder–decoder ones by
transformers' Seq2SeqTrainer; only replies are learnt; the checkpoint of the lowest validation perplexity is kept. A
tuning that was interrupted resumes from its last checkpoint when the same command is given again. The folder records
how the model must be asked, and `measure.py --model FOLDER` asks it so.

Instead of the paper's tags, `--method kto` and `--method dpo` tune by preference: replies tagged "no_bias" become
likelier and those tagged "bias" less likely, without a tag, while the divergence from the model as it was stays small.
KTO takes the labels as they are; DPO takes pairs of replies to the same prompt. These methods have TRL's options
(`--method kto --help`) and keep the checkpoint of the lowest validation loss.

`--method distill` needs no labels: the model learns to reply to a prompt with a descriptor as it replied itself to the
same prompt without it. Its dataset is a folder of `baseline_replies.py`.
"""

import math
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any, Literal

from hb_dataset.whole_files import write_atomically
from hb_metrics.runs.run_folder import STYLE_MEANS_FILE
from hb_train.training.models import load_base_model, save_model, trained_model
from hb_train.training.options import MISSING_ERROR, check_model_options, parse_training_options
from hb_train.training.runs import (
    checkpoint_to_resume,
    end_processes,
    is_gain,
    open_training_run,
    print_once,
    training_description,
    use_all_cores,
    validation_curve,
)
from hb_train.training.sweeps import read_config
from hb_train.tuning.distillation import ROW_SCHEMA, read_baseline
from hb_train.tuning.evaluations import add_replies, evaluation_lines, evaluations
from hb_train.tuning.labels import SPLITS, read_labels, read_split
from hb_train.tuning.methods import (
    DISTILL,
    DPO,
    KTO,
    PREFERENCES,
    SFT,
    Method,
    distillation_trainer,
    given_method,
    preference_rows,
    preference_trainer,
)

if TYPE_CHECKING:
    from transformers import Trainer, TrainerCallback
    from trl import ModelConfig, ScriptArguments, SFTConfig

    from hb_metrics.inference.models.loading import LoadedModel
    from hb_train.training.encoding import EncodedRows

# torch, transformers and trl take seconds to import: not before they are needed.

STREAMING_ERROR = "dataset_streaming is not supported: the rows are few enough to be read; leave it out"
NO_EVALUATION_ERROR = (
    "the model that is kept is that of the lowest validation {measure}, which needs evaluations; leave out "
    "--eval_strategy no and --load_best_model_at_end false"
)
DIVERGED_ERROR = (
    "the validation {measure} was never a number: tuning diverged; give a smaller --learning_rate than {rate:g} and "
    "another --output_dir"
)
METHOD_ERROR = "--method has to be written in full, since it decides which other options there are"
METHOD_KIND_ERROR = "model '{name}' is {kind}; method {method} needs a causal language model: give --method sft"
METHOD_LABELS_ERROR = (
    "labels none is the paper's self-chat tuning, which is method sft; leave it out, or give --method sft instead of "
    "{method}"
)
OTHER_MODEL_ERROR = (
    "the replies in '{folder}' are of model {there} (digest {there_digest}), and not of '{here}' (digest {digest}); "
    "method distill teaches a model its own replies: let this one reply with hb_train/baseline_replies.py"
)
OTHER_MODEL_NOTE = (
    "the replies are of {there}, and not of {here} as it is: they are learnt all the same, behind prompts in "
    "the format of the other"
)
NO_GAIN_NOTE = (
    "no step has a lower validation {measure} than the model before tuning: what was learnt does not carry over to "
    "other rows; fewer steps, a smaller --learning_rate or more rows may"
)
BATCH_ERROR = (
    "per_device_train_batch_size is 1; give at least 2 for method kto, which estimates the divergence from the model "
    "before with the reply of another row in the batch"
)
PRECOMPUTE_ERROR = (
    "precompute_ref_log_probs is not supported with {number} processes; leave it out, or tune with one process"
)
MASKED_ERROR = "model '{name}' is a masked language model, which gives no replies; give one that does"


@dataclass
class TuneArguments:
    """The options of this script beside those of TRL."""

    method: Method = field(
        default=SFT,
        metadata={
            "help": "How the model is tuned: sft (supervised fine-tuning with control tags, the paper's), by "
            "preference for the less biased replies: kto, or dpo on pairs of replies to the same prompt; or distill: "
            "to reply as it does itself to the prompt without its descriptor."
        },
    )
    labels: Literal["tags", "none"] = field(
        default="tags",
        metadata={
            "help": "Whether the prompts end in their tags, or in none: the paper's self-chat tuning, to compare with."
        },
    )
    early_stopping_patience: int = field(
        default=3,
        metadata={
            "help": "Tuning stops after so many evaluations in a row without a lower validation perplexity (with "
            "other methods: loss); with 0 it never does."
        },
    )
    evaluation_replies: int = field(
        default=0,
        metadata={
            "help": "How many replies, about, are made at each evaluation to show the mean bias value along the "
            "labels' directions (whether the model obeys them) and Full Gen Bias, such as 312; with 0 none."
        },
    )

    def __post_init__(self) -> None:
        """Raises `ValueError` if the patience is negative, or the labels are not learnt by a method that needs them."""
        if self.method != SFT and self.labels == "none":
            raise ValueError(METHOD_LABELS_ERROR.format(method=self.method))
        if self.early_stopping_patience < 0:
            raise ValueError(f"early_stopping_patience is {self.early_stopping_patience}; give at least 0")
        if self.evaluation_replies < 0:
            raise ValueError(f"evaluation_replies is {self.evaluation_replies}; give at least 0")

    def measure(self) -> str:
        """What the model that is kept has the lowest validation value of."""
        return "perplexity" if self.method == SFT else "loss"


def main(argv: list[str] | None = None) -> None:
    """Reads the options, tunes, and prints where the model is."""
    try:
        tune(*parse_options(sys.argv[1:] if argv is None else argv))
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"tune.py: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted; to resume from the last checkpoint, give the same command again") from None


def parse_options(argv: list[str]) -> tuple[TuneArguments, "ScriptArguments", "SFTConfig", "ModelConfig"]:
    """Reads the command line, as `parse_training_options`; the method decides which options TRL has."""
    from trl import DPOConfig, KTOConfig, ModelConfig, ScriptArguments, SFTConfig

    yaml_file = argv[argv.index("--config") + 1] if "--config" in argv[:-1] else None
    method = given_method(argv, read_config(yaml_file))
    config = {KTO: KTOConfig, DPO: DPOConfig}.get(method, SFTConfig)
    defaults: dict[str, Any] = {"metric_for_best_model": "eval_perplexity" if method == SFT else "eval_loss"}
    if config is KTOConfig:
        defaults["undesirable_weight"] = None  # by the numbers of either label
    options = parse_training_options(
        (TuneArguments, ScriptArguments, config, ModelConfig),
        argv,
        __doc__,
        dataset_test_split="validation",
        eval_strategy="steps",
        save_strategy="steps",
        save_total_limit=1,
        load_best_model_at_end=True,
        greater_is_better=False,
        eval_on_start=True,
        **defaults,
    )
    if options[0].method != method:
        raise ValueError(METHOD_ERROR)
    return options


def tune(
    arguments: TuneArguments, script_args: "ScriptArguments", training_args: "SFTConfig", model_args: "ModelConfig"
) -> None:
    """Tunes a model and saves it with how it must be asked.

    Raises:
        ValueError: The model, the rows and the options do not go together, or training diverged.
        OSError: The model or the rows are not there.
    """
    from transformers import set_seed

    from hb_metrics.inference.models.bias_tags import NO_BIAS, TUNING_FILE, read_bias_tuning

    _check_options(arguments, script_args, training_args, model_args)
    use_all_cores(training_args)
    dataset = Path(script_args.dataset_name)
    labels = read_baseline(dataset) if arguments.method == DISTILL else read_labels(dataset)
    loaded = load_base_model(model_args, training_args)
    if loaded.kind == "masked":
        raise ValueError(MASKED_ERROR.format(name=model_args.model_name_or_path))
    if arguments.method in PREFERENCES and loaded.kind != "causal":
        raise ValueError(METHOD_KIND_ERROR.format(name=loaded.name, kind=loaded.kind, method=arguments.method))
    if arguments.method == DISTILL and labels["model"]["digest"] != loaded.digest:
        there, digest = labels["model"]["name"], labels["model"]["digest"]
        raise ValueError(
            OTHER_MODEL_ERROR.format(
                folder=dataset, there=there, there_digest=digest, here=loaded.name, digest=loaded.digest
            )
        )
    if labels["model"].get("digest") not in (None, loaded.digest):
        print_once(training_args, OTHER_MODEL_NOTE.format(there=labels["model"]["name"], here=loaded.name))
    description = training_description(arguments, training_args, model_args, loaded)
    del description["settings"]["evaluation_replies"]  # it moves no weight
    folder = open_training_run(training_args, {**description, "labels": labels})
    if read_bias_tuning(str(folder)) is not None:
        print_once(
            training_args, f"{folder} was tuned with these settings before; nothing to do ({TUNING_FILE} is there)"
        )
        return

    splits = zip(SPLITS, (script_args.dataset_train_split, script_args.dataset_test_split), strict=True)
    made = (ROW_SCHEMA, "baseline_replies") if arguments.method == DISTILL else ()
    rows = {name: read_split(dataset, split, *made) for name, split in splits}
    encoded = {name: _encode(arguments, training_args, rows[name], loaded, labels) for name in SPLITS}
    num_cut = sum(split.num_cut for split in encoded.values())
    if num_cut:
        print_once(training_args, f"{num_cut:,} contexts were cut at their beginning to fit max_length")
    checkpoint = checkpoint_to_resume(training_args)
    training_rows: dict[str, Any] = {}
    set_seed(training_args.seed)  # LoRA's new matrices are random, and drawn before the trainers set it
    if arguments.method == SFT:
        trainer = _trainer(arguments, training_args, model_args, loaded, encoded)
    elif arguments.method == DISTILL:
        trainer = distillation_trainer(training_args, model_args, loaded, encoded, _callbacks(arguments))
    else:
        preferences, training_rows = preference_rows(arguments.method, training_args, rows, encoded, labels["suffix"])
        trainer = preference_trainer(
            arguments.method, training_args, model_args, loaded, preferences, _callbacks(arguments)
        )
    if arguments.evaluation_replies:
        tag = NO_BIAS if _with_tags(arguments) else None
        add_replies(trainer, arguments.evaluation_replies, dataset, labels, tag)
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.accelerator.wait_for_everyone()
    if trainer.state.best_metric is None or not math.isfinite(trainer.state.best_metric):
        raise ValueError(DIVERGED_ERROR.format(measure=arguments.measure(), rate=training_args.learning_rate))
    if trainer.is_world_process_zero():
        _save(folder, dataset, trainer, loaded, labels, arguments, encoded, training_rows)
        _print_curve(trainer, arguments.measure())
        print(f"\nmodel: {folder.resolve()}")
    end_processes(trainer)


def _encode(
    arguments: TuneArguments, training_args: "SFTConfig", rows: Any, loaded: "LoadedModel", labels: dict[str, Any]
) -> "EncodedRows":
    """The rows of a split as tokens."""
    from hb_train.training.encoding import encode_rows
    from hb_train.tuning.distillation import encode_pairs

    if arguments.method == DISTILL:
        return encode_pairs(rows, loaded, context=labels["context"], max_length=training_args.max_length)
    return encode_rows(
        rows,
        loaded,
        context=labels["context"],
        suffix=labels["suffix"],
        with_tags=_with_tags(arguments),
        max_length=training_args.max_length,
    )


def _with_tags(arguments: TuneArguments) -> bool:
    """Whether the model is to be asked with a tag once it is tuned."""
    return arguments.method == SFT and arguments.labels == "tags"


def _check_options(
    arguments: TuneArguments, script_args: "ScriptArguments", training_args: "SFTConfig", model_args: "ModelConfig"
) -> None:
    check_model_options(model_args)
    if script_args.dataset_name is None:
        script = "baseline_replies" if arguments.method == DISTILL else "bias_labels"
        what = f"a folder that hb_train/{script}.py has written"
        raise ValueError(MISSING_ERROR.format(option="--dataset_name", what=what))
    if script_args.dataset_streaming:
        raise ValueError(STREAMING_ERROR)
    if training_args.eval_strategy == "no" or not training_args.load_best_model_at_end:
        raise ValueError(NO_EVALUATION_ERROR.format(measure=arguments.measure()))
    if arguments.method == KTO and training_args.per_device_train_batch_size < 2:
        raise ValueError(BATCH_ERROR)
    if getattr(training_args, "precompute_ref_log_probs", False) and training_args.world_size > 1:
        raise ValueError(PRECOMPUTE_ERROR.format(number=training_args.world_size))


def _trainer(
    arguments: TuneArguments,
    training_args: "SFTConfig",
    model_args: "ModelConfig",
    loaded: "LoadedModel",
    encoded: dict[str, "EncodedRows"],
) -> "Trainer":
    """The trainer of the paper's method that suits the kind of model."""
    from copy import deepcopy

    from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainingArguments
    from trl import get_peft_config

    from hb_train.training.trainers import ReplySeq2SeqTrainer, ReplySFTTrainer

    callbacks = _callbacks(arguments)
    train, validation = (encoded[name].dataset for name in SPLITS)
    # Trainers set a padding token where there is none; what is saved is the tokenizer as it was.
    tokenizer = deepcopy(loaded.tokenizer)
    tokenizer.padding_side = "right"  # or positions would not be those that the model has when it replies
    if loaded.kind == "causal":
        return ReplySFTTrainer(
            model=loaded.model,
            args=training_args,
            train_dataset=train,
            eval_dataset=validation,
            processing_class=tokenizer,
            peft_config=get_peft_config(model_args),
            callbacks=callbacks,
        )
    model: Any = loaded.model
    if model_args.use_peft:
        from peft import get_peft_model

        if model_args.lora_task_type == "CAUSAL_LM":  # TRL's default
            model_args.lora_task_type = "SEQ_2_SEQ_LM"
        model = get_peft_model(model, get_peft_config(model_args))
    shared = {option.name for option in fields(Seq2SeqTrainingArguments) if option.init}
    options = {
        option.name: getattr(training_args, option.name) for option in fields(training_args) if option.name in shared
    }
    return ReplySeq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(**options),
        train_dataset=train,
        eval_dataset=validation,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=loaded.model),
        processing_class=tokenizer,
        callbacks=callbacks,
    )


def _callbacks(arguments: TuneArguments) -> "list[TrainerCallback]":
    from transformers import EarlyStoppingCallback

    return [EarlyStoppingCallback(arguments.early_stopping_patience)] if arguments.early_stopping_patience else []


def _save(
    folder: Path,
    dataset: Path,
    trainer: "Trainer",
    loaded: "LoadedModel",
    labels: dict[str, Any],
    arguments: TuneArguments,
    encoded: dict[str, "EncodedRows"],
    training_rows: dict[str, Any],
) -> None:
    """Saves the model and its card, and last of all how it must be asked, with which the run is finished."""
    from hb_metrics.inference.models.bias_tags import NO_BIAS, BiasTuning, write_bias_tuning
    from hb_metrics.obedience.values import DIRECTIONS_FOLDER, has_directions
    from hb_train.model_card import write_model_card

    measure = arguments.measure()
    save_model(trained_model(trainer), loaded, folder)
    tuning = BiasTuning(
        tag=NO_BIAS if _with_tags(arguments) else None,
        context=labels["context"],
        asked_with=labels.get("asked_with"),
        alpha=labels.get("alpha"),
        beta=labels.get("beta"),
        labels=_learnt_from(arguments, labels),
        training={
            "method": arguments.method,
            "labels": arguments.labels,
            "model": loaded.name,
            f"best_validation_{measure}": trainer.state.best_metric,
            "best_step": trainer.state.best_global_step,
            "num_steps": trainer.state.global_step,
            f"validation_{measure}": validation_curve(trainer.state.log_history, measure),
            **({"evaluations": evaluations(trainer)} if arguments.evaluation_replies else {}),
            "num_rows": {name: len(rows.dataset) for name, rows in encoded.items()},
            "num_cut_contexts": sum(rows.num_cut for rows in encoded.values()),
            "num_unended_replies": sum(rows.num_unended for rows in encoded.values()),
            **training_rows,
        },
    )
    if has_directions(dataset):  # older labels have none
        (folder / DIRECTIONS_FOLDER).mkdir(exist_ok=True)
        path = folder / DIRECTIONS_FOLDER / STYLE_MEANS_FILE
        write_atomically(path, lambda scratch: copyfile(dataset / STYLE_MEANS_FILE, scratch))
    write_model_card(folder, tuning)
    write_bias_tuning(folder, tuning)


def _learnt_from(arguments: TuneArguments, labels: dict[str, Any]) -> dict[str, Any]:
    """What the tuned model's folder records of its dataset."""
    if arguments.method == DISTILL:
        return {name: value for name, value in labels.items() if name not in ("context", "asked_with")}
    names = ("model", "style_classifier", "by_tag", "by_split")
    return {**{name: labels[name] for name in names}, "ceiling": labels.get("ceiling")}


def _print_curve(trainer: "Trainer", measure: str) -> None:
    state = trainer.state
    curve = validation_curve(state.log_history, measure)
    print(f"\nvalidation {measure} {state.best_metric:.3f} at step {state.best_global_step}; eval_{measure} by step:")
    for entry in curve:
        value = "not finite" if entry[measure] is None else f"{entry[measure]:.3f}"
        print(f"  {entry['step']:>6}  {value}")
    if not is_gain(curve, measure):
        print(NO_GAIN_NOTE.format(measure=measure))
    for line in evaluation_lines(evaluations(trainer)):
        print(line)


if __name__ == "__main__":
    main()
