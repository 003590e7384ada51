"""Attribute distance debiasing (ADD) makes attributes equally close to both terms of a pair (section 4.2)."""

import torch
from torch.nn.functional import normalize

from hb_train.debiasing.arguments import DebiasArguments
from hb_train.debiasing.method import Loss, MarkedBatch, Method, OutputWeight
from hb_train.debiasing.phrases import ATTRIBUTES
from hb_train.debiasing.terms import Terms, span_means, target_vectors


def make_loss(terms: Terms, output_weight: OutputWeight, arguments: DebiasArguments) -> Loss:
    learned = arguments.target_vectors == "learned"

    def summed_loss(batch: MarkedBatch) -> torch.Tensor:
        weight = output_weight()
        targets = target_vectors(weight if learned else weight.detach(), terms)
        return add_loss(span_means(batch.vectors, batch.marks), targets, terms.pairs).sum()

    return summed_loss


METHOD = Method(marks=lambda arguments: ATTRIBUTES, make_loss=make_loss)


def add_loss(attributes: torch.Tensor, targets: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """Returns the loss of each occurrence of an attribute a: [occurrences] (eq. 3).

    The loss is the sum of |cos(t1, a) − cos(t2, a)| over all pairs of terms.

    Args:
        attributes: The inputs of the output layer at the attributes: [occurrences, hidden].
        targets: The terms' vectors in the output layer: [terms, hidden].
        pairs: The indices of the terms of each pair: [pairs, 2].
    """
    cosines = normalize(attributes, dim=1) @ normalize(targets, dim=1).T
    return (cosines[:, pairs[:, 0]] - cosines[:, pairs[:, 1]]).abs().sum(1)
