"""Estimates what tuning costs, without training."""

import re
import time
from typing import TYPE_CHECKING, Any

import torch

from hb_train.training.encoding import IGNORED

if TYPE_CHECKING:
    from trl import SFTConfig

    from hb_train.training.trainers import Batch
    from hb_train.tuning.methods import Tuning

# The number of float32 arrays over the vocabulary that a step has at the same time, such as logits, targets, losses and
# their gradients. For method counterfactual, processes on CPU needed 9 to 14.
VOCABULARY_ARRAYS = {"sft": 6, "counterfactual": 12}


def describe_cost(tuning: "Tuning", trainer: Any) -> str:
    """Describes the cost of training: rows, tokens, memory by a formula, and time at the rate of the largest batch."""
    arguments, train = tuning.training_args, tuning.encoded["train"].dataset
    labels = train["labels"]
    if isinstance(labels[0][0], list):  # a row is a group of sequences
        labels = [sequence for row in labels for sequence in row]
    tokens, learnt = sum(map(len, labels)), sum(label != IGNORED for sequence in labels for label in sequence)
    batch, evaluated = (
        max(loader, key=lambda batch: batch["attention_mask"].numel())
        for loader in (trainer.get_train_dataloader(), trainer.get_eval_dataloader())
    )
    model, batch = trainer.model.train(), trainer._prepare_inputs(batch)
    for _ in range(2):  # the first step also warms up
        start = time.monotonic()
        trainer.compute_loss(model, batch).backward()
    rate = int(batch["attention_mask"].sum()) / (time.monotonic() - start)
    minutes = tokens * arguments.num_train_epochs / rate / 60 / arguments.world_size
    method, is_adapter = tuning.arguments.method, tuning.model_args.use_peft
    memory = peak_memory(tuning.loaded.config, arguments, model, batch, evaluated, method, is_adapter=is_adapter)
    return (
        f"rows: {len(train):,} for training, {len(tuning.encoded['validation'].dataset):,} for validation\n"
        f"tokens: {tokens:,} per epoch, {learnt:,} of them learnt; the longest row has {max(map(len, labels)):,}\n"
        f"memory: about {memory / 2**30:.1f} GiB at the peak (by a formula), in addition to the libraries\n"
        f"time: about {minutes:.0f} minutes for {arguments.num_train_epochs:g} epochs at {rate:,.0f} tokens per "
        "second, without evaluations"
    )


def peak_memory(
    config: Any, settings: "SFTConfig", model: Any, batch: "Batch", evaluated: "Batch", method: str, *, is_adapter: bool
) -> int:
    """Estimates the peak memory of training and evaluation in bytes, for the largest batch of each.

    The parts are: all weights (twice if method counterfactual tunes without an adapter), a gradient and two moments of
    the optimiser for each trained weight, the activations of the training batch, and arrays over the vocabulary at each
    learnt token. Per token, a layer keeps 17 values per hidden unit and, in eager attention, 2.5 values per head and
    position (Korthikanti et al., 2022). Layers below the first trained one keep nothing. If activations are recomputed,
    each layer keeps one value per hidden unit, and one layer at a time keeps the others. Not included are libraries and
    memory that an allocator does not give back.
    """
    config = config.get_text_config()
    names = [name for name, weight in model.named_parameters() if weight.requires_grad]
    size = {weight: weight.numel() * weight.element_size() for weight in model.parameters()}
    trained = sum(number for weight, number in size.items() if weight.requires_grad)
    numbers = [int(match[1]) for name in names if (match := re.search(r"\.(\d+)\.", name))]
    layers = config.num_hidden_layers - min(numbers, default=0)
    rows, length = batch["attention_mask"].shape
    kept = 17 * config.hidden_size
    if config._attn_implementation == "eager":
        kept += int(2.5 * config.num_attention_heads * length)
    per_token = layers * config.hidden_size + kept if settings.gradient_checkpointing else layers * kept
    width = 2 if settings.bf16 or settings.fp16 else torch.finfo(model.dtype).bits // 8
    training, evaluation = (
        int((each["labels"] != IGNORED).sum()) * config.vocab_size * 4 * VOCABULARY_ARRAYS[method]
        for each in (batch, evaluated)
    )
    activations = rows * length * per_token * width
    num_models = 2 if method == "counterfactual" and not is_adapter else 1
    return sum(size.values()) * num_models + trained * 3 + max(training + activations, evaluation)
