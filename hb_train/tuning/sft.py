"""Supervised fine-tuning on labelled replies, with or without their tags (Smith et al., 2022, section 4)."""

from typing import TYPE_CHECKING, Any

from peft import get_peft_model
from trl import get_peft_config

from hb_train.training.encoding import EncodedRows, collate, encode_rows
from hb_train.training.models import padding_tokenizer
from hb_train.training.trainers import ReplySeq2SeqTrainer, ReplySFTTrainer
from hb_train.tuning.method import Method, Tuning

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import Trainer


def make_trainer(tuning: Tuning) -> "Trainer":
    loaded, config = tuning.loaded, get_peft_config(tuning.model_args)
    shared: dict[str, Any] = {
        "args": tuning.training_args,
        "train_dataset": tuning.encoded["train"].dataset,
        "eval_dataset": tuning.encoded["validation"].dataset,
        "processing_class": padding_tokenizer(loaded),
        "callbacks": tuning.callbacks,
    }
    if loaded.kind == "causal":
        return ReplySFTTrainer(model=loaded.model, peft_config=config, **shared)
    model: Any = loaded.model
    if config is not None:
        config.task_type = "SEQ_2_SEQ_LM"  # TRL's default is for causal models
        model = get_peft_model(model, config)
    return ReplySeq2SeqTrainer(model=model, data_collator=collate, **shared)


def encode(tuning: Tuning, rows: "Dataset") -> EncodedRows:
    return encode_rows(
        rows,
        tuning.loaded,
        context=tuning.record.context,
        suffix=tuning.record.suffix,
        with_tags=tuning.arguments.tag() is not None,
        max_length=tuning.training_args.max_length,
    )


METHOD = Method(encode=encode, make_trainer=make_trainer, measure="perplexity")
