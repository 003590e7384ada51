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
from hb_train.training.trainers import ReplySFTTrainer


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
        self._parts: dict[str, torch.Tensor] = {}  # summed over the steps since the last log
        self._logged_at = 0
        terms = terms._replace(pairs=terms.pairs.to(self.args.device), ids=terms.ids.to(self.args.device))
        self._summed_debias_loss = method.make_loss(terms, self._output_weight, arguments)

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        self._signature_columns: list[str] = list(dict.fromkeys([*self._signature_columns, *MARKS]))

    def get_batch_samples(self, *arguments: Any, **settings: Any) -> tuple[list, torch.Tensor | int | None]:
        """Returns the batches of a step, and counts the occurrences of terms in the step on all processes."""
        samples, num_items = super().get_batch_samples(*arguments, **settings)
        number = sum(num_occurrences(batch, self._marks) for batch in samples)
        self._num_occurrences = self.accelerator.gather(torch.tensor([number], device=self.args.device)).sum()
        return samples, num_items

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """Returns a batch's share of the step's loss. `num_items_in_batch` is the number of tokens in the step."""
        with _output_layer_inputs(self._output_layer()) as layer_inputs:
            outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], use_cache=False)
        logits = outputs.logits[:, :-1].float()
        labels = inputs["labels"][:, 1:]
        nll = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
        vectors, num_in_batch = layer_inputs[0].float(), num_occurrences(inputs, self._marks)
        if num_in_batch:
            debias = self._summed_debias_loss(MarkedBatch(logits, vectors, inputs[self._marks]))
        else:
            debias = vectors.sum() * 0
        share = 1.0
        if num_items_in_batch is None or self._num_occurrences is None:
            # The trainer already divides by the number of batches in a step.
            num_tokens = (labels != IGNORED).sum()
            num_occurrences_in_step = torch.tensor(num_in_batch, device=nll.device)
            share = 1 / self.args.gradient_accumulation_steps
        else:
            # Gradients are averaged over processes, whereas these counts are totals over all processes.
            processes = self.accelerator.num_processes
            num_occurrences_in_step = self._num_occurrences / processes
            num_tokens = torch.as_tensor(num_items_in_batch, device=nll.device)
            num_tokens = num_tokens / (processes if self.args.average_tokens_across_devices else 1)
        lm_loss = nll / num_tokens.clamp(min=1e-9)
        debias_loss = debias / num_occurrences_in_step.clamp(min=1e-9)
        for name, value in (("lm_loss", lm_loss), ("debias_loss", debias_loss)):
            self._parts[name] = self._parts.get(name, 0) + share * value.detach()
        loss = self._arguments.lambda_lm * lm_loss + self._arguments.lambda_d * debias_loss
        return (loss, outputs) if return_outputs else loss

    def prediction_step(
        self, model: Any, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[torch.Tensor, None, None]:
        unmarked = {name: value for name, value in inputs.items() if name not in MARKS}
        return super().prediction_step(model, unmarked, prediction_loss_only, ignore_keys)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Logs both losses too. Each is a mean over the main process's batches since the last log."""
        if "loss" in logs and self._parts:
            steps = max(1, self.state.global_step - self._logged_at)
            logs = {**logs, **{name: value.item() / steps for name, value in self._parts.items()}}
            self._parts, self._logged_at = {}, self.state.global_step
        super().log(logs, start_time)

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
