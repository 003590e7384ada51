"""Encodes the rows of each method of tune.py, makes the method's trainer, and measures the cost of training."""

import resource
import sys
import time
from copy import deepcopy
from typing import Any, NamedTuple

import torch
from datasets import Dataset
from peft import get_peft_model
from transformers import EarlyStoppingCallback, set_seed
from trl import ModelConfig, SFTConfig, get_peft_config

from hb_metrics.models.loading import LoadedModel
from hb_train.training.encoding import IGNORED, collate, encode_rows
from hb_train.training.models import padding_tokenizer
from hb_train.training.trainers import ReplySFTTrainer, ReplyTrainer
from hb_train.tuning.counterfactual import CounterfactualTrainer, collate_groups, encode_groups
from hb_train.tuning.labels import RowRecord


class Tuning(NamedTuple):
    """A tuning. `record` describes the rows, and `encoded` is filled with the rows of both splits."""

    arguments: Any  # `TuneArguments` of tune.py
    training_args: SFTConfig
    model_args: ModelConfig
    loaded: LoadedModel
    record: RowRecord
    encoded: dict[str, Dataset]


def encode(tuning: Tuning, rows: Dataset) -> Dataset:
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


def make_trainer(tuning: Tuning) -> Any:
    loaded, config, training_args = tuning.loaded, get_peft_config(tuning.model_args), tuning.training_args
    patience = tuning.arguments.early_stopping_patience
    set_seed(training_args.seed)  # LoRA draws random matrices before the trainers set the seed
    settings: dict[str, Any] = {
        "model": loaded.model,
        "args": training_args,
        "peft_config": config,
        "train_dataset": tuning.encoded["train"],
        "eval_dataset": tuning.encoded["validation"],
        "processing_class": padding_tokenizer(loaded),
        "callbacks": [EarlyStoppingCallback(patience)] if patience else [],
    }
    if tuning.arguments.method == "counterfactual":
        training_args.dataset_kwargs = {"skip_prepare_dataset": True}
        training_args.remove_unused_columns = False
        return CounterfactualTrainer(
            untuned=deepcopy(loaded.model) if config is None else None,
            temperature=tuning.record.temperature,
            naming_weight=tuning.arguments.naming_weight,
            data_collator=collate_groups,
            **settings,
        )
    if loaded.kind == "causal":
        return ReplySFTTrainer(**settings)
    del settings["peft_config"]
    if config is not None:
        config.task_type = "SEQ_2_SEQ_LM"  # TRL's default is for causal models
        settings["model"] = get_peft_model(loaded.model, config)
    return ReplyTrainer(data_collator=collate, **settings)


def measure_cost(tuning: Tuning, trainer: Any) -> str:
    """Counts rows and tokens, and trains and evaluates on the largest batches to measure time and memory."""
    arguments, train = tuning.training_args, tuning.encoded["train"]
    labels, inputs = train["labels"], train["input_ids"]
    if isinstance(labels[0][0], list):  # a row is a group of sequences
        labels, inputs = ([sequence for row in rows for sequence in row] for rows in (labels, inputs))
    learnt = sum(label != IGNORED for sequence in labels for label in sequence)
    has_encoder = tuning.loaded.kind == "encoder-decoder"  # then, the inputs do not contain the replies
    tokens, longest = sum(map(len, inputs)) + has_encoder * learnt, max(map(len, [*inputs, *labels]))
    batch, evaluated = (
        max(loader, key=lambda batch: batch["attention_mask"].numel())
        for loader in (trainer.get_train_dataloader(), trainer.get_eval_dataloader())
    )
    if arguments.gradient_checkpointing:  # as `train` does
        trainer.model.gradient_checkpointing_enable(arguments.gradient_checkpointing_kwargs)
    model, batch = trainer.accelerator.prepare(trainer.model.train()), trainer._prepare_inputs(batch)
    for _ in range(2):  # the first step also warms up
        start = time.monotonic()
        trainer.compute_loss(model, batch).backward()
    num_read = int(batch["attention_mask"].sum()) + has_encoder * int((batch["labels"] != IGNORED).sum())
    rate = num_read / (time.monotonic() - start)
    epochs = arguments.num_train_epochs
    if arguments.max_steps > 0:
        rows_per_step = arguments.train_batch_size * arguments.gradient_accumulation_steps * arguments.world_size
        epochs = arguments.max_steps * rows_per_step / len(train)
    minutes = tokens * epochs / rate / 60 / arguments.world_size
    trainer.create_optimizer().step()
    trainer.prediction_step(model.eval(), evaluated, False)
    return (
        f"rows: {len(train):,} for training, {len(tuning.encoded['validation']):,} for validation\n"
        f"tokens: {tokens:,} per epoch, {learnt:,} of them learnt; the longest row has {longest:,}\n"
        f"memory: {_peak_memory() / 2**30:.1f} GiB at the peak\n"
        f"time: about {minutes:.0f} minutes for {epochs:.3g} epochs at {rate:,.0f} tokens per "
        "second, without evaluations"
    )


def _peak_memory() -> int:
    """Returns the largest memory that this process had, in bytes: on the accelerator, if there is one."""
    if torch.accelerator.is_available():
        return torch.accelerator.max_memory_allocated()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
