"""The losses of three ways to debias a causal language model (Barikeri et al., 2021, sections 4.1–4.3, eq. 1, 3, 4).

Pure functions of tensors. Each gives one value for each occurrence of a term; what is learnt is their mean, weighted
beside the language modelling loss (eq. 2). Pairs are indices of terms: [pairs, 2], the minoritized group's term first.
"""

import torch
from torch.nn.functional import normalize

EXPLAINED = 0.5  # the share of the squared singular values that the bias subspace holds at least (section 4.3)

NO_DIRECTION_ERROR = "the vectors of both terms of each of the {number} pairs are equal, so there is no bias direction"


def lmd_loss(logits: torch.Tensor, terms: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """Language model debiasing: the paired terms should be equally likely wherever one of them stands (eq. 1).

    The paper's softmax over the terms of P alone cancels in the ratio of two of its probabilities: the logarithm of
    the ratio is the difference of the logits.

    Args:
        logits: [occurrences, terms] the terms' logits at the position that predicts the occurrence.
        terms: [occurrences] which term stands there; each is in at least one pair.
        pairs: [pairs, 2] the pairs P.

    Returns:
        [occurrences] the mean of |log ŷ_t1 / ŷ_t2| over the pairs that the term is in.
    """
    gaps = (logits[:, pairs[:, 0]] - logits[:, pairs[:, 1]]).abs()
    shared = (pairs[None] == terms[:, None, None]).any(2).to(gaps.dtype)
    return (gaps * shared).sum(1) / shared.sum(1)


def add_loss(attributes: torch.Tensor, targets: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """Attribute distance debiasing: an attribute should be as near to either term of a pair (eq. 3).

    Args:
        attributes: [occurrences, hidden] what the model makes of each attribute: the input of its output layer.
        targets: [terms, hidden] the terms' vectors in the output layer.
        pairs: [pairs, 2] the pairs P.

    Returns:
        [occurrences] the sum of |cos(t1, a) − cos(t2, a)| over all pairs.
    """
    cosines = normalize(attributes, dim=1) @ normalize(targets, dim=1).T
    return (cosines[:, pairs[:, 0]] - cosines[:, pairs[:, 1]]).abs().sum(1)


def bias_subspace(targets: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """The directions in which paired terms differ most (section 4.3, step 1).

    Args:
        targets: [terms, hidden] the terms' vectors in the output layer.
        pairs: [pairs, 2] the pairs P.

    Returns:
        [hidden, k] the first k right singular vectors of the halved differences, k being the smallest number that
        explains at least half of the squared Frobenius norm.

    Raises:
        ValueError: The terms of every pair have the same vector.
    """
    differences = (targets[pairs[:, 0]] - targets[pairs[:, 1]]) / 2
    _, values, directions = torch.linalg.svd(differences, full_matrices=False)
    explained = values.square().cumsum(0)
    if not explained[-1] > 0:
        raise ValueError(NO_DIRECTION_ERROR.format(number=len(pairs)))
    # The smallest k whose sum is not below the half; the last sum is the whole norm.
    k = int((explained < EXPLAINED * explained[-1]).sum()) + 1
    return directions[:k].T


def hd_loss(attributes: torch.Tensor, subspace: torch.Tensor) -> torch.Tensor:
    """Hard debiasing: an attribute should have no share in the bias directions (eq. 4).

    |b⟨a, b⟩| is the length of the projection on b, which is |⟨a, b⟩| as b has length 1.

    Args:
        attributes: [occurrences, hidden] what the model makes of each attribute: the input of its output layer.
        subspace: [hidden, k] orthonormal directions.

    Returns:
        [occurrences] the sum of the lengths over the directions.
    """
    return (attributes @ subspace).abs().sum(1)
