"""Computes negative log-likelihoods of token sequences by several methods, and tests which methods a model supports.

The methods are prefix trees and padded batches. Only a trial on a few sequences shows whether a model supports one.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from hb_metrics.inference.devices import input_device
from hb_metrics.inference.memory import Memory, halved
from hb_metrics.inference.models.architecture import attention_window, num_known_tokens
from hb_metrics.inference.models.quantization import is_exact
from hb_metrics.inference.scoring.prefix_tree import PrefixTree, halved_tree, pack_prefix_trees
from hb_metrics.inference.units import Unit, length_sorted_batches, right_padded

# The largest accepted relative difference between a method's score for a sequence and the sequence's score when it is
# processed alone.
_TOLERANCE = 1e-4
# In half precision, the difference for prefix trees may be this many times as large as the difference for padded
# batches.
_TIMES_NOISE = 3
_LOW_PRECISION_TOLERANCE = 3e-2
_TRIAL_SEQUENCES = 4
_LOGSUMEXP_ROWS = 64
_CAUSAL_TRIAL_TOKENS = 64


def check_causal(model: PreTrainedModel, sequences: Sequence[Sequence[int]]) -> None:
    """Raises `ValueError` if a model's predictions depend on later tokens.

    For some architectures, transformers silently loads a non-causal model if the config lacks `is_decoder`.
    """
    tokens = list(max(sequences, key=len)[:_CAUSAL_TRIAL_TOKENS])
    if len(tokens) < 2:
        return
    size = num_known_tokens(model)
    kept = len(tokens) // 2
    other = [*tokens[:kept], *((token + 1) % size for token in tokens[kept:])]
    fed = torch.tensor([tokens, other], device=input_device(model))
    targets = fed[:1, 1 : kept + 1].expand(2, -1)
    with torch.inference_mode():
        logits = model(input_ids=fed, attention_mask=torch.ones_like(fed), use_cache=False).logits[:, :kept].float()
    one, two = -logits.log_softmax(-1).gather(-1, targets[:, :, None]).sum((1, 2)).double()
    difference = float((one - two).abs() / one.abs())
    if difference > _tolerance(model):
        raise ValueError(
            f"the model's prediction of a token depends on later tokens (they changed it by {difference:.1e} in a "
            "trial), so it is not a likelihood; if the model was trained to continue texts, set is_decoder to true in "
            "its config.json. Otherwise, pass a causal language model"
        )


def tree_fault(model: PreTrainedModel, sequences: Sequence[Sequence[int]], max_positions: int) -> str | None:
    longest = sorted(sequences, key=lambda sequence: (-len(sequence), sequence))[: _TRIAL_SEQUENCES // 2]
    length = len(longest[0])
    if length > max_positions:
        # A tree of such a text would need a large mask, and would share little with other texts.
        return f"a text is {length:,} tokens long, more than the {max_positions:,} that are scored at once"
    step = max(1, len(sequences) // (_TRIAL_SEQUENCES // 2))
    low_precision = not is_exact(model)
    if low_precision and (fault := _layer_fault(model, length)):
        return fault
    # Sequences with reversed tokens are added, so that the tree has branches that begin early.
    trial = [*longest, *sequences[::step][: _TRIAL_SEQUENCES // 2]]
    trial += [(sequence[0], *reversed(sequence[1:])) for sequence in trial]
    limit = max(max_positions, 2 * length)  # at least two sequences, so that there are branches
    score = partial(padded_nlls, model)
    alone = _tried(score, [Unit(np.array([row]), [sequence]) for row, sequence in enumerate(trial)], halved, len(trial))
    if not np.isfinite(alone).all():
        return None  # the scoring itself raises an error that names the text
    try:
        trees = [Unit(tree.sequences, tree) for tree in pack_prefix_trees(trial, limit)]
        on_trees = _tried(partial(tree_nlls, model), trees, halved_tree, len(trial))
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - any error means that the model does not support prefix trees
        message = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
        return f"it rejects a 4-D mask with position ids ({message})"
    tolerance = _TOLERANCE
    if low_precision:
        padded = _tried(score, padded_units(trial, limit)[0], halved, len(trial))
        tolerance = max(_TIMES_NOISE * _difference(padded, alone), torch.finfo(model.dtype).eps)
    difference = _difference(on_trees, alone)
    if not difference <= tolerance:
        return (
            "in a trial, its results on prefix trees differed from its results on single sentences (by "
            f"{difference:.1e})"
        )
    return None


def _tolerance(model: PreTrainedModel) -> float:
    return _TOLERANCE if is_exact(model) else _LOW_PRECISION_TOLERANCE


def _difference(nlls: np.ndarray, expected: np.ndarray) -> float:
    return float(np.max(np.abs(nlls - expected) / np.abs(expected)))


def _layer_fault(model: PreTrainedModel, length: int) -> str | None:
    """Returns why the model's layers do not support prefix trees of texts with `length` tokens, or `None`.

    The check reads the model's config. In half precision, a trial could miss the fault because of rounding errors.
    """
    config = model.config.get_text_config(decoder=True)
    types = [name for name in getattr(config, "layer_types", None) or () if name not in ("moe", "mlp")]
    if getattr(model, "_is_stateful", False) or any("attention" not in name or "linear" in name for name in types):
        return "its layers are recurrent, so they would read a tree as one long text"
    window = attention_window(model)
    if (
        window is not None
        and window < length
        and (not types or any("sliding" in name or "chunked" in name for name in types))
    ):
        return f"its attention covers only {window:,} tokens, but a text has {length:,} tokens"
    return None


def tree_nlls(model: PreTrainedModel, tree: PrefixTree, num_read: int = 1) -> np.ndarray:
    """Returns the summed negative log-likelihood of each sequence in a tree: [sequences] float64.

    The first `num_read` tokens of a sequence are not scored.
    """
    device, dtype = input_device(model), model.dtype
    mask = torch.zeros(1, 1, len(tree.tokens), len(tree.tokens), dtype=dtype)
    mask.masked_fill_(~torch.from_numpy(tree.ancestor_mask()), torch.finfo(dtype).min)
    logits = model(
        input_ids=torch.from_numpy(tree.tokens)[None].to(device),
        attention_mask=mask.to(device),
        position_ids=torch.from_numpy(tree.depths)[None].to(device),
        use_cache=False,
    ).logits[0]
    nll = _token_nlls(logits, torch.from_numpy(tree.nodes).to(device), torch.from_numpy(tree.targets).to(device))
    scored = tree.depths[tree.nodes] >= num_read - 1
    return np.bincount(tree.owners[scored], weights=nll[scored], minlength=len(tree.sequences))


def padded_nlls(model: PreTrainedModel, sequences: Sequence[Sequence[int]], num_read: int = 1) -> np.ndarray:
    """Works like `tree_nlls`, but in one padded batch."""
    tokens, mask = right_padded([sequence[:-1] for sequence in sequences], input_device(model))
    logits = model(input_ids=tokens, attention_mask=mask, use_cache=False).logits
    mask[:, : num_read - 1] = 0
    rows, positions = mask.nonzero(as_tuple=True)
    targets = torch.tensor([token for sequence in sequences for token in sequence[num_read:]])
    nll = _token_nlls(logits.flatten(0, 1), rows * mask.shape[1] + positions, targets.to(mask.device))
    return np.bincount(rows.cpu().numpy(), weights=nll, minlength=len(sequences))


def padded_units(sequences: Sequence[Sequence[int]], max_positions: int) -> tuple[list[Unit], int]:
    batches = length_sorted_batches([len(sequence) - 1 for sequence in sequences], max_positions)
    units = [Unit(batch, [sequences[row] for row in batch]) for batch in batches]
    return units, sum(len(unit.payload) * (len(unit.payload[-1]) - 1) for unit in units)


def padding_changes(
    score: Callable[[Any], np.ndarray],
    payloads: Sequence[Any],
    model: PreTrainedModel,
    *,
    length: Callable[[Any], int] = len,
) -> bool:
    """Returns whether padding changes the scores of sequences, as in ProphetNet, ConvBERT and FNet.

    The trial scores three sequences (the shortest, one of medium length and the longest) together and separately.
    """
    ordered = sorted(payloads, key=length)
    trial = [ordered[0], ordered[len(ordered) // 2], ordered[-1]]
    together = _tried(score, [Unit(np.arange(3), trial)], halved, 3)
    alone = _tried(score, [Unit(np.array([row]), [sequence]) for row, sequence in enumerate(trial)], halved, 3)
    return _difference(together, alone) > _tolerance(model)


def _token_nlls(logits: torch.Tensor, nodes: torch.Tensor, targets: torch.Tensor) -> np.ndarray:
    """Returns −log p(target) for each prediction: [predictions] float64.

    `nodes` are the rows of `logits` that predict the targets.
    """
    # Computed in slices, because a logsumexp over all rows would need a second array of the size of `logits`.
    normalisers = torch.cat([rows.float().logsumexp(-1) for rows in logits.split(_LOGSUMEXP_ROWS)])
    chosen = logits[nodes, targets].float()
    return (normalisers[nodes] - chosen).double().cpu().numpy()


def _tried(
    score: Callable[[Any], np.ndarray], units: Sequence[Unit], halve: Callable[[Any], Any], number: int
) -> np.ndarray:
    nll = np.empty(number)
    for unit in units:
        nll[unit.sequences] = np.concatenate(Memory(halve, "one text").run(score, unit.payload))
    return nll
