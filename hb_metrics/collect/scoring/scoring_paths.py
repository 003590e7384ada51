"""Computes negative log-likelihoods of token sequences on prefix trees, and tests these trees.

In a prefix tree, each node is a token, and sequences with the same beginning share its nodes, so that a causal model
computes a shared beginning only once. The model reads all nodes of a tree together. A mask lets each node attend only
to itself and its ancestors. The last token of a sequence is not in the tree, because the model predicts it but does not
read it.

Only a trial can show whether a model gives the same results on prefix trees as for each sequence alone. A fault may
appear only beyond some length, such as an attention window. The trial therefore includes the largest tree to be scored.
"""

import inspect
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from transformers import PreTrainedModel

from hb_metrics.collect import units
from hb_metrics.collect.scoring.reply_scoring import Pair, reply_nlls
from hb_metrics.collect.units import ScoringPlan, ScoringUnit
from hb_metrics.models.architecture import num_known_tokens, num_shared
from hb_metrics.models.float32 import measured
from hb_metrics.models.memory import run_batch
from hb_metrics.models.processes import input_device

# The largest accepted relative difference between two scores of a sequence. The second number applies to models that do
# not run in float32.
_TOLERANCE, _LOW_PRECISION_TOLERANCE = 1e-4, 3e-2
_MOST_TRIED = 8  # the maximum number of a tree's sequences that a trial also scores alone
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

    def change() -> float:
        logits = model(input_ids=fed, attention_mask=torch.ones_like(fed), use_cache=False).logits[:, :kept].float()
        one, two = -logits.log_softmax(-1).gather(-1, targets[:, :, None]).sum((1, 2)).double()
        return float((one - two).abs() / one.abs())

    difference, in_float32 = measured(model, change)
    if difference > (_TOLERANCE if in_float32 else _LOW_PRECISION_TOLERANCE):
        raise ValueError(
            f"its predictions depend on later tokens (by {difference:.1e}); set is_decoder to true in its config"
        )


class PrefixTree(NamedTuple):
    """One or more prefix trees that the model reads together. Parents come before their children.

    Attributes:
        sequences: The tokens of each sequence.
        tokens: [positions] The token of each node.
        depths: [positions] The node's position in its sequences, counted from 0.
        parents: [positions] The index of the node's parent, or −1 for a root.
        nodes: [predictions] For each sequence in turn, the nodes that predict its second and all later tokens.
    """

    sequences: list[Sequence[int]]
    tokens: np.ndarray
    depths: np.ndarray
    parents: np.ndarray
    nodes: np.ndarray

    def ancestor_mask(self) -> np.ndarray:
        """Returns whether each node (row) may attend to each node (column): [positions, positions].

        A node may attend to itself and its ancestors.
        """
        mask = np.eye(len(self.tokens), dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                mask[node] |= mask[parent]
        return mask


def pack_prefix_trees(sequences: Sequence[Sequence[int]], max_positions: int) -> tuple[list[list[int]], list[int]]:
    """Groups token sequences into prefix trees with at most `max_positions` nodes each.

    Each sequence must have at least two tokens. A sequence that needs more than `max_positions` nodes gets its own
    tree.

    Returns:
        The row numbers of each tree's sequences, and the number of nodes of each tree.
    """
    groups: list[list[int]] = []
    sizes: list[int] = []
    for index in sorted(range(len(sequences)), key=lambda index: tuple(sequences[index])):
        fed = sequences[index][:-1]
        num_new = len(fed) - (num_shared([fed, sequences[groups[-1][-1]][:-1]]) if groups else 0)
        if not groups or sizes[-1] + num_new > max_positions:
            groups.append([])
            sizes.append(0)
            num_new = len(fed)
        groups[-1].append(index)
        sizes[-1] += num_new
    return groups, sizes


def grow_tree(sequences: list[Sequence[int]]) -> PrefixTree:
    tokens: list[int] = []
    depths: list[int] = []
    parents: list[int] = []
    nodes: list[int] = []
    path: list[int] = []  # the nodes of the latest sequence
    for sequence in sequences:
        fed = sequence[:-1]
        path = path[: num_shared([fed, [tokens[node] for node in path]])]
        for depth in range(len(path), len(fed)):
            parents.append(path[-1] if path else -1)
            path.append(len(tokens))
            tokens.append(fed[depth])
            depths.append(depth)
        nodes += path
    columns = (np.array(column, dtype=np.int64) for column in (tokens, depths, parents, nodes))
    return PrefixTree(sequences, *columns)


def on_trees(plan: ScoringPlan, model: PreTrainedModel, pairs: Sequence[Pair]) -> ScoringPlan:
    """Returns a plan that scores the same pairs of a context and its reply on prefix trees.

    If the model or the texts do not suit prefix trees, returns the given plan with the reason.
    """
    sequences = [(*context, *reply) for context, reply in pairs]
    num_read = np.array([len(context) for context, _ in pairs])

    def score(rows: list[int]) -> np.ndarray:
        return tree_nlls(model, grow_tree([sequences[row] for row in rows]), num_read[rows])

    longest, max_positions = max(map(len, sequences)), units.MAX_POSITIONS
    if longest > max_positions:
        # A tree of such a text would need a large mask, and would share little with other texts.
        reason = f"a text is {longest:,} tokens long, more than the {max_positions:,} that are scored at once"
        return replace(plan, scoring_reason=reason)
    groups, sizes = pack_prefix_trees(sequences, max_positions)
    largest = groups[int(np.argmax(sizes))]
    ordered = np.argsort([len(sequence) for sequence in sequences], kind="stable")
    of_different_lengths = ordered[[0, len(ordered) // 2, -1]].tolist()
    unlike = sorted(of_different_lengths, key=lambda row: tuple(sequences[row]))

    def difference() -> float:
        differences = []
        for rows in (largest, unlike):
            together = np.concatenate(run_batch(score, rows))
            for place in np.linspace(0, len(together) - 1, min(len(together), _MOST_TRIED)).astype(int):
                ((alone,),) = run_batch(partial(reply_nlls, model, prefix=[]), [pairs[rows[place]]])
                differences.append(abs(together[place] - alone) / max(abs(alone), 1))
        return float(np.max(differences))

    try:
        largest_difference, in_float32 = measured(model, difference)
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - any error means that the model does not support prefix trees
        message = ": ".join([type(error).__name__, *str(error).splitlines()[:1]])
        return replace(plan, scoring_reason=f"it rejects a 4-D mask with position ids ({message})")
    if not in_float32:
        reason = "it does not run in float32, so a trial would not distinguish wrong results from rounding errors"
        return replace(plan, scoring_reason=reason)
    if not largest_difference <= _TOLERANCE:
        reason = "in a trial, its results on prefix trees differed from its results on single sentences (by "
        return replace(plan, scoring_reason=f"{reason}{largest_difference:.1e})")
    return replace(
        plan,
        scoring="tree",
        scoring_reason="in a trial, prefix trees had the same results as single sentences",
        positions=sum(sizes),
        units=[ScoringUnit(np.array(group), group) for group in groups],
        score=score,
    )


def tree_nlls(model: PreTrainedModel, tree: PrefixTree, num_read: np.ndarray) -> np.ndarray:
    """Returns the summed negative log-likelihood of each sequence in a tree: [sequences] float64.

    The first `num_read` [sequences] tokens of a sequence are not scored.
    """
    owners = np.repeat(np.arange(len(tree.sequences)), [len(sequence) - 1 for sequence in tree.sequences])
    targets = np.concatenate([sequence[1:] for sequence in tree.sequences])
    device, dtype = input_device(model), model.dtype
    mask = torch.zeros(1, 1, len(tree.tokens), len(tree.tokens), dtype=dtype)
    mask.masked_fill_(~torch.from_numpy(tree.ancestor_mask()), torch.finfo(dtype).min)
    scored = tree.depths[tree.nodes] >= num_read[owners] - 1
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
    # Computed in slices, because a logsumexp over all rows would need a second array of the size of `logits`.
    normalisers = torch.cat([rows.float().logsumexp(-1) for rows in logits.split(_LOGSUMEXP_ROWS)])
    predicting, predicted = (torch.from_numpy(column).to(device) for column in (nodes, targets[scored]))
    nll = (normalisers[predicting] - logits[predicting, predicted].float()).double().cpu().numpy()
    return np.bincount(owners[scored], weights=nll, minlength=len(tree.sequences))
