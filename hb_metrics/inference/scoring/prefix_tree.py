"""Packs token sequences into prefix trees, so that a model computes shared beginnings only once.

A causal model's state at a token depends only on the tokens before it. The model reads a tree's nodes as one sequence.
Each node attends only to its ancestors, at the position of its depth. The last token of a sequence is predicted but
never read, because nothing depends on it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class PrefixTree(NamedTuple):
    """One or more prefix trees that the model reads together. Parents come before their children.

    Attributes:
        tokens: [positions] The token of each node.
        depths: [positions] The node's position in its sequence, counted from 0.
        parents: [positions] The index of the node's parent, or −1 for a root.
        sequences: [sequences] The indices of the sequences that this tree contains.
        nodes: [predictions] The node that predicts a token of a sequence.
        targets: [predictions] The predicted token.
        owners: [predictions] The token's sequence, as an index into `sequences`.
    """

    tokens: np.ndarray
    depths: np.ndarray
    parents: np.ndarray
    sequences: np.ndarray
    nodes: np.ndarray
    targets: np.ndarray
    owners: np.ndarray

    def ancestor_mask(self) -> np.ndarray:
        """Marks the nodes to which each row's node may attend (its ancestors and itself): [positions, positions]."""
        mask = np.eye(len(self.tokens), dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                mask[node] |= mask[parent]
        return mask


def pack_prefix_trees(sequences: Sequence[Sequence[int]], max_positions: int) -> list[PrefixTree]:
    """Packs token sequences (of at least two tokens) into prefix trees of at most `max_positions` nodes.

    Sequences are sorted, so that those with a common prefix are neighbours, and then cut greedily into trees. A
    sequence with more nodes forms a tree by itself.
    """
    trees = []
    growing = _GrowingTree()
    for index in sorted(range(len(sequences)), key=lambda index: tuple(sequences[index])):
        sequence = sequences[index]
        if growing.tokens and len(growing.tokens) + growing.num_new(sequence) > max_positions:
            trees.append(growing.finish())
            growing = _GrowingTree()
        growing.add(index, sequence)
    if growing.tokens:
        trees.append(growing.finish())
    return trees


def halved_tree(tree: PrefixTree) -> tuple[PrefixTree, PrefixTree] | None:
    """Cuts a tree into two, with the first and the second half of its sequences. Returns `None` for one sequence."""
    middle = len(tree.sequences) // 2
    if not middle:
        return None
    halves = _GrowingTree(), _GrowingTree()
    for position, index in enumerate(tree.sequences):
        mine = tree.owners == position
        sequence = [*tree.tokens[tree.nodes[mine]].tolist(), int(tree.targets[mine][-1])]
        halves[position >= middle].add(int(index), sequence)
    return halves[0].finish(), halves[1].finish()


class _GrowingTree:
    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.depths: list[int] = []
        self.parents: list[int] = []
        self.sequences: list[int] = []
        self.nodes: list[int] = []
        self.targets: list[int] = []
        self.owners: list[int] = []
        self.path: list[int] = []  # the nodes of the latest sequence

    def _shared(self, sequence: Sequence[int]) -> int:
        fed = len(sequence) - 1
        for depth, node in enumerate(self.path):
            if depth == fed or self.tokens[node] != sequence[depth]:
                return depth
        return len(self.path)

    def num_new(self, sequence: Sequence[int]) -> int:
        return len(sequence) - 1 - self._shared(sequence)

    def add(self, index: int, sequence: Sequence[int]) -> None:
        shared = self._shared(sequence)
        path = self.path[:shared]
        for depth in range(shared, len(sequence) - 1):
            self.parents.append(path[-1] if path else -1)
            path.append(len(self.tokens))
            self.tokens.append(sequence[depth])
            self.depths.append(depth)
        self.path = path
        self.nodes += path
        self.targets += sequence[1:]
        self.owners += [len(self.sequences)] * len(path)
        self.sequences.append(index)

    def finish(self) -> PrefixTree:
        columns = (self.tokens, self.depths, self.parents, self.sequences, self.nodes, self.targets, self.owners)
        return PrefixTree(*(np.array(column, dtype=np.int64) for column in columns))
