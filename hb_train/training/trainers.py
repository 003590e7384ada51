"""Changes the trainers of TRL and transformers so that they report the perplexity of validation replies.

The original trainers average the mean losses of batches, so the result depends on the batch size and the number of
processes. Here, the loss is averaged over all reply tokens. Counterfactual distillation reports no perplexity, because
its loss is a divergence.
"""

import math
from inspect import signature
from typing import Any

import numpy as np
import torch
from accelerate.utils import extract_model_from_parallel
from torch.nn.functional import cross_entropy
from transformers import EvalPrediction, PreTrainedModel, Trainer
from trl import SFTTrainer

from hb_metrics.models.adapters import keep_slices_whole
from hb_train.training.encoding import IGNORED
from hb_train.training.runs import check_whole_weights

Batch = dict[str, torch.Tensor]
Number = torch.Tensor | int | None


class ReplyTrainer(Trainer):
    """Trains and evaluates a model by the mean negative log-likelihood over all reply tokens.

    Encoder-decoder models are trained by this class itself, because TRL's trainer does not train them.
    """

    measure = "perplexity"

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        check_whole_weights(self.accelerator)
        keep_slices_whole(self.model)
        self.compute_metrics = self._reply_metrics  # an argument that TRL 2 will remove from its trainers

    def _reply_metrics(self, sums: EvalPrediction) -> dict[str, float]:
        num_tokens = int(sums.label_ids.sum())
        loss = float(sums.predictions.sum(dtype=np.float64)) / max(num_tokens, 1)
        # The perplexity is finite, so that values remain comparable.
        return {"loss": loss, **({"perplexity": math.exp(min(loss, 700))} if self.measure == "perplexity" else {})}

    def _run_epoch(self, **settings: Any) -> None:
        """Skips all epochs if training had already stopped when it was interrupted.

        Without this check, it would resume with a further step, or with all steps that an early stop had left out.
        """
        state = self.state
        if not state.stateful_callbacks["TrainerControl"]["args"]["should_training_stop"]:
            super()._run_epoch(**settings)
        elif state.best_global_step:  # the folder may have been moved
            state.best_model_checkpoint = f"{self.args.output_dir}/checkpoint-{state.best_global_step}"

    def compute_loss(
        self, model: Any, inputs: Batch, return_outputs: bool = False, num_items_in_batch: Number = None
    ) -> torch.Tensor:
        losses, _ = self.token_losses(model, inputs)
        return self.token_mean(losses.sum(), len(losses), num_items_in_batch)

    def token_losses(self, model: Any, inputs: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the loss of each learnt token, and a mask of these tokens: [rows, length]."""
        logits, targets, learnt = reply_logits(model, inputs)
        return cross_entropy(logits.float(), targets, reduction="none"), learnt

    def row_losses(self, model: Any, inputs: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns two arrays [rows]: the summed loss and the number of labels of each row."""
        losses, learnt = self.token_losses(model, inputs)
        rows = torch.zeros(learnt.shape, device=learnt.device)
        rows[learnt] = losses
        return rows.sum(1), learnt.sum(1)

    def token_mean(self, total: torch.Tensor, num_in_batch: int, num_items_in_batch: Number) -> torch.Tensor:
        """Returns a batch's share of a step's mean loss over reply tokens (or over other items).

        `total` is the summed loss of the batch. `num_items_in_batch` is the number of items in the step, or `None` if
        the step has only this batch.
        """
        if num_items_in_batch is None:
            return total / max(num_in_batch, 1)
        if self.args.average_tokens_across_devices:
            # The number of tokens is a total over all processes, whereas gradients are averaged over processes.
            total = total * self.accelerator.num_processes
        return total / torch.as_tensor(num_items_in_batch).clamp(min=1)

    def prediction_step(
        self, model: Any, inputs: Batch, prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[None, torch.Tensor, torch.Tensor]:
        """Returns the sums of each row, which `_reply_metrics` adds up, without the repeated rows of the last batch."""
        inputs = self._prepare_inputs(inputs)
        with torch.no_grad(), self.compute_loss_context_manager():
            return None, *self.row_losses(model, inputs)


class ReplySFTTrainer(ReplyTrainer, SFTTrainer):
    def compute_loss(
        self, model: Any, inputs: Batch, return_outputs: bool = False, num_items_in_batch: Number = None
    ) -> torch.Tensor:
        """Computes TRL's loss, which is the mean negative log-likelihood of the reply tokens, but faster on CPUs.

        On CPUs, TRL computes the probabilities of the whole vocabulary even at positions where no token is learnt. For
        the embedded model on two CPU cores, these positions would take more than half of the training time. The loss
        of a mixture of experts is left to TRL.
        """
        own: Any = ReplyTrainer if self.args.device.type == "cpu" and not self.aux_loss_enabled else SFTTrainer
        return own.compute_loss(self, model, inputs, return_outputs, num_items_in_batch)


def reply_logits(model: PreTrainedModel, inputs: Batch) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the logits and labels of the learnt tokens, and a mask of these tokens: [rows, length]."""
    labels = inputs["labels"]
    # The wrappers of DDP and PEFT hide the parameters of the model's own function.
    inner: Any = extract_model_from_parallel(model)
    inner = inner.get_base_model() if hasattr(inner, "get_base_model") else inner
    if inner.config.is_encoder_decoder:
        learnt = labels != IGNORED
        return model(**inputs, use_cache=False).logits[learnt], labels[learnt], learnt
    model_inputs: dict[str, torch.Tensor | int] = {name: value for name, value in inputs.items() if name != "labels"}
    labels = labels[:, 1:]
    learnt = labels != IGNORED
    first = int(learnt.any(0).int().argmax())  # no row learns a label before this position
    if "logits_to_keep" in signature(inner.forward).parameters:
        model_inputs["logits_to_keep"] = labels.shape[1] + 1 - first
    logits = model(**model_inputs, use_cache=False).logits[:, :-1]
    learnt, labels = learnt[:, -logits.shape[1] :], labels[:, -logits.shape[1] :]
    return logits[learnt], labels[learnt], learnt
