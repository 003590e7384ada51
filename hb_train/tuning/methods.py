"""The methods of bias tuning beside the paper's: which one is wanted, its rows, and its trainer."""

import argparse
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, get_args

from hb_train.tuning.labels import SPLITS

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import Trainer, TrainerCallback
    from trl import DPOConfig, KTOConfig, ModelConfig, SFTConfig

    from hb_metrics.inference.models.loading import LoadedModel
    from hb_train.training.encoding import EncodedRows

# torch, transformers and trl take seconds to import: not before they are needed.

Method = Literal["sft", "kto", "dpo", "distill"]
SFT, KTO, DPO, DISTILL = get_args(Method)
PREFERENCES = (KTO, DPO)


def given_method(words: Sequence[str], config: Mapping[str, Any]) -> str:
    """The method that a command line of `tune.py` names, or else its YAML file, before the other options are read."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--method")
    given, _ = parser.parse_known_args(list(words))
    return given.method or str(config.get("method", SFT))


def preference_rows(
    method: Method,
    training_args: "KTOConfig | DPOConfig",
    rows: Mapping[str, "Dataset"],
    encoded: Mapping[str, "EncodedRows"],
    suffix: str,
) -> tuple[dict[str, "Dataset"], dict[str, Any]]:
    """The rows of KTO or the pairs of DPO.

    Args:
        method: `"kto"` or `"dpo"`.
        training_args: TRL's options. A weight of undesirable replies that is `None` is set, so that both kinds of
            replies weigh the same in all.
        rows: The labelled rows of each split.
        encoded: The same rows as tokens, without tags.
        suffix: The text after the tag in every prompt.

    Returns:
        What the trainer takes, by split, and what is recorded of it.

    Raises:
        ValueError: The rows do not suit the method.
    """
    from hb_train.tuning.preferences import dpo_pairs, kto_rows, undesirable_weight

    if method == DPO:
        pairs = {name: dpo_pairs(rows[name], encoded[name].dataset, suffix, name) for name in SPLITS}
        return {name: pairs[name].dataset for name in SPLITS}, {
            "num_pairs": {name: len(pairs[name].dataset) for name in SPLITS},
            "num_prompts": {name: pairs[name].num_prompts for name in SPLITS},
            "num_unpaired_prompts": {name: pairs[name].num_unpaired for name in SPLITS},
        }
    labelled = {name: kto_rows(rows[name], encoded[name].dataset, name) for name in SPLITS}
    if training_args.undesirable_weight is None:
        training_args.undesirable_weight = undesirable_weight(
            labelled["train"]["label"], training_args.desirable_weight
        )
    # TRL takes the rows in the order they are in, because each goes with the one before it, which as they were labelled
    # is often of the same cell.
    seed = training_args.seed if training_args.data_seed is None else training_args.data_seed
    shuffled = {name: split.shuffle(seed=seed).flatten_indices() for name, split in labelled.items()}
    return shuffled, {name: getattr(training_args, name) for name in ("desirable_weight", "undesirable_weight")}


def preference_trainer(
    method: Method,
    training_args: "KTOConfig | DPOConfig",
    model_args: "ModelConfig",
    loaded: "LoadedModel",
    preferences: Mapping[str, "Dataset"],
    callbacks: "list[TrainerCallback]",
) -> "Trainer":
    """TRL's trainer of KTO or DPO, with the model as it is now for the reference.

    Args:
        method: `"kto"` or `"dpo"`.
        training_args: TRL's options; `max_length` is set to what the model takes.
        model_args: TRL's options of the model.
        loaded: The model.
        preferences: The rows by split, of `preference_rows`.
        callbacks: More of the trainer's callbacks.
    """
    from trl import get_peft_config

    from hb_train.training.encoding import length_limit
    from hb_train.training.trainers import ReplyDPOTrainer, ReplyKTOTrainer

    # Rows fit, but a context with the mismatched reply of another row may not; TRL cuts such a reply at its end.
    training_args.max_length = length_limit(loaded, training_args.max_length)
    # With LoRA the reference is the model without its adapter; with log-probabilities computed before, none is kept.
    needs_copy = not model_args.use_peft and not training_args.precompute_ref_log_probs
    trainer = ReplyKTOTrainer if method == KTO else ReplyDPOTrainer
    return trainer(
        model=loaded.model,
        ref_model=deepcopy(loaded.model) if needs_copy else None,
        args=training_args,
        train_dataset=preferences["train"],
        eval_dataset=preferences["validation"],
        processing_class=deepcopy(loaded.tokenizer),  # trainers set a padding token where there is none
        peft_config=get_peft_config(model_args),
        callbacks=callbacks,
    )


def distillation_trainer(
    training_args: "SFTConfig",
    model_args: "ModelConfig",
    loaded: "LoadedModel",
    encoded: Mapping[str, "EncodedRows"],
    callbacks: "list[TrainerCallback]",
) -> "Trainer":
    """The trainer of baseline distillation, with the model as it is now for the teacher.

    Args:
        training_args: TRL's options, of which those of transformers' trainer are used.
        model_args: TRL's options of the model.
        loaded: The model.
        encoded: The rows by split, of `distillation.encode_pairs`.
        callbacks: More of the trainer's callbacks.
    """
    from transformers import TrainingArguments
    from trl import get_peft_config

    from hb_train.training.trainers import BaselineDistillationTrainer, PairCollator

    model: Any = loaded.model
    if model_args.use_peft:
        from peft import get_peft_model

        if loaded.kind != "causal" and model_args.lora_task_type == "CAUSAL_LM":  # TRL's default
            model_args.lora_task_type = "SEQ_2_SEQ_LM"
        model = get_peft_model(model, get_peft_config(model_args))
    shared = {option.name for option in fields(TrainingArguments) if option.init}
    options = {
        option.name: getattr(training_args, option.name) for option in fields(training_args) if option.name in shared
    }
    tokenizer = deepcopy(loaded.tokenizer)
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return BaselineDistillationTrainer(
        model=model,
        # With LoRA the teacher is the model without its adapter.
        teacher=None if model_args.use_peft else deepcopy(loaded.model),
        is_causal=loaded.kind == "causal",
        args=TrainingArguments(**{**options, "remove_unused_columns": False, "label_names": ["labels"]}),
        data_collator=PairCollator(tokenizer),
        train_dataset=encoded["train"].dataset,
        eval_dataset=encoded["validation"].dataset,
        processing_class=tokenizer,
        callbacks=callbacks,
    )
