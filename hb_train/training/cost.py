"""Estimates what tuning costs, without training."""

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hb_train.tuning.method import Tuning


def describe_cost(tuning: "Tuning", trainer: Any) -> str:
    """Describes the cost of training: rows, tokens, memory by a formula, and time at the rate of one batch."""
    from hb_train.training.encoding import IGNORED

    arguments = tuning.training_args
    tokens, learnt, longest = _token_counts(tuning.encoded["train"].dataset)
    model, config = trainer.model, tuning.loaded.config.get_text_config()
    model.train()
    batch = trainer._prepare_inputs(next(iter(trainer.get_train_dataloader())))
    for _ in range(2):  # the first step also warms up
        start = time.monotonic()
        trainer.compute_loss(model, batch).backward()
    seconds = time.monotonic() - start
    num_batch = int(batch["attention_mask"].sum())
    minutes = tokens * arguments.num_train_epochs / (num_batch / seconds) / 60 / arguments.world_size
    memory = peak_memory(
        weights=sum(weight.numel() * weight.element_size() for weight in model.parameters()),
        trained=sum(weight.numel() for weight in model.parameters() if weight.requires_grad),
        is_copied=tuning.arguments.method == "counterfactual" and not tuning.model_args.use_peft,
        tokens=batch["attention_mask"].numel(),
        learnt=int((batch["labels"] != IGNORED).sum()),
        sizes=(config.num_hidden_layers, config.hidden_size, config.vocab_size),
        is_checkpointed=arguments.gradient_checkpointing,
    )
    return (
        f"rows: {len(tuning.encoded['train'].dataset):,} for training, {len(tuning.encoded['validation'].dataset):,} "
        f"for validation\ntokens: {tokens:,} per epoch, {learnt:,} of them learnt; the longest row has {longest:,}\n"
        f"memory: about {memory / 2**30:.1f} GiB at the peak (by a formula)\ntime: about {minutes:.0f} minutes for "
        f"{arguments.num_train_epochs:g} epochs at {num_batch / seconds:,.0f} tokens per second, without evaluations"
    )


def _token_counts(rows: Any) -> tuple[int, int, int]:
    """Returns the number of tokens, the number of learnt tokens, and the length of the longest sequence."""
    from hb_train.training.encoding import IGNORED

    nested = rows["labels"] if isinstance(rows["labels"][0][0], list) else [[labels] for labels in rows["labels"]]
    sequences = [labels for row in nested for labels in row]
    return (
        sum(map(len, sequences)),
        sum(label != IGNORED for labels in sequences for label in labels),
        max(map(len, sequences)),
    )


def peak_memory(
    *,
    weights: int,
    trained: int,
    is_copied: bool,
    tokens: int,
    learnt: int,
    sizes: tuple[int, int, int],
    is_checkpointed: bool,
) -> int:
    """Estimates the memory of a training step in bytes.

    The parts are: the weights (twice if there is an untuned copy), a gradient and two moments in float32 of each
    trained weight, activations, and six float32 arrays over the vocabulary at each learnt token. Per token, a layer
    keeps about 34 activations of 2 bytes per hidden unit (Korthikanti et al., 2022), or one if activations are
    recomputed.

    Args:
        weights: The size of the weights in bytes.
        trained: The number of trained weights.
        is_copied: Whether there is an untuned copy of the model.
        tokens: The number of tokens in a batch, with padding.
        learnt: The number of learnt tokens in a batch.
        sizes: The number of layers, the hidden size and the size of the vocabulary.
        is_checkpointed: Whether activations are recomputed in the backward pass.
    """
    layers, hidden, vocabulary = sizes
    kept = layers * 2 + 34 if is_checkpointed else layers * 34
    return weights * (2 if is_copied else 1) + trained * 12 + tokens * hidden * kept * 2 + learnt * vocabulary * 4 * 6
