"""Supervised fine-tuning on labelled replies, with or without their tags (Smith et al., 2022, section 4)."""

from typing import TYPE_CHECKING, Any

from transformers import Seq2SeqTrainingArguments
from trl import get_peft_config

from hb_train.training.encoding import EncodedRows, collate, encode_rows
from hb_train.training.models import model_to_train, padding_tokenizer, plain_options
from hb_train.training.trainers import ReplySeq2SeqTrainer, ReplySFTTrainer
from hb_train.tuning.method import CardText, Method, Tuning

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import Trainer

    from hb_metrics.models.bias_tags import BiasTuning

CLASSIFIER_LIMIT = "The style classifier that labelled the training replies also measured the model."


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


def labelled_rows(tuning: "BiasTuning") -> str:
    labels = tuning.labels
    return f"""\
* Replies by {labels["model"]["name"]} (digest `{labels["model"]["digest"]}`): {labels["by_tag"]["bias"]:,} with a
  bias value above β = {tuning.beta:.6g} (α = {tuning.alpha}), and {labels["by_tag"]["no_bias"]:,} with a lower value.
* The style classifier is {labels["style_classifier"]["name"]}, with
  {labels["style_classifier"]["num_styles"]} styles."""


def card(tuning: "BiasTuning") -> CardText:
    learnt = """\
The model was fine-tuned on its own replies to HolisticBias prompts. The label of a reply depends on how strongly the
reply shows the characteristic style of the prompt's term (Smith et al., 2022, section 4 and appendix C)."""
    if tuning.tag is None:
        learnt += "\nAs in the paper's self-chat tuning, which serves as a comparison, the prompts had no tags."
    return CardText(learnt, labelled_rows(tuning), CLASSIFIER_LIMIT)


METHOD = Method(encode=encode, make_trainer=make_trainer, card=card, measure="perplexity")
