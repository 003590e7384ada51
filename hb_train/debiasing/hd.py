"""Hard debiasing (HD) makes attributes orthogonal to the directions in which paired terms differ (section 4.3).

The paper changes the hidden state at an attribute. In a causal model, this state predicts only the word after the
attribute. The bias measure, however, depends on the probabilities of the target term and all words after it. With
values of `--neutralized_states` other than the default, the states that predict these words are changed.
"""

import torch

from hb_train.debiasing.arguments import DebiasArguments
from hb_train.debiasing.method import Loss, MarkedBatch, Method, OutputWeight
from hb_train.debiasing.phrases import ATTRIBUTES
from hb_train.debiasing.terms import Terms, span_means, target_vectors

EXPLAINED = 0.5  # the minimum share of the squared singular values that the bias subspace must explain (section 4.3)


def make_loss(terms: Terms, output_weight: OutputWeight, arguments: DebiasArguments) -> Loss:
    """Makes the loss. The bias directions are computed anew at each step, but they are not trained."""

    def summed_loss(batch: MarkedBatch) -> torch.Tensor:
        with torch.no_grad():
            subspace = bias_subspace(target_vectors(output_weight(), terms), terms.pairs)
        if arguments.neutralized_states == ATTRIBUTES:
            states = span_means(batch.vectors, batch.marks)
        else:
            states = batch.vectors[:, :-1][batch.marks[:, 1:] > 0]  # the state before a token predicts the token
        return hd_loss(states, subspace).sum()

    return summed_loss


METHOD = Method(
    marks=lambda arguments: arguments.neutralized_states,
    make_loss=make_loss,
)


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


def hd_loss(states: torch.Tensor, subspace: torch.Tensor) -> torch.Tensor:
    """Returns the loss of each state a: [occurrences] (eq. 4).

    The loss is the sum of |⟨a, b⟩| over all bias directions b. Each b has length 1, so |⟨a, b⟩| is the length of the
    projection of a onto b.
    """
    return (states @ subspace).abs().sum(1)
