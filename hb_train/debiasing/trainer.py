"""Extends TRL's SFT trainer with the debiasing losses of Barikeri et al. (2021, section 4)."""

from typing import Any

import torch
from torch.nn.functional import cross_entropy, normalize

from hb_train.debiasing.terms import MARKS, Terms, num_occurrences, span_means, target_vectors
from hb_train.training.encoding import IGNORED
from hb_train.training.trainers import Batch, Number, ReplySFTTrainer

EXPLAINED = 0.5  # the minimum share of the squared singular values that the bias subspace must explain (section 4.3)


class DebiasTrainer(ReplySFTTrainer):
    """Minimises λ_LM·L_LM + λ_D·L_D at every step (eq. 2).

    L_LM is the mean loss of all predicted tokens in a step. L_D is the mean debiasing loss of all occurrences of terms
    in a step, or 0 if there are none. A step includes all accumulated batches of all processes, so the loss does not
    depend on the number of processes.

    `arguments` are the `DebiasArguments` of debias.py.
    """

    def __init__(self, *, arguments: Any, terms: Terms, **settings: Any) -> None:
        super().__init__(**settings)
        self._method, self._marks = arguments.method, MARKS[arguments.method]
        self._lambda_lm, self._lambda_d = arguments.lambda_lm, arguments.lambda_d
        self._num_occurrences: torch.Tensor | None = None
        self._terms = terms._replace(pairs=terms.pairs.to(self.args.device), ids=terms.ids.to(self.args.device))

    def get_batch_samples(self, *arguments: Any, **settings: Any) -> tuple[list, Number]:
        """Returns the batches of a step and counts the occurrences of terms, like the trainer counts tokens."""
        samples, num_items = super().get_batch_samples(*arguments, **settings)
        number = torch.tensor(sum(num_occurrences(batch, self._marks) for batch in samples), device=self.args.device)
        is_shared = self.args.average_tokens_across_devices
        self._num_occurrences = self.accelerator.gather(number).sum() if is_shared else number
        return samples, num_items

    def compute_loss(
        self, model: Any, inputs: Batch, return_outputs: bool = False, num_items_in_batch: Number = None
    ) -> torch.Tensor:
        """Returns a batch's share of the step's loss. `num_items_in_batch` is the number of tokens in the step."""
        layer, layer_inputs = self.accelerator.unwrap_model(self.model).get_output_embeddings(), list[torch.Tensor]()
        hook = layer.register_forward_pre_hook(lambda _, arguments: layer_inputs.append(arguments[0]))
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], use_cache=False)
        hook.remove()
        logits, labels = outputs.logits[:, :-1].float(), inputs["labels"][:, 1:]
        nll = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
        vectors, number = layer_inputs[0].float(), num_occurrences(inputs, self._marks)
        debias = self.summed_loss(logits, vectors, inputs[self._marks], layer.weight) if number else vectors.sum() * 0
        num_in_step = None if num_items_in_batch is None else self._num_occurrences
        lm_loss = self.token_mean(nll, int((labels != IGNORED).sum()), num_items_in_batch)
        return self._lambda_lm * lm_loss + self._lambda_d * self.token_mean(debias, number, num_in_step)

    def summed_loss(
        self, logits: torch.Tensor, vectors: torch.Tensor, marks: torch.Tensor, weight: torch.Tensor
    ) -> torch.Tensor:
        """Returns the debiasing loss of a batch, summed over its marked occurrences.

        Args:
            logits: The logits that predict the second and all later tokens: [rows, length − 1, vocabulary].
            vectors: The inputs of the output layer: [rows, length, hidden].
            marks: The marks of the terms: [rows, length].
            weight: The weight of the output layer: [vocabulary, hidden]. ADD and HD do not train it.
        """
        terms = self._terms
        if self._method == "lmd":
            marked = marks[:, 1:] > 0
            places, num_terms = marks[:, 1:][marked] - 1, terms.ids.shape[1]
            of_terms = term_logits(logits[marked], terms.ids[places // num_terms])
            return lmd_loss(of_terms, places % num_terms, terms.pairs).sum()
        loss = add_loss if self._method == "add" else hd_loss
        return loss(span_means(vectors, marks), target_vectors(weight.detach(), terms), terms.pairs).sum()


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
