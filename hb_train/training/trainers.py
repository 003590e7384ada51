"""TRL's and transformers' own trainers, with the perplexity of the validation replies as the metric.

Their own evaluation loss is a mean of means over batches, which depends on how rows are batched and shared among
processes. Here it is the mean over all reply tokens, and the perplexity is its exp. Of distillation there is no
perplexity: its loss is a divergence.
"""

import math
from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import torch
from datasets import Dataset
from torch.nn.functional import cross_entropy, kl_div
from transformers import DataCollatorForSeq2Seq, PreTrainedModel, Seq2SeqTrainer, Trainer
from transformers.trainer_utils import EvalLoopOutput
from trl import KTOTrainer, SFTTrainer

from hb_train.training.encoding import BASELINE, IGNORED

PERPLEXITY = "eval_perplexity"
LOSS = "eval_loss"


class _Resuming:
    """Ends where it resumes behind its last step."""

    metric: str

    def _run_epoch(self, **settings: Any) -> None:
        """The trainer's own epoch; where training resumes behind its last step, that would do one step more."""
        trainer: Any = self
        state = trainer.state
        if state.global_step < state.max_steps:
            super()._run_epoch(**settings)  # type: ignore[misc]
        elif trainer.args.eval_strategy != "no" and not any(
            self.metric in entry and entry["step"] == state.global_step for entry in state.log_history
        ):
            trainer.evaluate()  # at the end of an epoch, which the checkpoint was written before


class _ReplyTraining(_Resuming):
    """Evaluates by the summed negative log-likelihood and the number of the reply tokens of each row."""

    metric = PERPLEXITY
    is_causal: bool
    _nll = 0.0
    _num_tokens = 0

    def row_losses(self, model: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """The summed loss of each row's labels, and their number; both [rows]."""
        return row_nlls(model, inputs, self.is_causal)

    def evaluation_loop(
        self,
        dataloader: Any,
        description: str,
        prediction_loss_only: bool | None = None,
        ignore_keys: list[str] | None = None,
        metric_key_prefix: str = "eval",
    ) -> EvalLoopOutput:
        """The trainer's own loop, with `loss` over all tokens and `perplexity` among its metrics."""
        self._nll, self._num_tokens = 0.0, 0
        output = super().evaluation_loop(  # type: ignore[misc]
            dataloader, description, True, ignore_keys, metric_key_prefix
        )
        loss = self._nll / max(self._num_tokens, 1)
        metrics = {
            **output.metrics,
            f"{metric_key_prefix}_loss": loss,
            f"{metric_key_prefix}_reply_tokens": self._num_tokens,
        }
        if self.metric == PERPLEXITY:
            metrics[f"{metric_key_prefix}_perplexity"] = math.exp(min(loss, 700))  # finite, so that it can be compared
        return output._replace(metrics=metrics)

    def prediction_step(
        self, model: Any, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[torch.Tensor, None, None]:
        """Adds a batch to the sums; rows that a sampler repeats for several processes count once."""
        trainer: Any = self
        inputs = trainer._prepare_inputs(inputs)
        with torch.no_grad(), trainer.compute_loss_context_manager():
            sums = self.row_losses(model, inputs)
        nll, num_tokens = trainer.accelerator.gather_for_metrics(sums)
        self._nll += nll.double().sum().item()
        self._num_tokens += int(num_tokens.sum().item())
        return nll.sum() / num_tokens.sum().clamp(min=1), None, None


class ReplySFTTrainer(_ReplyTraining, SFTTrainer):
    """TRL's SFT trainer, for causal models."""

    is_causal = True

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """The mean negative log-likelihood of the reply tokens: TRL's loss.

        Without Triton kernels TRL's own scores every position of a batch against the whole vocabulary, context and
        padding too. With the embedded model on two CPU cores that is more than half of a step.
        """
        if self.args.device.type != "cpu" or self.args.loss_type != "nll" or return_outputs:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        logits, targets, _ = reply_logits(model, inputs, self.is_causal)
        nll = cross_entropy(logits.float(), targets, reduction="sum")
        num_tokens = torch.as_tensor(len(targets) if num_items_in_batch is None else num_items_in_batch).clamp(min=1)
        if self.args.average_tokens_across_devices and num_items_in_batch is not None:
            # The number counts the tokens of all processes, whose gradients are averaged.
            nll = nll * self.accelerator.num_processes
        return nll / num_tokens


class ReplySeq2SeqTrainer(_ReplyTraining, Seq2SeqTrainer):
    """transformers' sequence-to-sequence trainer, for encoder–decoder models."""

    is_causal = False


class BaselineDistillationTrainer(_ReplyTraining, Trainer):
    """transformers' trainer, on rows of `distillation.encode_pairs`.

    The loss of a reply token is the divergence KL(p‖q) in nats: p is the distribution of the model before tuning behind
    the prompt without a descriptor, q that of the model in training behind the prompt with one.

    Args:
        teacher: The model before tuning; `None`: the model without its adapter.
        is_causal: Whether a label is predicted from the tokens before it, and not by a separate decoder.
    """

    metric = LOSS

    def __init__(self, *, teacher: PreTrainedModel | None, is_causal: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self.is_causal = is_causal
        self._teacher = None if teacher is None else teacher.eval().to(self.args.device)

    def compute_loss(
        self,
        model: Any,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> Any:
        """The mean divergence of the reply tokens."""
        divergences, _ = self._divergences(model, inputs)
        total = divergences.sum()
        if num_items_in_batch is None:
            return total / max(len(divergences), 1)
        if self.args.average_tokens_across_devices:
            # The number counts the tokens of all processes, whose gradients are averaged.
            total = total * self.accelerator.num_processes
        return total / num_items_in_batch

    def row_losses(self, model: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """The summed divergence of each row's labels, and their number; both [rows]."""
        divergences, learnt = self._divergences(model, inputs)
        rows = torch.zeros(learnt.shape, device=learnt.device)
        rows[learnt] = divergences
        return rows.sum(1), learnt.sum(1)

    def _divergences(self, model: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """[labels] the divergence of each label's distribution, and [rows, length] which labels are learnt."""
        sides: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for name, value in inputs.items():
            sides[name.startswith(BASELINE)][name.removeprefix(BASELINE)] = value
        own, baseline = sides
        with torch.no_grad():
            if self._teacher is not None:
                wanted, _, _ = reply_logits(self._teacher, baseline, self.is_causal)
            else:
                untuned: Any = self.accelerator.unwrap_model(model)
                was_training = untuned.training
                untuned.eval()  # or dropout would change what is learnt
                with untuned.disable_adapter():
                    wanted, _, _ = reply_logits(untuned, baseline, self.is_causal)
                untuned.train(was_training)
            log_wanted = wanted.float().log_softmax(-1)
        logits, _, learnt = reply_logits(model, own, self.is_causal)
        log_given = logits.float().log_softmax(-1)
        return kl_div(log_given, log_wanted, reduction="none", log_target=True).sum(-1), learnt


class PairCollator:
    """Pads rows of `distillation.encode_pairs` to a batch, with a tokenizer that pads on the right."""

    def __init__(self, tokenizer: Any) -> None:
        self._pad = DataCollatorForSeq2Seq(tokenizer, padding=True)

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
        """A batch of both sides, padded each by itself."""
        batch: dict[str, torch.Tensor] = {}
        for side in ("", BASELINE):
            names = {f"{side}{name}": name for name in ("input_ids", "attention_mask", "labels")}
            padded = self._pad([{short: row[name] for name, short in names.items()} for row in rows])
            batch |= {name: padded[short] for name, short in names.items()}
        return batch


class ReplyKTOTrainer(_Resuming, KTOTrainer):
    """TRL's KTO trainer, on rows of `methods.kto_rows`."""

    metric = LOSS

    def _prepare_dataset(self, dataset: Dataset, processing_class: Any, args: Any, dataset_name: str) -> Dataset:
        """The rows, which are tokens already, each with the reply of the row before it in its batch.

        By these mismatched replies TRL estimates the divergence from the reference model, as the paper does
        (Ethayarajh et al., 2024, section 4.1); the first row of a batch has the reply of the last.
        """
        if not self.calculate_KL:
            return dataset
        replies = dataset["completion_ids"]
        size = args.per_device_train_batch_size
        batches = (replies[first : first + size] for first in range(0, len(replies), size))
        return dataset.add_column("KL_completion_ids", [row for batch in batches for row in (batch[-1], *batch[:-1])])


def row_nlls(model: PreTrainedModel, inputs: dict[str, Any], is_causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """The negative log-likelihood of each row's labels.

    Args:
        model: The model.
        inputs: A batch of the trainer's collator, with `labels` ([rows, length], `IGNORED` where nothing is learnt).
        is_causal: Whether a label is predicted from the tokens before it, and not by a separate decoder.

    Returns:
        The summed negative log-likelihood (natural log) of each row, and its number of labels; both [rows].
    """
    logits, targets, learnt = reply_logits(model, inputs, is_causal)
    nll = torch.zeros(learnt.shape, device=learnt.device)
    nll[learnt] = cross_entropy(logits.float(), targets, reduction="none")
    return nll.sum(1), learnt.sum(1)


def reply_logits(
    model: PreTrainedModel, inputs: dict[str, Any], is_causal: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The logits at the positions whose labels are learnt. Arguments as `row_nlls`.

    Returns:
        [labels, vocabulary] the logits, [labels] the labels, and [rows, length] whether a position's label is learnt.
    """
    labels = inputs["labels"]
    if not is_causal:  # the model makes the decoder's input from the labels
        learnt = labels != IGNORED
        return model(**inputs, use_cache=False).logits[learnt], labels[learnt], learnt
    model_inputs = {name: value for name, value in inputs.items() if name != "labels"}
    labels = labels[:, 1:]
    learnt = labels != IGNORED
    first = int(learnt.any(0).int().argmax())  # contexts come first, and nothing is learnt in the shortest
    if "logits_to_keep" in signature(model.forward).parameters:
        model_inputs["logits_to_keep"] = labels.shape[1] + 1 - first
    logits = model(**model_inputs, use_cache=False).logits[:, :-1]
    learnt, labels = learnt[:, -logits.shape[1] :], labels[:, -logits.shape[1] :]
    return logits[learnt], labels[learnt], learnt
