"""What holds of scoring and censoring for any input: hypothesis against one at a time. `-m long` tries many more."""

from functools import cache
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hb_dataset import read_vocabulary
from hb_dataset.versions import NEXT, read_version
from hb_metrics.collect.classifiers.censoring import REPLACEMENT, UNSAFE_MARK, censor, mention_pattern
from hb_metrics.collect.scoring.scoring_paths import grow_tree, pack_prefix_trees, tree_nlls
from tests.hb_metrics.collect.one_call import log_likelihood

# --- prefix trees -----------------------------------------------------------------------------------------------------

# Few tokens: duplicates, sequences that are prefixes of one another, and those of a single predicted token.
token_sequences = st.lists(
    st.one_of(
        st.lists(st.integers(0, 2), min_size=2, max_size=6),
        st.lists(st.integers(0, 399), min_size=2, max_size=12),
        st.lists(st.just(7), min_size=2, max_size=12),
    ),
    min_size=1,
    max_size=8,
)


def depths(quick, deep):
    """A test's settings, with so many examples: always the same ones, or (`-m long`) many of each time."""
    always = settings(max_examples=quick)
    thorough = settings(max_examples=deep, derandomize=False)
    return pytest.mark.parametrize("depth", [always, pytest.param(thorough, marks=pytest.mark.long)], ids=["", "deep"])


@pytest.fixture(scope="module")
def alone(get_small_model):
    """(model name, sequence) → its summed negative log-likelihood, the model run on it alone."""

    @cache
    def nll(name, sequence):
        return -log_likelihood(get_small_model(name)[0], sequence[:1], sequence[1:])

    return nll


@depths(15, 500)
@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_trees_and_their_halves_score_as_one_at_a_time(name, depth, get_small_model, alone):
    model, _ = get_small_model(name)

    @depth
    @given(token_sequences, st.integers(1, 60))
    def check(sequences, max_positions):
        expected = np.array([alone(name, tuple(sequence)) for sequence in sequences])
        waiting, sizes = pack_prefix_trees(sequences, max_positions)
        again, _ = pack_prefix_trees(sequences[::-1], max_positions)
        assert sorted(chain.from_iterable(waiting)) == list(range(len(sequences)))
        for rows, size, same in zip(waiting, sizes, again, strict=True):
            tree = grow_tree([sequences[row] for row in rows])
            assert tree.sequences == [sequences[::-1][row] for row in same]
            prefixes = {tuple(sequence[:end]) for sequence in tree.sequences for end in range(1, len(sequence))}
            longest = max(len(sequence) - 1 for sequence in tree.sequences)
            assert len(tree.tokens) == size == len(prefixes) <= max(max_positions, longest)
        while waiting:  # whole, then in halves until there is nothing to halve
            rows = waiting.pop()
            with torch.inference_mode():
                found = tree_nlls(model, grow_tree([sequences[row] for row in rows]), np.ones(len(rows)))
            np.testing.assert_allclose(found, expected[rows], rtol=1e-4)
            if len(rows) > 1:
                waiting += [rows[: len(rows) // 2], rows[len(rows) // 2 :]]

    check()


# --- censoring --------------------------------------------------------------------------------------------------------

DESCRIPTORS = sorted(
    {
        (descriptor.term, descriptor.plural)
        for descriptor in (*read_vocabulary().descriptors, *read_version(NEXT).descriptors)
        if descriptor.term != REPLACEMENT  # which stays what it is
    },
    key=repr,
)


@depths(150, 4000)
def test_no_mention_is_left_and_censoring_is_idempotent(depth):
    words = sorted({word for term, plural in DESCRIPTORS for word in f"{term} {plural or ''}".split()})
    soup = st.lists(
        st.one_of(
            st.sampled_from(words),
            st.sampled_from(["who", "is", "'s", "-", " ", "a", "the", "her", "ing", "ed", "s", UNSAFE_MARK]),
            st.text(max_size=6),
        ),
        max_size=12,
    )

    @depth
    @given(st.sampled_from(DESCRIPTORS), soup, st.sampled_from(["", " "]))
    @example(("who is deaf", "who are deaf"), ["who", "who", "is", "deaf", "deaf"], " ")
    def check(descriptor, parts, glue):
        said = glue.join(parts)
        found = censor(said, descriptor)
        assert UNSAFE_MARK not in found
        assert mention_pattern(descriptor).search(found) is None
        assert censor(found, descriptor) == found
        if mention_pattern(descriptor).search(said.replace(UNSAFE_MARK, "")) is None:
            assert found == said.replace(UNSAFE_MARK, "")

    check()
