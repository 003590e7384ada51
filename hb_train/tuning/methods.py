"""The trainers of `tune.py`: supervised fine-tuning, KTO and baseline distillation, each with its rows."""

from collections.abc import Mapping
from copy import deepcopy
from typing import TYPE_CHECKING, Any

from datasets import Dataset
from transformers import DataCollatorForSeq2Seq, Seq2SeqTrainingArguments, TrainingArguments
from trl import get_peft_config

from hb_metrics.inference.models.bias_tags import NO_BIAS
from hb_train.training.encoding import IGNORED, EncodedRows, length_limit
from hb_train.training.models import model_to_train, padding_tokenizer, plain_options
from hb_train.training.trainers import (
    BaselineDistillationTrainer,
    PairCollator,
    ReplyKTOTrainer,
    ReplySeq2SeqTrainer,
    ReplySFTTrainer,
)

if TYPE_CHECKING:
    from transformers import Trainer, TrainerCallback
    from trl import KTOConfig, ModelConfig, SFTConfig

    from hb_metrics.inference.models.loading import LoadedModel


def reply_trainer(
    training_args: "SFTConfig",
    model_args: "ModelConfig",
    loaded: "LoadedModel",
    encoded: Mapping[str, EncodedRows],
    callbacks: "list[TrainerCallback]",
) -> "Trainer":
    """The trainer of the paper's method that suits the kind of model."""
    tokenizer = padding_tokenizer(loaded)
    shared: dict[str, Any] = {
        "train_dataset": encoded["train"].dataset,
        "eval_dataset": encoded["validation"].dataset,
        "processing_class": tokenizer,
        "callbacks": callbacks,
    }
    if loaded.kind == "causal":
        peft_config = get_peft_config(model_args)
        return ReplySFTTrainer(model=loaded.model, args=training_args, peft_config=peft_config, **shared)
    return ReplySeq2SeqTrainer(
        model=model_to_train(model_args, loaded),
        args=plain_options(training_args, Seq2SeqTrainingArguments),
        data_collator=DataCollatorForSeq2Seq(tokenizer, model=loaded.model),
        **shared,
    )


def kto_trainer(
    training_args: "KTOConfig",
    model_args: "ModelConfig",
    loaded: "LoadedModel",
    rows: Mapping[str, Dataset],
    encoded: Mapping[str, EncodedRows],
    callbacks: "list[TrainerCallback]",
) -> "Trainer":
    """TRL's trainer of KTO, with the model before tuning as the reference.

    A weight of undesirable replies that is `None` is set, so that replies of either tag weigh the same in all: within
    the range that Ethayarajh et al. (2024, equation 8) advise.

    Args:
        training_args: TRL's options; `max_length` becomes what the model takes.
        model_args: TRL's options of the model.
        loaded: The model.
        rows: The labelled rows of each split.
        encoded: The same rows as tokens, without tags.
        callbacks: More of the trainer's callbacks.

    Raises:
        ValueError: All replies of a split have the same tag.
    """
    labelled = {name: kto_rows(rows[name], encoded[name].dataset, name) for name in rows}
    if training_args.undesirable_weight is None:
        wanted = labelled["train"]["label"]
        training_args.undesirable_weight = training_args.desirable_weight * sum(wanted) / (len(wanted) - sum(wanted))
    # A context with the mismatched reply of another row may not fit; TRL cuts such a reply at its end.
    training_args.max_length = length_limit(loaded, training_args.max_length)
    # TRL pairs each row with the one before it, which as they were labelled is often of the same cell.
    seed = training_args.seed if training_args.data_seed is None else training_args.data_seed
    shuffled = {name: split.shuffle(seed=seed).flatten_indices() for name, split in labelled.items()}
    # With LoRA the reference is the model without its adapter; with log-probabilities computed before, none is kept.
    needs_copy = not model_args.use_peft and not training_args.precompute_ref_log_probs
    return ReplyKTOTrainer(
        model=loaded.model,
        ref_model=deepcopy(loaded.model) if needs_copy else None,
        args=training_args,
        train_dataset=shuffled["train"],
        eval_dataset=shuffled["validation"],
        processing_class=padding_tokenizer(loaded),
        peft_config=get_peft_config(model_args),
        callbacks=callbacks,
    )


def kto_rows(rows: Dataset, encoded: Dataset, split: str) -> Dataset:
    """The rows of KTO: each prompt without its tag, its reply, and whether the reply is wanted.

    Args:
        rows: Rows with the column `tag`.
        encoded: The same rows as `encoding.encode_rows` encodes them for a causal model, without tags.
        split: The name of the split, for the error.

    Returns:
        `prompt_ids`, `completion_ids` and `label` (whether the reply is tagged "no_bias") of each row.

    Raises:
        ValueError: All replies have the same tag.
    """
    tags = rows["tag"][:]
    if len(set(tags)) < 2:
        raise ValueError(
            f"all {len(tags)} replies of {split} are tagged '{tags[0]}', and method kto needs both tags in each split; "
            "set another --beta in bias_labels.py, or label more replies"
        )
    columns: dict[str, list[Any]] = {"prompt_ids": [], "completion_ids": [], "label": [tag == NO_BIAS for tag in tags]}
    for tokens, labels in zip(encoded["input_ids"], encoded["labels"], strict=True):
        length = labels.count(IGNORED)
        columns["prompt_ids"].append(tokens[:length])
        columns["completion_ids"].append(tokens[length:])
    return Dataset.from_dict(columns)


def distillation_trainer(
    training_args: "SFTConfig",
    model_args: "ModelConfig",
    loaded: "LoadedModel",
    encoded: Mapping[str, EncodedRows],
    callbacks: "list[TrainerCallback]",
) -> "Trainer":
    """The trainer of baseline distillation, with the model before tuning as the teacher."""
    tokenizer = padding_tokenizer(loaded)
    # With LoRA the teacher is the model without its adapter.
    teacher = None if model_args.use_peft else deepcopy(loaded.model)
    return BaselineDistillationTrainer(
        model=model_to_train(model_args, loaded),
        teacher=teacher,
        is_causal=loaded.kind == "causal",
        args=plain_options(training_args, TrainingArguments, remove_unused_columns=False, label_names=["labels"]),
        data_collator=PairCollator(tokenizer),
        train_dataset=encoded["train"].dataset,
        eval_dataset=encoded["validation"].dataset,
        processing_class=tokenizer,
        callbacks=callbacks,
    )
