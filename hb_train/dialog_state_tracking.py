r"""Teaches a model to track what a user wants, and says how well it does (Barikeri et al., 2021, section 3, "DST").

    accelerate launch hb_train/dialog_state_tracking.py --model_name_or_path microsoft/DialoGPT-small \
        --dialogues pfb30/multi_woz_v22 --dialogues_revision refs/convert/parquet --output_dir tasks/dst

Is a value of a slot what the user wants? The model is given what the system said, what the user answered, and domain,
slot and value; a feed-forward classifier on its hidden state of the last token says yes or no, and the whole is trained
by binary cross-entropy. The paper's settings (5.1) are the defaults: one epoch, Adam at a constant 5e-5, at most 128
tokens, 48 rows a step, whatever the number of processes. Which questions are asked: `state_dialogues.py`. Without
`--dialogues` they are about made-up ones, and few enough for two CPU cores. dst.json has F1 and
accuracy on the test split.
"""

import hashlib
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from hb_metrics.run_folder import open_run, package_versions, write_json
from hb_train.hub_token import parse_training_options
from hb_train.processes import end_processes
from hb_train.state_dialogues import MADE_UP, SlotValue, read_state_turns, slot_ontology, slot_values
from hb_train.tune import MISSING_ERROR, bfloat16_is_fast, say

if TYPE_CHECKING:
    from transformers import TrainingArguments

    from hb_metrics.inference.models.loading import LoadedModel, LoadedTokenizer

DST_FILE = "dst.json"
BATCH_SIZE = 48  # of all processes together

TOO_LONG_ERROR = (
    "slot and value of question {id} are {length} tokens long, and max_length is {limit}; give a larger one"
)
NO_ROWS_ERROR = "the split '{split}' of {source} has no slot with a value; give other dialogues, or more of them"
FEW_TOKENS_ERROR = "max_length is {number}; give at least 8"
NUMBER_ERROR = "{name} is {number}; give at least 1, or 0 for all"
DIVERGED_ERROR = "training diverged: a score is not a number; give a smaller --learning_rate than {rate:g}"


@dataclass
class StateTrackingArguments:
    """What this script takes beside transformers' options."""

    model_name_or_path: str | None = field(
        default=None, metadata={"help": "A Hub id, a local folder or 'embedded'; of an encoder-decoder the encoder."}
    )
    model_revision: str | None = field(default=None, metadata={"help": "Branch, tag or commit of the model."})
    trust_remote_code: bool = field(default=False, metadata={"help": "Whether the model's own code may run."})
    dialogues: str = field(
        default=MADE_UP,
        metadata={"help": "'made-up', a Hub id, a folder or a file of dialogues (multi_woz_v22, TRADE)."},
    )
    dialogues_revision: str | None = field(default=None, metadata={"help": "Branch, tag or commit of the dialogues."})
    test_split: str = field(default="test", metadata={"help": "The split that is evaluated on: test or validation."})
    state: Literal["turn", "dialogue"] = field(
        default="turn", metadata={"help": "Ask for what a turn tells, or for all that was told in the dialogue."}
    )
    num_negatives: int = field(default=1, metadata={"help": "Questions answered no for each that is answered yes."})
    num_train: int | None = field(default=960, metadata={"help": "Questions to train on, at random; 0: all."})
    num_test: int | None = field(default=480, metadata={"help": "Questions to evaluate on, at random; 0: all."})
    max_length: int = field(default=128, metadata={"help": "Most tokens; what was said is cut at its beginning."})

    def __post_init__(self) -> None:
        """Refuses what cannot be."""
        if self.max_length < 8:
            raise ValueError(FEW_TOKENS_ERROR.format(number=self.max_length))
        for name in ("num_train", "num_test"):
            number = getattr(self, name)
            if number is not None and number < 0:
                raise ValueError(NUMBER_ERROR.format(name=name, number=number))
            setattr(self, name, number or None)


class EncodedQuestions(NamedTuple):
    """Questions as tokens.

    Attributes:
        rows: `input_ids` and `label` (0.0 or 1.0) of each.
        num_cut: How many lost tokens of what was said.
    """

    rows: list[dict[str, Any]]
    num_cut: int


class BinaryScores(NamedTuple):
    """How well yes and no are told apart; `f1`, `precision` and `recall` (of yes) are `None` where they are 0 / 0."""

    f1: float | None
    accuracy: float | None
    precision: float | None
    recall: float | None
    num_rows: int
    num_positive: int
    num_predicted_positive: int


class SlotValueClassifier(torch.nn.Module):
    """A transformer, and a feed-forward classifier on its hidden state of the last token that is no padding.

    Args:
        transformer: A model without its head.
        hidden_size: Of its states.
        takes_positions: Whether it counts positions by what it is told (causal models); padding then takes none, and
            the side of it makes no difference.
    """

    def __init__(self, transformer: torch.nn.Module, hidden_size: int, *, takes_positions: bool) -> None:
        super().__init__()
        self.transformer = transformer
        self.takes_positions = takes_positions and "position_ids" in signature(transformer.forward).parameters
        self.classifier = torch.nn.Sequential(
            torch.nn.Linear(hidden_size, hidden_size), torch.nn.Tanh(), torch.nn.Linear(hidden_size, 1)
        )
        for name, weights in self.classifier.named_parameters():
            torch.nn.init.normal_(weights, std=0.02) if name.endswith("weight") else torch.nn.init.zeros_(weights)

    def forward(
        self, input_ids: torch.Tensor, attention_mask: torch.Tensor, labels: torch.Tensor | None = None
    ) -> dict[str, torch.Tensor]:
        """Logits ([rows]) of yes, and with labels ([rows]) their mean binary cross-entropy as `loss`."""
        given: dict[str, Any] = {"input_ids": input_ids, "attention_mask": attention_mask}
        if self.takes_positions:
            given["position_ids"] = (attention_mask.cumsum(1) - 1).clamp(min=0)
        if "use_cache" in signature(self.transformer.forward).parameters:
            given["use_cache"] = False
        states = self.transformer(**given).last_hidden_state
        rows = torch.arange(len(states), device=states.device)
        logits = self.classifier(states[rows, last_places(attention_mask)].to(self.classifier[0].weight.dtype))[:, 0]
        if labels is None:
            return {"logits": logits}
        return {"loss": binary_cross_entropy_with_logits(logits.float(), labels.float()), "logits": logits}


def last_places(attention_mask: torch.Tensor) -> torch.Tensor:
    """The place ([rows]) of the last token of each row ([rows, length], 1: a token) that is no padding."""
    places = torch.arange(1, attention_mask.shape[1] + 1, device=attention_mask.device)
    return (attention_mask.bool() * places).argmax(1)


def binary_scores(labels: Sequence[int], predictions: Sequence[int]) -> BinaryScores:
    """F1, precision and recall of 1, and accuracy."""
    truth, told = np.asarray(labels, bool), np.asarray(predictions, bool)
    both, yes, said = int((truth & told).sum()), int(truth.sum()), int(told.sum())

    def share(part: int, whole: int) -> float | None:
        return part / whole if whole else None

    return BinaryScores(
        f1=share(2 * both, yes + said),
        accuracy=share(int((truth == told).sum()), len(truth)),
        precision=share(both, said),
        recall=share(both, yes),
        num_rows=len(truth),
        num_positive=yes,
        num_predicted_positive=said,
    )


def encode_questions(questions: Sequence[SlotValue], loaded: "LoadedTokenizer", max_length: int) -> EncodedQuestions:
    """The tokens of what the system said, what the user said, and domain, slot and value, each behind a line break.

    What is too long loses tokens at its beginning, never of domain, slot and value. No special token is added, so that
    the last token is the value's.

    Raises:
        ValueError: Domain, slot and value alone are too long.
    """
    if not questions:
        return EncodedQuestions([], 0)
    said = [f"{each.system}\n{each.user}" for each in questions]
    asked = [f"\n{each.domain} {each.slot} {each.value}" for each in questions]
    befores, behinds = (
        loaded.tokenizer(texts, add_special_tokens=False, return_attention_mask=False)["input_ids"]
        for texts in (said, asked)
    )
    rows: list[dict[str, Any]] = []
    num_cut = 0
    for before, behind, question in zip(befores, behinds, questions, strict=True):
        room = max_length - len(behind)
        if room < 0:
            raise ValueError(TOO_LONG_ERROR.format(id=question.id, length=len(behind), limit=max_length))
        num_cut += len(before) > room
        rows.append({"input_ids": [*before[max(len(before) - room, 0) :], *behind], "label": float(question.label)})
    return EncodedQuestions(rows, num_cut)


def main(argv: list[str] | None = None) -> None:
    """Reads the options, trains, evaluates, and says where the result is."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        track_states(*parse_options(argv))
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"dialog_state_tracking.py: {error}") from error
    except KeyboardInterrupt:
        raise SystemExit("\ninterrupted") from None


def parse_options(argv: list[str]) -> tuple[StateTrackingArguments, "TrainingArguments"]:
    """Reads the command line, and under it the YAML file given with `--config`."""
    from transformers import TrainingArguments
    from trl import TrlParser

    no_accelerator = not torch.accelerator.is_available()
    parser = TrlParser((StateTrackingArguments, TrainingArguments), description=(__doc__ or "").split("\n", 1)[0])
    parser.set_defaults(
        num_train_epochs=1,
        learning_rate=5e-5,
        adam_epsilon=1e-8,
        weight_decay=0.0,
        lr_scheduler_type="constant",
        per_device_train_batch_size=max(1, BATCH_SIZE // int(os.environ.get("WORLD_SIZE", "1"))),
        per_device_eval_batch_size=BATCH_SIZE,
        save_strategy="no",
        report_to="none",
        logging_steps=10,
        use_cpu=no_accelerator,
        bf16=no_accelerator and bfloat16_is_fast(),
    )
    return parse_training_options(parser, argv)


def track_states(arguments: StateTrackingArguments, training_args: "TrainingArguments") -> dict[str, Any] | None:
    """Trains and evaluates; writes dst.json.

    Returns:
        What is in dst.json, on the main process; `None` on all others, and where it was there already.

    Raises:
        ValueError: The model, the dialogues and the options do not go together.
        OSError: The model or the dialogues are not there.
    """
    from transformers import Trainer, set_seed

    from hb_metrics.inference.models.loading import load_model
    from hb_metrics.inference.processes import num_workers

    if arguments.model_name_or_path is None:
        what = "a Hub id, a local folder or 'embedded'"
        raise ValueError(MISSING_ERROR.format(option="--model_name_or_path", what=what))
    if training_args.device.type == "cpu":
        torch.set_num_threads(num_workers())  # `accelerate launch` sets one, whether anybody asked for it or not
    with training_args.main_process_first(local=False):
        questions, skipped = _questions(arguments, training_args.seed)
    loaded = load_model(
        arguments.model_name_or_path,
        revision=arguments.model_revision,
        trust_remote_code=arguments.trust_remote_code,
    )
    encoded = {name: encode_questions(rows, loaded, arguments.max_length) for name, rows in questions.items()}
    folder = Path(training_args.output_dir)
    run = _description(arguments, training_args, loaded, questions)
    with training_args.main_process_first(local=False):
        if training_args.process_index == 0:
            open_run(folder, run)
    if (folder / DST_FILE).is_file():
        say(training_args, f"nothing to do: {folder / DST_FILE} is there")
        return None

    set_seed(training_args.seed)  # the classifier is random
    training_args.remove_unused_columns = False
    training_args.label_names = ["labels"]
    trainer = Trainer(
        model=slot_value_classifier(loaded),
        args=training_args,
        train_dataset=encoded["train"].rows,
        eval_dataset=encoded["test"].rows,
        data_collator=Collator(loaded.tokenizer.pad_token_id or 0),
    )
    trained = trainer.train()
    predicted = trainer.predict(
        encoded["test"].rows, metric_key_prefix="test"
    )  # rows that fill a batch up are left out
    logits = np.asarray(predicted.predictions, np.float64).reshape(-1)
    if not np.isfinite(logits).all():
        raise ValueError(DIVERGED_ERROR.format(rate=training_args.learning_rate))
    labels = [question.label for question in questions["test"]]
    results = None
    if trainer.is_world_process_zero():
        results = {
            **run,
            **binary_scores(labels, (logits > 0).tolist())._asdict(),
            "test_loss": float(np.logaddexp(0, np.where(np.asarray(labels) == 1, -logits, logits)).mean()),
            "train_loss": trained.training_loss,
            "num_steps": trained.global_step,
            "num_train_rows": len(encoded["train"].rows),
            "num_cut": {name: each.num_cut for name, each in encoded.items()},
            "num_skipped": skipped,
            "seconds": {"train": trained.metrics["train_runtime"], "test": predicted.metrics["test_runtime"]},
        }
        write_json(folder / DST_FILE, results)
        print(f"F1 {_said(results['f1'])}, accuracy {_said(results['accuracy'])} ({len(labels):,} questions)")
        print(f"results: {(folder / DST_FILE).resolve()}")
    end_processes(trainer)
    return results


def slot_value_classifier(loaded: "LoadedModel") -> SlotValueClassifier:
    """A loaded model without its head, of an encoder–decoder one its encoder, with a new classifier."""
    model: Any = loaded.model
    transformer = model.get_encoder() if loaded.kind == "encoder-decoder" else model.base_model
    size = model.config.get_text_config().hidden_size
    return SlotValueClassifier(transformer, size, takes_positions=loaded.kind == "causal").to(torch.float32)


class Collator:
    """Pads rows of `encode_questions` to the longest of a batch, with a token that the mask leaves out."""

    def __init__(self, padding: int, side: Literal["left", "right"] = "right") -> None:
        self.padding = padding
        self.side = side

    def __call__(self, rows: Sequence[dict[str, Any]]) -> dict[str, torch.Tensor]:
        """A batch: `input_ids` and `attention_mask` ([rows, length]), `labels` ([rows])."""
        tokens = [torch.tensor(row["input_ids"]) for row in rows]

        def padded(each: list[torch.Tensor], value: int) -> torch.Tensor:
            return torch.nn.utils.rnn.pad_sequence(each, True, value, padding_side=self.side)

        return {
            "input_ids": padded(tokens, self.padding),
            "attention_mask": padded([torch.ones_like(each) for each in tokens], 0),
            "labels": torch.tensor([row["label"] for row in rows]),
        }


def _questions(arguments: StateTrackingArguments, seed: int) -> tuple[dict[str, list[SlotValue]], dict[str, Any]]:
    """The questions of the training and the test split, and what was skipped in each."""
    splits = {"train": "train", "test": arguments.test_split}
    turns = {
        name: read_state_turns(arguments.dialogues, split, revision=arguments.dialogues_revision, seed=seed)
        for name, split in splits.items()
    }
    ontology = slot_ontology(turn for each in turns.values() for turn in each)
    questions: dict[str, list[SlotValue]] = {}
    skipped: dict[str, Any] = {}
    for name, number in (("train", arguments.num_train), ("test", arguments.num_test)):
        made = slot_values(
            turns[name], ontology, state=arguments.state, num_negatives=arguments.num_negatives, seed=seed
        )
        if not made.rows:
            raise ValueError(NO_ROWS_ERROR.format(split=splits[name], source=arguments.dialogues))
        order = np.random.default_rng(seed).permutation(len(made.rows))[:number]
        questions[name] = [made.rows[place] for place in sorted(order.tolist())]
        skipped[name] = {**made.num_skipped, "not_drawn": len(made.rows) - len(order)}
    return questions, skipped


def _description(
    arguments: StateTrackingArguments,
    training_args: "TrainingArguments",
    loaded: "LoadedModel",
    questions: dict[str, list[SlotValue]],
) -> dict[str, Any]:
    """Everything that the result depends on."""
    names = (
        "num_train_epochs", "max_steps", "learning_rate", "lr_scheduler_type", "warmup_steps", "weight_decay",
        "adam_beta1", "adam_beta2", "adam_epsilon", "max_grad_norm", "per_device_train_batch_size",
        "gradient_accumulation_steps", "seed", "bf16", "fp16",
    )  # fmt: skip
    options = {name: getattr(training_args, name) for name in names}
    return {
        "settings": {
            **{name: value for name, value in vars(arguments).items() if name != "model_name_or_path"},
            **options,
            "lr_scheduler_type": getattr(training_args.lr_scheduler_type, "value", training_args.lr_scheduler_type),
            "num_processes": training_args.world_size,
        },
        "model": {"name": loaded.name, "kind": loaded.kind, "digest": loaded.digest, "dtype": loaded.dtype},
        "questions": {
            name: hashlib.sha256(repr([tuple(each) for each in rows]).encode()).hexdigest()
            for name, rows in questions.items()
        },
        "versions": package_versions("accelerate"),
    }


def _said(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.4f}"


if __name__ == "__main__":
    main()
