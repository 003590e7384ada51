"""The loss of LMD and the bias subspace of HD against the paper's equations; of batches, see test_method_losses.py."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_train.debiasing.hd import bias_subspace
from hb_train.debiasing.lmd import lmd_loss


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), number=st.integers(1, 6), num_pairs=st.integers(1, 9))
def test_lmd_is_the_papers_sum(seed, number, num_pairs):
    generator = torch.Generator().manual_seed(seed)
    # The first three terms are the first ones of pairs, the others second ones; terms are in several pairs.
    pairs = torch.randint(3, (num_pairs, 2), generator=generator) + torch.tensor([0, 3])
    known = pairs.unique()
    terms = known[torch.randint(len(known), (number,), generator=generator)]
    logits = torch.randn(number, 6, generator=generator, dtype=torch.float64)
    probabilities = logits.softmax(1)  # over the words of P alone
    for row, loss in enumerate(lmd_loss(logits, terms, pairs).tolist()):
        its = [pair for pair in pairs.tolist() if terms[row] in pair]
        ratios = [abs(math.log(probabilities[row, t1] / probabilities[row, t2])) for t1, t2 in its]
        assert loss == pytest.approx(sum(ratios) / len(its), rel=1e-9)


@pytest.mark.parametrize(
    ("lengths", "k"),
    [((1, 1), 1), ((1, 1, 1), 2), ((1, 1, 1, 1), 2), ((3, 2, 2), 1), ((1.01, 1, 1, 1, 1), 3), ((5,), 1)],
)
def test_the_subspace_is_the_smallest_that_explains_half(lengths, k):
    targets = torch.cat([torch.diag(torch.tensor(lengths, dtype=torch.float64)), torch.zeros(1, len(lengths))])
    pairs = torch.tensor([[index, len(lengths)] for index in range(len(lengths))])
    subspace = bias_subspace(targets, pairs)
    assert subspace.shape == (len(lengths), k)
    assert torch.allclose(subspace.T @ subspace, torch.eye(k, dtype=torch.float64))
