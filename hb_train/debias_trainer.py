"""TRL's SFT trainer with a debiasing loss beside the language modelling loss (Barikeri et al., 2021, eq. 2)."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch.nn.functional import cross_entropy

from hb_train.debias_losses import add_loss, bias_subspace, hd_loss, lmd_loss
from hb_train.debias_rows import ATTRIBUTES, MARKS, TARGETS
from hb_train.debias_terms import RUNNING_FORM, Terms, span_means, term_logits, term_vectors
from hb_train.rows import IGNORED
from hb_train.trainers import ReplySFTTrainer

LossMethod = Literal["lmd", "add", "hd"]


class DebiasTrainer(ReplySFTTrainer):
    """Learns λ_LM·L_LM + λ_D·L_D at every step.

    L_LM is the mean over all tokens that are predicted, L_D the mean over all occurrences of terms in what the step
    sees: its accumulated batches of all processes together, so that neither moves with how they are shared out. A step
    without an occurrence learns λ_LM·L_LM.

    Args:
        method: Whose loss L_D is.
        terms: The terms of the pairs.
        lambda_lm: λ_LM.
        lambda_d: λ_D.
        fixed_subspace: Whether the directions of `hd` stay those of the model before training; else they are computed
            anew from the output layer at each step. They are no part of what is learnt in either case.
        settings: What TRL's trainer takes.
    """

    def __init__(
        self,
        method: LossMethod,
        terms: Terms,
        *,
        lambda_lm: float,
        lambda_d: float,
        fixed_subspace: bool,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self.method, self.lambda_lm, self.lambda_d = method, lambda_lm, lambda_d
        self.pairs, self.ids = (each.to(self.args.device) for each in (terms.pairs, terms.ids))
        self._num_occurrences: torch.Tensor | None = None
        self._parts: dict[str, torch.Tensor] = {}  # summed over the steps since they were logged
        self._logged_at = 0
        self._subspace = self._new_subspace() if method == "hd" and fixed_subspace else None

    def _set_signature_columns_if_needed(self) -> None:
        super()._set_signature_columns_if_needed()
        self._signature_columns: list[str] = list(dict.fromkeys([*self._signature_columns, *MARKS]))

    def get_batch_samples(self, *arguments: Any, **settings: Any) -> tuple[list, torch.Tensor | int | None]:
        """The batches of a step, as the trainer collects them; what occurs in those of all processes is counted."""
        samples, num_items = super().get_batch_samples(*arguments, **settings)
        number = sum(int(_num_occurrences(batch, self.method).item()) for batch in samples)
        mine = torch.tensor([number], device=self.args.device)
        self._num_occurrences = self.accelerator.gather(mine).sum()
        return samples, num_items

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """The share of a batch in the step's weighted loss; `num_items_in_batch` are the step's predicted tokens."""
        with _output_layer_input(self._output_layer()) as seen:
            outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], use_cache=False)
        logits = outputs.logits[:, :-1].float()
        labels = inputs["labels"][:, 1:]
        nll = cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")
        debias = self._debias_sum(logits, seen[0].float(), inputs)
        share = 1.0
        if num_items_in_batch is None or self._num_occurrences is None:
            # The trainer divides by the batches of a step itself: a mean of each batch's means.
            num_tokens, num_occurrences = (labels != IGNORED).sum(), _num_occurrences(inputs, self.method)
            share = 1 / self.args.gradient_accumulation_steps
        else:
            # Gradients are averaged over processes, and these numbers count what all of them see.
            processes = self.accelerator.num_processes
            num_occurrences = self._num_occurrences / processes
            num_tokens = torch.as_tensor(num_items_in_batch, device=nll.device)
            num_tokens = num_tokens / (processes if self.args.average_tokens_across_devices else 1)
        lm_loss = nll / num_tokens.clamp(min=1e-9)
        debias_loss = debias / num_occurrences.clamp(min=1e-9)
        for name, value in (("lm_loss", lm_loss), ("debias_loss", debias_loss)):
            self._parts[name] = self._parts.get(name, 0) + share * value.detach()
        loss = self.lambda_lm * lm_loss + self.lambda_d * debias_loss
        return (loss, outputs) if return_outputs else loss

    def prediction_step(
        self, model: Any, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[torch.Tensor, None, None]:
        """Evaluates by perplexity alone."""
        given = {name: value for name, value in inputs.items() if name not in MARKS}
        return super().prediction_step(model, given, prediction_loss_only, ignore_keys)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Logs both losses beside their weighted sum: means over the steps since the last time, of the main process."""
        if "loss" in logs and self._parts:
            steps = max(1, self.state.global_step - self._logged_at)
            logs = {**logs, **{name: value.item() / steps for name, value in self._parts.items()}}
            self._parts, self._logged_at = {}, self.state.global_step
        super().log(logs, start_time)

    def _debias_sum(self, logits: torch.Tensor, vectors: torch.Tensor, inputs: dict[str, Any]) -> torch.Tensor:
        """The debiasing loss summed over the occurrences of a batch."""
        if self.method == "lmd":
            marks = inputs[TARGETS][:, 1:]
            where = marks > 0
            if not where.any():
                return vectors.sum() * 0
            form, term = (marks[where] - 1) // self.ids.shape[1], (marks[where] - 1) % self.ids.shape[1]
            return lmd_loss(term_logits(logits[where], self.ids[form]), term, self.pairs).sum()
        if not (inputs[ATTRIBUTES] > 0).any():
            return vectors.sum() * 0
        attributes = span_means(vectors, inputs[ATTRIBUTES])
        if self.method == "add":
            return add_loss(attributes, self._target_vectors(), self.pairs).sum()
        return hd_loss(attributes, self._new_subspace() if self._subspace is None else self._subspace).sum()

    def _output_layer(self) -> torch.nn.Module:
        return self.accelerator.unwrap_model(self.model).get_output_embeddings()

    def _target_vectors(self) -> torch.Tensor:
        weight: Any = self._output_layer().weight
        return term_vectors(weight.float(), self.ids[RUNNING_FORM])

    def _new_subspace(self) -> torch.Tensor:
        with torch.no_grad():
            return bias_subspace(self._target_vectors(), self.pairs)


def _num_occurrences(batch: dict[str, torch.Tensor], method: LossMethod) -> torch.Tensor:
    """How many occurrences of a batch the debiasing loss is made of."""
    return (batch[TARGETS][:, 1:] > 0).sum() if method == "lmd" else batch[ATTRIBUTES].max(1).values.sum()


@contextmanager
def _output_layer_input(layer: torch.nn.Module) -> Iterator[list[torch.Tensor]]:
    """Keeps what the output layer is given: after the last norm, whatever the architecture."""
    seen: list[torch.Tensor] = []
    hook = layer.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    try:
        yield seen
    finally:
        hook.remove()
