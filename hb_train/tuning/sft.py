"""Supervised fine-tuning on labelled replies, with or without their tags (Smith et al., 2022, section 4)."""

from collections.abc import Mapping
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
    from hb_metrics.models.loading import LoadedModel

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


def encode(
    rows: "Dataset", loaded: "LoadedModel", labels: Mapping[str, Any], with_tags: bool, max_length: int | None
) -> EncodedRows:
    return encode_rows(
        rows,
        loaded,
        context=labels["context"],
        suffix=labels["suffix"],
        with_tags=with_tags,
        max_length=max_length,
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
