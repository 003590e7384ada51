"""TRL's and transformers' own trainers, with the perplexity of the validation replies as the metric.

Their own evaluation loss is a mean of means over batches, which depends on how rows are batched and shared among
processes. Here it is the mean over all reply tokens, and the perplexity is its exp.
"""

import math
from typing import Any

import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel, Seq2SeqTrainer
from transformers.trainer_utils import EvalLoopOutput
from trl import SFTTrainer

from hb_train.rows import IGNORED

METRIC = "eval_perplexity"


class _PerplexityEvaluation:
    """Evaluates by the summed negative log-likelihood and the number of the reply tokens of each row."""

    is_causal: bool
    _nll = 0.0
    _num_tokens = 0

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
            f"{metric_key_prefix}_perplexity": math.exp(min(loss, 700)),  # finite, so that a diverged run is told too
            f"{metric_key_prefix}_reply_tokens": self._num_tokens,
        }
        return output._replace(metrics=metrics)

    def prediction_step(
        self, model: Any, inputs: dict[str, Any], prediction_loss_only: bool, ignore_keys: list[str] | None = None
    ) -> tuple[torch.Tensor, None, None]:
        """Adds a batch; rows that a sampler repeats to fill the last batch of several processes count once."""
        trainer: Any = self
        inputs = trainer._prepare_inputs(inputs)
        with torch.no_grad(), trainer.compute_loss_context_manager():
            sums = row_nlls(model, inputs, self.is_causal)
        nll, num_tokens = trainer.accelerator.gather_for_metrics(sums)
        self._nll += nll.double().sum().item()
        self._num_tokens += int(num_tokens.sum().item())
        return nll.sum() / num_tokens.sum().clamp(min=1), None, None


class ReplySFTTrainer(_PerplexityEvaluation, SFTTrainer):
    """TRL's SFT trainer, for causal models."""

    is_causal = True


class ReplySeq2SeqTrainer(_PerplexityEvaluation, Seq2SeqTrainer):
    """transformers' sequence-to-sequence trainer, for encoder–decoder models."""

    is_causal = False


def row_nlls(model: PreTrainedModel, inputs: dict[str, Any], is_causal: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """Scores the labels of a batch.

    Args:
        model: The model.
        inputs: A batch of the trainer's collator, with `labels` ([rows, length], `IGNORED` where nothing is learnt).
        is_causal: Whether a label is predicted from the tokens before it, or by a decoder of its own.

    Returns:
        Of each row the summed negative log-likelihood ([rows], natural log) and the number of labels.
    """
    labels = inputs["labels"]
    if is_causal:
        given = {name: value for name, value in inputs.items() if name != "labels"}
        logits, labels = model(**given, use_cache=False).logits[:, :-1], labels[:, 1:]
    else:  # the model makes of the labels what its decoder is given
        logits = model(**inputs, use_cache=False).logits
    learnt = labels != IGNORED
    nll = torch.zeros(labels.shape, device=labels.device)
    nll[learnt] = cross_entropy(logits[learnt].float(), labels[learnt], reduction="none")
    return nll.sum(1), learnt.sum(1)
