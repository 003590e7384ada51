"""Encodes the rows of each method of tune.py, and makes the method's trainer."""

from copy import deepcopy
from typing import TYPE_CHECKING, Any, NamedTuple

from peft import get_peft_model
from trl import get_peft_config

from hb_train.training.encoding import EncodedRows, collate, encode_rows
from hb_train.training.models import padding_tokenizer
from hb_train.training.trainers import ReplySeq2SeqTrainer, ReplySFTTrainer
from hb_train.tuning.counterfactual import CounterfactualTrainer
from hb_train.tuning.groups import collate_groups, encode_groups

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import ModelConfig, SFTConfig

    from hb_metrics.models.loading import LoadedModel
    from hb_train.tuning.labels import RowRecord


class Tuning(NamedTuple):
    """A tuning. `record` describes the rows, and `encoded` is filled with the rows of both splits."""

    arguments: Any  # `TuneArguments` of tune.py
    training_args: "SFTConfig"
    model_args: "ModelConfig"
    loaded: "LoadedModel"
    record: "RowRecord"
    encoded: dict[str, EncodedRows]


def encode(tuning: Tuning, rows: "Dataset") -> EncodedRows:
    arguments, record, max_length = tuning.arguments, tuning.record, tuning.training_args.max_length
    if arguments.method == "counterfactual":
        return encode_groups(rows, tuning.loaded, record.context, arguments.anchor_share, max_length)
    return encode_rows(
        rows,
        tuning.loaded,
        context=record.context,
        suffix=record.suffix,
        with_tags=arguments.tag() is not None,
        max_length=max_length,
    )


def make_trainer(tuning: Tuning, callbacks: "list[TrainerCallback]") -> Any:
    loaded, config, training_args = tuning.loaded, get_peft_config(tuning.model_args), tuning.training_args
    settings: dict[str, Any] = {
        "args": training_args,
        "train_dataset": tuning.encoded["train"].dataset,
        "eval_dataset": tuning.encoded["validation"].dataset,
        "processing_class": padding_tokenizer(loaded),
        "callbacks": callbacks,
    }
    model: Any = loaded.model
    if tuning.arguments.method == "counterfactual":
        training_args.dataset_kwargs = {"skip_prepare_dataset": True}
        training_args.remove_unused_columns = False
        return CounterfactualTrainer(
            model=model,
            untuned=deepcopy(model) if config is None else None,
            temperature=tuning.record.temperature,
            naming_weight=tuning.arguments.naming_weight,
            peft_config=config,
            data_collator=collate_groups,
            **settings,
        )
    if loaded.kind == "causal":
        return ReplySFTTrainer(model=model, peft_config=config, **settings)
    if config is not None:
        config.task_type = "SEQ_2_SEQ_LM"  # TRL's default is for causal models
        model = get_peft_model(model, config)
    return ReplySeq2SeqTrainer(model=model, data_collator=collate, **settings)
