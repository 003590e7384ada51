"""Language model debiasing (LMD) makes both terms of a pair equally likely wherever either occurs (section 4.1)."""

import torch

from hb_train.debiasing.arguments import DebiasArguments
from hb_train.debiasing.method import Loss, MarkedBatch, Method, OutputWeight
from hb_train.debiasing.phrases import TARGETS
from hb_train.debiasing.terms import Terms


def make_loss(terms: Terms, output_weight: OutputWeight, arguments: DebiasArguments) -> Loss:
    num_terms = terms.ids.shape[1]

    def summed_loss(batch: MarkedBatch) -> torch.Tensor:
        marks = batch.marks[:, 1:]
        marked = marks > 0
        form, term = (marks[marked] - 1) // num_terms, (marks[marked] - 1) % num_terms
        return lmd_loss(term_logits(batch.logits[marked], terms.ids[form]), term, terms.pairs).sum()

    return summed_loss


METHOD = Method(
    marks=lambda arguments: TARGETS,
    make_loss=make_loss,
    with_forms=True,
)


def lmd_loss(logits: torch.Tensor, terms: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """Returns the loss of each occurrence of a target term: [occurrences] (eq. 1).

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
