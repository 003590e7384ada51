"""The losses against the paper's equations by hand and by loops, their gradients against finite differences."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hb_train.debiasing.add import add_loss
from hb_train.debiasing.hd import bias_subspace, hd_loss
from hb_train.debiasing.lmd import lmd_loss


def random_case(seed, num_occurrences=5, num_terms=6, num_pairs=4, hidden=7):
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    # Each term of the first half is the first of a pair, the others second ones; terms are in several pairs.
    half = num_terms // 2
    first = torch.randint(half, (num_pairs,), generator=generator)
    second = half + torch.randint(half, (num_pairs,), generator=generator)
    pairs = torch.stack([first, second], 1)
    known = pairs.unique()
    terms = known[torch.randint(len(known), (num_occurrences,), generator=generator)]
    return normal(num_occurrences, num_terms), terms, pairs, normal(num_occurrences, hidden), normal(num_terms, hidden)


@settings(max_examples=50)
@given(seed=st.integers(0, 10**6), number=st.integers(1, 6), num_pairs=st.integers(1, 9))
def test_losses_are_the_papers_sums(seed, number, num_pairs):
    logits, terms, pairs, attributes, targets = random_case(seed, number, num_pairs=num_pairs)
    probabilities = logits.softmax(1)  # over the words of P alone
    for row, loss in enumerate(lmd_loss(logits, terms, pairs).tolist()):
        its = [pair for pair in pairs.tolist() if terms[row] in pair]
        ratios = [abs(math.log(probabilities[row, t1] / probabilities[row, t2])) for t1, t2 in its]
        assert loss == pytest.approx(sum(ratios) / len(its), rel=1e-9)

    def cosine(one, other):
        return float(one @ other / np.sqrt((one @ one) * (other @ other)))

    vectors = targets.numpy()
    for a, loss in zip(attributes.numpy(), add_loss(attributes, targets, pairs).tolist(), strict=True):
        expected = sum(abs(cosine(vectors[t1], a) - cosine(vectors[t2], a)) for t1, t2 in pairs.tolist())
        assert loss == pytest.approx(expected, rel=1e-9)

    matrix = np.stack([(vectors[t1] - vectors[t2]) / 2 for t1, t2 in pairs.tolist()])
    # The eigenvectors of CᵀC, another way to C's right singular vectors.
    values, directions = np.linalg.eigh(matrix.T @ matrix)
    values, directions = values[::-1], directions[:, ::-1]
    k = next(k for k in range(1, len(values) + 1) if values[:k].sum() >= 0.5 * (matrix**2).sum())
    for a, loss in zip(attributes.numpy(), hd_loss(attributes, bias_subspace(targets, pairs)).tolist(), strict=True):
        expected = sum(np.linalg.norm(b * (a @ b)) for b in directions[:, :k].T)
        assert loss == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("lengths", "k"),
    [((1, 1), 1), ((1, 1, 1), 2), ((1, 1, 1, 1), 2), ((9, 1, 1), 1), ((1.01, 1, 1, 1, 1), 3), ((5,), 1)],
)
def test_the_subspace_is_the_smallest_that_explains_half(lengths, k):
    targets = torch.cat([torch.diag(torch.tensor(lengths, dtype=torch.float64)), torch.zeros(1, len(lengths))])
    pairs = torch.tensor([[index, len(lengths)] for index in range(len(lengths))])
    subspace = bias_subspace(targets, pairs)
    assert subspace.shape == (len(lengths), k)
    assert torch.allclose(subspace.T @ subspace, torch.eye(k, dtype=torch.float64))
