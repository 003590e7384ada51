r"""Fine-tunes a language model on labelled replies, so that it can be asked for less biased ones (paper, section 4).

    accelerate launch hb_train/tune.py --config hb_train/recipes/dialogpt.yaml \
        --model_name_or_path microsoft/DialoGPT-medium --dataset_name labels/dialogpt --output_dir models/dialogpt

With LoRA: add `--use_peft --learning_rate 3e-4`. Without tags, the paper's self-chat tuning: add `--labels none`. The
dataset is a folder of `bias_labels.py`. Causal models are tuned by TRL's SFTTrainer, encoder–decoder ones by
transformers' Seq2SeqTrainer; only replies are learnt; the checkpoint of the lowest validation perplexity is kept. A
tuning that was interrupted goes on from its last checkpoint when the same command is given again. The folder says how
the model must be asked, and `measure.py --model FOLDER` asks it so.
"""

import math
import shutil
import sys
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hb_metrics.run_folder import open_run, package_versions
from hb_train.hub_token import parse_training_options
from hb_train.processes import end_processes

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import Trainer, TrainerCallback
    from trl import ModelConfig, ScriptArguments, SFTConfig

    from hb_metrics.inference.models.loading import LoadedModel
    from hb_train.rows import EncodedRows

# torch, transformers and trl take seconds to import: not before they are needed.

SPLITS = ("train", "validation")
# What a training's result does not depend on: places, names, how it is told of, how much is kept of it.
_NO_SETTINGS = (
    "output_dir", "logging_dir", "run_name", "report_to", "project", "trackio_space_id", "push_to_hub", "hub_token",
    "hub_model_id", "disable_tqdm", "logging_steps", "logging_strategy", "log_level", "resume_from_checkpoint",
    "save_total_limit", "local_rank", "use_cpu", "deepspeed_plugin", "accelerator_config", "distributed_state",
    "dataloader_num_workers", "dataset_num_proc", "model_init_kwargs",
)  # fmt: skip

MISSING_ERROR = "{option} is missing; give {what}"
QUANTIZED_ERROR = (
    "load_in_8bit and load_in_4bit are not supported: the tuned model is saved whole, with its adapter merged; give "
    "--dtype bfloat16 --use_peft"
)
STREAMING_ERROR = "dataset_streaming is not supported: the rows are few enough to be read; leave it out"
NO_EVALUATION_ERROR = (
    "the model that is kept is that of the lowest validation perplexity, which needs evaluations; leave out "
    "--eval_strategy no and --load_best_model_at_end false"
)
SPLIT_ERROR = "'{folder}' has no split '{split}'; there are: {known}"
DIVERGED_ERROR = (
    "the validation perplexity was never a number: tuning diverged; give a smaller --learning_rate than {rate:g} and "
    "another --output_dir"
)
MASKED_ERROR = "model '{name}' is a masked language model, which gives no replies; give one that does"
LORA_ERROR = "use_peft needs the package peft: pip install 'holistic-bias[tune]'"


@dataclass
class TuneArguments:
    """What this script takes beside TRL's options."""

    labels: Literal["tags", "none"] = field(
        default="tags",
        metadata={
            "help": "Whether prompts end in their tag, or in none: the paper's self-chat tuning, to compare with."
        },
    )
    early_stopping_patience: int = field(
        default=3, metadata={"help": "Evaluations without a lower validation perplexity before tuning stops; 0: never."}
    )

    def __post_init__(self) -> None:
        """Refuses what cannot be."""
        if self.early_stopping_patience < 0:
            raise ValueError(f"early_stopping_patience is {self.early_stopping_patience}; give at least 0")


def main(argv: list[str] | None = None) -> None:
    """Reads the options, tunes, and says where the model is."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        tune(*parse_options(argv))
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"tune.py: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted; to go on from the last checkpoint, give the same command again") from None


def parse_options(argv: list[str]) -> tuple[TuneArguments, "ScriptArguments", "SFTConfig", "ModelConfig"]:
    """Reads the command line, and under it the YAML file given with `--config`, as TRL's own scripts do."""
    import torch
    from trl import ModelConfig, ScriptArguments, SFTConfig, TrlParser

    from hb_train.trainers import METRIC

    no_accelerator = not torch.accelerator.is_available()
    parser = TrlParser(
        (TuneArguments, ScriptArguments, SFTConfig, ModelConfig), description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.set_defaults(
        dataset_test_split="validation",
        eval_strategy="steps",
        save_strategy="steps",
        save_total_limit=1,
        load_best_model_at_end=True,
        metric_for_best_model=METRIC,
        greater_is_better=False,
        eval_on_start=True,
        use_cpu=no_accelerator,
        bf16=bfloat16_is_fast() if no_accelerator else None,
    )
    return parse_training_options(parser, argv)


def tune(
    arguments: TuneArguments, script_args: "ScriptArguments", training_args: "SFTConfig", model_args: "ModelConfig"
) -> None:
    """Tunes a model and saves it with what it must be asked with.

    Raises:
        ValueError: The model, the rows and the options do not go together.
        OSError: The model or the rows are not there.
    """
    import torch

    from hb_metrics.inference.models.bias_tags import TUNING_FILE, read_bias_tuning
    from hb_metrics.inference.models.loading import load_model
    from hb_metrics.inference.processes import num_workers
    from hb_train.bias_labels import read_labels
    from hb_train.rows import encode_rows
    from hb_train.trainers import METRIC

    _check_options(script_args, training_args, model_args)
    if training_args.device.type == "cpu":
        torch.set_num_threads(num_workers())  # `accelerate launch` sets one, whether anybody asked for it or not
    labels = read_labels(Path(script_args.dataset_name))
    loaded = load_model(
        model_args.model_name_or_path,
        revision=None if model_args.model_revision == "main" else model_args.model_revision,
        dtype=model_args.dtype,
        trust_remote_code=training_args.trust_remote_code,
    )
    if loaded.kind == "masked":
        raise ValueError(MASKED_ERROR.format(name=model_args.model_name_or_path))
    if model_args.attn_implementation is not None:
        loaded.model.set_attn_implementation(model_args.attn_implementation)
    folder = Path(training_args.output_dir)
    with training_args.main_process_first(local=False):
        if training_args.process_index == 0:
            description = training_description(arguments, training_args, model_args, loaded)
            open_run(folder, {**description, "labels": labels})
    if read_bias_tuning(str(folder)) is not None:
        say(training_args, f"{folder} was tuned with these settings before; nothing to do ({TUNING_FILE} is there)")
        return

    encoded = {
        name: encode_rows(
            _read_split(Path(script_args.dataset_name), split),
            loaded,
            context=labels["context"],
            suffix=labels["suffix"],
            with_tags=arguments.labels == "tags",
            max_length=training_args.max_length,
        )
        for name, split in zip(SPLITS, (script_args.dataset_train_split, script_args.dataset_test_split), strict=True)
    }
    cut = sum(each.num_cut for each in encoded.values())
    if cut:
        say(training_args, f"{cut:,} contexts were cut at their beginning to fit max_length")
    with training_args.main_process_first(local=False):
        checkpoint = training_args.resume_from_checkpoint or last_checkpoint(folder)
    if checkpoint:
        say(training_args, f"going on from {checkpoint}")
        training_args.eval_on_start = False  # what the start was like is known
    trainer = _trainer(arguments, training_args, model_args, loaded, encoded)
    trainer.train(resume_from_checkpoint=checkpoint)
    trainer.accelerator.wait_for_everyone()
    if trainer.state.best_metric is None or not math.isfinite(trainer.state.best_metric):
        raise ValueError(DIVERGED_ERROR.format(rate=training_args.learning_rate))
    if trainer.is_world_process_zero():
        _save(folder, trainer, loaded, labels, arguments, encoded)
        best = trainer.state.best_metric
        print(f"\nvalidation perplexity {best:.3f} at step {trainer.state.best_global_step}; {METRIC} by step:")
        for entry in validation_curve(trainer.state.log_history):
            value = "not finite" if entry["perplexity"] is None else f"{entry['perplexity']:.3f}"
            print(f"  {entry['step']:>6}  {value}")
        print(f"\nmodel: {folder.resolve()}")
    end_processes(trainer)


def validation_curve(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The validation perplexity at each step of a log history where it was measured; `None`: it was not a number."""
    from hb_train.trainers import METRIC

    return [
        {"step": entry["step"], "perplexity": entry[METRIC] if math.isfinite(entry[METRIC]) else None}
        for entry in history
        if METRIC in entry
    ]


def last_checkpoint(folder: Path) -> str | None:
    """The last whole checkpoint; one that a run was stopped in the midst of is removed."""
    from transformers.trainer_utils import get_last_checkpoint

    for path in folder.glob("checkpoint-*"):
        if not (path / "trainer_state.json").is_file():  # which is written last
            shutil.rmtree(path, ignore_errors=True)
    return get_last_checkpoint(str(folder))


def _read_split(folder: Path, split: str) -> "Dataset":
    """The rows of a split, read past the cache of `datasets`, which may know another folder of that name."""
    import pyarrow.parquet as pq
    from datasets import Dataset

    path = folder / "data" / f"{split}.parquet"
    if not path.is_file():
        known = ", ".join(sorted(found.stem for found in path.parent.glob("*.parquet")))
        raise ValueError(SPLIT_ERROR.format(split=split, folder=folder, known=known or "none"))
    return Dataset(pq.read_table(path))


def _check_options(script_args: "ScriptArguments", training_args: "SFTConfig", model_args: "ModelConfig") -> None:
    if model_args.model_name_or_path is None:
        what = "a Hub id, a local folder or 'embedded'"
        raise ValueError(MISSING_ERROR.format(option="--model_name_or_path", what=what))
    if script_args.dataset_name is None:
        what = "a folder that hb_train/bias_labels.py has written"
        raise ValueError(MISSING_ERROR.format(option="--dataset_name", what=what))
    if script_args.dataset_streaming:
        raise ValueError(STREAMING_ERROR)
    if model_args.load_in_8bit or model_args.load_in_4bit:
        raise ValueError(QUANTIZED_ERROR)
    if training_args.eval_strategy == "no" or not training_args.load_best_model_at_end:
        raise ValueError(NO_EVALUATION_ERROR)
    if model_args.use_peft:
        from transformers.utils import is_peft_available

        if not is_peft_available():
            raise ValueError(LORA_ERROR)


def bfloat16_is_fast() -> bool:
    """Whether this processor multiplies in bfloat16; those that do not emulate it, many times slower than float32."""
    import torch

    return torch.cpu.get_capabilities().get("amx_tile", False) or torch.cpu.get_capabilities().get("avx512_bf16", False)


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

    from hb_train.trainers import ReplySeq2SeqTrainer, ReplySFTTrainer

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
    shared = {each.name for each in fields(Seq2SeqTrainingArguments) if each.init}
    options = {each.name: getattr(training_args, each.name) for each in fields(training_args) if each.name in shared}
    return ReplySeq2SeqTrainer(
        model=model,
        args=Seq2SeqTrainingArguments(**options),
        train_dataset=train,
        eval_dataset=validation,
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=loaded.model),
        processing_class=tokenizer,
        callbacks=callbacks,
    )


def training_description(
    arguments: Any, training_args: "SFTConfig", model_args: "ModelConfig", loaded: "LoadedModel"
) -> dict[str, Any]:
    """What trained weights depend on beside the data, for run.json: options that are not TRL's defaults, and the model.

    Args:
        arguments: The script's own options, a dataclass.
        training_args: TRL's.
        model_args: TRL's.
        loaded: The model.
    """
    from trl import ModelConfig, SFTConfig

    default = SFTConfig(output_dir=training_args.output_dir, use_cpu=training_args.use_cpu).to_dict()
    settings = {
        name: value
        for name, value in training_args.to_dict().items()
        if name not in _NO_SETTINGS and value != default.get(name)
    }
    model_settings = {
        each.name: getattr(model_args, each.name)
        for each in fields(model_args)
        if each.name != "model_name_or_path" and getattr(model_args, each.name) != getattr(ModelConfig(), each.name)
    }
    return {
        "settings": {**vars(arguments), **settings, **model_settings, "num_processes": training_args.world_size},
        "model": {"name": loaded.name, "kind": loaded.kind, "digest": loaded.digest, "dtype": loaded.dtype},
        "versions": package_versions("accelerate", "peft", "trl"),
    }


def _save(
    folder: Path,
    trainer: "Trainer",
    loaded: "LoadedModel",
    labels: dict[str, Any],
    arguments: TuneArguments,
    encoded: dict[str, "EncodedRows"],
) -> None:
    """Saves the model whole, an adapter merged into it, and last of all how it must be asked."""
    from hb_metrics.inference.models.bias_tags import NO_BIAS, BiasTuning, write_bias_tuning
    from hb_train.model_card import write_model_card

    model: Any = trainer.accelerator.unwrap_model(trainer.model)
    if hasattr(model, "merge_and_unload"):
        model = model.merge_and_unload()
    model.save_pretrained(folder)
    loaded.tokenizer.save_pretrained(folder)
    (folder / "adapter_config.json").unlink(missing_ok=True)
    tuning = BiasTuning(
        tag=NO_BIAS if arguments.labels == "tags" else None,
        context=labels["context"],
        alpha=labels["alpha"],
        beta=labels["beta"],
        labels={name: labels[name] for name in ("model", "style_classifier", "by_tag", "by_split")},
        training={
            "labels": arguments.labels,
            "model": loaded.name,
            "best_validation_perplexity": trainer.state.best_metric,
            "best_step": trainer.state.best_global_step,
            "num_steps": trainer.state.global_step,
            "validation_perplexity": validation_curve(trainer.state.log_history),
            "num_rows": {name: len(each.dataset) for name, each in encoded.items()},
            "num_cut_contexts": sum(each.num_cut for each in encoded.values()),
            "num_unended_replies": sum(each.num_unended for each in encoded.values()),
        },
    )
    write_model_card(folder, tuning)
    write_bias_tuning(folder, tuning)


def say(training_args: "SFTConfig", message: str) -> None:
    """Says something once, whatever the number of processes."""
    if training_args.process_index == 0:
        print(message)


if __name__ == "__main__":
    main()
