"""Estimates what tuning costs, without training."""

import time
from typing import TYPE_CHECKING, Any

from hb_train.training.encoding import IGNORED

if TYPE_CHECKING:
    import torch

    from hb_train.tuning.method import Tuning


def describe_cost(tuning: "Tuning", trainer: Any) -> str:
    """Describes the cost of training: rows, tokens, memory by a formula, and time at the rate of one batch."""
    arguments, train = tuning.training_args, tuning.encoded["train"].dataset
    labels = train["labels"]
    if isinstance(labels[0][0], list):  # a row is a group of sequences
        labels = [sequence for row in labels for sequence in row]
    tokens, learnt = sum(map(len, labels)), sum(label != IGNORED for sequence in labels for label in sequence)
    model = trainer.model.train()
    batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    for _ in range(2):  # the first step also warms up
        start = time.monotonic()
        trainer.compute_loss(model, batch).backward()
    rate = int(batch["attention_mask"].sum()) / (time.monotonic() - start)
    minutes = tokens * arguments.num_train_epochs / rate / 60 / arguments.world_size
    return (
        f"rows: {len(train):,} for training, {len(tuning.encoded['validation'].dataset):,} for validation\n"
        f"tokens: {tokens:,} per epoch, {learnt:,} of them learnt; the longest row has {max(map(len, labels)):,}\n"
        f"memory: about {_peak_memory(tuning, model, batch) / 2**30:.1f} GiB at the peak (by a formula)\n"
        f"time: about {minutes:.0f} minutes for {arguments.num_train_epochs:g} epochs at {rate:,.0f} tokens per "
        "second, without evaluations"
    )


def _peak_memory(tuning: "Tuning", model: Any, batch: "dict[str, torch.Tensor]") -> int:
    """Estimates the memory of a training step in bytes.

    The parts are: the weights (twice if there is an untuned copy), a gradient and two moments in float32 of each
    trained weight, activations, and six float32 arrays over the vocabulary at each learnt token. Per token, a layer
    keeps about 34 activations of 2 bytes per hidden unit (Korthikanti et al., 2022), or one if activations are
    recomputed.
    """
    config = tuning.loaded.config.get_text_config()
    is_copied = tuning.arguments.method == "counterfactual" and not tuning.model_args.use_peft
    weights = sum(weight.numel() * weight.element_size() for weight in model.parameters())
    trained = sum(weight.numel() for weight in model.parameters() if weight.requires_grad)
    layers, tokens = config.num_hidden_layers, batch["attention_mask"].numel()
    kept = layers * 2 + 34 if tuning.training_args.gradient_checkpointing else layers * 34
    learnt = int((batch["labels"] != IGNORED).sum())
    return (
        weights * (1 + is_copied)
        + trained * 12
        + tokens * config.hidden_size * kept * 2
        + learnt * config.vocab_size * 4 * 6
    )
