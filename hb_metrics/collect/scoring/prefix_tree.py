"""Combines token sequences into prefix trees, so that a causal model computes a shared beginning only once.

In a prefix tree, each node is a token, and sequences with the same beginning share its nodes. The model reads all nodes
of a tree together. A mask lets each node attend only to itself and its ancestors. The last token of a sequence is not
in the tree, because the model predicts it but does not read it.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class PrefixTree(NamedTuple):
    """One or more prefix trees that the model reads together. Parents come before their children.

    Attributes:
        tokens: [positions] The token of each node.
        depths: [positions] The node's position in its sequences, counted from 0.
        parents: [positions] The index of the node's parent, or −1 for a root.
        sequences: [sequences] The indices of the tree's sequences.
        nodes: [predictions] The node that predicts the next token of a sequence.
        targets: [predictions] The token to predict.
        owners: [predictions] The position in `sequences` of the sequence to which the token belongs.
    """

    tokens: np.ndarray
    depths: np.ndarray
    parents: np.ndarray
    sequences: np.ndarray
    nodes: np.ndarray
    targets: np.ndarray
    owners: np.ndarray

    def ancestor_mask(self) -> np.ndarray:
        """Returns whether each node (row) may attend to each node (column): [positions, positions].

        A node may attend to itself and its ancestors.
        """
        mask = np.eye(len(self.tokens), dtype=bool)
        for node, parent in enumerate(self.parents):
            if parent >= 0:
                mask[node] |= mask[parent]
        return mask


def pack_prefix_trees(sequences: Sequence[Sequence[int]], max_positions: int) -> list[PrefixTree]:
    """Combines token sequences into prefix trees with at most `max_positions` nodes each.

    Each sequence must have at least two tokens. A sequence that needs more than `max_positions` nodes gets its own
    tree.
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
