"""Computes negative log-likelihoods of token sequences on prefix trees and in batches, and tests prefix trees.

Only a trial can show whether a model gives the same results on prefix trees as for each sequence alone. A fault may
appear only beyond some length, such as an attention window. The trial therefore includes the largest tree to be scored.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from hb_metrics.collect.scoring.prefix_tree import PrefixTree, halved_tree, pack_prefix_trees
from hb_metrics.collect.units import Unit
from hb_metrics.models.architecture import num_known_tokens
from hb_metrics.models.float32 import measured
from hb_metrics.models.memory import Memory, halved
from hb_metrics.models.processes import input_device

# The largest accepted relative difference between two scores of a sequence. The second number applies to models that do
# not run in float32.
_TOLERANCE, _LOW_PRECISION_TOLERANCE = 1e-4, 3e-2
_MOST_TRIED = 8  # the maximum number of a tree's sequences that a trial also scores alone
_LOGSUMEXP_ROWS = 64
SAME_ON_TREES = "in a trial, prefix trees had the same results as single sentences"
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

    def change() -> float:
        logits = model(input_ids=fed, attention_mask=torch.ones_like(fed), use_cache=False).logits[:, :kept].float()
        one, two = -logits.log_softmax(-1).gather(-1, targets[:, :, None]).sum((1, 2)).double()
        return float((one - two).abs() / one.abs())

    difference, in_float32 = measured(model, change)
    if difference > (_TOLERANCE if in_float32 else _LOW_PRECISION_TOLERANCE):
        raise ValueError(
            f"the model's prediction of a token depends on later tokens (they changed it by {difference:.1e} in a "
            "trial), so it is not a likelihood; if the model was trained to continue texts, set is_decoder to true in "
            "its config.json. Otherwise, pass a causal language model"
        )


def tree_fault(
    model: PreTrainedModel,
    sequences: Sequence[Sequence[int]],
    trees: Sequence[Unit],
    score: Callable[[Any], np.ndarray],
    score_alone: Callable[[Any], np.ndarray],
    max_positions: int,
) -> str | None:
    """Returns why the sequences cannot be scored on these trees, or `None`."""
    length = max(map(len, sequences))
    if length > max_positions:
        # A tree of such a text would need a large mask, and would share little with other texts.
        return f"a text is {length:,} tokens long, more than the {max_positions:,} that are scored at once"
    largest = max(trees, key=lambda unit: len(unit.payload.tokens))
    ordered = np.argsort([len(sequence) for sequence in sequences], kind="stable")
    unlike = ordered[[0, len(ordered) // 2, -1]]  # of very different lengths
    (tree,) = pack_prefix_trees([sequences[row] for row in unlike], 3 * length)
    tree = tree._replace(sequences=unlike[tree.sequences])

    def difference() -> float:
        differences = []
        for unit in (largest, Unit(tree.sequences, tree)):
            together = np.concatenate(Memory(halved_tree, "one text").run(score, unit.payload))
            for place in np.linspace(0, len(together) - 1, min(len(together), _MOST_TRIED)).astype(int):
                ((alone,),) = Memory(halved, "one text").run(score_alone, [sequences[unit.sequences[place]]])
                differences.append(abs(together[place] - alone) / max(abs(alone), 1))
        return float(np.max(differences))

    try:
        largest_difference, in_float32 = measured(model, difference)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - any error means that the model does not support prefix trees
        message = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
        return f"it rejects a 4-D mask with position ids ({message})"
    if not in_float32:
        return "it does not run in float32, so a trial would not distinguish wrong results from rounding errors"
    if not largest_difference <= _TOLERANCE:
        return (
            "in a trial, its results on prefix trees differed from its results on single sentences (by "
            f"{largest_difference:.1e})"
        )
    return None


def tree_nlls(model: PreTrainedModel, tree: PrefixTree, num_read: int = 1) -> np.ndarray:
    """Returns the summed negative log-likelihood of each sequence in a tree: [sequences] float64.

    The first `num_read` tokens of a sequence are not scored.
    """
    device, dtype = input_device(model), model.dtype
    mask = torch.zeros(1, 1, len(tree.tokens), len(tree.tokens), dtype=dtype)
    mask.masked_fill_(~torch.from_numpy(tree.ancestor_mask()), torch.finfo(dtype).min)
    scored = tree.depths[tree.nodes] >= num_read - 1
    kept, nodes = np.unique(tree.nodes[scored], return_inverse=True)
    # Most architectures compute logits only where they are needed, which saves up to a quarter of the time.
    can_choose = "logits_to_keep" in inspect.signature(model.forward).parameters
    logits = model(
        input_ids=torch.from_numpy(tree.tokens)[None].to(device),
        attention_mask=mask.to(device),
        position_ids=torch.from_numpy(tree.depths)[None].to(device),
        use_cache=False,
        **({"logits_to_keep": torch.from_numpy(kept).to(device)} if can_choose else {}),
    ).logits[0]
    if not can_choose:
        logits = logits[torch.from_numpy(kept).to(device)]
    nll = _token_nlls(logits, torch.from_numpy(nodes).to(device), torch.from_numpy(tree.targets[scored]).to(device))
    return np.bincount(tree.owners[scored], weights=nll, minlength=len(tree.sequences))


def batch_nlls(model: PreTrainedModel, sequences: Sequence[Sequence[int]], num_read: int = 1) -> np.ndarray:
    """Works like `tree_nlls`, but for sequences of equal length."""
    tokens = torch.tensor(sequences, device=input_device(model))
    logits = model(input_ids=tokens[:, :-1], use_cache=False).logits
    places = torch.arange(tokens[:, :-1].numel(), device=tokens.device).view(len(tokens), -1)
    nll = _token_nlls(logits.flatten(0, 1), places[:, num_read - 1 :].flatten(), tokens[:, num_read:].flatten())
    return nll.reshape(len(tokens), -1).sum(1)


def _token_nlls(logits: torch.Tensor, nodes: torch.Tensor, targets: torch.Tensor) -> np.ndarray:
    """Returns −log p(target) for each prediction: [predictions] float64.

    `nodes` are the rows of `logits` that predict the targets.
    """
    # Computed in slices, because a logsumexp over all rows would need a second array of the size of `logits`.
    normalisers = torch.cat([rows.float().logsumexp(-1) for rows in logits.split(_LOGSUMEXP_ROWS)])
    chosen = logits[nodes, targets].float()
    return (normalisers[nodes] - chosen).double().cpu().numpy()
