"""Extends TRL's SFT trainer with a debiasing loss (Barikeri et al., 2021, eq. 2)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from hb_train.debiasing.arguments import DebiasArguments
from hb_train.debiasing.method import MarkedBatch, Method
from hb_train.debiasing.phrases import MARKS, num_occurrences
from hb_train.debiasing.terms import Terms
from hb_train.training.encoding import IGNORED
from hb_train.training.trainers import Batch, ReplySFTTrainer


class DebiasTrainer(ReplySFTTrainer):
    """Minimises λ_LM·L_LM + λ_D·L_D at every step.

    L_LM is the mean loss of all predicted tokens in a step. L_D is the mean debiasing loss of all occurrences of terms
    in a step, or 0 if there are none. A step includes all accumulated batches of all processes, so the loss does not
    depend on the number of processes.
    """

    def __init__(self, method: Method, terms: Terms, arguments: DebiasArguments, **settings: Any) -> None:
        super().__init__(**settings)
        assert method.marks is not None
        assert method.make_loss is not None
        self._marks, self._arguments = method.marks(arguments), arguments
        self._num_occurrences: torch.Tensor | None = None
        terms = terms._replace(pairs=terms.pairs.to(self.args.device), ids=terms.ids.to(self.args.device))
        self._summed_debias_loss = method.make_loss(terms, self._output_weight, arguments)

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        self._signature_columns: list[str] = list(dict.fromkeys([*self._signature_columns, *MARKS]))

    def get_batch_samples(self, *arguments: Any, **settings: Any) -> tuple[list, torch.Tensor | int | None]:
        """Returns the batches of a step and counts the occurrences of terms, like the trainer counts tokens."""
        samples, num_items = super().get_batch_samples(*arguments, **settings)
        number = torch.tensor(sum(num_occurrences(batch, self._marks) for batch in samples), device=self.args.device)
        is_shared = self.args.average_tokens_across_devices
        self._num_occurrences = self.accelerator.gather(number).sum() if is_shared else number
        return samples, num_items

    def compute_loss(
        self,
        model: Any,
        inputs: Batch,
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """Returns a batch's share of the step's loss. `num_items_in_batch` is the number of tokens in the step."""
        with _output_layer_inputs(self._output_layer()) as layer_inputs:
            outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], use_cache=False)
        logits, labels = outputs.logits[:, :-1].float(), inputs["labels"][:, 1:]
        nll = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
        vectors, number = layer_inputs[0].float(), num_occurrences(inputs, self._marks)
        batch = MarkedBatch(logits, vectors, inputs[self._marks])
        debias = self._summed_debias_loss(batch) if number else vectors.sum() * 0
        num_in_step = None if num_items_in_batch is None else self._num_occurrences
        lm_loss = self.token_mean(nll, int((labels != IGNORED).sum()), num_items_in_batch)
        return self._arguments.lambda_lm * lm_loss + self._arguments.lambda_d * self.token_mean(
            debias, number, num_in_step
        )

    def prediction_step(
        self, model: Any, inputs: Batch, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[None, torch.Tensor, torch.Tensor]:
        unmarked = {name: value for name, value in inputs.items() if name not in MARKS}
        return super().prediction_step(model, unmarked, prediction_loss_only, ignore_keys)

    def _output_layer(self) -> torch.nn.Module:
        return self.accelerator.unwrap_model(self.model).get_output_embeddings()

    def _output_weight(self) -> torch.Tensor:
        weight: Any = self._output_layer().weight
        return weight


@contextmanager
def _output_layer_inputs(layer: torch.nn.Module) -> Iterator[list[torch.Tensor]]:
    inputs: list[torch.Tensor] = []
    hook = layer.register_forward_pre_hook(lambda _, arguments: inputs.append(arguments[0]))
    try:
        yield inputs
    finally:
        hook.remove()
