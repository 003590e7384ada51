"""Supervised fine-tuning on labelled replies, with or without their tags (Smith et al., 2022, section 4)."""

from typing import TYPE_CHECKING, Any

from transformers import Seq2SeqTrainingArguments
from trl import get_peft_config

from hb_train.training.encoding import EncodedRows, collate, encode_rows
from hb_train.training.models import model_to_train, padding_tokenizer, plain_options
from hb_train.training.trainers import ReplySeq2SeqTrainer, ReplySFTTrainer
from hb_train.tuning.method import Method, Tuning

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import Trainer


def make_trainer(tuning: Tuning) -> "Trainer":
    loaded, tokenizer = tuning.loaded, padding_tokenizer(tuning.loaded)
    shared: dict[str, Any] = {
        "train_dataset": tuning.encoded["train"].dataset,
        "eval_dataset": tuning.encoded["validation"].dataset,
        "processing_class": tokenizer,
        "callbacks": tuning.callbacks,
    }
    if loaded.kind == "causal":
        peft_config = get_peft_config(tuning.model_args)
        return ReplySFTTrainer(model=loaded.model, args=tuning.training_args, peft_config=peft_config, **shared)
    return ReplySeq2SeqTrainer(
        model=model_to_train(tuning.model_args, loaded),
        args=plain_options(tuning.training_args, Seq2SeqTrainingArguments),
        data_collator=collate,
        **shared,
    )


def encode(tuning: Tuning, rows: "Dataset") -> EncodedRows:
    return encode_rows(
        rows,
        tuning.loaded,
        context=tuning.record["context"],
        suffix=tuning.record["suffix"],
        with_tags=tuning.arguments.tag() is not None,
        max_length=tuning.training_args.max_length,
    )


METHOD = Method(encode=encode, make_trainer=make_trainer, measure="perplexity")
