"""Defines baseline distillation: the model learns to reply to a descriptor as it replied without one.

The tuned model learns to reply to "Hi! I'm a Deaf woman." as the untuned model replies to "Hi! I'm a woman." The method
needs no labels, because it learns the whole distribution of each next token. The method is knowledge distillation
(Hinton et al., 2015) into the same model in another context (Snell et al., 2022).
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import kl_div
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedModel, Trainer, TrainingArguments

from hb_metrics.models.contexts import encode_rendered, encode_replies, reply_end
from hb_metrics.models.starts import decoder_prefix
from hb_train.training.encoding import IGNORED, EncodedRows, add_row, collate, length_limit
from hb_train.training.models import model_to_train, plain_options
from hb_train.training.trainers import LOSS, ReplyTraining, reply_logits
from hb_train.tuning.baseline_rows import DISTILL, TEMPERATURE
from hb_train.tuning.method import CardText, Method, Tuning

if TYPE_CHECKING:
    from datasets import Dataset

    from hb_metrics.models.bias_tags import BiasTuning
    from hb_metrics.models.loading import LoadedModel

PREFIX = "teacher_"  # the names of the columns for the untuned model begin with this prefix
NO_TOKEN = -1
# Anchors are a quarter of the rows, and their losses are small. Without a weight, the model would respond to the needs
# of different people more and more alike.
ANCHOR_WEIGHT = 8.0


class DistillationTrainer(ReplyTraining, Trainer):
    """Trains a model to predict the same next tokens as a teacher, which is the untuned model.

    The trained model reads the prompt with a descriptor. The teacher reads its own prompt, which has no descriptor in
    baseline distillation. The loss of a reply token is the divergence KL(p‖q) in nats, where p is the teacher's
    distribution and q is the trained model's distribution. If `teacher` is `None`, the teacher is the model without its
    adapter.
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
        divergences, _ = self.token_losses(model, inputs)
        return self.token_mean(divergences.sum(), len(divergences), num_items_in_batch)

    def token_losses(self, model: Any, inputs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns the weighted divergence at each learnt token, and a mask of the learnt tokens: [rows, length]."""
        sides: tuple[dict[str, Any], dict[str, Any]] = ({}, {})
        for name, value in inputs.items():
            if name not in ("moved", "weight"):
                sides[name.startswith(PREFIX)][name.removeprefix(PREFIX)] = value
        own, other = sides
        with torch.no_grad():
            if self._teacher is not None:
                wanted, _, _ = reply_logits(self._teacher, other, self.is_causal)
            else:
                untuned: Any = self.accelerator.unwrap_model(model)
                was_training = untuned.training
                untuned.eval()  # dropout would change the learnt distribution
                with untuned.disable_adapter():
                    wanted, _, _ = reply_logits(untuned, other, self.is_causal)
                untuned.train(was_training)
        logits, _, learnt = reply_logits(model, own, self.is_causal)
        log_given = (logits.float() / TEMPERATURE).log_softmax(-1)
        rows = learnt.nonzero()[:, 0]
        wanted = (wanted.float() / TEMPERATURE).softmax(-1)
        return inputs["weight"][rows] * self.label_losses(wanted, log_given, inputs["moved"][rows]), learnt

    def label_losses(self, wanted: torch.Tensor, log_given: torch.Tensor, moved: torch.Tensor) -> torch.Tensor:
        """Returns the divergence of the trained model from the untuned model at each learnt token: [labels].

        Args:
            wanted: The untuned model's distributions: [labels, vocabulary].
            log_given: The logarithms of the trained model's distributions: [labels, vocabulary].
            moved: Pairs of first tokens, padded with `NO_TOKEN`: [labels, pairs, 2]. `CounterfactualTrainer` uses them.
        """
        del moved
        # A target of 0 adds 0 to the sum, whereas its logarithm would add NaN.
        return kl_div(log_given, wanted, reduction="none").sum(-1)


def collate_pairs(rows: Sequence[Mapping[str, Any]]) -> dict[str, torch.Tensor]:
    """Combines rows of `encode` into a batch, and pads both models' inputs."""
    batch = collate([{name: row[name] for name in row if name not in ("weight", "moved")} for row in rows])
    moved = [torch.tensor(row["moved"], dtype=torch.int64).reshape(-1, 2) for row in rows]
    return {
        **batch,
        "weight": torch.tensor([row["weight"] for row in rows]),
        "moved": pad_sequence(moved, batch_first=True, padding_value=NO_TOKEN),
    }


def make_trainer(tuning: Tuning) -> Trainer:
    return make_distillation_trainer(tuning, DistillationTrainer)


def make_distillation_trainer(tuning: Tuning, trainer: type[DistillationTrainer]) -> Trainer:
    # With LoRA, the teacher is the model without its adapter.
    teacher = None if tuning.model_args.use_peft else deepcopy(tuning.loaded.model)
    return trainer(
        model=model_to_train(tuning.model_args, tuning.loaded),
        teacher=teacher,
        is_causal=tuning.loaded.kind == "causal",
        args=plain_options(
            tuning.training_args, TrainingArguments, remove_unused_columns=False, label_names=["labels"]
        ),
        data_collator=collate_pairs,
        train_dataset=tuning.encoded["train"].dataset,
        eval_dataset=tuning.encoded["validation"].dataset,
        processing_class=tuning.loaded.tokenizer,
        callbacks=tuning.callbacks,
    )


def encode(
    rows: "Dataset", loaded: "LoadedModel", record: Mapping[str, Any], with_tags: bool, max_length: int | None
) -> EncodedRows:
    """Encodes each row twice: for the trained model and, in columns that begin with `PREFIX`, for the teacher.

    The labels of the two models correspond one to one. They are the tokens that both replies share, and the first
    tokens of the descriptors' names (`moved`). Contexts are never cut. `with_tags` is ignored, because the prompts have
    no tags.
    """
    del with_tags
    is_encoder_decoder = loaded.kind == "encoder-decoder"
    prefix = decoder_prefix(loaded.model, loaded.tokenizer) if is_encoder_decoder else []
    limit = length_limit(loaded, max_length)
    # `map` computes a hash of every object that `encode` uses. `encode` must therefore not use `loaded`, which contains
    # the weights.
    tokenizer = loaded.tokenizer
    context = record["context"]
    end = reply_end(tokenizer, context)

    def encode(batch: Mapping[str, Sequence[Any]]) -> dict[str, list[Any]]:
        sides = ("", PREFIX)
        contexts, pieces = {}, {}
        for side in sides:
            prompts, at = batch[f"{side}prompt"], 2 if side == "" else 0
            contexts[side] = encode_rendered(prompts, tokenizer, context, is_encoder_decoder=is_encoder_decoder)
            before, parts = [], []
            for prompt, reply, spans in zip(prompts, batch[f"{side}completion"], batch["spans"], strict=True):
                cuts = [0, *(place for span in spans for place in span[at : at + 2]), len(reply)]
                before += [prompt + reply[:start] for start in cuts[:-1]]
                parts += [reply[start:stop] for start, stop in pairwise(cuts)]
            pieces[side] = iter(
                encode_replies(before, parts, tokenizer, context, is_encoder_decoder=is_encoder_decoder)
            )
        columns: dict[str, list[Any]] = {}
        for row, truncated in enumerate(batch["truncated"]):
            moved = _first_tokens(tokenizer, batch["moved"][row])
            tokens: dict[str, list[int]] = {side: [] for side in sides}
            labels: dict[str, list[int]] = {side: [] for side in sides}
            for number in range(2 * len(batch["spans"][row]) + 1):
                piece = {side: next(pieces[side]) for side in sides}
                is_span = number % 2 == 1
                # In a swapped phrase, only the first token is learnt, and only if it is in `moved`.
                is_name = is_span and [piece[PREFIX][0], piece[""][0]] in moved
                for side in sides:
                    # Outside swapped phrases, both models have the same tokens as labels.
                    part = piece[side] if is_span else piece[PREFIX]
                    tokens[side] += part
                    labels[side] += [*part[:is_name], *[IGNORED] * len(part[is_name:])] if is_span else part
            for side in sides:
                if not truncated and end is not None:
                    tokens[side].append(end)
                    labels[side].append(end)
                given, learnt = contexts[side][row], tokens[side]
                length = max(len(given), len(prefix) + len(learnt) - 1) if prefix else len(given) + len(learnt)
                if limit is not None and length > limit:
                    raise ValueError(
                        f"row {batch['id'][row]} has {length} tokens, and distillation cannot shorten a row; set "
                        f"--max_length above {limit}, or sample shorter replies"
                    )
                add_row(columns, given, learnt, prefix, side=side, labels=labels[side])
            columns.setdefault("moved", []).append(moved)
            is_anchor = batch["prompt"][row] == batch[f"{PREFIX}prompt"][row]
            columns.setdefault("weight", []).append(ANCHOR_WEIGHT if is_anchor else 1.0)
        return columns

    encoded = rows.map(
        encode, batched=True, remove_columns=rows.column_names, load_from_cache_file=False, desc="encoding rows"
    )
    num_unended = sum(map(bool, rows["truncated"])) if end is not None else 0
    return EncodedRows(encoded, 0, num_unended, len(prefix[1:]))


def _first_tokens(tokenizer: Any, moved: Sequence[Sequence[str]]) -> list[list[int]]:
    pairs: dict[int, int] = {}
    for texts in moved:
        first = [tokenizer(text, add_special_tokens=False)["input_ids"][0] for text in texts]
        if first[0] != first[1]:
            pairs.setdefault(*first)
    return [list(pair) for pair in pairs.items()]


def card(tuning: "BiasTuning") -> CardText:
    learnt = """\
The model was tuned by baseline distillation (Hinton et al., 2015). It learnt to reply to prompts with a descriptor
as it had replied to the same prompts without the descriptor. It learnt each next-token distribution as a whole."""
    limits = """\
The model pays less attention to who is speaking, even where this matters. The embedded model, for example, named the
prompt's term in 31 % of replies before distillation, and in 1.3 % afterwards."""
    return CardText(learnt, rows_card(tuning.labels, "prompts without a descriptor"), limits)


def rows_card(data: Mapping[str, Any], replied_to: str) -> str:
    left_out = "" if data["leave_out"] is None else f", excluding those of {data['leave_out']} and their stems"
    return f"""\
* {data["num_replies"]:,} replies by {data["model"]["name"]} (digest `{data["model"]["digest"]}`) to {replied_to}.
  The model learnt them as replies to prompts with a descriptor. These prompts use {data["num_descriptors"]:,}
  descriptors of {data["dataset_config"]}{left_out}.
* {data["num_anchors"]:,} anchors, which are replies to other prompts. Tuning should not change these replies."""


METHOD = Method(encode=encode, make_trainer=make_trainer, card=card, row_folder=DISTILL, needs_own_rows=True)
