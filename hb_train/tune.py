r"""Fine-tunes a language model on labelled replies, so that it can be asked for less biased ones (paper, section 4).

    accelerate launch hb_train/tune.py --config hb_train/recipes/dialogpt.yaml \
        --model_name_or_path microsoft/DialoGPT-medium --dataset_name labels/dialogpt --output_dir models/dialogpt

With LoRA: add `--use_peft --learning_rate 3e-4`. Without tags, the paper's self-chat tuning: add `--labels none`. The
dataset is a folder of `bias_labels.py`. Causal models are tuned by TRL's SFTTrainer, encoder–decoder ones by
transformers' Seq2SeqTrainer; only replies are learnt; the checkpoint of the lowest validation perplexity is kept. A
tuning that was interrupted resumes from its last checkpoint when the same command is given again. The folder records
how the model must be asked, and `measure.py --model FOLDER` asks it so.
"""

import math
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING, Any, Literal

from hb_dataset.whole_files import write_atomically
from hb_metrics.run_folder import STYLE_MEANS_FILE
from hb_train.training.models import load_base_model, save_model, trained_model
from hb_train.training.options import MISSING_ERROR, check_model_options, parse_training_options
from hb_train.training.runs import (
    checkpoint_to_resume,
    end_processes,
    open_training_run,
    print_once,
    training_description,
    use_all_cores,
    validation_curve,
)
from hb_train.tuning.labels import SPLITS, read_labels, read_split

if TYPE_CHECKING:
    from transformers import Trainer, TrainerCallback
    from trl import ModelConfig, ScriptArguments, SFTConfig

    from hb_metrics.inference.models.loading import LoadedModel
    from hb_train.training.encoding import EncodedRows

# torch, transformers and trl take seconds to import: not before they are needed.

STREAMING_ERROR = "dataset_streaming is not supported: the rows are few enough to be read; leave it out"
NO_EVALUATION_ERROR = (
    "the model that is kept is that of the lowest validation perplexity, which needs evaluations; leave out "
    "--eval_strategy no and --load_best_model_at_end false"
)
DIVERGED_ERROR = (
    "the validation perplexity was never a number: tuning diverged; give a smaller --learning_rate than {rate:g} and "
    "another --output_dir"
)
MASKED_ERROR = "model '{name}' is a masked language model, which gives no replies; give one that does"


@dataclass
class TuneArguments:
    """The options of this script beside those of TRL."""

    labels: Literal["tags", "none"] = field(
        default="tags",
        metadata={
            "help": "Whether the prompts end in their tags, or in none: the paper's self-chat tuning, to compare with."
        },
    )
    early_stopping_patience: int = field(
        default=3,
        metadata={
            "help": "Tuning stops after so many evaluations in a row without a lower validation perplexity; with 0 it "
            "never does."
        },
    )

    def __post_init__(self) -> None:
        """Raises `ValueError` if the patience is negative."""
        if self.early_stopping_patience < 0:
            raise ValueError(f"early_stopping_patience is {self.early_stopping_patience}; give at least 0")


def main(argv: list[str] | None = None) -> None:
    """Reads the options, tunes, and prints where the model is."""
    try:
        tune(*parse_options(sys.argv[1:] if argv is None else argv))
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"tune.py: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted; to resume from the last checkpoint, give the same command again") from None


def parse_options(argv: list[str]) -> tuple[TuneArguments, "ScriptArguments", "SFTConfig", "ModelConfig"]:
    """Reads the command line, as `parse_training_options`."""
    from trl import ModelConfig, ScriptArguments, SFTConfig

    from hb_train.training.trainers import METRIC

    return parse_training_options(
        (TuneArguments, ScriptArguments, SFTConfig, ModelConfig),
        argv,
        __doc__,
        dataset_test_split="validation",
        eval_strategy="steps",
        save_strategy="steps",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model=METRIC,
        greater_is_better=False,
        eval_on_start=True,
    )


def tune(
    arguments: TuneArguments, script_args: "ScriptArguments", training_args: "SFTConfig", model_args: "ModelConfig"
) -> None:
    """Tunes a model and saves it with how it must be asked.

    Raises:
        ValueError: The model, the rows and the options do not go together, or training diverged.
        OSError: The model or the rows are not there.
    """
    from hb_metrics.inference.models.bias_tags import TUNING_FILE, read_bias_tuning
    from hb_train.training.encoding import encode_rows

    _check_options(script_args, training_args, model_args)
    use_all_cores(training_args)
    dataset = Path(script_args.dataset_name)
    labels = read_labels(dataset)
    loaded = load_base_model(model_args, training_args)
    if loaded.kind == "masked":
        raise ValueError(MASKED_ERROR.format(name=model_args.model_name_or_path))
    description = training_description(arguments, training_args, model_args, loaded)
    folder = open_training_run(training_args, {**description, "labels": labels})
    if read_bias_tuning(str(folder)) is not None:
        print_once(
            training_args, f"{folder} was tuned with these settings before; nothing to do ({TUNING_FILE} is there)"
        )
        return

    encoded = {
        name: encode_rows(
            read_split(dataset, split),
            loaded,
            context=labels["context"],
            suffix=labels["suffix"],
            with_tags=arguments.labels == "tags",
            max_length=training_args.max_length,
        )
        for name, split in zip(SPLITS, (script_args.dataset_train_split, script_args.dataset_test_split), strict=True)
    }
    num_cut = sum(rows.num_cut for rows in encoded.values())
    if num_cut:
        print_once(training_args, f"{num_cut:,} contexts were cut at their beginning to fit max_length")
    checkpoint = checkpoint_to_resume(training_args)
    trainer = _trainer(arguments, training_args, model_args, loaded, encoded)
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.accelerator.wait_for_everyone()
    if trainer.state.best_metric is None or not math.isfinite(trainer.state.best_metric):
        raise ValueError(DIVERGED_ERROR.format(rate=training_args.learning_rate))
    if trainer.is_world_process_zero():
        _save(folder, dataset, trainer, loaded, labels, arguments, encoded)
        _print_curve(trainer)
        print(f"\nmodel: {folder.resolve()}")
    end_processes(trainer)


def _check_options(script_args: "ScriptArguments", training_args: "SFTConfig", model_args: "ModelConfig") -> None:
    check_model_options(model_args)
    if script_args.dataset_name is None:
        what = "a folder that hb_train/bias_labels.py has written"
        raise ValueError(MISSING_ERROR.format(option="--dataset_name", what=what))
    if script_args.dataset_streaming:
        raise ValueError(STREAMING_ERROR)
    if training_args.eval_strategy == "no" or not training_args.load_best_model_at_end:
        raise ValueError(NO_EVALUATION_ERROR)


def _trainer(
    arguments: TuneArguments,
    training_args: "SFTConfig",
    model_args: "ModelConfig",
    loaded: "LoadedModel",
    encoded: dict[str, "EncodedRows"],
) -> "Trainer":
    """The trainer that suits the kind of model."""
    from copy import deepcopy

    from transformers import DataCollatorForSeq2Seq, EarlyStoppingCallback, Seq2SeqTrainingArguments
    from trl import get_peft_config

    from hb_train.training.trainers import ReplySeq2SeqTrainer, ReplySFTTrainer

    callbacks: list[TrainerCallback] = []
    if arguments.early_stopping_patience:
        callbacks.append(EarlyStoppingCallback(arguments.early_stopping_patience))
    train, validation = (encoded[name].dataset for name in SPLITS)
    # Trainers set a padding token where there is none; what is saved is the tokenizer as it was.
    tokenizer = deepcopy(loaded.tokenizer)
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


def _save(
    folder: Path,
    dataset: Path,
    trainer: "Trainer",
    loaded: "LoadedModel",
    labels: dict[str, Any],
    arguments: TuneArguments,
    encoded: dict[str, "EncodedRows"],
) -> None:
    """Saves the model and its card, and last of all how it must be asked, with which the run is finished."""
    from hb_metrics.inference.models.bias_tags import NO_BIAS, BiasTuning, write_bias_tuning
    from hb_metrics.obedience import DIRECTIONS_FOLDER, has_directions
    from hb_train.model_card import write_model_card

    save_model(trained_model(trainer), loaded, folder)
    tuning = BiasTuning(
        tag=NO_BIAS if arguments.labels == "tags" else None,
        context=labels["context"],
        asked_with=labels.get("asked_with"),
        alpha=labels["alpha"],
        beta=labels["beta"],
        labels={
            **{name: labels[name] for name in ("model", "style_classifier", "by_tag", "by_split")},
            "ceiling": labels.get("ceiling"),
        },
        training={
            "labels": arguments.labels,
            "model": loaded.name,
            "best_validation_perplexity": trainer.state.best_metric,
            "best_step": trainer.state.best_global_step,
            "num_steps": trainer.state.global_step,
            "validation_perplexity": validation_curve(trainer.state.log_history),
            "num_rows": {name: len(rows.dataset) for name, rows in encoded.items()},
            "num_cut_contexts": sum(rows.num_cut for rows in encoded.values()),
            "num_unended_replies": sum(rows.num_unended for rows in encoded.values()),
        },
    )
    if has_directions(dataset):  # older labels have none
        (folder / DIRECTIONS_FOLDER).mkdir(exist_ok=True)
        path = folder / DIRECTIONS_FOLDER / STYLE_MEANS_FILE
        write_atomically(path, lambda scratch: copyfile(dataset / STYLE_MEANS_FILE, scratch))
    write_model_card(folder, tuning)
    write_bias_tuning(folder, tuning)


def _print_curve(trainer: "Trainer") -> None:
    from hb_train.training.trainers import METRIC

    state = trainer.state
    print(f"\nvalidation perplexity {state.best_metric:.3f} at step {state.best_global_step}; {METRIC} by step:")
    for entry in validation_curve(state.log_history):
        value = "not finite" if entry["perplexity"] is None else f"{entry['perplexity']:.3f}"
        print(f"  {entry['step']:>6}  {value}")


if __name__ == "__main__":
    main()
