"""The debiasing losses of Barikeri et al. (2021, section 4)."""

import torch
from torch.nn.functional import normalize

EXPLAINED = 0.5  # the minimum share of the squared singular values that the bias subspace must explain (section 4.3)


def lmd_loss(logits: torch.Tensor, terms: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """Returns the language model debiasing loss of each occurrence of a target term: [occurrences] (eq. 1).

    The loss is the mean of |log ŷ_t1 / ŷ_t2| over the pairs that contain the term. The denominator of the paper's
    softmax cancels in this ratio, so the logarithm is the difference between two logits.

    Args:
        logits: The logits of all terms at the position that predicts the occurrence: [occurrences, terms].
        terms: The index of each occurring term: [occurrences].
        pairs: The indices of the terms of each pair: [pairs, 2].
    """
    gaps = (logits[:, pairs[:, 0]] - logits[:, pairs[:, 1]]).abs()
    in_pair = (pairs[None] == terms[:, None, None]).any(2).to(gaps.dtype)
    return (gaps * in_pair).sum(1) / in_pair.sum(1)


def term_logits(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    """Returns the logit of each term: [occurrences, terms].

    The logit is the mean over the term's sub-words, which is also the logit of their mean vector (footnote 12). `ids`
    contains the terms' tokens, padded with −1: [occurrences, terms, longest].
    """
    is_token = ids >= 0
    token_logits = logits.gather(1, ids.clamp(min=0).flatten(1)).view(ids.shape)
    return (token_logits * is_token).sum(2) / is_token.sum(2)


def add_loss(attributes: torch.Tensor, targets: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """Returns the attribute distance debiasing loss of each occurrence of an attribute a: [occurrences] (eq. 3).

    The loss is the sum of |cos(t1, a) − cos(t2, a)| over all pairs of terms.

    Args:
        attributes: The inputs of the output layer at the attributes: [occurrences, hidden].
        targets: The terms' vectors in the output layer: [terms, hidden].
        pairs: The indices of the terms of each pair: [pairs, 2].
    """
    cosines = normalize(attributes, dim=1) @ normalize(targets, dim=1).T
    return (cosines[:, pairs[:, 0]] - cosines[:, pairs[:, 1]]).abs().sum(1)


def hd_loss(attributes: torch.Tensor, targets: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """Returns the hard debiasing loss of each occurrence of an attribute a: [occurrences] (eq. 4).

    The loss is the sum of |⟨a, b⟩| over all bias directions b. Each b has length 1, so |⟨a, b⟩| is the length of the
    projection of a onto b. The arguments are those of `add_loss`.
    """
    return (attributes @ bias_subspace(targets, pairs)).abs().sum(1)


def bias_subspace(targets: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """Returns the directions in which paired terms differ most: [hidden, k] (section 4.3, step 1).

    `targets` contains the terms' vectors in the output layer. The directions are the first k right singular vectors of
    the halved differences between the two vectors of each pair. k is the smallest number of directions that explain at
    least half of the squared Frobenius norm.
    """
    differences = (targets[pairs[:, 0]] - targets[pairs[:, 1]]) / 2
    _, values, directions = torch.linalg.svd(differences, full_matrices=False)
    explained = values.square().cumsum(0)
    # The last sum is the whole norm. k is the lowest number of directions whose sum is at least half of the norm.
    k = int((explained < EXPLAINED * explained[-1]).sum()) + 1
    return directions[:k].T
