"""Extends TRL's SFT trainer with a debiasing loss (Barikeri et al., 2021, eq. 2)."""

from typing import Any

import torch
from torch.nn.functional import cross_entropy

from hb_train.debiasing.losses import add_loss, hd_loss, lmd_loss, term_logits
from hb_train.debiasing.phrases import MARKS, num_occurrences
from hb_train.debiasing.terms import Terms, span_means, target_vectors
from hb_train.training.encoding import IGNORED
from hb_train.training.trainers import Batch, Number, ReplySFTTrainer


class DebiasTrainer(ReplySFTTrainer):
    """Minimises λ_LM·L_LM + λ_D·L_D at every step.

    L_LM is the mean loss of all predicted tokens in a step. L_D is the mean debiasing loss of all occurrences of terms
    in a step, or 0 if there are none. A step includes all accumulated batches of all processes, so the loss does not
    depend on the number of processes.
    """

    def __init__(self, method: str, terms: Terms, lambda_lm: float, lambda_d: float, **settings: Any) -> None:
        super().__init__(**settings)
        self._method, self._marks = method, MARKS[method]
        self._lambda_lm, self._lambda_d = lambda_lm, lambda_d
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
