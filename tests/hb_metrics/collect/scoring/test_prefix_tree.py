from hypothesis import given, settings
from hypothesis import strategies as st

from hb_metrics.collect.scoring.prefix_tree import pack_prefix_trees

# Few tokens and short sequences: duplicates, and sequences that are prefixes of one another, come up all the time.
token_sequences = st.lists(st.lists(st.integers(0, 3), min_size=2, max_size=6), min_size=1, max_size=30)


@given(token_sequences, st.integers(1, 40))
@settings(max_examples=100)
def test_trees_fit_the_limit_with_one_node_a_prefix(sequences, max_positions):
    for tree in pack_prefix_trees(sequences, max_positions):
        mine = [sequences[index] for index in tree.sequences]
        prefixes = {tuple(sequence[:end]) for sequence in mine for end in range(1, len(sequence))}
        assert len(tree.tokens) == len(prefixes) <= max(max_positions, *(len(sequence) - 1 for sequence in mine))


def test_packing_does_not_depend_on_the_order_of_the_sequences():
    sequences = [(0, 1, 2), (0, 1, 3), (0, 2, 2, 2), (1, 1)]
    first = pack_prefix_trees(sequences, 3)
    again = pack_prefix_trees(sequences[::-1], 3)
    assert [tree.tokens.tolist() for tree in first] == [tree.tokens.tolist() for tree in again]
