import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_metrics.inference.scoring.prefix_tree import pack_prefix_trees

# Few tokens and short sequences: duplicates, and sequences that are prefixes of one another, come up all the time.
token_sequences = st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=6), min_size=1, max_size=30)


def path_of(tree, node):
    path = []
    while node >= 0:
        path.append(int(tree.tokens[node]))
        node = tree.parents[node]
    return path[::-1]


@given(token_sequences, st.integers(1, 40))
@settings(max_examples=100)
def test_each_token_is_predicted_from_those_before_it(sequences, max_positions):
    trees = pack_prefix_trees(sequences, max_positions)

    assert sorted(np.concatenate([tree.sequences for tree in trees])) == list(range(len(sequences)))
    for tree in trees:
        for place, index in enumerate(tree.sequences):
            mine = tree.owners == place
            found = [
                (path_of(tree, node), target) for node, target in zip(tree.nodes[mine], tree.targets[mine], strict=True)
            ]
            sequence = sequences[index]
            assert found == [(sequence[:end], sequence[end]) for end in range(1, len(sequence))]


@given(token_sequences, st.integers(1, 40))
@settings(max_examples=100)
def test_a_node_attends_to_itself_and_its_ancestors(sequences, max_positions):
    for tree in pack_prefix_trees(sequences, max_positions):
        mask = tree.ancestor_mask()
        for node in range(len(tree.tokens)):
            ancestors, at = set(), node
            while at >= 0:
                ancestors.add(at)
                at = tree.parents[at]
            assert set(np.flatnonzero(mask[node])) == ancestors
            assert tree.depths[node] == len(ancestors) - 1
            assert tree.parents[node] < node


@given(token_sequences)
@settings(max_examples=100)
def test_one_tree_has_one_node_for_each_distinct_prefix(sequences):
    (tree,) = pack_prefix_trees(sequences, max_positions=10_000)
    prefixes = {tuple(sequence[:end]) for sequence in sequences for end in range(1, len(sequence))}
    assert len(tree.tokens) == len(prefixes)


@given(token_sequences, st.integers(1, 40))
@settings(max_examples=100)
def test_trees_stay_below_the_limit(sequences, max_positions):
    for tree in pack_prefix_trees(sequences, max_positions):
        longest = max(len(sequences[index]) - 1 for index in tree.sequences)
        assert len(tree.tokens) <= max(max_positions, longest)


def test_packing_does_not_depend_on_the_order_of_the_sequences():
    sequences = [(0, 1, 2), (0, 1, 3), (0, 2, 2, 2), (1, 1)]
    first = pack_prefix_trees(sequences, 3)
    again = pack_prefix_trees(sequences[::-1], 3)
    assert [tree.tokens.tolist() for tree in first] == [tree.tokens.tolist() for tree in again]
