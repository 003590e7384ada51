"""HD, hard debiasing: attributes should be orthogonal to the directions in which paired terms differ (section 4.3).

The paper neutralises the state at an attribute. In a causal model, this state predicts the word after the attribute.
The bias measure, however, depends on the target term and the rest of the phrase. The other values of
`--neutralized_states` neutralise the states that predict these tokens.
"""

import torch

from hb_train.debiasing.arguments import DebiasArguments
from hb_train.debiasing.method import Loss, MarkedBatch, Method, OutputWeight
from hb_train.debiasing.phrases import ATTRIBUTES
from hb_train.debiasing.terms import Terms, span_means, target_vectors

EXPLAINED = 0.5  # the minimum share of the squared singular values that the bias subspace must explain (section 4.3)


def make_loss(terms: Terms, output_weight: OutputWeight, arguments: DebiasArguments) -> Loss:
    """Makes a loss that recomputes the bias directions at each step. The directions themselves are not learnt."""

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
    trained_texts=lambda phrases: phrases.texts_t1,
    marks=lambda arguments: arguments.neutralized_states,
    make_loss=make_loss,
)


def bias_subspace(targets: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """Computes the directions in which paired terms differ most, [hidden, k] (section 4.3, step 1).

    Each pair contributes half of the difference between its terms' vectors in the output layer. The directions are the
    first k right singular vectors of these halved differences. k is the smallest number that explains at least half of
    the squared Frobenius norm.
    """
    differences = (targets[pairs[:, 0]] - targets[pairs[:, 1]]) / 2
    _, values, directions = torch.linalg.svd(differences, full_matrices=False)
    explained = values.square().cumsum(0)
    # Select the smallest k whose cumulative sum reaches half of the last sum, which is the whole norm.
    k = int((explained < EXPLAINED * explained[-1]).sum()) + 1
    return directions[:k].T


def hd_loss(states: torch.Tensor, subspace: torch.Tensor) -> torch.Tensor:
    """Computes the summed lengths of each state's projections onto the bias directions, [occurrences] (eq. 4).

    The projection onto b has length |b⟨a, b⟩|, which is |⟨a, b⟩| because b has length 1.
    """
    return (states @ subspace).abs().sum(1)
